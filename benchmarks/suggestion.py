#!/usr/bin/env python3
"""Times suggestions and prints a table: medians, minima, CPU, memory, ratios.

    benchmarks/suggestion.py suggestion [--rounds 5] [--threads 2]
    benchmarks/suggestion.py growth [--out build/growth] [--most-observations 400]
                                    [--most-candidates 10000000]

Every case runs in a process of its own (for its peak memory), the cases in
turns (so that other load meets them alike). CPU seconds are those of all
threads: they vary less than the clock where the machine is shared.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build/release/benchmarks"
CASES = {
    "floor": "floor: bare kernel, this machine only, -Ofast",
    "ucb": "one process, likelihood alone, 5 starts",
    "ucb-1": "one process, likelihood alone, 1 start",
    "ucb-map": "one process, priors, 10 starts",
    "oppa": "two processes, 35 coefficients, 10 starts, cUCB",
    "oppa-sim": "the same of logarithms, with predictions as means",
    "oppa-append": "oppa without refitting",
}
# Seconds of the clock with two threads at n = 50, and megabytes.
TARGETS = {("oppa", 100_000): 0.150, ("oppa", 1_000_000): 1.2}
FLOOR_RATIO = 1.5
PEAK_MB = 1000


def run(case, n, candidates, threads, repeats):
    """The rows that a benchmark program prints for one case."""
    program = PROGRAMS / ("floor_benchmark" if case == "floor" else "suggestion_benchmark")
    command = [program, "--case", case, "--n", n, "--candidates", candidates,
               "--threads", threads, "--repeats", repeats]
    output = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


def summarize(rows):
    """Median and minimum of what was timed, the most memory."""
    def seconds(key, of):
        return of(row[key] for row in rows)
    return {
        "wall_median": seconds("wall_s", statistics.median),
        "wall_min": seconds("wall_s", min),
        "cpu_median": seconds("cpu_s", statistics.median),
        "fit_median": seconds("fit_s", statistics.median),
        "peak_mb": max(row["peak_mb"] for row in rows),
        "evaluations": rows[-1]["evaluations"],
    }


def machine():
    """The processor and how busy it is, for the head of a table."""
    name = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{name}, {os.cpu_count()} cores, load {load}"


def milliseconds(seconds):
    return f"{1e3 * seconds:.1f}"


def measure(cases, n, candidates, threads, rounds, repeats=3):
    """{case: summary}; the first repeat of every process warms up."""
    rows = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            rows[case] += run(case, n, candidates, threads, repeats + 1)[1:]
    return {case: summarize(rows[case]) for case in cases}


def print_table(summaries):
    print(f"{'':10} {'candidates':>10} {'wall ms':>9} {'(min)':>9} {'CPU ms':>9} {'fit ms':>8} {'peak MB':>8}")
    for (case, candidates), s in summaries.items():
        print(f"{case:10} {candidates:10d} {milliseconds(s['wall_median']):>9} {milliseconds(s['wall_min']):>9} "
              f"{milliseconds(s['cpu_median']):>9} {milliseconds(s['fit_median']):>8} {s['peak_mb']:8.0f}")


def judge(what, value, limit, unit):
    print(f"  {'met   ' if value <= limit else 'MISSED'} {what}: {value:.3g} {unit}, at most {limit:g}")


def judge_floor(n, summaries):
    for candidates in (100_000, 1_000_000):
        ours, floor = summaries["ucb", candidates], summaries["floor", candidates]
        for key, name in (("wall_median", "median wall"), ("wall_min", "least wall"), ("cpu_median", "median CPU")):
            judge(f"n = {n}, {name} over the floor, {candidates} candidates", ours[key] / floor[key], FLOOR_RATIO, "times")


def suggestion(arguments):
    print(f"{arguments.threads} threads, {arguments.rounds} rounds of 3; {machine()}")
    for case in ("floor", "ucb", "oppa", "oppa-sim"):
        print(f"  {case:6} {CASES[case]}")
    for n, cases in ((200, ("floor", "ucb")), (50, ("floor", "ucb", "oppa", "oppa-sim"))):
        summaries = {}
        for candidates in (100_000, 1_000_000):
            found = measure(cases, n, candidates, arguments.threads, arguments.rounds)
            summaries.update({(case, candidates): s for case, s in found.items()})
        print(f"n = {n}")
        print_table(summaries)
        judge_floor(n, summaries)
    for (case, candidates), limit in TARGETS.items():
        judge(f"{case}, {candidates} candidates, median wall", summaries[case, candidates]["wall_median"], limit, "s")
    for candidates in (100_000, 1_000_000):
        judge(f"oppa-sim over oppa, {candidates} candidates, median wall",
              summaries["oppa-sim", candidates]["wall_median"] / summaries["oppa", candidates]["wall_median"], 1.0, "times")
    judge("peak memory", max(s["peak_mb"] for s in summaries.values()), PEAK_MB, "MB")


def run_warm(case, n, candidates, threads):
    """Repeats without the first, which warms up; one of seconds needs no warming."""
    if n >= 400 or candidates >= 10**7:
        return run(case, n, candidates, threads, 1)
    return run(case, n, candidates, threads, 3 if n >= 200 or candidates >= 10**6 else 6)[1:]


def growth(arguments):
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    print(f"{arguments.threads} threads; {machine()}")
    axes = {
        "observations": [(n, 100_000) for n in (10, 20, 50, 100, 200, 400) if n <= arguments.most_observations],
        "candidates": [(50, 10**power) for power in range(3, 8) if 10**power <= arguments.most_candidates],
    }
    for axis, points in axes.items():
        with open(out / f"{axis}.csv", "w", newline="", encoding="ascii") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["case", "n", "candidates", "wall_s", "cpu_s", "fit_s", "peak_mb"])
            for case in ("ucb", "oppa", "oppa-append"):
                for n, candidates in points:
                    s = summarize(run_warm(case, n, candidates, arguments.threads))
                    row = [case, n, candidates, *(f"{s[key]:.6f}" for key in ("wall_median", "cpu_median", "fit_median")),
                           f"{s['peak_mb']:.0f}"]
                    table.writerow(row)
                    print(*row, flush=True)
                file.write("\n\n")  # an index for gnuplot
    subprocess.run(["gnuplot", "-e", f"folder='{out}'", ROOT / "benchmarks/growth.gp"], check=True)
    print(f"figure: {out}/growth.svg, {out}/growth.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("suggestion", "growth"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="build/growth")
    parser.add_argument("--most-observations", type=int, default=400)
    parser.add_argument("--most-candidates", type=int, default=10_000_000)
    arguments = parser.parse_args()
    (suggestion if arguments.what == "suggestion" else growth)(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
