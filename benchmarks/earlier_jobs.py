#!/usr/bin/env python3
"""What the trials of an earlier job are worth to a search, on measured configurations.

    benchmarks/earlier_jobs.py [--repeats 3] [--oppa PROGRAM] [--results results/bench-earlier-jobs]

Searches all jobs of experiments/ultrascale.toml with `oppa`. Then it searches jobs again, with `oppa-sim` from the trials of
a search of the same model on fewer GPUs, or of the next smaller model on as many, and from the same predictions permuted
among the configurations. Writes summary.csv: of each kind of pair and search, the share of the best throughput found
after 1, 3, 5, 10 and 20 trials, with 95% intervals by bootstrap over pairs. Rerun it to resume.
"""

import argparse
import csv
import json
import pathlib
import random
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPUS = {"1b": [8, 16, 32, 64, 128, 256, 512], "8b": [8, 32, 128, 512], "80b": [32, 64, 512]}
PAIRS = [("fewer GPUs", f"{model}-{fewer}", f"{model}-{more}")
         for model, sizes in GPUS.items() for fewer, more in zip(sizes, sizes[1:])]
PAIRS += [("smaller model", f"{smaller}-{gpus}", f"{larger}-{gpus}")
          for smaller, larger in (("1b", "8b"), ("8b", "80b")) for gpus in GPUS[larger] if gpus in GPUS[smaller]]
AFTER = [1, 3, 5, 10, 20]
MANIFEST = """[experiment]
title = "{target} from {source}"
repeats = 1
methods = ["oppa-sim"]
[method.oppa-sim]
predictions = ["", "permuted"]
[backend]
type = "replay"
table = "measured/ultrascale.csv"
scenarios = ["ultrascale-{target}"]
[cluster]
file = "h100-efa"
[predictions]
from = ["{runs}"]
[predictions.permuted]
permute = true
[budget]
trials = 20
q_max = 20
"""
NAMES = {"oppa": "oppa, without predictions", "oppa-sim": "oppa-sim, from the earlier job",
         "oppa-sim-predictions-permuted": "oppa-sim, permuted"}


def found(folder, method, repeat, optimum):
    """The best share of the optimum after each number of trials in AFTER."""
    lines = (folder / method / str(repeat) / "trials.csv").read_text().splitlines()
    best = [0.0]
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        ran = row["outcome"] == "completed"
        best.append(max(best[-1], float(row["exact_steps_per_s"]) / optimum if ran else 0.0))
    return [best[min(k, len(best) - 1)] for k in AFTER]


def interval(values):
    draws = random.Random(1)
    means = sorted(statistics.fmean(draws.choices(values, k=len(values))) for _ in range(2000))
    return means[50], means[-51]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--oppa", default=ROOT / "build/release/oppa")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results/bench-earlier-jobs")
    args = parser.parse_args()
    results = args.results.resolve()
    results.mkdir(parents=True, exist_ok=True)

    def run(manifest, *words):
        subprocess.run([args.oppa, "run", manifest, "--results", results, "--held-out", "--no-report", *words], check=True,
                       stdout=subprocess.DEVNULL)

    run(ROOT / "experiments/ultrascale.toml", "--methods", "oppa", "--repeats", str(args.repeats))
    shares = {}
    for number, (kind, source, target) in enumerate(PAIRS, 1):
        print(f"{number} of {len(PAIRS)}: {target} from {source}", flush=True)
        alone = results / f"ultrascale/ultrascale-{target}"
        optimum = json.loads((alone / "problem.json").read_text())["optimum_steps_per_s"]
        pair = {}
        for repeat in range(1, args.repeats + 1):
            manifest = results / f"{target}-from-{source}-{repeat}.toml"
            manifest.write_text(MANIFEST.format(source=source, target=target,
                                                runs=results / f"ultrascale/ultrascale-{source}/oppa/{repeat}"))
            run(manifest)
            pair.setdefault("oppa", []).append(found(alone, "oppa", repeat, optimum))
            for method in list(NAMES)[1:]:
                pair.setdefault(method, []).append(found(results / manifest.stem / f"ultrascale-{target}", method, 1, optimum))
        for method, repeats in pair.items():
            shares.setdefault((kind, method), []).append([statistics.fmean(column) for column in zip(*repeats)])

    with open(results / "summary.csv", "w") as out:
        rows = csv.writer(out)
        rows.writerow(["earlier", "search", "pairs", *(f"after_{k}{end}" for k in AFTER for end in ("", "_low", "_high"))])
        for (kind, method), pairs in shares.items():
            cells = [number for column in zip(*pairs) for number in (statistics.fmean(column), *interval(column))]
            rows.writerow([kind, NAMES[method], len(pairs), *cells])
    print(f"wrote {results / 'summary.csv'}")


if __name__ == "__main__":
    main()
