#!/usr/bin/env python3
"""Speed of the simulator next to its targets, from the output of `make bench`.

    benchmarks/simulator.py build/benchmarks.json

Prints configurations per CPU second for the spaces of Fig. 4 (target: 400,000)
and the time of one configuration alone on 8 to 16,384 GPUs (target: at most
twice that on 8). A ratio below 1, or above 2, is a regression or a slow machine:
compare with the same command at an earlier commit.
"""
import json
import sys
from pathlib import Path

TARGET_PER_S = 400_000
TARGET_GROWTH = 2.0


def main():
    runs = json.loads(Path(sys.argv[1]).read_text())["benchmarks"]
    print(f"{'space':<20}{'PCs per CPU s':>15}{'over the target':>17}")
    for run in runs:
        if run["name"].startswith("WholeSpace/"):
            rate = run["items_per_second"]
            print(f"{run['name'].split('/')[1]:<20}{rate:>15,.0f}{rate / TARGET_PER_S:>17.2f}")
    alone = {int(run["name"].split("/")[1]): run["cpu_time"]
             for run in runs if run["name"].startswith("Alone/")}
    print(f"\n{'GPUs':<20}{'us alone':>15}{'over 8 GPUs':>17}  (target: at most {TARGET_GROWTH})")
    for gpus, time_ns in sorted(alone.items()):
        print(f"{gpus:<20,}{time_ns / 1e3:>15.1f}{time_ns / alone[min(alone)]:>17.2f}")


if __name__ == "__main__":
    main()
