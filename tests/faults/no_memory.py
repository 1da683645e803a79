#!/usr/bin/env python3
"""Fails an allocation of a run, of its resumption, of a report, and sees that each ends in one line.

    tests/faults/no_memory.py PROGRAM [--every N] [--seed N] [--only TEXT]

Every N-th allocation (all of them by default) fails in a run, in the resumption of a run and in a
run of a program, and every 10 N-th one in a report. It fails once, or with
all later ones. Then

  1. the process has ended as if nothing had happened, with the output and the files of an
     undisturbed one, or with exit code 1 or 2 and one line on standard error that says why. It was
     not ended by a signal.
  2. trials that were on record are, and the next run ends with the records of an undisturbed one.

Allocations before main fail in the same way, each of them, in `oppa version`. The C++ library
frees a locale twice after two of them, which cannot be mended here.
"""
import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from exhaustive import ROOT, Case, Lost, Suite

PROGRAM = """
[experiment]
name = "m"
methods = ["cost-model"]
repeats = 1
[backend]
type = "command"
program = ["sh", "-c", "for i in 1 2 3; do echo 'oppa {\\"step_time_s\\": 0.1}'; done"]
[workload]
model = "workloads/qwen2-1.5b.json"
batch_size = 64
sequence_length = 1024
[cluster]
file = "clusters/a5000-8.toml"
[space]
rule_sets = ["colossalai"]
dp_bucket_mb = [16]
zero_bucket_mb = [16]
[budget]
trials = 2
q_max = 3
"""


class ProgramCase(Case):
    """A run whose times are measured: the records of two runs differ."""

    def state(self, results):
        return (results / "m/cost-model/1/trials.csv").read_bytes().count(b"\n")


def environment_of(shim, number, forever):
    environment = dict(os.environ, OPPA_THREADS="1", LD_PRELOAD=str(shim),
                       FAULT_ALLOCATION=str(number))
    if forever:
        environment["FAULT_FOREVER"] = "1"
    return environment


def check_line(struck):
    lines = [line for line in struck.stderr.splitlines() if line]
    if struck.returncode not in (0, 1, 2):
        raise Lost(f"exit code {struck.returncode}: {struck.stderr}")
    # The first one may say that a row of a trial that was not committed is dropped.
    if struck.returncode and (len(lines) not in (1, 2) or "memory" not in lines[-1]
                              or (len(lines) == 2 and "dropped" not in lines[0])):
        raise Lost(f"not one line about memory: {struck.stderr}")


def strike(case, shim, number, forever):
    """Returns the exit code."""
    case.prepare("struck")
    struck = subprocess.run(case.command(), capture_output=True, text=True, timeout=60,
                            env=environment_of(shim, number, forever), cwd=case.suite.data)
    check_line(struck)
    if struck.returncode == 0 and (struck.stdout != case.clean.stdout
                                   or case.state(case.results) != case.expected):
        raise Lost(f"other output or files, with exit code 0: {struck.stdout[-600:]}")
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
    subprocess.run(case.command(), check=True, capture_output=True, cwd=case.suite.data,
                   env=dict(environment_of(shim, 0, False), FAULT_LOG=str(log)))
    return int(log.read_text())


def strike_case(case, shim, log, every, rng):
    """Prints a row and returns how many strikes were not survived."""
    allocations = count(case, shim, log)
    ends = collections.Counter()
    lost = 0
    for turn, number in enumerate(range(rng.randint(1, every), allocations + 1, every)):
        try:
            ends[strike(case, shim, number, forever=turn % 2 == 1)] += 1
        except (Lost, subprocess.TimeoutExpired) as error:
            lost += 1
            print(f"no_memory: {case.name}: allocation {number}: {error}", file=sys.stderr)
    print(f"{case.name:10} {allocations:12} {sum(ends.values()) + lost:7} {ends[0]:10} "
          f"{ends[1] + ends[2]:6}", flush=True)
    return lost


def strike_libraries(program, shim, every):
    """The allocations before main: the C++ library itself may end the program there."""
    lost = struck = aborted = 0
    for number in itertools.count(every, every):
        environment = environment_of(shim, number, forever=True)
        ended = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60,
                               env=dict(environment, FAULT_BEFORE_MAIN="1"))
        if ended.returncode == 0:
            break
        struck += 1
        if ended.returncode == -signal.SIGABRT:
            aborted += 1
            continue
        try:
            check_line(ended)
        except Lost as error:
            lost += 1
            print(f"no_memory: libraries: allocation {number}: {error}", file=sys.stderr)
    print(f"{'libraries':10} {number - 1:12} {struck:7} {0:10} {struck - lost - aborted:6}", flush=True)
    if aborted > 5:
        sys.exit(f"no_memory: libraries: {aborted} ended by SIGABRT")
    return lost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the case with this name")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="oppa-memory-"))
    shim = work / "faulty_malloc.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", shim,
                    ROOT / "tests/faults/faulty_malloc.c", "-ldl"], check=True)
    program = arguments.program.resolve()
    suite = Suite(program, work)
    manifest = suite.data / "program.toml"
    manifest.write_text(PROGRAM)
    cases = [case for case in suite.cases if case.name in ("run", "resume", "report")]
    cases.append(ProgramCase("program", suite, ["run-one", manifest, "--method", "cost-model",
                                                "--repeat", "1"], None))
    rng = random.Random(arguments.seed)
    lost = 0
    print(f"{'command':10} {'allocations':>12} {'failed':>7} {'unnoticed':>10} {'named':>6}")
    if arguments.only in "libraries":
        lost += strike_libraries(program, shim, arguments.every)
    for case in cases:
        if arguments.only in case.name:
            every = arguments.every * (10 if case.name == "report" else 1)
            lost += strike_case(case, shim, work / "count", every, rng)
    if lost:
        sys.exit(f"no_memory: {lost} were not survived; see {work}")
    shutil.rmtree(work)


main()
