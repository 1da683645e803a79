"""Follows the recipes of docs/add-a-method.md and CONTRIBUTING.md.

Usage: recipes_test.py BUILD

A block of code that is introduced by "`path`:" is written to that path (appended, after "Append to `path`:") below a
temporary folder with a copy of experiments/. Blocks marked `sh` are run there.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent


def sections(page, mark):
    """Title -> text of the sections of a page."""
    parts = re.split(rf"^{mark} (.+)$", (SOURCE / page).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class RecipeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(SOURCE / "experiments", self.folder / "experiments")

    def run_program(self, words, program=BUILD / "oppa"):
        run = subprocess.run([program, *words], cwd=self.folder, capture_output=True, text=True,
                             env={**os.environ, "OPPA_EXPERIMENTS": str(self.folder / "experiments")})
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout


class DataRecipeTest(RecipeTest):
    def follow(self, title):
        """Writes the files of a recipe, runs its commands and returns what they print."""
        text = sections("CONTRIBUTING.md", "###")[title]
        for append, path, code in re.findall(r"^(Append to )?`([^`]+)`:\n\n```\w*\n(.*?)^```$", text,
                                             re.MULTILINE | re.DOTALL):
            with open(self.folder / path, "a" if append else "x") as file:
                file.write("\n" * bool(append) + code)
        return "".join(self.run_program(shlex.split(line)[1:])
                       for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
                       for line in block.splitlines())

    def test_a_gpu_is_planned_for(self):
        self.assertIn("8 GPUs (one node), L40", self.follow("A GPU"))

    def test_an_adapter_renders_a_configuration(self):
        self.assertIn("train.py --tensor-parallel 2 --recompute full", self.follow("A framework adapter"))

    def test_a_rule_drops_configurations(self):
        self.assertRegex(self.follow("A constraint"), r"[1-9]\d* +\$pp > 4")

    def test_a_custom_knob_reaches_the_records(self):
        self.follow("A knob")
        trials = list(self.folder.rglob("trials.csv"))
        self.assertEqual(len(trials), 1)
        self.assertRegex(trials[0].read_text(), r",attention,")

    def test_named_files_exist(self):
        text = "".join(sections("CONTRIBUTING.md", "##")["Recipes"])
        shown = re.findall(r"^(?:Append to )?`([^`]+)`:$", text, re.MULTILINE)
        named = [path for path in re.findall(r"`([a-z]+/[\w./-]+)`", text)
                 if path not in shown and "NAME" not in path]
        self.assertGreater(len(named), 8)
        self.assertEqual([path for path in named if not (SOURCE / path).exists()], [])


class MethodRecipeTest(RecipeTest):
    def test_the_new_method_completes_an_experiment(self):
        steps = sections("docs/add-a-method.md", "##")
        path, code = re.search(r"`([^`]+)`:\n\n```cpp\n(.*?)^```$", steps["1. Write one file"],
                               re.MULTILINE | re.DOTALL).groups()
        registry, row = re.search(r"`([^`]+)`.*?```cpp\n(.*?)^```$", steps["2. Register it"],
                                  re.MULTILINE | re.DOTALL).groups()
        header = self.folder / path
        header.parent.mkdir(parents=True)
        header.write_text(code)
        text = (SOURCE / registry).read_text()
        start = "ListMethods() {\n  return {\n"
        text = f'#include "{path}"\n' + text.replace(start, start + row, 1)
        self.assertIn(row, text)
        new_registry = self.folder / registry
        new_registry.parent.mkdir()
        new_registry.write_text(text)
        program = self.build(SOURCE / registry, new_registry)

        self.assertIn("neighbor", self.run_program(["methods"], program))
        planned = self.folder / "experiments/planned.toml"
        planned.write_text((self.folder / "experiments/smoke.toml").read_text() +
                           '\n[method.planned]\nplanner = "astra"\nthen = "neighbor"\n')
        for manifest, methods in [("smoke", "neighbor,random"), ("planned", "planned")]:
            results = self.folder / manifest
            self.run_program(["run", f"experiments/{manifest}.toml", "--methods", methods, "--repeats", "1",
                              "--no-report", "--results", str(results)], program)
            trials = list(results.rglob("trials.csv"))
            self.assertEqual(len(trials), len(methods.split(",")))
            for one in trials:
                self.assertGreater(len(one.read_text().splitlines()), 5, one)

    def build(self, source, replacement):
        """Compiles the source's object again, links a program with it and returns the program."""
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            unit = pathlib.Path(entry["directory"], entry["file"])
            unity = "/Unity/" in entry["file"]
            if unit == source or (unity and f'"{source}"' in unit.read_text()):
                break
        else:
            self.fail(f"no command compiles {source}")
        if unity:
            text = unit.read_text().replace(f'"{source}"', f'"{replacement}"')
            unit = self.folder / "unity.cc"
            unit.write_text(text)
        else:
            unit = replacement
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        new_object = self.folder / pathlib.Path(output).name
        words[words.index("-o") + 1] = str(new_object)
        words[words.index("-c") + 1] = str(unit)
        words.insert(1, f"-I{self.folder}")
        self.call(words, entry["directory"])

        layer = re.search(r"CMakeFiles/(\w+)\.dir/", output).group(1)
        archive = self.folder / f"lib{layer}.a"
        shutil.copy(BUILD / archive.name, archive)
        self.call(["ar", "r", str(archive), str(new_object)], self.folder)

        link = self.call(["ninja", "-C", str(BUILD), "-t", "commands", "-s", "oppa"], BUILD).splitlines()[-1]
        program = self.folder / "oppa"
        words = [str(archive) if word == archive.name else word for word in shlex.split(link)]
        words = words[words.index("&&") + 1:]  # ":  && c++ ... && :"
        words = words[:words.index("&&")]
        words[words.index("-o") + 1] = str(program)
        self.call(words, BUILD)
        return program

    def call(self, words, folder):
        run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
