#!/usr/bin/env python3
"""Fails an allocation of a small run, and sees that it ends in one line.

    tests/faults/no_memory.py PROGRAM [--every N] [--seed N]

Every N-th allocation of a run (all of them by default) fails, once, or with all later ones. Then

  1. the process has ended as if nothing had happened, or with exit code 1 or 2 and one line on
     standard error. It was not ended by a signal.
  2. trials that were on record are, and the next run ends with the records of an undisturbed one.
"""
import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from exhaustive import ROOT, Case, Lost, Suite


def strike(case, shim, number, forever):
    """Returns the exit code."""
    case.prepare("struck")
    environment = dict(os.environ, OPPA_THREADS="1", LD_PRELOAD=str(shim),
                       FAULT_ALLOCATION=str(number))
    if forever:
        environment["FAULT_FOREVER"] = "1"
    struck = subprocess.run([case.suite.program, *case.words[:-1], case.results],
                            capture_output=True, text=True, env=environment, timeout=60,
                            cwd=case.suite.data)
    lines = [line for line in struck.stderr.splitlines() if line]
    if struck.returncode not in (0, 1, 2):
        raise Lost(f"exit code {struck.returncode}: {struck.stderr}")
    if struck.returncode and (len(lines) != 1 or "memory" not in lines[0]):
        raise Lost(f"not one line about memory: {struck.stderr}")
    before = case.rows()
    again = case.again()
    if again.returncode != 0:
        raise Lost(f"cannot be run again: {again.stderr}")
    if case.rows()[:len(before)] != before:
        raise Lost("trials that were on record are gone or were done again")
    if case.state(case.results) != case.expected:
        raise Lost("other records after the next run")
    return struck.returncode


def count(case, shim, log):
    case.prepare("count")
    log.write_text("")
    subprocess.run([case.suite.program, *case.words[:-1], case.results], check=True,
                   capture_output=True, cwd=case.suite.data,
                   env=dict(os.environ, OPPA_THREADS="1", LD_PRELOAD=str(shim),
                            FAULT_ALLOCATION="0", FAULT_LOG=str(log)))
    return int(log.read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="oppa-memory-"))
    shim = work / "faulty_malloc.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", shim,
                    ROOT / "tests/faults/faulty_malloc.c", "-ldl"], check=True)
    suite = Suite(arguments.program.resolve(), work)
    case: Case = suite.cases[0]
    allocations = count(case, shim, work / "count")
    first = random.Random(arguments.seed).randint(1, arguments.every)
    ends = collections.Counter()
    failures = 0
    for turn, number in enumerate(range(first, allocations + 1, arguments.every)):
        try:
            ends[strike(case, shim, number, forever=turn % 2 == 1)] += 1
        except (Lost, subprocess.TimeoutExpired) as lost:
            failures += 1
            print(f"no_memory: allocation {number}: {lost}", file=sys.stderr)
    print(f"no_memory: {sum(ends.values()) + failures} of {allocations} allocations failed: "
          f"{ends[0]} times unnoticed, {ends[1] + ends[2]} times named")
    if failures:
        sys.exit(f"no_memory: {failures} were not survived; see {work}")
    shutil.rmtree(work)


main()
