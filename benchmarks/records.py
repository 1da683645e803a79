#!/usr/bin/env python3
"""CPU time of recording and of reading records, next to an earlier version of the program.

    benchmarks/records.py PROGRAM [PEER] [--runs N] [--repetitions N]

Each program makes its own records: runs of the smoke experiment, copied until there are --runs.
The medians over --repetitions of CPU seconds (user and system, with child processes) of

  trial     one trial of `oppa run-one`, method random: suggestion, simulation and journal
  run       `oppa run` on the finished runs
  status    of these
  report    of these, with one figure

are printed. The programs take turns, so that other load hits both.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METHODS = 4
REAL_REPEATS = 3
TRIALS = 200


def cpu_s(words, environment):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"records: {' '.join(map(str, words))} failed")
    return usage.ru_utime + usage.ru_stime


class Records:
    """The records that one program makes."""

    def __init__(self, program, folder, runs):
        self.program, self.folder = program, folder
        manifest = str(ROOT / "experiments/smoke.toml")
        self.manifest = manifest
        self.environment = dict(os.environ, OPPA_THREADS="1")
        results = folder / "results"
        subprocess.run([program, "run", manifest, "--results", results, "--repeats",
                        str(REAL_REPEATS), "--no-report"], stdout=subprocess.DEVNULL, check=True)
        repeats = runs // METHODS
        for method in (m for m in (results / "smoke").iterdir() if m.is_dir()):
            for repeat in range(REAL_REPEATS + 1, repeats + 1):
                source = (repeat - 1) % REAL_REPEATS + 1
                shutil.copytree(method / str(source), method / str(repeat))
                info = method / str(repeat) / "run.json"
                text = info.read_text().replace(f'"repeat": {source},', f'"repeat": {repeat},')
                info.write_text(re.sub(r',\s*"check": "\w+"', "", text))
        self.all = [manifest, "--results", str(results), "--repeats", str(repeats)]
        self.measure("run")  # writes experiment.json

    def measure(self, case):
        if case == "trial":
            results = self.folder / "trial"
            shutil.rmtree(results, ignore_errors=True)
            return cpu_s([self.program, "run-one", self.manifest, "--method", "random", "--repeat",
                          "1", "--set", f"budget.trials={TRIALS}", "--set",
                          "budget.time_minutes=100000", "--results", results],
                         self.environment) / TRIALS
        words = {"run": [*self.all, "--no-report"], "status": self.all,
                 "report": [*self.all[:3], "--figures", "throughput-time"]}[case]
        return cpu_s([self.program, case, *words], self.environment)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="oppa-records-", dir=memory) as folder:
        peers = [Records(str(Path(program).resolve()), Path(folder) / str(i), arguments.runs)
                 for i, program in enumerate(arguments.programs)]
        for case in ("trial", "run", "status", "report"):
            times = [[] for _ in peers]
            for _ in range(arguments.repetitions):
                for peer, taken in zip(peers, times):
                    taken.append(peer.measure(case))
            medians = [statistics.median(taken) for taken in times]
            print(f"{case:7}", *(f"{median:10.5f} s" for median in medians),
                  f"  {medians[0] / medians[-1]:.2f} times" if len(peers) > 1 else "", flush=True)


main()
