#!/usr/bin/env python3
"""Strikes each system call of oppa on its files, one after the other.

    tests/faults/exhaustive.py PROGRAM [--every N] [--only TEXT]

The calls of a run, of the resumption of a run, of a report, of `oppa check`, `status` and `fits`
are counted (faulty_calls.c). Then each of them fails with EIO, fails with ENOSPC, transfers half of
its bytes, or is preceded by kill -9, in a process of its own. After each strike:

  1. the process has said that all is well, and its output and files are those of an undisturbed
     process; or it has ended with exit code 1 or 2 and one line on standard error, with the name of
     a file or folder; or it was the one that was killed.
  2. trials that were on record still are, and were not done again: their rows in thinking.csv hold
     times that never repeat.
  3. the same command, undisturbed, ends with the same records and output as if nothing had
     happened. Where damage stays (a file that cannot be completed), it is named instead.

--every N strikes every N-th call only.
"""
import argparse
import collections
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from small_experiment import RECORDS, Lost, acknowledged, compile_shim, copy_experiments, manifest_text

TRIALS = 4
MANIFEST = manifest_text("cost-model", TRIALS, q_max=3)
KINDS = {"EIO": ("error", errno.EIO), "ENOSPC": ("error", errno.ENOSPC),
         "short": ("short", 0), "kill": ("kill", 0)}
WRITES = {"write", "pwrite", "open", "open64", "openat", "mkdirat", "renameat", "linkat", "fsync",
          "fdatasync", "ftruncate"}
BYTES = {"read", "pread", "write", "pwrite"}


RESULTS = object()  # in the words of a command: its results folder


class Case:
    """A command on a folder with results, which is a copy of `before`."""

    def __init__(self, name, suite, words, before, output=()):
        self.name, self.suite, self.before = name, suite, before
        self.words = words if RESULTS in words else [*words, "--results", RESULTS]
        self.output = output  # files below the results that the command writes, beside records
        self.clean = self.execute("clean")
        if self.clean.returncode != 0:
            sys.exit(f"exhaustive: {name}: the undisturbed command fails: {self.clean.stderr}")
        self.expected = self.state(self.results)

    def prepare(self, label):
        self.results = self.suite.data / f"r-{self.name}"
        shutil.rmtree(self.results, ignore_errors=True)
        if self.before:
            shutil.copytree(self.before, self.results)

    def execute(self, label, **fault):
        self.prepare(label)
        return self.again(**fault)

    def again(self, **fault):
        environment = dict(os.environ, OPPA_THREADS="1")
        if fault:
            environment.update(LD_PRELOAD=str(self.suite.shim), FAULT_PATH=str(self.suite.data),
                               FAULT_LOG=str(self.suite.log), **fault)
        return subprocess.run(self.command(), capture_output=True, text=True, env=environment,
                              timeout=60, cwd=self.suite.data)

    def command(self):
        return [self.suite.program,
                *(self.results if word == RESULTS else word for word in self.words)]

    def state(self, results):
        files = [results / "m/cost-model/1" / name for name in RECORDS]
        files += [results / "m" / name for name in self.output]
        return {file.name: file.read_bytes() if file.exists() else None for file in files}

    def rows(self):
        return acknowledged(self.results / "m/cost-model/1")

    def calls(self):
        self.suite.log.write_text("")
        counted = self.execute("count", FAULT_CALL="0")
        if counted.returncode != 0:
            sys.exit(f"exhaustive: {self.name}: {counted.stderr}")
        return [line.split(" ", 1) for line in self.suite.log.read_text().splitlines()]

    def strike(self, number, kind):
        mode, error = KINDS[kind]
        self.suite.log.write_text("")
        struck = self.execute("struck", FAULT_CALL=str(number), FAULT_KIND=mode,
                              FAULT_ERRNO=str(error))
        if len(self.suite.log.read_text().splitlines()) < number:
            raise Lost("the calls differ from those that were counted")
        if kind == "kill":
            if struck.returncode != -9:
                raise Lost(f"was not killed, but ended with {struck.returncode}")
        elif struck.returncode == 0:
            if struck.stdout != self.clean.stdout:
                raise Lost(f"other output, with exit code 0: {struck.stdout[-600:]}")
            if self.state(self.results) != self.expected:
                raise Lost("other files, with exit code 0")
        else:
            self.check_complaint(struck)
        before = self.rows()
        again = self.again()
        if self.rows()[:len(before)] != before:
            raise Lost("trials that were on record are gone or were done again")
        if again.returncode != 0:
            raise Lost(f"cannot be run again: {again.stderr}")
        if self.state(self.results) != self.expected:
            raise Lost("other files after the next run")
        if again.stdout != self.clean.stdout:
            raise Lost(f"other output of the next run: {again.stdout[-600:]}")
        return struck.returncode

    def check_complaint(self, struck):
        lines = [line for line in struck.stderr.splitlines() if line]
        if struck.returncode not in (1, 2):
            raise Lost(f"exit code {struck.returncode}: {struck.stderr}")
        if not lines or len(lines) > 2:
            raise Lost(f"{len(lines)} lines: {struck.stderr}")
        if not re.search(r"/|\.(csv|json|toml)", struck.stderr):
            raise Lost(f"no file is named: {struck.stderr}")


