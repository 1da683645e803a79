"""Checks scripts/planners-docs on small results."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

SUMMARY = """method,ratio_mean,ratio_mean_low,ratio_mean_high,ratio_after_1_mean,ratio_after_5_mean,ratio_after_10_mean
oppa,0.97,0.96,0.98,0.1,0.5,0.9
aceso,0.99,0.985,0.995,0.2,0.6,0.8
"""
COMPARISON = """problems,after,method,reference,difference,difference_low,difference_high,holm_p
,5,aceso,oppa,0.5,0.4,0.6,0.001
,end,aceso,vanilla-bo,0.7,0.6,0.8,0.002
,end,aceso,oppa,0.02,0.01,0.03,0.25
"""


MEANS = """problem,method,ratio_mean,ratio_after_1_mean,ratio_after_3_mean,ratio_after_5_mean,ratio_after_10_mean,\
ratio_after_10_mean_low,ratio_after_10_mean_high,ratio_after_20_mean
a,oppa,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1
(mean),oppa,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2
(mean development),oppa,1,0.5,0.6,0.7,0.8,0.75,0.85,1
(mean development),aceso,0.9,0.4,0.6,0.7,0.9,0.9,0.9,0.9
"""
HALVES = """problems,after,method,reference,difference,difference_low,difference_high,holm_p
(mean),10,aceso,oppa,0.5,0.4,0.6,0.001
(mean development),end,aceso,oppa,0.7,0.6,0.8,0.002
(mean development),10,aceso,oppa,0.1,0.05,0.15,0.25
"""


class PlannersDocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name) / "results"
        self.document = pathlib.Path(folder.name) / "planners.md"

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_script(self, text):
        self.document.write_text(text)
        subprocess.run([sys.executable, ROOT / "scripts/planners-docs", self.results, self.document], check=True)
        return self.document.read_text()

    def test_an_experiment_has_its_methods_best_first_with_the_final_test_against_oppa(self):
        self.write(self.results / "p/summary.csv", SUMMARY)
        self.write(self.results / "p/comparison.csv", COMPARISON)
        rows = self.run_script("a\n<!-- experiment p -->\nold\n<!-- end -->\nz\n").splitlines()
        self.assertEqual(rows[:2], ["a", "<!-- experiment p -->"])
        self.assertEqual(rows[4], "| `aceso` | 99.0 [98.5, 99.5] | 20.0 | 60.0 | 80.0 | 2.0 [1.0, 3.0] | 0.250 |")
        self.assertEqual(rows[5], "| `oppa` | 97.0 [96.0, 98.0] | 10.0 | 50.0 | 90.0 |  |  |")
        self.assertEqual(rows[6:], ["<!-- end -->", "z"])

    def test_a_half_of_the_problems_has_its_own_means_and_the_test_after_ten_trials(self):
        self.write(self.results / "p/summary.csv", MEANS)
        self.write(self.results / "p/comparison.csv", HALVES)
        text = self.run_script("<!-- experiment p development -->\n<!-- end -->\n"
                               "<!-- experiment p held-out -->\nold\n<!-- end -->\n").splitlines()
        self.assertEqual(text[3], "| `aceso` | 40.0 | 60.0 | 70.0 | 90.0 [90.0, 90.0] | 90.0 | 10.0 [5.0, 15.0] | 0.250 |")
        self.assertEqual(text[4], "| `oppa` | 50.0 | 60.0 | 70.0 | 80.0 [75.0, 85.0] | 100.0 |  |  |")
        self.assertEqual(text[5:], ["<!-- end -->", "<!-- experiment p held-out -->", "old", "<!-- end -->"])

    def test_without_held_out_problems_the_mean_is_that_of_the_development_half(self):
        self.write(self.results / "p/summary.csv", MEANS.replace("(mean),oppa", "b,oppa")
                   .replace("(mean development)", "(mean)"))
        text = self.run_script("<!-- experiment p development -->\n<!-- end -->\n").splitlines()
        self.assertEqual([line.split(" | ")[0] for line in text[3:5]], ["| `aceso`", "| `oppa`"])

    def test_the_figure_of_an_experiment_is_copied(self):
        self.write(self.results / "p/figures/throughput-time.png", "new")
        self.write(self.document.parent / "images/p.png", "old")
        self.write(self.document.parent / "images/q.png", "kept")
        self.run_script("![P](images/p.png) ![Q](images/q.png)\n")
        self.assertEqual((self.document.parent / "images/p.png").read_text(), "new")
        self.assertEqual((self.document.parent / "images/q.png").read_text(), "kept")

    def test_tables_without_results_stay_as_they_are(self):
        text = "<!-- experiment p -->\nold\n<!-- end -->\n<!-- aceso -->\nolder\n<!-- end -->\n"
        self.assertEqual(self.run_script(text), text)

    def test_a_table_of_the_study_replaces_its_block_only(self):
        self.write(self.results / "study-planners/aceso.md", "new\n")
        text = "<!-- aceso -->\nold\n<!-- end -->\n<!-- astra -->\nkept\n<!-- end -->\n"
        self.assertEqual(self.run_script(text), text.replace("old", "new"))


if __name__ == "__main__":
    unittest.main()
