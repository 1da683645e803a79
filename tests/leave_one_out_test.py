"""Checks scripts/leave-one-out and scripts/fit-constants with a program instead of oppa."""

import importlib.machinery
import importlib.util
import os
import pathlib
import statistics
import sys
import tempfile
import tomllib
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True


def load(name):
    path = str(ROOT / "scripts" / name)
    spec = importlib.util.spec_from_loader("script", importlib.machinery.SourceFileLoader("script", path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constant(key, file="hardware/gpu.toml", **more):
    return {"file": file, "key": key, "start": 0.5, "least": 0.1, "most": 2.0, **more}


def spec(name, tables, constants, **more):
    return {"name": name, "tables": [{"name": table} for table in tables], "constants": constants, **more}


class LeaveOneOutTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "hardware").mkdir()
        (self.folder / "frameworks").mkdir()
        self.write("hardware/gpu.toml", "tensor = 0.8  # fitted\nmemory = 0.9\n")
        self.write("frameworks/f.toml", "dispatch = 0.8  # fitted\nkept = 3\n")
        self.script = load("leave-one-out")
        self.seen = []
        self.script.fits.predictions = self.predict

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def value(self, name, key):
        return tomllib.loads((self.folder / name).read_text()).get(key)

    def predict(self, table, folder):
        """A program whose predictions are the value of `tensor`: 1 is right."""
        self.seen.append(table)
        row = {"row_source": table, "row_scenario": "s", "row_half": "fitted", "predicted_status": "ok",
               "row_framework": "f", "row_architecture": "gpu", "measured_status": "ok", "measured_step_time_s": "1", "measured_peak_memory_gb": "",
               "predicted_step_time_s": str(self.value("hardware/gpu.toml", "tensor")), "predicted_peak_memory_gb": ""}
        return [row, {**row, "row_half": "other", "measured_step_time_s": "100"}]

    def refit(self, source, specs):
        return self.script.refit(source, [source], specs, self.folder, 12, lambda line: None)

    def test_constants_are_fitted_to_the_other_tables_from_their_start(self):
        counts = self.refit("left", [spec("a", ["left", "kept"], [constant("tensor")])])
        self.assertEqual(set(self.seen), {"kept"})
        self.assertAlmostEqual(self.value("hardware/gpu.toml", "tensor"), 1.0, delta=0.05)
        self.assertEqual(counts, (1, 0))

    def test_constants_without_another_table_have_their_start_or_default(self):
        counts = self.refit("left", [spec("a", ["left"], [constant("tensor"), constant("dispatch", "frameworks/f.toml")])])
        self.assertEqual(self.value("hardware/gpu.toml", "tensor"), 0.5)
        self.assertIsNone(self.value("frameworks/f.toml", "dispatch"))
        self.assertEqual(self.value("frameworks/f.toml", "kept"), 3)
        self.assertEqual(counts, (0, 2))

    def test_constants_of_other_frameworks_than_those_of_the_remaining_rows_are_not_fitted(self):
        self.write("frameworks/g.toml", "dispatch = 0.7\n")
        counts = self.refit("left", [spec("a", ["left", "kept"], [constant("tensor"), constant("dispatch", "frameworks/g.toml")])])
        self.assertIsNone(self.value("frameworks/g.toml", "dispatch"))
        self.assertEqual(counts, (1, 1))

    def test_a_framework_without_rows_takes_the_geometric_mean_of_the_fitted_ones(self):
        self.write("frameworks/g.toml", "dispatch = 0.4\n")
        self.write("frameworks/h.toml", "dispatch = 0.9\n")
        self.refit("left", [spec("a", ["left"], [constant("dispatch", "frameworks/f.toml")]),
                            spec("b", ["kept"], [constant("dispatch", "frameworks/g.toml")]),
                            spec("c", ["more"], [constant("dispatch", "frameworks/h.toml")])])
        self.assertAlmostEqual(self.value("frameworks/f.toml", "dispatch"), 0.6)

    def test_a_constant_that_was_fitted_to_the_source_is_not_in_the_mean(self):
        self.write("frameworks/g.toml", "dispatch = 0.4\n")
        self.refit("left", [spec("a", ["left"], [constant("dispatch", "frameworks/f.toml")]),
                            spec("b", ["left"], [constant("dispatch", "frameworks/g.toml")])])
        self.assertIsNone(self.value("frameworks/f.toml", "dispatch"))

    def test_the_generic_framework_has_the_mean_of_the_constants_that_two_frameworks_were_fitted_to(self):
        generic = tomllib.loads((ROOT / "experiments/frameworks/generic.toml").read_text())
        fitted = {}
        for path in sorted((ROOT / "scripts/fits").glob("*.toml")):
            read = tomllib.loads(path.read_text())
            for c in read["constants"] if read.get("pooled", True) else []:
                if c["file"].startswith("frameworks/") and "start" in c:
                    value = tomllib.loads((ROOT / "experiments" / c["file"]).read_text()).get(c["key"], 0)
                    fitted.setdefault(c["key"], {})[c["file"]] = float(value)
        shared = {key: list(values.values()) for key, values in fitted.items() if len(values) > 1}
        self.assertGreater(len(shared), 5)
        for key, values in shared.items():
            self.assertAlmostEqual(generic[key] / statistics.geometric_mean(values), 1, delta=0.005, msg=key)
        scaling = tomllib.loads((ROOT / "experiments/frameworks/scaling.toml").read_text())  # fitted to nothing
        self.assertEqual({key: scaling.get(key) for key in shared}, {key: generic[key] for key in shared})

    def test_a_specification_that_is_not_pooled_is_not_in_the_mean(self):
        self.write("frameworks/g.toml", "dispatch = 0.4\n")
        self.write("frameworks/h.toml", "dispatch = 0.9\n")
        self.refit("left", [spec("a", ["left"], [constant("dispatch", "frameworks/f.toml")]),
                            spec("b", ["kept"], [constant("dispatch", "frameworks/g.toml")]),
                            spec("c", ["more"], [constant("dispatch", "frameworks/h.toml")], pooled=False)])
        self.assertAlmostEqual(self.value("frameworks/f.toml", "dispatch"), 0.4)

    def test_tables_of_the_repository_are_sources(self):
        with unittest.mock.patch.dict(os.environ, OPPA_DATA=str(self.folder)):
            self.assertEqual(set(self.script.sources()), {"llama3_405b", "qi2024", "torchtitan2024", "torchtitan4d"})

    def test_nothing_is_fitted_without_a_table(self):
        (self.folder / "clusters").mkdir()
        self.write("clusters/c.toml", "bandwidth = 3\n")
        self.assertEqual(self.refit("left", [spec("a", ["left"], [constant("bandwidth", "clusters/c.toml")])]), (0, 1))
        self.assertEqual(self.value("clusters/c.toml", "bandwidth"), 0.5)

    def test_specifications_that_share_a_constant_are_fitted_again(self):
        self.refit("left", [spec("a", ["left"], [constant("tensor")]), spec("b", ["kept"], [constant("tensor")])])
        self.assertAlmostEqual(self.value("hardware/gpu.toml", "tensor"), 1.0, delta=0.05)

    def test_chosen_constants_of_the_source_are_removed(self):
        chosen = [{"file": "frameworks/f.toml", "key": "dispatch", "table": "left"},
                  {"file": "frameworks/f.toml", "key": "kept", "table": "another"}]
        self.refit("left", [spec("chosen", ["left", "another"], chosen, search=False)])
        self.assertIsNone(self.value("frameworks/f.toml", "dispatch"))
        self.assertEqual(self.value("frameworks/f.toml", "kept"), 3)

    def test_a_refused_row_is_not_called_out_of_memory(self):
        row = {"row_part": "", "row_gpus": "512", "measured_status": "ok", "measured_step_time_s": "1",
               "measured_peak_memory_gb": "", "predicted_peak_memory_gb": "", "predicted_status": "oom",
               "row_scenario": "s"}
        rows = [{**row, "predicted_step_time_s": "1.1"}, {**row, "predicted_step_time_s": ""}]
        summary = self.script.summary("s", ["t"], rows, rows, (0, 0), [])
        self.assertEqual((summary["ran"], summary["ran_called_out_of_memory"]), (2, 1))
        self.assertAlmostEqual(summary["large_step_time_mean"], 0.1)

    def test_the_order_of_a_source_is_that_of_its_clean_rows_with_the_weights_of_its_scenarios(self):
        def comparison(gpu, scope, spearman, scenarios, rightly, of, half="all"):
            return {"gpu": gpu, "scope": scope, "half": half, "spearman": spearman, "ranked_scenarios": scenarios,
                    "pick_slowdown": None, "fastest_slowdown": 0.2, "picks": scenarios,
                    "pairs_ordered_rightly": {"rows": rightly, "of": of}}

        order = self.script.order([comparison("a", "all", 0.1, 4, 0, 100), comparison("a", "clean", 0.6, 3, 6, 8),
                                   comparison("a", "clean", 0.0, 3, 0, 8, half="other"), comparison("b", "all", 1.0, 1, 1, 2),
                                   comparison("b", "one host", 0.0, 9, 0, 9)])
        self.assertAlmostEqual(order["spearman"], 0.7)
        self.assertAlmostEqual(order["fastest_slowdown"], 0.2)
        self.assertIsNone(order["pick_slowdown"])
        self.assertAlmostEqual(order["pairs_ordered_rightly"], 0.7)

    def test_errors_stand_beside_those_of_calculon_with_their_means(self):
        rows = [{"row_source": source, "measured_step_time_s": measured, "predicted_step_time_s": predicted}
                for source, measured, predicted in (("korthikanti2022", "1.42", "1.562"), ("korthikanti2022", "1.1", "0.77"),
                                                    ("korthikanti2022", "", "1"), ("vtrain", "18.13", "18.13"))]
        found = self.script.beside_calculon(rows)
        self.assertEqual([(row["model"], row["recomputation"]) for row in found],
                         [("22B", "full"), ("22B", "selective"), ("mean of absolute errors", "")])
        self.assertAlmostEqual(found[0]["error"], 0.1)
        self.assertAlmostEqual(found[2]["error"], 0.2)
        self.assertEqual(self.script.beside_calculon(rows[3:]), [])

    def test_every_specification_names_known_tables_and_files(self):
        tables = {path.stem for path in (ROOT / "experiments/validation").glob("*.toml")}
        for path in (ROOT / "scripts/fits").glob("*.toml"):
            read = self.script.fits.read_spec(path)
            self.assertLessEqual({table["name"] for table in read["tables"]}, tables, path)
            for one in read["constants"]:
                self.assertTrue((ROOT / "experiments" / one["file"]).is_file(), one)


if __name__ == "__main__":
    unittest.main()
