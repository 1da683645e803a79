"""Checks that the commands in the Markdown files exist: verbs and options of oppa, make targets, scripts and files.

Usage: commands_test.py OPPA
"""

import functools
import re
import subprocess
import sys
import unittest

from links_test import ROOT, pages

TARGETS = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))))
FOLDERS = "benchmarks|cli|common|docs|examples|experiments|harness|jobs|methods|plots|python|results/published|scripts|studies|" \
          "surrogates|tests|trainer|trials"
# What a page tells the reader to write.
ELSEWHERE = ("experiments/gpus/l40.toml", "methods/sampling/neighbor.h")


@functools.cache
def help_of(verb):
    run = subprocess.run([sys.argv[1], "help", verb], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else None


def code(text):
    """Lines of code: quoted in a sentence, indented, or in a fence."""
    fences = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join([*fences, *re.findall(r"^ {4}.*$", rest, re.MULTILINE)]).replace("\\\n", " ").split("\n")
    quoted = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", rest)]
    return [re.split(r" {2,}| #", line.strip())[0] for line in lines] + quoted


def problems(text):
    for line in code(text):
        command = re.match(r"(?:\$ )?(?:build/release/)?oppa ([a-z-]+)(.*)", line)
        if command and help_of(command[1]) is None:
            yield line
        elif command:
            for option in re.findall(r"(?<!\S)--[a-z-]+", command[2].split(" -- ")[0]):
                if option not in help_of(command[1]):
                    yield f"{line}: {option}"
        for target in line.split()[1:] if line.startswith("make ") else []:
            name = re.fullmatch(r"(?:exp|noise)-([\w-]+)", target)
            known = name[1] == "NAME" or (ROOT / f"experiments/{name[1]}.toml").exists() if name else target in TARGETS
            if re.fullmatch(r"[\w-]+", target) and not known:
                yield f"{line}: {target}"
    for path in re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./-]*\w)(?![\w*{{<-])", text):
        if not (ROOT / path).exists() and not re.search(r"NAME|NNNN|DIR|my-|/$", path) and not path.startswith(ELSEWHERE):
            yield path


class CommandsTest(unittest.TestCase):
    maxDiff = None

    def test_every_command_of_the_documents_exists(self):
        found = [f"{page.relative_to(ROOT)}: {problem}" for page in pages(ROOT) if page.name != "CHANGELOG.md"
                 for problem in problems(page.read_text())]
        self.assertEqual(found, [])

    def test_unknown_verbs_options_targets_and_files_are_found(self):
        text = "`oppa nothing` `oppa run --nothing` `make nothing exp-nothing`\n\n    oppa plan --gpu h100 -- --x\n\n`docs/no.md`\n"
        self.assertEqual(list(problems(text)), [
            "oppa nothing", "oppa run --nothing: --nothing", "make nothing exp-nothing: nothing", "make nothing exp-nothing: exp-nothing",
            "docs/no.md"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
