#!/usr/bin/env python3
"""Time and memory of plan, status and report on a matrix of 10,000 runs.

    benchmarks/matrix.py PROGRAM [RUNS]

The smoke experiment is run with a few repeats; these are copied until there are
as many runs as asked for, so that reading costs what it would after weeks of
computing. The target is 5 s and 500 MB for each.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METHODS = 4
REAL_REPEATS = 3


def measure(words):
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"matrix: {words[1]} failed")
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begin, cpu_s, usage.ru_maxrss / 1024, output


def copy(experiment, repeats):
    for method in (m for m in experiment.iterdir() if m.is_dir() and m.name != "figures"):
        for repeat in range(REAL_REPEATS + 1, repeats + 1):
            source = (repeat - 1) % REAL_REPEATS + 1
            shutil.copytree(method / str(source), method / str(repeat))
            info = method / str(repeat) / "run.json"
            text = info.read_text().replace(f'"repeat": {source},', f'"repeat": {repeat},')
            info.write_text(re.sub(r',\s*"check": "\w+"', "", text))


def main():
    program = str(Path(sys.argv[1]).resolve())
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    manifest = str(ROOT / "experiments/smoke.toml")
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="oppa-matrix-", dir=folder) as results:
        common = [manifest, "--results", results]
        subprocess.run([program, "run", *common, "--repeats", str(REAL_REPEATS), "--no-report"],
                       stdout=subprocess.DEVNULL, check=True)
        copy(Path(results) / "smoke", runs // METHODS)
        matrix = [*common, "--repeats", str(runs // METHODS)]
        # This records the number of repeats in experiment.json; there is
        # nothing left to run.
        subprocess.run([program, "run", *matrix, "--no-report"], stdout=subprocess.DEVNULL, check=True)
        for name, words in (("matrix", matrix), ("status", matrix), ("report", common)):
            wall_s, cpu_s, peak_mb, output = measure([program, name, *words])
            if name == "status" and f"{runs} of {runs} runs done" not in output:
                sys.exit("matrix: not all runs are done:\n" + output)
            print(f"{runs} runs, {name}: {wall_s:.2f} s ({cpu_s:.2f} s of CPU), {peak_mb:.0f} MB", flush=True)


main()