class Suite:
    def __init__(self, program, work):
        self.program = program
        self.data = work / "struck-files"
        self.data.mkdir()
        copy_experiments(self.data)
        self.manifest = self.data / "m.toml"
        self.manifest.write_text(MANIFEST)
        self.log = work / "calls"
        self.shim = compile_shim("faulty_calls", work)
        self.finished, self.half = work / "finished", work / "half"
        one = ["run-one", self.manifest, "--method", "cost-model", "--repeat", "1"]
        all_runs = ["run", self.manifest, "--no-report", "--jobs", "1"]
        self.make(self.finished, all_runs)
        self.make_half(one, work)
        report = ["report", self.manifest, "--figures", "throughput-time"]
        written = ["summary.csv", "summary.md", "comparison.csv",
                   "figures/throughput-time.csv", "figures/throughput-time.gp"]
        self.cases = [
            Case("run", self, one, None),
            Case("resume", self, one, self.half),
            Case("matrix", self, all_runs, self.finished),
            Case("report", self, report, self.finished, written),
            Case("status", self, ["status", self.manifest], self.finished),
            Case("check", self, ["check", RESULTS], self.finished),
        ]

    def make(self, results, words):
        subprocess.run([self.program, *words, "--results", results], check=True,
                       capture_output=True)

    def make_half(self, one, work):
        """A run that was killed while its third trial was written."""
        for number in range(1, 1000):
            shutil.rmtree(self.half, ignore_errors=True)
            subprocess.run([self.program, *one, "--results", self.half], capture_output=True,
                           env=dict(os.environ, LD_PRELOAD=str(self.shim),
                                    FAULT_PATH=str(self.half), FAULT_CALL=str(10 * number),
                                    FAULT_KIND="kill", FAULT_LOG="/dev/null"))
            trials = self.half / "m/cost-model/1/trials.csv"
            if trials.exists() and trials.read_bytes().count(b"\n") >= 4:
                return
        sys.exit("exhaustive: no run was interrupted")


def kinds_for(call):
    for kind in KINDS:
        if (kind != "ENOSPC" or call in WRITES) and (kind != "short" or call in BYTES):
            yield kind


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="", help="the case with this name")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="oppa-exhaustive-"))
    suite = Suite(arguments.program.resolve(), work)
    counts = collections.Counter()
    failures = 0
    print(f"{'command':10} {'calls':>6} {'struck':>7} {'unnoticed':>10} {'named':>6} {'killed':>7}")
    for case in suite.cases:
        if arguments.only not in case.name:
            continue
        calls = case.calls()
        if not calls:
            sys.exit(f"exhaustive: {case.name}: no call was seen; the program must have the name 'oppa'")
        ends = collections.Counter()
        for number, (call, path) in enumerate(calls, 1):
            if number % arguments.every:
                continue
            for kind in kinds_for(call):
                try:
                    code = case.strike(number, kind)
                    ends["killed" if code < 0 else "named" if code else "unnoticed"] += 1
                except (Lost, subprocess.TimeoutExpired) as lost:
                    failures += 1
                    print(f"exhaustive: {case.name}: {kind} at call {number}, {call} "
                          f"{path.replace(str(suite.data), '')}: {lost}", file=sys.stderr)
                ends["struck"] += 1
        print(f"{case.name:10} {len(calls):6} {ends['struck']:7} {ends['unnoticed']:10} "
              f"{ends['named']:6} {ends['killed']:7}", flush=True)
        counts.update(ends)
    print(f"{'all':10} {'':6} {counts['struck']:7} {counts['unnoticed']:10} "
          f"{counts['named']:6} {counts['killed']:7}")
    if failures:
        sys.exit(f"exhaustive: {failures} of {counts['struck']} strikes were not survived")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
