"""Checks scripts/results-docs on small results."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "results-docs"

HEADER = "problem,method,label,repeats,runs,finished,ratio_median,ratio_q1,ratio_q3,ratio_after_10,ratio_after_20\n"
FIGURE4 = ["bert-8gpu", "qwen-8gpu", "llama1b-16gpu", "llama7b-32gpu"]
OPPA = """#!/bin/sh
echo dp,tp,pp,dp_bucket_mb,zero_stage,zero_bucket_mb,overlap_zero_comm,overlap_zero_allgather,\
microbatches,model_chunks,overlap_p2p,grad_checkpoint,outcome,throughput_steps_per_s
echo 8,1,1,128,0,24,0,0,1,1,0,1,completed,9.3649
echo 4,1,2,25,1,32,1,1,8,8,1,0,completed,0.4354
echo 2,2,2,25,1,32,1,1,8,8,1,0,out_of_memory,99
"""


class ResultsDocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results"
        self.document = self.folder / "document.md"
        self.program = self.folder / "oppa"
        self.write(self.program, OPPA)
        self.program.chmod(0o755)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_summary(self, experiment, rows):
        self.write(self.results / experiment / "summary.csv", HEADER + "".join(row + "\n" for row in rows))

    def run_script(self, *words):
        return subprocess.run([sys.executable, SCRIPT, "--results", self.results, "--oppa", self.program,
                               *words, self.document], capture_output=True, text=True)

    def table(self, name, *words):
        """The lines that the script writes for a table."""
        self.write(self.document, f"before\n<!-- generated: {name} -->\nold\n<!-- end -->\nafter\n")
        run = self.run_script(*words)
        self.assertEqual(run.returncode, 0, run.stderr)
        text = self.document.read_text()
        match = re.fullmatch(f"before\n<!-- generated: {name} -->\n(.*)<!-- end -->\nafter\n", text, re.DOTALL)
        self.assertTrue(match, text)
        return match[1].splitlines(), run.stderr

    def test_methods_are_rows_and_problems_are_columns(self):
        for experiment in FIGURE4:
            self.write_summary(experiment, [",random,RANDOM,10,10,10,0.837,0.791,0.863,0.8,0.83",
                                            ",oppa,OPPA,10,10,10,0.983,0.979,0.992,0.9,0.98"])
        lines, errors = self.table("figure4-methods")
        self.assertEqual(errors, "")
        self.assertEqual(lines[0], "| method | BERT, 8 GPUs | Qwen, 8 GPUs | Llama-1B, 16 GPUs | Llama-7B, 32 GPUs |")
        self.assertEqual(lines[3], "| OPPA" + 4 * " | 98.3 [97.9, 99.2]" + " |")

    def test_missing_results_leave_the_table_and_name_the_command(self):
        lines, errors = self.table("figure4-methods")
        self.assertEqual(lines, ["old"])
        self.assertIn("make exp-bert-8gpu", errors)

    def test_fewer_repeats_than_the_manifest_asks_for_do_not_count(self):
        for experiment in FIGURE4:
            self.write_summary(experiment, [",oppa,OPPA,2,2,2,0.983,0.979,0.992,0.9,0.98"])
        lines, errors = self.table("figure4-methods")
        self.assertEqual(lines, ["old"])
        self.assertIn("2 of 10 repeats", errors)
        lines, _ = self.table("figure4-methods", "--partial")
        self.assertIn("| OPPA | 98.3", lines[2])

    def test_check_fails_only_where_the_text_differs(self):
        self.write_summary("ultrascale", ["(mean),oppa,OPPA,70,70,70,1,1,1,0.934,1"])
        self.write_summary("vtrain", ["(mean),oppa,OPPA,110,110,110,1,1,1,0.986,1"])
        lines, _ = self.table("measured-methods")
        self.assertEqual(lines[2], "| OPPA | 0.934 | 1.000 | 0.986 | 1.000 |")
        self.assertEqual(self.run_script("--check").returncode, 0)
        text = self.document.read_text()
        self.document.write_text(text.replace("0.934", "0.935"))
        run = self.run_script("--check")
        self.assertEqual(run.returncode, 1)
        self.assertIn("document.md", run.stderr)
        self.assertIn("0.935", self.document.read_text())

    def test_optima_are_compared_with_the_published_table(self):
        lines, _ = self.table("table4-optima")
        self.assertEqual(lines[2], "| BERT, 8 GPUs | dp 8, ZeRO 0, DP bucket 128 MB, checkpointing on | 9.36 | "
                                   "dp 8, ZeRO 0, DP bucket 1-64 MB, checkpointing on | | DP bucket |")
        self.assertIn("| 0.446 |", lines[3])

    def test_validation_shows_held_out_rows_and_the_errors_of_others(self):
        error = {"rows": 360, "mean": 0.058, "median": 0.033, "p90": 0.133, "bias": 0.0}
        none = {"rows": 0, "mean": None, "median": None, "p90": None, "bias": None}
        row = {"gpu": "A100", "step_time": error, "peak_memory": none, "spearman": 0.954, "pick_slowdown": 0.075,
               "out_of_memory_rows": 0, "precision": 0.0, "recall": None}
        for table, scope in (("vtrain", "one host"), ("vtrain", "several hosts"), ("korthikanti2022", "all"),
                             ("ultrascale", "all"), ("megatron_golden_values", "all"),
                             ("aceso_v100_op_profiles", "block (sum)"), ("mosaicml_llmfoundry", "all")):
            path = self.results / "validation" / table / "comparison.json"
            known = json.loads(path.read_text())["comparisons"] if path.exists() else []
            gpus = ["A100-SXM4-80GB", "H100-SXM5-80GB"] if table.startswith("mosaicml") else ["A100"]
            known += [{**row, "gpu": gpu, "scope": scope, "half": half} for gpu in gpus for half in ("even", "odd")]
            self.write(path, json.dumps({"table": table, "comparisons": known}))
        lines, _ = self.table("validation")
        self.assertEqual(lines[2], "| vTrain, one host of 2 to 8 A100 | 360 | 5.8 | 3.3 | 13.3 | 8.37 (vTrain) | "
                                   "| 0.95 | 7.5 | | |")
        self.assertEqual(len(lines), 10)

    def test_calibration_is_the_mean_over_problems_and_repeats(self):
        self.write(self.results / "study-calibration" / "scores.csv",
                   "problem,repeat,trials,surrogate,nlpd,coverage\n"
                   'bert-8gpu,1,10,"ours",1,0.9\nbert-8gpu,2,10,"ours",1,1.0\n'
                   'bert-8gpu,1,10,"ours, as searched",1,0.8\nultrascale/a,1,20,"ours",1,0.7\n')
        lines, _ = self.table("calibration")
        self.assertEqual(lines[0], "| problems | intervals | repeats | 10 trials | 20 trials |")
        self.assertEqual(lines[2:], ["| simulated | reported | 2 | 0.950 | |", "| simulated | search | 2 | 0.800 | |",
                                     "| Ultra-Scale | reported | 2 | | 0.700 |"])

    def test_headline_has_no_ablation_as_other_method(self):
        self.write_summary("qwen-8gpu", [",random,RANDOM,10,10,10,0.8,0,0,0,0", ",oppa,OPPA,10,10,10,0.98,0,0,0,0",
                                         ",oppa-paper,OPPA-PAPER,10,10,10,0.97,0,0,0,0",
                                         ",cost-model,COST-MODEL,10,10,10,0.92,0,0,0,0"])
        self.write_summary("ultrascale", [f"(mean),{name},{name.upper()},70,70,70,1,1,1,{after_10},0.9"
                                          for name, after_10 in (("random", 0.69), ("oppa", 0.93))])
        lines, _ = self.table("headline")
        self.assertIn("| 98.0% | 92.0% (COST-MODEL) | 80.0% |", lines[2])
        self.assertIn("| 93.0% | 69.0% (RANDOM) | 69.0% |", lines[3])

    def test_an_unknown_table_is_an_error(self):
        self.write(self.document, "<!-- generated: nothing -->\n<!-- end -->\n")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("unknown table 'nothing'", run.stderr)

    def test_every_table_of_the_documents_is_known(self):
        for name in ("docs/results.md", "README.md"):
            self.write(self.document, (ROOT / name).read_text())
            run = self.run_script("--check")
            self.assertNotIn("unknown table", run.stderr)
            self.assertEqual(run.stderr.count("stays as it is") > 0, True, name)


if __name__ == "__main__":
    os.environ.pop("OPPA_DATA", None)
    unittest.main()
