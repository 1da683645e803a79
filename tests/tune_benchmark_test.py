"""Checks benchmarks/tune, the statistics, the space that the searchers share, and what is read from records, and the
profiles of benchmarks/searchers.

    tune_benchmark_test.py OPPA
"""

import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "benchmarks/tune"), str(ROOT / "benchmarks/searchers")]

import compare  # noqa: E402
import intervals  # noqa: E402
import job  # noqa: E402
import searchers  # noqa: E402
import tune  # noqa: E402

OPPA = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release/oppa"


class FakeTrial:
    """Draws what Optuna would suggest, and rejects a parameter whose values change, as Optuna does."""

    def __init__(self, draw, known):
        self.draw, self.known = draw, known

    def check(self, name, values):
        assert self.known.setdefault(name, values) == values, f"{name} changes its values"

    def suggest_int(self, name, low, high):
        self.check(name, (low, high))
        return self.draw(name, list(range(low, high + 1)))

    def suggest_categorical(self, name, values):
        self.check(name, tuple(values))
        return self.draw(name, values)


class IntervalsTest(unittest.TestCase):
    def test_the_interval_covers_the_median_of_the_population(self):
        engine = random.Random(5)
        covered = 0
        for _ in range(40):
            _, low, high = intervals.bootstrap([[engine.gauss(10.0, 1.0) for _ in range(15)]])
            covered += low <= 10.0 <= high
        self.assertGreaterEqual(covered, 34)

    def test_searches_that_differ_widen_the_interval(self):
        one = intervals.bootstrap([[10.0, 10.1, 9.9] * 2])
        two = intervals.bootstrap([[10.0, 10.1, 9.9], [20.0, 20.1, 19.9]])
        self.assertLess(one[2] - one[1], 0.3)
        self.assertGreater(two[2] - two[1], 9.0)

    def test_one_value_has_no_interval_and_none_has_no_median(self):
        self.assertEqual(intervals.bootstrap([[3.0]]), (3.0, None, None))
        self.assertEqual(intervals.bootstrap([[], []]), (None, None, None))

    def test_ratios_are_those_of_the_same_round(self):
        # The machine is half as fast in the second round, and nothing runs in the third.
        self.assertEqual(intervals.ratios([20.0, 10.0, 12.0], [10.0, 5.0, None]), [2.0, 2.0])


class ProfilesTest(unittest.TestCase):
    def test_each_half_has_means_over_its_problems_whatever_their_repeats(self):
        def rows(problem, *results):
            return [{"problem": problem, "searcher": "oppa", "repeat": i, **{str(k + 1): result for k in range(20)}}
                    for i, result in enumerate(results)]

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "suite_profiles"
            compare.draw_profiles(path, {"development": rows("a", 0.5, 0.5, 0.5) + rows("b", 1.0),
                                         "held-out": rows("c", 0.94, 0.96)}, ["oppa"])
            blocks = [block.split() for block in path.with_suffix(".csv").read_text().strip().split("\n\n\n")]
            self.assertEqual([block[0] for block in blocks], 4 * ["trials,oppa"])
            self.assertEqual([block[20] for block in blocks], ["20,0.75", "20,0.95", "20,0.5", "20,0.5"])
            self.assertEqual(path.with_suffix(".svg").exists(), bool(shutil.which("gnuplot")))


class SpaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.jobs = [job.Job(path.name, OPPA, pathlib.Path(folder.name) / path.name, 1)
                    for path in sorted(job.JOBS.iterdir())]

    def test_optuna_can_suggest_each_candidate_and_nothing_else(self):
        for one in self.jobs:
            known = {}
            for candidate in one.space.candidates:
                parameters = searchers.parameters_of(one.space, candidate)

                def draw(name, values, parameters=parameters):
                    return values[values.index(parameters.pop(name))]

                self.assertEqual(searchers.suggest(one.space, FakeTrial(draw, known)), candidate)
                self.assertEqual(parameters, {})
            engine = random.Random(1)
            for _ in range(300):
                config = searchers.suggest(one.space, FakeTrial(lambda _, values: engine.choice(values), known))
                self.assertIn(config, one.space.candidates)

    def test_the_start_of_each_manifest_and_the_settings_by_hand_are_candidates(self):
        for one in self.jobs:
            self.assertIn(one.default, one.space.candidates)
            self.assertIn(one.hand_set, one.space.candidates)
            self.assertNotEqual(one.default, one.hand_set)

    def test_an_ambiguous_configuration_is_an_error(self):
        with self.assertRaisesRegex(job.Failure, "describes 2 configurations"):
            job.Space([{"dp": "2", "mb": "1", "kind": "a"}, {"dp": "2", "mb": "1", "kind": "b"},
                       {"dp": "2", "mb": "2", "kind": "a"}]).find("dp=2,mb=1")

    def test_other_settings_do_not_continue_a_search(self):
        one = self.jobs[0]
        with self.assertRaisesRegex(job.Failure, "other settings"):
            job.Job(one.name, OPPA, one.folder, seed=2)
        self.assertIn("seed = 1\n", one.manifest.read_text())


