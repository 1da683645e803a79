#!/usr/bin/env python3
"""Plants links at every name that a verb writes, and looks whether anything outside of the results changes.

Each verb runs once; what it wrote is listed, files and folders. Then, for each of these names and each kind of link, the
verb runs where that name is taken: before its first run, and where it has run. It may succeed or refuse; it may not write
outside, wait, or crash. `oppa check` then passes on what the first, undisturbed run left.

usage: planted_links.py PROGRAM [--every N]   only each N-th case
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from small_experiment import copy_experiments, manifest_text

TRAIN = """#!/bin/sh
for i in 1 2 3 4 5 6; do echo "took 0.1${i}1 s"; done
"""
ASKS = '{"op": "ask"}\n{"op": "tell", "trial": 1, "step_times_s": [1.0, 1.0, 1.0]}\n'
TUNE = ("tune", "--model", "workloads/tiny-qwen2.json", "--gpus", "1x4", "--gpu", "a5000", "--batch", "16", "--seq", "64",
        "--trials", "2", "--minutes", "1", "--steps", "3", "--start", "dp=4", "--step-time", "took.([0-9.]+)", "--", "./train.sh",
        "--accumulate", "{microbatches}", "--api-key", "s3cr3t-value", "--hub-token=s3cr3t-value")
# Verb: its commands, the standard input of the last one, the folders in which it may write.
VERBS = {
    "run": ([("run", "m.toml", "--no-report")], "", ["results"]),
    "report": ([("run", "m.toml", "--no-report"), ("report", "m.toml", "--figures", "trials")], "", ["results"]),
    "joint": ([("run", "m.toml", "--no-report"), ("run", "n.toml", "--no-report"),
               ("report", "m.toml", "--with", "n.toml")], "", ["results"]),
    "page": ([("run", "m.toml", "--no-report"), ("page", "m.toml")], "", ["results"]),
    "page of a folder": ([("run", "m.toml", "--no-report"), ("page", "results/m")], "", ["results"]),
    "import": ([("run", "m.toml", "--no-report"), ("import", "n.toml", "results/m/random/1/trials.csv")], "", ["results"]),
    "serve": ([("serve", "c.toml")], ASKS, ["oppa-results"]),
    "program": ([("run", "p.toml", "--no-report")], "", ["results"]),
    "tune": ([TUNE], "", ["oppa-results"]),
    "validate": ([("validate", "vtrain")], "", ["results"]),
    "claims": ([("claims",)], "", ["results"]),
}
TEXT = "mine\n"


def kinds(outside, depth):
    """What is planted: functions of the path."""
    up = "../" * depth
    return {
        "link to a file": lambda path: path.symlink_to(outside / "file"),
        "link to a folder": lambda path: path.symlink_to(outside / "folder"),
        "link to nothing": lambda path: path.symlink_to(outside / "new"),
        "link upwards": lambda path: path.symlink_to(up + "outside/folder"),
        "link upwards to a file": lambda path: path.symlink_to(up + "outside/file"),
        "hard link": lambda path: os.link(outside / "file", path),
        "FIFO": lambda path: os.mkfifo(path),
    }


class Suite:
    def __init__(self, program, folder):
        self.program = Path(program).resolve()
        self.folder = Path(folder)
        self.blank = self.folder / "blank"
        self.blank.mkdir()
        copy_experiments(self.blank)
        backend = '[backend]\ntype = "simulator"'
        text = manifest_text("random", 2, 3)
        command = '[backend]\ntype = "command"\nprogram = ["./train.sh"]\n[backend.log]\nstep_time_s = "took.([0-9.]+)"'
        for name, manifest in {
            "m": text,
            "n": text.replace('name = "m"', 'name = "n"'),
            "c": text.replace(backend, '[backend]\ntype = "client"'),
            "p": text.replace(backend, command).replace("sequence_length = 1024", "sequence_length = 64"),
        }.items():
            (self.blank / f"{name}.toml").write_text(manifest)
        (self.blank / "train.sh").write_text(TRAIN)
        (self.blank / "train.sh").chmod(0o755)

    def execute(self, work, verb):
        """The results of the commands; stops at the first that hangs."""
        commands, text, _ = VERBS[verb]
        results = []
        for number, words in enumerate(commands):
            results.append(subprocess.run([self.program, *words], cwd=work, capture_output=True, text=True, timeout=120,
                                          input=text if number + 1 == len(commands) else "", errors="replace",
                                          env={**os.environ, "TMPDIR": str(work / "tmp"), "OPPA_DATA": ""}))
        return results

    def place(self, name, source=None):
        """A folder with what is outside, and a copy of `source` to work in."""
        place = self.folder / name
        shutil.copytree(source or self.blank, place / "work", symlinks=True)
        (place / "work/tmp").mkdir(exist_ok=True)
        (place / "outside/folder/sub").mkdir(parents=True)
        for file in ("file", "folder/file", "folder/run.json", "folder/sub/file"):
            (place / "outside" / file).write_text(TEXT)
        return place

    def attack(self, case):
        """What went wrong; "" if nothing did."""
        number, verb, name, kind, after = case
        place = self.place(f"case-{number}", after)
        outside, path = place / "outside", place / "work" / name
        before = state(outside)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        kinds(outside, len(Path(name).parts))[kind](path)
        try:
            results = self.execute(place / "work", verb)
        except subprocess.TimeoutExpired:
            return "it waits"
        changed = state(outside) != before
        crashed = [r.returncode for r in results if r.returncode < 0 or r.returncode > 128]
        said = [r.stderr.strip()[-200:] for r in results if "terminate called" in r.stderr]
        shutil.rmtree(place)
        return "it wrote outside" if changed else f"it crashed: {crashed} {said}" if crashed or said else ""


def state(folder):
    return {str(path.relative_to(folder)): (path.read_text() if path.is_file() else "", path.lstat().st_mode)
            for path in sorted(folder.rglob("*"))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--verb", choices=VERBS, action="append")
    options = parser.parse_args()
    failures, cases = [], []
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(options.program, folder)
        for verb in options.verb or VERBS:
            place = suite.place(f"clean-{verb.replace(' ', '-')}")
            results = suite.execute(place / "work", verb)
            if any(r.returncode != 0 for r in results):
                sys.exit(f"planted_links: {verb}: {[(r.returncode, r.stderr[-400:]) for r in results]}")
            roots = VERBS[verb][2]
            written = [path.relative_to(place / "work") for root in roots for path in sorted((place / "work" / root).rglob("*"))]
            if not written:
                sys.exit(f"planted_links: {verb} wrote nothing")
            for root in roots:
                check = subprocess.run([suite.program, "check", root], cwd=place / "work", capture_output=True, text=True)
                if check.returncode != 0:
                    failures.append(f"{verb}: check after an undisturbed run: {check.stdout}{check.stderr}")
                secrets = [str(path) for path in (place / "work" / root).rglob("*") if path.is_file()
                           and "s3cr3t-value" in path.read_text(errors="replace")]
                known = ("best.sh", "tune.toml")
                failures += [f"{verb}: {path} has the secret" for path in secrets if not path.endswith(known)]
                failures += [f"{verb}: {path} can be read by others" for path in secrets
                             if Path(path).stat().st_mode & 0o077]
            for name in written:
                for kind in kinds(Path("x"), 1):
                    for after in (None, place / "work"):
                        cases.append((len(cases), verb, str(name), kind, after))
        chosen = cases[::options.every]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case, failure in zip(chosen, pool.map(suite.attack, chosen)):
                if failure:
                    failures.append(f"{case[1]}: {case[3]} at {case[2]}{' after a run' if case[4] else ''}: {failure}")
    print("\n".join(failures) or f"planted_links: ok, {len(chosen)} links at the names that {len(options.verb or VERBS)} verbs write")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
