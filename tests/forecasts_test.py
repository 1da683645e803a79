"""Checks scripts/forecasts and the figures of benchmarks/peers/forecasts.py."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks/peers"))
import forecasts as beside  # noqa: E402


def load(path):
    spec = importlib.util.spec_from_loader(path.stem, importlib.machinery.SourceFileLoader(path.stem, str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


forecasts = load(ROOT / "scripts/forecasts")


def line(question, rate, date="2026-01-01"):
    return dict.fromkeys(forecasts.COLUMNS, "") | {
        "question": question, "date": date, "tokens_per_s_per_gpu": str(rate), "low": str(0.9 * rate), "high": str(1.1 * rate)}


def chained(rows):
    before = ""
    for row in rows:
        before = row["hash"] = forecasts.digest(before, row)
    return rows


class RecordTest(unittest.TestCase):
    def test_no_line_of_the_record_was_changed(self):
        self.assertEqual(forecasts.changed_lines(forecasts.record()), [])

    def test_every_recorded_question_is_still_asked(self):
        self.assertLessEqual({row["question"] for row in forecasts.record()}, set(forecasts.questions()))

    def test_a_changed_number_and_a_removed_line_are_found(self):
        rows = chained([line("a", 100), line("b", 200), line("c", 300)])
        self.assertEqual(forecasts.changed_lines(rows), [])
        rows[1]["low"] = "1"
        self.assertEqual(forecasts.changed_lines(rows), [3])
        self.assertEqual(forecasts.changed_lines(chained(rows)[1:]), [2])

    def test_only_answers_from_before_the_publication_are_scored(self):
        rows = chained([line("a", 100), line("a", 150, "2026-03-01")])
        one, none = forecasts.scores(rows, [
            {"question": "a", "published": "2026-02-01", "tokens_per_s_per_gpu": "105"},
            {"question": "a", "published": "2026-01-01", "tokens_per_s_per_gpu": "105"}])
        self.assertAlmostEqual(one["error"], 100 / 105 - 1)
        self.assertTrue(one["inside"])
        self.assertIsNone(none["error"])


class BesidePeersTest(unittest.TestCase):
    def test_a_pick_that_ran_out_of_memory_is_followed_by_the_next(self):
        cases = [(None, beside.Forecast(0.5, 1.0))] + [(float(k), beside.Forecast(float(k), 1.0)) for k in range(2, 9)]
        self.assertEqual(beside.judge_scenario(cases)["pick"], 0)
        sure = [(2.0, beside.Forecast(9.0, 1.0)), *cases[2:], (None, beside.Forecast(1.0, 0.0))]
        self.assertEqual(beside.judge_scenario(sure)["pick"], 0.5)

    def test_pairs_within_five_percent_do_not_count(self):
        cases = [(1.0, beside.Forecast(2.0, 1.0)), (1.04, beside.Forecast(1.0, 1.0)), (2.0, beside.Forecast(3.0, 1.0))]
        self.assertEqual(beside.judge_scenario(cases)["pairs"], 1)


if __name__ == "__main__":
    unittest.main()
