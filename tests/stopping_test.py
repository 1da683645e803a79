"""Checks scripts/stopping on small records."""

import csv
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class StoppingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        run = self.folder / "suite" / "a" / "oppa" / "1"
        run.mkdir(parents=True)
        (self.folder / "suite" / "experiment.json").write_text("{}")
        (run.parent.parent / "problem.json").write_text('{"optimum_steps_per_s": 1.0}')
        (run / "run.json").write_text(json.dumps({"finished": True}))
        # A random trial, two that are stated to fit with P = 0.84, one with 0.5, and a crash, which says nothing.
        trials = [("completed", None), ("terminated_early", 0.9), ("out_of_memory", 0.9), ("out_of_memory", 1.0),
                  ("crashed", 0.9)]
        (run / "trials.csv").write_text(
            "trial,candidate,dp,tp,pp,zero_stage,micro_batch_size,microbatches,outcome,exact_steps_per_s,"
            "throughput_steps_per_s\n" + "".join(
                f"{i},{i},8,1,1,0,{i},4,{outcome},0.5,0.5\n" for i, (outcome, _) in enumerate(trials, 1)))
        (run / "fits.csv").write_text("trial,surrogate,parameter,value\n" + "".join(
            f"{i},choice,memory_mean,{mean}\n{i},choice,memory_variance,0.01\n"
            for i, (_, mean) in enumerate(trials, 1) if mean))

    def fits(self, *flags):
        out = self.folder / "out"
        done = subprocess.run([sys.executable, ROOT / "scripts/stopping", self.folder / "suite", "--out", out, *flags],
                              capture_output=True, text=True)
        drawn = shutil.which("gnuplot") is not None
        self.assertEqual(done.returncode, 0 if drawn else 1, done.stderr)
        self.assertEqual((out / "fits.svg").exists(), drawn)
        with open(out / "stopping.csv") as file:
            return [(row["low"], row["n"], row["predicted"], row["observed"]) for row in csv.DictReader(file)
                    if row["quantity"] == "fits"]

    @staticmethod
    def stopping():
        loader = importlib.machinery.SourceFileLoader("stopping", str(ROOT / "scripts/stopping"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("stopping", loader))
        loader.exec_module(module)
        return module

    def test_the_stated_probability_of_fitting_is_compared_with_what_happened(self):
        self.assertEqual(self.fits(), [("0.0", "3", "0.7276", "0.3333"), ("0.5", "1", "0.5000", "0.0000"),
                                       ("0.8", "2", "0.8413", "0.5000")])

    def test_a_failure_that_its_source_does_not_attribute_to_memory_says_nothing_about_it(self):
        outcomes = self.folder / "outcomes.csv"
        outcomes.write_text("# jobs\nscenario,dp,tp,pp,zero_stage,micro_batch_size,microbatches,outcome\n"
                            "a,8,1,1,0,3,4,Other\na,8,1,1,0,4,4,OOM\nb,8,1,1,0,4,4,Other\n")
        self.assertEqual(self.fits("--outcomes", outcomes), [("0.0", "2", "0.6707", "0.5000"),
                                                             ("0.5", "1", "0.5000", "0.0000"),
                                                             ("0.8", "1", "0.8413", "1.0000")])

    def test_the_trials_of_a_problem_are_no_independent_evidence(self):
        pairs = [("a", 0.5, 1.0), ("b", 0.5, 0.0)]
        once = self.stopping().error_by_problem(pairs)
        self.assertEqual(once[0], 2)
        self.assertAlmostEqual(once[1], 0.5 / 2 ** 0.5)
        self.assertEqual(self.stopping().error_by_problem(10 * pairs), once)


if __name__ == "__main__":
    unittest.main()
