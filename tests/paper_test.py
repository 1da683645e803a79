"""Checks scripts/paper with a program instead of make."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "paper"


class PaperTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        self.make = self.folder / "make"
        self.make.write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\ntest "$2" != exp-smoke\n')
        self.make.chmod(0o755)

    def run_script(self, **environment):
        clean = {name: value for name, value in os.environ.items() if name != "OPPA_DATA"}
        return subprocess.run([SCRIPT, f"RESULTS={self.folder}"], capture_output=True, text=True, check=False,
                              env={**clean, "MAKE": str(self.make), **environment})

    def test_every_manifest_is_a_step_and_the_tables_come_last(self):
        self.run_script(OPPA_DATA="/data")
        calls = self.calls.read_text().splitlines()
        for manifest in (ROOT / "experiments").glob("*.toml"):
            check = self.assertNotIn if manifest.stem.startswith("qwen-1gpu") else self.assertIn  # needs a GPU
            check(f"--no-print-directory exp-{manifest.stem} RESULTS={self.folder}", calls)
        self.assertIn(f"--no-print-directory validate RESULTS={self.folder}", calls)
        self.assertIn("--no-print-directory docs", calls[-1])

    def test_steps_that_need_published_tables_are_skipped_with_a_reason(self):
        run = self.run_script()
        self.assertNotIn("exp-vtrain", self.calls.read_text())
        self.assertIn("exp-tiny-cpu-replay", self.calls.read_text())  # its table is in experiments/
        self.assertIn("skipped: exp-vtrain: OPPA_DATA is not set", run.stdout)
        self.assertIn("skipped: validate: OPPA_DATA is not set", run.stdout)

    def test_a_failed_step_does_not_stop_the_others_and_is_named(self):
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("failed: exp-smoke\n", run.stdout)
        self.assertIn("exp-vit-8gpu", self.calls.read_text())

    def test_a_study_that_has_its_output_is_skipped(self):
        (self.folder / "study-calibration").mkdir()
        (self.folder / "study-calibration" / "scores.csv").write_text("")
        run = self.run_script()
        self.assertNotIn("study-calibration", self.calls.read_text())
        self.assertIn("remove it to rerun the study", run.stdout)


if __name__ == "__main__":
    unittest.main()
