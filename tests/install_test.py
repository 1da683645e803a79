"""Checks that an installation works without the source and the build tree.

Usage: install_test.py CMAKE BUILD
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD = sys.argv[1:]
SOURCE = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("OPPA_")}


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        staged = pathlib.Path(cls.folder.name) / "staged"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", staged], check=True, capture_output=True)
        # Installations can be moved.
        cls.prefix = staged.rename(staged.with_name("prefix"))
        cls.data = cls.prefix / "share/oppa/experiments"

    def oppa(self, *words, **environment):
        run = subprocess.run([self.prefix / "bin/oppa", *words], cwd="/", capture_output=True, text=True,
                             env={**ENVIRONMENT, **environment})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_installs_program_data_documentation_man_page_and_completion(self):
        for folder in ["clusters", "frameworks", "gpus", "hardware", "programs", "rules", "validation", "workloads"]:
            here = {path.name for path in (SOURCE / "experiments" / folder).iterdir()} - {"__pycache__"}
            self.assertEqual({path.name for path in (self.data / folder).iterdir()}, here)
        for manifest in (SOURCE / "experiments").glob("*.toml"):
            self.assertTrue((self.data / manifest.name).is_file(), manifest.name)
        for file in ["README.md", "LICENSE", "docs/command_line.md", "docs/methods.md"]:
            self.assertTrue((self.prefix / "share/doc/oppa" / file).is_file(), file)
        for file, words in [("man/man1/oppa.1", ["man"]),
                            ("bash-completion/completions/oppa", ["completion", "bash"]),
                            ("zsh/site-functions/_oppa", ["completion", "zsh"])]:
            self.assertEqual((self.prefix / "share" / file).read_text(), self.oppa(*words))

    def test_reads_its_own_data(self):
        self.assertIn(f"data: {self.data}\n", self.oppa("--version"))
        simulate = ["simulate", str(self.data / "smoke.toml"), "--all", "--csv"]
        before = self.oppa(*simulate)
        hardware = self.data / "hardware"
        self.addCleanup(hardware.with_name("whole").rename, hardware)
        hardware.rename(hardware.with_name("whole"))
        run = subprocess.run([self.prefix / "bin/oppa", *simulate], cwd="/", capture_output=True, text=True,
                             env=ENVIRONMENT)
        self.assertEqual(run.returncode, 2)
        self.assertIn(str(hardware), run.stderr)
        # The same data from another folder, named by a variable.
        self.assertEqual(self.oppa(*simulate, OPPA_EXPERIMENTS=str(SOURCE / "experiments")), before)

    def test_runs_an_experiment_from_anywhere(self):
        results = pathlib.Path(self.folder.name) / "results"
        self.oppa("run", str(self.data / "smoke.toml"), "--results", str(results), "--repeats", "1",
                  "--methods", "random", "--no-report")
        self.assertTrue((results / "smoke/random/1/trials.csv").is_file())
        for path in [*results.rglob("*.json")]:
            self.assertNotIn(str(SOURCE), path.read_text(), path.name)

    def test_the_program_of_a_build_reads_its_source(self):
        run = subprocess.run([pathlib.Path(BUILD) / "oppa", "--version"], capture_output=True, text=True,
                             check=True, env=ENVIRONMENT)
        self.assertIn(f"data: {SOURCE / 'experiments'}\n", run.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
