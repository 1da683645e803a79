"""Checks scripts/paper with a program instead of make."""

import importlib.machinery
import importlib.util
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

    def run_script(self, *words, **environment):
        clean = {name: value for name, value in os.environ.items() if name != "OPPA_DATA"}
        return subprocess.run([SCRIPT, f"RESULTS={self.folder}", *words], capture_output=True, text=True, check=False,
                              env={**clean, "MAKE": str(self.make), **environment})

    def make_data(self):
        """A folder with all published tables, which are empty."""
        for table in ("measured/ultrascale.csv", "published/aceso_v100_op_profiles.csv", "published/korthikanti2022.csv",
                      "worlds/calculon_worlds.csv", "worlds/simumax_worlds.csv"):
            (self.folder / "data" / table).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "data" / table).write_text("")
        return str(self.folder / "data")

    def test_every_manifest_and_study_is_a_step_and_the_claims_come_last(self):
        run = self.run_script("CHECK=1", OPPA_DATA=self.make_data())
        calls = self.calls.read_text().splitlines()
        end = f" RESULTS={self.folder} CHECK=1"
        for manifest in (ROOT / "experiments").glob("*.toml"):
            needs_more = manifest.stem in ("qwen-1gpu", "qwen-1gpu-4ranks", "qwen-8h100", "qwen-8h100-replay",
                                                "tiny-cpu-torch")  # a GPU, or PyTorch
            check = self.assertNotIn if needs_more else self.assertIn
            check(f"--no-print-directory exp-{manifest.stem}{end}", calls)
        for study in ("noise-qwen-8gpu", "study-planners", "study-trainer", "validate"):
            self.assertIn(f"--no-print-directory {study}{end}", calls)
        self.assertEqual(f"--no-print-directory claims{end}", calls[-2])
        self.assertIn("--no-print-directory docs", calls[-1])
        self.assertRegex(run.stdout, r"\[3/\d+\] exp-\S+: runs \(0 minutes so far\)")

    def test_the_time_left_follows_from_the_steps_that_ran(self):
        loader = importlib.machinery.SourceFileLoader("paper", str(SCRIPT))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader("paper", loader))
        loader.exec_module(script)
        expected = {"resumed": 1000.0, "ran": 60.0, "next": 120.0}
        self.assertEqual(script.time_left(expected, {"resumed": 0.5, "ran": 90.0}, 300.0), ", about 10 minutes left")
        self.assertEqual(script.time_left(expected, {"resumed": 0.5}, 1.0), "")

    def test_steps_that_need_missing_tables_are_skipped_with_a_reason(self):
        run = self.run_script()
        calls = self.calls.read_text()
        self.assertNotIn("exp-ultrascale", calls)
        self.assertIn("exp-vtrain", calls)  # its table is in experiments/
        self.assertIn("skipped: exp-ultrascale: measured/ultrascale.csv is missing, see `oppa data`", run.stdout)
        self.assertIn("skipped: study-planners: published/aceso", run.stdout)
        self.assertIn("made: exp-vtrain (", run.stdout)

    def test_quick_has_few_repeats_and_a_folder_of_its_own(self):
        self.run_script("--quick", OPPA_DATA=self.make_data())
        calls = self.calls.read_text()
        settings = f"RESULTS={self.folder}/quick"
        self.assertRegex(calls, f"exp-qwen-8gpu .*{settings} REPEATS=3")
        self.assertRegex(calls, f"exp-suite-8gpu .*{settings} REPEATS=1")
        self.assertRegex(calls, f"exp-plans-8gpu .*{settings} REPEATS=1\n")
        self.assertRegex(calls, f"exp-planners-8gpu .*{settings} REPEATS=1 METHODS=random,.*aceso,")
        self.assertRegex(calls, f"exp-planners-fig8 .*{settings} REPEATS=1\n")
        self.assertRegex(calls, f"exp-tiny-cpu .*{settings} REPEATS=1 METHODS=oppa\n")
        self.assertRegex(calls, f"exp-tiny-cpu-replay .*{settings} REPEATS=1\n")
        self.assertRegex(calls, f"exp-money-32gpu .*{settings} REPEATS=1 METHODS=random,astra,")
        for left_out in ("leave-one-out", "sensitivity", "exp-ablation-", "exp-plans-32gpu"):
            self.assertNotIn(left_out, calls)

    def test_a_failed_step_does_not_stop_the_others_and_is_named(self):
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("failed: exp-smoke (", run.stdout)
        self.assertIn("exp-vit-8gpu", self.calls.read_text())

    def test_a_study_that_has_its_output_is_skipped(self):
        (self.folder / "study-calibration").mkdir()
        (self.folder / "study-calibration" / "scores.csv").write_text("")
        run = self.run_script()
        self.assertNotIn("study-calibration", self.calls.read_text())
        self.assertIn("remove it to rerun the study", run.stdout)


if __name__ == "__main__":
    unittest.main()