class RecordsTest(unittest.TestCase):
    def test_throughput_is_that_of_completed_trials_without_their_first_step(self):
        with tempfile.TemporaryDirectory() as folder:
            records = pathlib.Path(folder)
            (records / "trials.csv").write_text(
                "# oppa trials 1\ntrial,candidate,mb,outcome,throughput_steps_per_s,elapsed_s\n"
                "1,0,1,completed,1.9,10\n2,1,2,terminated_early,3,15.5\n3,2,4,failed,,20\n")
            (records / "steps.csv").write_text("# oppa steps 1\ntrial,step,step_time_s\n"
                                               "1,1,9\n1,2,0.4\n1,3,0.6\n2,1,0.3\n2,2,0.3\n")
            known = job.Job.__new__(job.Job)
            known.space = job.Space([{"mb": value} for value in "124"])
            trials = known.trials(records)
        self.assertEqual([trial.config for trial in trials], [{"mb": "1"}, {"mb": "2"}, {"mb": "4"}])
        self.assertAlmostEqual(trials[0].tokens_per_s(100), 200.0)
        self.assertEqual([trial.tokens_per_s(100) for trial in trials[1:]], [None, None])
        self.assertEqual(searchers.best(trials, {}), {"mb": "1"})  # not the one that was stopped
        self.assertEqual(searchers.best(trials[1:], {"mb": "2"}), {"mb": "2"})
        counts = searchers.Search({}, 20.0, trials + trials[:1]).summary()
        self.assertEqual([counts[key] for key in ("trials", "distinct", "stopped", "failed")], [4, 3, 1, 1])


class FakeJob:
    """Each configuration has its own speed, and the machine is slower by 10% in each trial."""
    name, title, tokens = "fake", "Fake", 100
    default, hand_set = {"mb": "1"}, {"mb": "2"}

    changes = job.Job.changes

    def __init__(self):
        self.space = job.Space([{"mb": value} for value in "124"])
        self.order, self.drift = [], 1.0

    def measure(self, config, results):
        self.order.append(config["mb"])
        self.drift *= 0.9
        outcome = "failed" if config["mb"] == "4" else "completed"
        return job.Trial(config, outcome, None, [5.0, 1.0 / (float(config["mb"]) * self.drift)], 1.0)


class MeasureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        tune.log = lambda text: None

    def test_rounds_begin_with_different_configurations_and_resume(self):
        configs = [{"mb": "1"}, {"mb": "2"}, {"mb": "2"}, {"mb": "4"}]
        fake = FakeJob()
        tune.measure_in_turn(fake, configs, 1, self.folder)
        measured = tune.measure_in_turn(fake, configs, 3, self.folder)
        self.assertEqual("".join(fake.order), "124" "241" "412")
        self.assertEqual({text: len(values) for text, values in measured.items()}, {"mb=1": 3, "mb=2": 3, "mb=4": 3})
        tune.measure_in_turn(fake, configs, 3, self.folder)
        self.assertEqual(len(fake.order), 9)

    def test_rows_have_the_throughput_of_what_each_searcher_chose(self):
        fake = FakeJob()
        found = {"seconds": 90.0, "trials": 7, "distinct": 6, "stopped": 2, "failed": 1}
        searches = [{"tune": {"config": {"mb": "2"}, **found}, "tune-plain": {"config": {"mb": "2"}, **found},
                     "random": {"config": {"mb": "1"}, **found}, "tpe": {"config": {"mb": "4"}, **found}}]
        measured = tune.measure_in_turn(fake, [{"mb": value} for value in "124"], 5, self.folder)
        rows = [dict(zip(tune.COLUMNS, row, strict=True)) for row in tune.rows_of(fake, searches, measured, 5)]
        self.assertEqual([row["choice"] for row in rows], ["default", "hand-set", "tune", "tune-plain", "random", "tpe"])
        self.assertEqual([row["config"] for row in rows], ["mb=1", "mb=2", "mb=2", "mb=2", "mb=1", "mb=4"])
        self.assertEqual(float(rows[2]["tokens_per_s"]),
                         float(f"{statistics.median(measured['mb=2']):.6g}"))
        # The drift within a round changes ratios by 0.9 or 1 / 0.81, and that between rounds does not.
        self.assertAlmostEqual(float(rows[2]["ratio"]), 1.8, places=3)
        self.assertEqual(rows[4]["ratio"], "1")
        self.assertEqual([row["changes"] for row in rows], ["default", "mb=2", "mb=2", "mb=2", "default", "mb=4"])
        self.assertEqual((rows[5]["tokens_per_s"], rows[5]["ratio"]), ("", ""))
        self.assertEqual((rows[2]["minutes"], rows[2]["trials"], rows[0]["trials"]), ("1.50", 7, ""))


if __name__ == "__main__":
    unittest.main()
