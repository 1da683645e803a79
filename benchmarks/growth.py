#!/usr/bin/env python3
"""What long searches and large folders cost: CPU seconds, and peak memory in MB.

    benchmarks/growth.py PROGRAM

  tell         of `oppa serve`, method random, a mean over the trials around that number
  suggestion   of `oppa serve`, method oppa, after this number of imported trials: the first one, which fits, and the next
  import       of this number of trials
  page         of these
  check        of a results folder with this number of other files
  space        of this number of candidates
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = """[experiment]
title = "Growth"
repeats = 1
methods = ["{method}"]
[backend]
type = "client"
[workload]
model = "{root}/experiments/workloads/qwen2-1.5b.json"
batch_size = 512
sequence_length = 1024
[cluster]
file = "{root}/experiments/clusters/h100-infiniband.toml"
gpus = 64
[space]
rule_sets = ["colossalai", "paper"]
custom.prefetch = [{prefetch}]
[budget]
time_minutes = 1e7
q_max = 3
"""


def manifest(folder, method="random", values=4):
    path = folder / f"{method}-{values}.toml"
    path.write_text(MANIFEST.format(root=ROOT, method=method, prefetch=", ".join(map(str, range(1, values + 1)))))
    return path


def measured(words):
    """The output of a command, its CPU seconds and its peak memory."""
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"growth: {' '.join(map(str, words))} failed")
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def show(case, size, cpu_s, peak_mb):
    print(f"{case:24} {size:>9,} {cpu_s:12.5f} s {peak_mb:8.0f} MB", flush=True)


class Server:
    """`oppa serve`."""

    def __init__(self, program, path, results):
        self.process = subprocess.Popen([program, "serve", path, "--results", results], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.answer()

    def answer(self):
        found = json.loads(self.process.stdout.readline())
        return found if "error" not in found else sys.exit(f"growth: {found['error']}")

    def request(self, **fields):
        self.process.stdin.write(json.dumps(fields) + "\n")
        return self.answer()

    def tell(self, trial):
        self.request(op="tell", trial=trial["number"], outcome="completed", peak_memory_bytes=1e10, duration_s=5,
                     step_times_s=[step_time(trial["config"])] * 3)

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def step_time(config):
    """A smooth function, so that a surrogate has something to learn."""
    return 1 + abs(math.log(int(config["tp"])) - 1) + 0.3 * abs(math.log(int(config["microbatches"])) - 1.5) + \
        0.5 * math.log(int(config["pp"]) + 1) + 0.05 * int(config["prefetch"])


def tells(program, folder):
    server = Server(program, manifest(folder), folder / "tells")
    span = 500
    at = (1000, 5000, 20000)
    for number in range(1, at[-1] + 1):
        if number + span - 1 in at:
            begin_s = server.cpu_s()
        server.tell(server.request(op="ask")["trial"])
        if number in at:
            show("tell", number, (server.cpu_s() - begin_s) / span, server.peak_mb())
    server.close()


def table(program, folder, count):
    """A table of `count` trials in every part of the space."""
    text, *_ = measured([program, "space", manifest(folder), "--csv"])
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    path = folder / f"{count}.csv"
    with path.open("w", newline="", encoding="ascii") as file:
        out = csv.writer(file)
        names = [name for name in rows[0] if name not in ("candidate", "label")]
        out.writerow([*names, "step_time_s"])
        for row in rows[::len(rows) // count][:count]:
            out.writerow([row[name] for name in names] + [f"{step_time(row):.4f}"])
    return path


def suggestions(program, folder):
    for count in (200, 500, 1000, 2000, 5000):
        path, results = manifest(folder, "oppa"), folder / f"oppa-{count}"
        measured([program, "import", path, table(program, folder, count), "--results", results])
        server = Server(program, path, results)
        for name in ("suggestion, first", "suggestion, next"):
            begin_s = server.cpu_s()
            trial = server.request(op="ask")["trial"]
            show(name, count, server.cpu_s() - begin_s, server.peak_mb())
            server.tell(trial)
        server.close()


def folders(program, folder):
    path, results = manifest(folder), folder / "folders"
    rows = table(program, folder, 5000)
    _, *cost = measured([program, "import", path, rows, "--results", results])
    show("import", 5000, *cost)
    _, *cost = measured([program, "page", path, "--results", results])
    show("page", 5000, *cost)
    for number in range(100_000):
        (results / f"{number}.txt").touch()
    _, *cost = measured([program, "check", results])
    show("check", 100_000, *cost)
    text, *cost = measured([program, "space", manifest(folder, values=120)])
    show("space", int(text.split(" configurations")[0].split()[-1]), *cost)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program", type=Path)
    program = parser.parse_args().program.resolve()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="oppa-growth-", dir=memory) as folder:
        for case in (tells, folders, suggestions):
            case(program, Path(folder))


main()
