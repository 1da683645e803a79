"""Checks scripts/docs, and the parts that the program of argv[1] writes, on small results."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "docs"
STUDY = pathlib.Path(sys.argv.pop(1)).resolve()

AFTER = [f"ratio_after_{n}_{of}" for n in (1, 3, 5, 10, 20) for of in ("mean", "mean_low", "mean_high", "median")]
FIGURE4 = ["bert-8gpu", "qwen-8gpu", "llama1b-16gpu", "llama7b-32gpu"]
OPPA = """#!/bin/sh
echo dp,tp,pp,dp_bucket_mb,zero_stage,zero_bucket_mb,overlap_zero_comm,overlap_zero_allgather,\
microbatches,model_chunks,overlap_p2p,grad_checkpoint,outcome,throughput_steps_per_s
echo 8,1,1,128,0,24,0,0,1,1,0,1,completed,9.3649
echo 4,1,2,25,1,32,1,1,8,8,1,0,completed,0.4354
echo 2,2,2,25,1,32,1,1,8,8,1,0,out_of_memory,99
"""


class DocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results"
        self.document = self.folder / "document.md"
        self.program = self.folder / "oppa"
        self.write(self.program, OPPA)
        self.program.chmod(0o755)
        (self.folder / "studies").mkdir()
        (self.folder / "studies/documents_study").symlink_to(STUDY)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_summary(self, experiment, rows, repeats=30):
        """`rows`: (problem, method, family, share), shares are those at every point."""
        text = ",".join(["problem", "method", "label", "family", "repeats", "runs", "finished", "ratio_mean",
                         "ratio_mean_low", "ratio_mean_high", "ratio_median", *AFTER]) + "\n"
        for problem, method, family, share in rows:
            numbers = [f"{share}", f"{share - 0.01:.3f}", f"{share + 0.01:.3f}", f"{share + 0.002:.3f}"]
            text += ",".join([problem, method, method.upper(), family, *3 * [str(repeats)], *numbers,
                              *5 * numbers]) + "\n"
        self.write(self.results / experiment / "summary.csv", text)

    def write_comparison(self, experiment, rows):
        """`rows`: (problems, method, group, difference, p)."""
        text = ("problems,after,method,label,group,reference,unit,pairs,difference,difference_low,difference_high,"
                "holm_p,rank_biserial,smallest_holm_p\n")
        for problems, method, group, difference, p in rows:
            for after in ("5", "10", "20", "end"):
                text += (f"{problems},{after},{method},{method.upper()},{group},oppa,"
                         f"{'problem' if problems else 'repeat'},30,{difference},{difference - 0.02:.3f},"
                         f"{difference + 0.02:.3f},{p},-0.5,{0.0625 if problems else 0.001}\n")
        self.write(self.results / experiment / "comparison.csv", text)

    def write_figure4(self, repeats=30):
        for experiment in FIGURE4:
            self.write_summary(experiment, [("", "random", "", 0.837), ("", "vanilla-bo", "", 0.97),
                                            ("", "oppa", "oppa", 0.983), ("", "oppa-paper", "oppa", 0.7)], repeats)
            self.write_comparison(experiment, [("", "random", "rival", -0.146, 0.0004), ("", "vanilla-bo", "rival", -0.013, 0.2),
                                               ("", "oppa-paper", "variant", -0.283, 0.01)])

    def write_measured(self, experiment, held_out):
        means = ["(mean)", "(mean development)", "(mean held-out)"] if held_out else ["(mean)"]
        self.write_summary(experiment, [(mean, method, "oppa" if method == "oppa" else "", share + 0.01 * i)
                                        for i, mean in enumerate(means)
                                        for method, share in (("random", 0.69), ("oppa", 0.93), ("vanilla-bo", 0.74))])
        self.write_comparison(experiment, [(mean, "random", "rival", -0.24 - 0.01 * i, 0.02)
                                           for i, mean in enumerate(means)])

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
        self.write_figure4()
        lines, errors = self.table("figure4-methods")
        self.assertEqual(errors, "")
        self.assertEqual(lines[0], "| method | BERT, 8 GPUs | Qwen, 8 GPUs | Llama-1B, 16 GPUs | Llama-7B, 32 GPUs |")
        self.assertEqual(lines[4], "| OPPA" + 4 * " | 98.3 [97.3, 99.3]; 98.5" + " |")

    def test_tests_show_difference_p_and_effect_of_rivals_only(self):
        self.write_figure4()
        lines, _ = self.table("figure4-tests")
        self.assertIn("BERT, 8 GPUs (30 repeats)", lines[0])
        self.assertEqual(lines[2], "| RANDOM" + 4 * " | -14.6 [-16.6, -12.6], p < 0.001, r -0.50" + " |")
        self.assertEqual(len(lines), 4)
        lines, _ = self.table("figure4-variant-tests")
        self.assertEqual(lines[2][:14], "| OPPA-PAPER |")
        self.assertEqual(len(lines), 3)

    def test_missing_results_leave_the_table_and_name_the_command(self):
        lines, errors = self.table("figure4-methods")
        self.assertEqual(lines, ["old"])
        self.assertIn("make exp-bert-8gpu", errors)

    def test_fewer_repeats_than_the_manifest_asks_for_do_not_count(self):
        self.write_figure4(repeats=2)
        lines, errors = self.table("figure4-methods")
        self.assertEqual(lines, ["old"])
        self.assertIn("2 of 30 repeats", errors)
        lines, _ = self.table("figure4-methods", "--partial")
        self.assertIn("| OPPA | 98.3", lines[4])

    def test_check_fails_only_where_the_text_differs(self):
        self.write_measured("ultrascale", held_out=False)
        lines, _ = self.table("ultrascale-development")
        self.assertEqual(lines[0], "| method | after 1 | after 3 | after 5 | after 10 | after 20 |")
        self.assertEqual(lines[3], "| OPPA" + 5 * " | 93.0 [92.0, 94.0]" + " |")
        self.assertEqual(self.run_script("--check").returncode, 0)
        text = self.document.read_text()
        self.document.write_text(text.replace("93.0", "93.1"))
        run = self.run_script("--check")
        self.assertEqual(run.returncode, 1)
        self.assertIn("document.md", run.stderr)
        self.assertIn("93.1", self.document.read_text())

    def test_held_out_tables_stay_until_that_half_is_run(self):
        self.write_measured("vtrain", held_out=False)
        lines, errors = self.table("vtrain-held-out")
        self.assertEqual(lines, ["old"])
        self.assertIn("make exp-vtrain HELD_OUT=1", errors)
        self.write_measured("vtrain", held_out=True)
        lines, _ = self.table("vtrain-held-out")
        self.assertIn("| OPPA | 95.0", lines[3])
        lines, _ = self.table("vtrain-development")
        self.assertIn("| OPPA | 94.0", lines[3])
        self.write_measured("ultrascale", held_out=True)
        lines, _ = self.table("measured-tests-held-out-10")
        self.assertIn("Ultra-Scale (30 problems: too few for p < 0.05)", lines[0])
        self.assertIn("| RANDOM | -26.0 [-28.0, -24.0], p 0.020, r -0.50", lines[2])

    def test_stop_rules_of_predictions_are_by_half(self):
        self.write(self.results / "stopping" / "predictions" / "regret.csv",
                   "group,rule,runs,stopped,trials,saved_percent,lost_percent\n" + "".join(
                       f"{half} oppa-sim{source},{rule},70,60,12.25,38.7,{lost}\n"
                       for half, lost in (("development", 0.5), ("held-out", 2))
                       for source in ("", "-predictions-permuted")
                       for rule in ("gain < 1%", "gain < 1% and p_within_5 > 75%")))
        lines, _ = self.table("stop-rule-predictions")
        self.assertEqual(lines[2:], ["| right | 70 | 12.2 | 0.50 | 70 | 12.2 | 2.00 |",
                                     "| permuted | 70 | 12.2 | 0.50 | 70 | 12.2 | 2.00 |"])

    def test_early_termination_saves_steps_and_less_of_a_search_with_set_ups(self):
        problem = self.results / "ultrascale" / "a"
        self.write(problem / "problem.json", '{"optimum_steps_per_s": 0.5}')
        for method, duration in (("oppa", 25), ("oppa-no-early-termination", 45)):
            self.write(problem / method / "1" / "trials.csv", "steps,setup_s,duration_s,outcome,exact_steps_per_s\n"
                       f"5,5,{duration},completed,0.4\n0,5,65,out_of_memory,\n")
        lines, _ = self.table("early-termination")
        self.assertTrue(lines[0].startswith("Early termination saves 50% of the step time of 20 trials on 1 measured jobs, and "
                                            "15, 5 and 2% of the"), lines)
        self.assertTrue(lines[1].endswith("It finds 80.0% of the best throughput, and 80.0% without it."), lines)

    def test_searchers_that_ran_are_of_one_half(self):
        searchers = ("oppa", "tpe", "gp", "botorch", "cmaes", "random", "oppa-sim", "predicted-order", "botorch-sim")
        header = ",".join(f"after_{k},after_{k}_low,after_{k}_high" for k in (3, 5, 10, 20))
        self.write(self.results / "bench-searchers" / "ultrascale.csv",
                   f"problems,searcher,repeats,{header},cpu_s_per_suggestion\n" + "".join(
                       f"{half},{name},1 to 2,{','.join([share] * 12)},0.0125\n"
                       for half, share in (("", "0.1"), ("held-out", "0.5")) for name in searchers))
        lines, _ = self.table("searchers ultrascale held-out")
        self.assertEqual(lines[2], "| oppa | 1 to 2" + 4 * " | 50.0 [50.0, 50.0]" + " | 0.013 |")
        lines, _ = self.table("searchers-brief")
        self.assertEqual(len(lines), 11)
        self.assertEqual(lines[3], "| Optuna, TPE" + 4 * " | 50.0 [50.0, 50.0]" + " |")

    def test_choices_over_repeats_are_ranges_beside_the_published_ones(self):
        self.write_figure4()
        for experiment in FIGURE4:
            for method in ("oppa-paper", "oppa"):
                for repeat, (dp, pp, bucket) in enumerate(((4, 2, 1), (4, 2, 64), (8, 1, 1)), 1):
                    self.write(self.results / experiment / method / str(repeat) / "trials.csv",
                               "# oppa trials 1\ndp,tp,pp,dp_bucket_mb,zero_stage,zero_bucket_mb,overlap_zero_comm,"
                               "overlap_zero_allgather,microbatches,model_chunks,overlap_p2p,grad_checkpoint,"
                               "throughput_steps_per_s,incumbent_steps_per_s\n"
                               f"1,1,8,25,0,24,0,0,8,1,0,0,0.1,0.1\n{dp},1,{pp},{bucket},0,24,0,0,8,1,0,{repeat % 2},"
                               "0.4,0.4\n1,1,8,25,0,24,0,0,8,1,0,0,0.2,0.4\n")
        lines, _ = self.table("table4")
        self.assertTrue(lines[2].startswith("| DP size | 8 | 8 | 4-8 | 4-8 | 4 | 8 | 4-8 |"), lines[2])
        rows = {line.split(" | ")[0]: line for line in lines}
        self.assertIn("| DP bucket size | 1-64 | 128 | 1 | 1 |", rows["| DP bucket size"])
        self.assertIn("| ZeRO bucket size | - | - | - | - |", rows["| ZeRO bucket size"])
        self.assertIn("| Grad. checkpointing | True | True | True/False |", rows["| Grad. checkpointing"])

    def test_settings_of_the_paper_stand_in_parentheses_where_they_differ(self):
        lines, _ = self.table("table2")
        self.assertEqual(lines[2], "| BERT, 8 GPUs | BERT Base Uncased | 110M | 256 | 256 | 20 | 50 | 30 (10) |")
        lines, _ = self.table("table3")
        self.assertIn("| 32 GPUs | NVIDIA A100 | 40 | 4 | 8 | High-Performance Compute |", lines[4])

    def test_claims_show_both_methods_and_are_counted_by_verdict(self):
        self.write(self.results / "claims/claims.csv",
                   "id,source,place,claim,paper,method,rivals,quantity,criterion,rival,n,x,x_low,x_high,rank_biserial,verdict,"
                   "note,turns,command\n"
                   "a,OPPA,Fig. 1,c,first,oppa-paper,random,share,x > 0,random,30,-1,-2,-0.5,-0.3,does not hold,why,turns at x,make e\n"
                   "a,OPPA,Fig. 1,c,first,oppa,random,share,x > 0,random,30,5,4,6,0.9,holds,,turns at x,make e\n"
                   "b,Aceso,Exp. 8,d,2%,,,,,,0,,,,,cannot be tested here,needs V100,,\n")
        lines, _ = self.table("claims OPPA")
        self.assertEqual(lines[2], "| c (Fig. 1) | first | x > 0; x: difference in share | "
                                   "**does not hold**; x = -1.00 [-2.00, -0.50] against random; n = 30; r -0.30 | "
                                   "**holds**; x = 5.00 [4.00, 6.00] against random; n = 30; r 0.90 | "
                                   "why; oppa-paper: turns at x<br>oppa: turns at x<br>`make e` |")
        lines, _ = self.table("claims-brief")
        self.assertEqual(lines[2:], ["| OPPA, as printed | 0 | 0 | 1: a | 0 | 0 | 0 |",
                                     "| OPPA, this project's | 1 | 0 | 0 | 0 | 0 | 0 |",
                                     "| Aceso | 0 | 0 | 0 | 0 | 1: b | 0 |"])

    def test_validation_shows_held_out_rows_and_the_errors_of_others(self):
        error = {"rows": 360, "mean": 0.058, "median": 0.033, "p90": 0.133, "bias": 0.0}
        none = {"rows": 0, "mean": None, "median": None, "p90": None, "bias": None}
        row = {"gpu": "A100", "step_time": error, "peak_memory": none, "spearman": 0.954, "pick_slowdown": 0.075,
               "fastest_slowdown": 0.081, "pairs_ordered_rightly": {"rows": 93, "of": 100, "share": 0.93},
               "out_of_memory_rows": 0, "precision": 0.0, "recall": None,
               "ran_called_out_of_memory": {"rows": 18, "of": 360, "share": 0.05},
               "failed_called_fit": {"rows": 0, "of": 0, "share": None}}
        tables = tomllib.loads((ROOT / "experiments/studies/documents.toml").read_text())["lists"]["validated"]
        shown = [(table, dict(part.split("=") for part in entry["rows"].split("&"))) for table in tables for entry in
                 tomllib.loads((ROOT / f"experiments/validation/{table}.toml").read_text())["document"]]
        self.assertGreater(len(shown), 20)
        for table, of in shown:
            path = self.results / "validation" / table / "comparison.json"
            known = json.loads(path.read_text())["comparisons"] if path.exists() else []
            known += [{**row, **of, "half": half} for half in ("fitted", "other")]
            self.write(path, json.dumps({"table": table, "comparisons": known}))
        lines, _ = self.table("validation")
        self.assertEqual(lines[2], "| vTrain, hidden size 2048, one host of 2 to 8 A100 | 360 | 5.8 | 3.3 | 13.3 | "
                                   "8.37 (vTrain) | | 0.95 | 7.5 | 8.1 | 93.0 | | | 5.0 | |")
        self.assertEqual(len(lines), 2 + len(shown))

    def test_claims_name_tests_that_exist(self):
        sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
        tests = {".".join(names) for names in re.findall(r"TEST\w*\((\w+),\s*(\w+)\)", sources)}
        claims = (ROOT / "experiments/studies/claims.csv").read_text()
        named = {test for words in re.findall(r"test=([^,]+)", claims) for test in words.split("|")}
        self.assertTrue(named)
        self.assertEqual(named - tests, set())

    def test_calibration_is_the_mean_over_problems_and_repeats(self):
        self.write(self.results / "study-calibration" / "scores.csv",
                   "problem,repeat,trials,surrogate,nlpd,coverage\n"
                   'bert-8gpu,1,10,"ours",1,0.9\nbert-8gpu,2,10,"ours",1,1.0\n'
                   'bert-8gpu,1,10,"ours, as searched",1,0.8\nultrascale/a,1,20,"ours",1,0.7\n')
        lines, _ = self.table("calibration")
        self.assertEqual(lines[0], "| problems | intervals | repeats | 10 trials | 20 trials |")
        self.assertEqual(lines[2:], ["| simulated | reported | 2 | 0.950 | |", "| simulated | search | 1 | 0.800 | |",
                                     "| Ultra-Scale | reported | 1 | | 0.700 |"])

    def test_headline_has_no_variant_as_other_method_and_shows_the_held_out_half(self):
        self.write_figure4()
        self.write_measured("ultrascale", held_out=True)
        for experiment in ("planners-8gpu", "planners-32gpu"):
            self.write_summary(experiment, [("", "amp", "", 0.6), ("", "astra", "", 0.7), ("", "oppa", "oppa", 0.98)])
        self.write_summary("planners-ultrascale", [("(mean held-out)", "astra", "", 0.8)])
        lines, _ = self.table("headline")
        self.assertIn("| 30 held-out measured jobs, 8 to 512 H100, 5 trials |", lines[0])
        of_first = {line.split(" | ")[0]: line.split(" | ")[1:] for line in lines[2:]}
        self.assertEqual(of_first["| OPPA"][0], "98.3 [97.3, 99.3]")
        self.assertEqual(of_first["| OPPA"][2], "95.0 [94.0, 96.0]")
        self.assertEqual([cell[:15] for cell in of_first["| best planner"][:3]], ["ASTRA: 70.0 [69", "ASTRA: 70.0 [69", "ASTRA: 80.0 [79"])
        self.assertTrue(of_first["| best other search"][0].startswith("VANILLA-BO: 97.0"))
        self.assertEqual(of_first["| RANDOM"][0], "83.7 [82.7, 84.7]")

    def test_tuned_configurations_are_relative_to_the_default_of_their_job(self):
        self.write(self.results / "bench-tune/summary.csv",
                   "job,title,choice,label,repeats,minutes,trials,distinct,stopped,failed,rounds,tokens_per_s,"
                   "tokens_per_s_low,tokens_per_s_high,ratio,ratio_low,ratio_high,config,changes,machine\n"
                   'gpt,GPT,default,default,1,,,,,,5,1000.4,990,1010,1,1,1,"dp=2,mb=1",default,A CPU\n'
                   'gpt,GPT,tune,`oppa tune`,1,4.26,30,30,12,1,5,1500,1400,1600,1.499,1.4,1.6,"dp=2,mb=4","mb=4",A CPU\n')
        lines, _ = self.table("tune")
        self.assertEqual(lines[2], "| GPT; A CPU | default | 1000 [990, 1010] | 1.00 [1.00, 1.00] | | | | | | `dp=2,mb=1` |")
        self.assertEqual(lines[3], "| | `oppa tune` | 1500 [1400, 1600] | 1.50 [1.40, 1.60] | 4.3 | 30 | 30 | 12 | 1 | `mb=4` |")
        lines, _ = self.table("tune-headline")
        self.assertTrue(lines[0].startswith("| throughput relative to the default | set by hand | `oppa tune` | "), lines[0])
        self.assertEqual(lines[2], "| GPT | | 1.50 [1.40, 1.60] | | | |")

    def test_an_experiment_has_its_methods_best_first_with_the_final_test_against_oppa(self):
        self.write_figure4()
        (self.results / "qwen-8gpu").rename(self.results / "planners-8gpu")
        lines, _ = self.table("experiment planners-8gpu")
        self.assertEqual(lines[2], "| `oppa` | 98.3 [97.3, 99.3] | 98.3 | 98.3 | 98.3 | | |")
        self.assertEqual(lines[4], "| `random` | 83.7 [82.7, 84.7] | 83.7 | 83.7 | 83.7 | -14.6 [-16.6, -12.6] | < 0.001 |")

    def test_a_half_of_an_experiment_has_its_own_means_and_the_test_after_ten_trials(self):
        self.write_measured("planners-ultrascale", held_out=True)
        lines, _ = self.table("experiment planners-ultrascale held-out")
        self.assertEqual(lines[2], "| `oppa` | 95.0 | 95.0 | 95.0 | 95.0 [94.0, 96.0] | 95.0 | | |")
        self.assertEqual(lines[4], "| `random` | 71.0 | 71.0 | 71.0 | 71.0 [70.0, 72.0] | 71.0 | -26.0 [-28.0, -24.0] | 0.020 |")

    def test_layouts_of_a_plan_are_without_the_details_of_the_fastest(self):
        self.write(self.program, "#!/bin/sh\nprintf 'job\\n\\na (b):\\n  1 dp=2\\nfastest: dp=2\\nnot offered:\\n   9  rule\\n\\nc (d):\\n'\n")
        lines, _ = self.table("plan --gpus 8")
        self.assertEqual(lines, ["    oppa plan --gpus 8", "", "```text", "job", "", "a (b):", "  1 dp=2", "", "c (d):", "```"])

    def test_a_part_of_a_study_is_the_file_that_it_wrote(self):
        self.write(self.results / "study-planners/aceso_layers.csv", "new\n1\n")
        lines, _ = self.table("study planners aceso layers")
        self.assertEqual(lines, ["| new |", "| --- |", "| 1 |"])
        lines, errors = self.table("study planners astra")
        self.assertEqual(lines, ["old"])
        self.assertIn("make study-planners", errors)

    def test_every_table_of_a_study_has_a_line_with_its_conclusion(self):
        for path in (ROOT / "docs/tables").glob("study_planners_*.csv"):
            part = path.stem.removeprefix("study_planners_")
            self.write(self.results / f"study-planners/{part}.md", f"| table |\n\nWhat {part} shows.\n")
        lines, _ = self.table("conclusions planners")
        self.assertEqual(lines[0],
                         "- [aceso_accuracy](study_planners_aceso_accuracy.csv): What aceso_accuracy shows.")

    def test_a_table_of_numbers_is_a_csv_file(self):
        self.write_figure4()
        self.document = self.folder / "figure4-tests.csv"
        self.write(self.document, "old\n")
        self.assertEqual(self.run_script().returncode, 0)
        self.assertIn('\nRANDOM,"-14.6 [-16.6, -12.6], p < 0.001, r -0.50"', self.document.read_text())

    def test_the_figure_of_an_experiment_is_copied(self):
        self.write(self.results / "p/figures/throughput-time.png", "new")
        self.write(self.folder / "images/p.png", "old")
        self.write(self.folder / "images/q.png", "kept")
        self.write(self.document, "![P](images/p.png) ![Q](images/q.png)\n")
        self.run_script()
        self.assertEqual((self.folder / "images/p.png").read_text(), "new")
        self.assertEqual((self.folder / "images/q.png").read_text(), "kept")

    def test_the_files_that_differ_can_be_written_to_another_folder(self):
        self.write(self.results / "claims/claims.csv", "id,source,method,verdict\na,OPPA,,holds\n")
        before = (ROOT / "README.md").read_text()
        run = subprocess.run([sys.executable, SCRIPT, "--results", self.results, "--oppa", self.program, "--out", self.folder / "out",
                              "README.md"], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| OPPA, as printed | 1 | 0 | 0 | 0 | 0 |", (self.folder / "out/README.md").read_text())
        self.assertEqual((ROOT / "README.md").read_text(), before)

    def test_an_unknown_part_is_an_error(self):
        self.write(self.document, "<!-- generated: nothing -->\n<!-- end -->\n")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("unknown part 'nothing'", run.stderr)

    def test_every_part_of_the_documents_is_known(self):
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/tables").glob("*.csv")]:
            text = path.read_text()
            if "generated: " in text or path.suffix == ".csv":
                self.document = self.folder / path.name
                self.write(self.document, text)
                self.assertNotIn("unknown part", self.run_script("--check").stderr)


if __name__ == "__main__":
    os.environ.pop("OPPA_DATA", None)
    unittest.main()
