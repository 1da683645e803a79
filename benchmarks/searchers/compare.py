#!/usr/bin/env python3
"""The searchers of this project beside Optuna's and BoTorch on the problems of a manifest, in one run.

    benchmarks/searchers/compare.py [--repeats 10] [--methods oppa,oppa-sim,...] [--peers tpe,gp,...] [--oppa PROGRAM]
        [--results results/bench-searchers] [MANIFEST...]

Every searcher has the same configurations, trials and failures, and its own defaults. Its result after k trials is
the best throughput without noise among the configurations that it tried and that ran, divided by the best of all.
Methods of oppa see steps with the noise of the manifest; peers see the throughput without noise, which favors them.
A configuration that a peer asks for again costs nothing; after 60 requests, random ones fill the rest of its trials.

  tpe, gp      Optuna's TPESampler and GPSampler, one parameter after another; out of memory is a violated constraint
  cmaes        Optuna's CmaEsSampler, the same without constraints: a failure has the lowest throughput so far
  smac, ax     SMAC and Ax: every parameter is an integer, the position of its value; the nearest configuration that was
               not tried runs, and they learn its result; a failure has the lowest throughput so far
  botorch      two Gaussian processes with BoTorch's defaults: the logarithm of the throughput, and whether a trial ran,
               as 1 or -1; log expected improvement plus the log of the probability of running, over all
               configurations, after five random trials
  botorch-sim  the same with predictions as means: of the throughput, and of the memory of trials that ran; it begins
               with the first configuration of `predicted-order`

Writes MANIFEST.csv with means over problems and intervals by bootstrap over problems: over all of them and, with
--held-out, over each half. Draws runtime profiles of each half, MANIFEST_profiles.{svg,png}. The records of oppa and
peers.csv (the results after each trial, CPU seconds per suggestion) are kept: rerun it to resume.
`make bench-searchers` runs it with PyTorch, Optuna and BoTorch of PyPI. A searcher whose package is missing is skipped.
"""

import argparse
import collections
import csv
import functools
import importlib.util
import itertools
import json
import logging
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/tune"))
from job import Space  # noqa: E402
from searchers import suggest  # noqa: E402

TRIALS = 20
AFTER = [3, 5, 10, 20]
TARGET = 0.95  # of the best, in profiles
FAMILY = "worlds"  # manifests with this in their names have a common table, too
STARTS = 5
RESULTS = {"outcome", "throughput_steps_per_s", "peak_memory_bytes", "setup_s"}
COLUMNS = ["problem", "searcher", "repeat", *(str(k + 1) for k in range(TRIALS)), "cpu_s_per_suggestion"]


class Problem:
    """Configurations, and of each the throughput (0: it did not run), the peak memory, and what is predicted."""

    def __init__(self, info, rows, predictions):
        self.name = info["name"]
        self.space = Space([{name: row[name] for name in row if name not in RESULTS} for row in rows])
        self.value = [float(row["throughput_steps_per_s"]) if row["outcome"] == "completed" else 0.0 for row in rows]
        capacity = info.get("memory_capacity_bytes") or math.inf
        self.memory = [float(row["peak_memory_bytes"] or "nan") / capacity for row in rows]
        known = {row["candidate"]: row for row in predictions}
        known = [known.get(row["candidate"], collections.defaultdict(str)) for row in rows]
        self.predicted_step_s = [float(row["step_time_s"] or "inf") for row in known]
        self.predicted_memory = [float(row["peak_memory_bytes"] or "nan") / capacity for row in known]

    def points(self):
        """Configurations as rows in the unit cube, sizes by their logarithms."""
        def scaled(knob, value):
            values = self.space.values[knob]
            low, high, place = (math.log2(float(one) + 1.0) for one in (values[0], values[-1], value))
            return (place - low) / (high - low)
        return [[scaled(knob, value) for knob, value in one.items()] for one in self.space.candidates]

    def first_predicted(self):
        fits = [not memory > 1.0 for memory in self.predicted_memory]
        return min(range(len(fits)), key=lambda one: (not fits[one], self.predicted_step_s[one]))


class Trials:
    """The trials of one search."""

    def __init__(self, problem, seed):
        self.problem = problem
        self.random = random.Random(seed)
        self.tried = []

    def run(self, candidate):
        if candidate not in self.tried:
            self.tried.append(candidate)
        return self.problem.value[candidate]

    def ran(self):
        return [one for one in self.tried if self.problem.value[one] > 0.0]

    def untried(self):
        return sorted(set(range(len(self.problem.value))) - set(self.tried))

    def told(self, candidate):
        """The throughput, and after a failure the lowest so far."""
        return self.run(candidate) or min((self.problem.value[one] for one in self.ran()), default=0.0)

    def left(self):
        return min(TRIALS, len(self.problem.value)) - len(self.tried)

    def run_random(self, count):
        for candidate in self.random.sample(self.untried(), min(count, self.left())):
            self.run(candidate)


def curve(values, optimum):
    """The result after each trial, of the throughputs in the order of the trials."""
    best = list(itertools.accumulate(values[:TRIALS], max))
    return [one / optimum for one in best + best[-1:] * (TRIALS - len(best))]


def search_optuna(sampler, trials, seed):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    constraints = {} if sampler == "CmaEsSampler" else {
        "constraints_func": lambda trial: trial.user_attrs["constraint"]}
    study = optuna.create_study(direction="maximize", sampler=getattr(optuna.samplers, sampler)(
        seed=seed, **constraints))
    for _ in range(3 * TRIALS):
        if trials.left() == 0:
            return
        trial = study.ask()
        candidate = trials.problem.space.candidates.index(suggest(trials.problem.space, trial))
        result = trials.told(candidate)
        trial.set_user_attr("constraint", [float(candidate not in trials.ran())])
        study.tell(trial, result)
    trials.run_random(TRIALS)  # it goes on asking for configurations that it knows


def smac_asker(sizes, seed):
    import ConfigSpace
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory import TrialInfo, TrialValue
    space = ConfigSpace.ConfigurationSpace({name: (0, size - 1) for name, size in sizes.items()}, seed=seed)
    folder = tempfile.TemporaryDirectory(prefix="oppa-smac-")
    smac = HyperparameterOptimizationFacade(
        Scenario(space, deterministic=True, n_trials=TRIALS, seed=seed, output_directory=pathlib.Path(folder.name)),
        lambda config, seed=0: 0.0, logging_level=False, overwrite=True)

    def ask():
        asked = smac.ask()
        return dict(asked.config), asked.seed

    def tell(config, value, asked, _folder=folder):  # which exists as long as this function
        smac.tell(TrialInfo(ConfigSpace.Configuration(space, config), seed=asked), TrialValue(-value))
    return ask, tell


def ax_asker(sizes, seed):
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    ax = Client(random_seed=seed)
    ax.configure_experiment([RangeParameterConfig(name, (0, size - 1), "int") for name, size in sizes.items()])
    ax.configure_optimization("throughput")

    def ask():
        (index, config), = ax.get_next_trials(1).items()
        return config, index

    def tell(config, value, asked):
        ax.mark_trial_failed(asked)  # the configuration that ran in its place is a trial of its own
        ax.complete_trial(ax.attach_trial(config), {"throughput": value})
    return ask, tell


def search_asking(asker, trials, seed):
    """Takes the nearest configuration that was not tried, in positions of values divided by their number."""
    space = trials.problem.space
    sizes = {name: len(values) for name, values in space.values.items()}
    places = [{name: space.values[name].index(one[name]) for name in sizes} for one in space.candidates]
    ask, tell = asker(sizes, seed)
    while trials.left() > 0:
        config, asked = ask()
        candidate = min(trials.untried(), key=lambda one: sum(((places[one][name] - config[name]) / sizes[name]) ** 2
                                                              for name in sizes))
        tell(places[candidate], trials.told(candidate), asked)


def search_botorch(with_predictions, trials, seed):
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood
    torch.manual_seed(seed)
    problem = trials.problem
    points = torch.tensor(problem.points(), dtype=torch.double)
    value, memory = (torch.log(torch.tensor(one, dtype=torch.double)) for one in (problem.value, problem.memory))
    mean_value = mean_memory = torch.zeros(len(points), dtype=torch.double)
    if with_predictions:
        mean_value, mean_memory = (torch.log(torch.tensor(one, dtype=torch.double))
                                   for one in (problem.predicted_step_s, problem.predicted_memory))
        mean_value = -mean_value
    normal = torch.distributions.Normal(0.0, 1.0)

    def posterior(rows, targets, left, sd_without=1.0):
        """Means and standard deviations; without two observations those of `sd_without`."""
        if len(rows) < 2:
            return torch.zeros(len(left), dtype=torch.double), torch.full((len(left),), sd_without, dtype=torch.double)
        gp = SingleTaskGP(points[rows], targets[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
        with torch.no_grad():
            parts = [gp.posterior(part[:, None, :]) for part in points[left].split(4096)]
            return (torch.cat([one.mean.flatten() for one in parts]),
                    torch.cat([one.variance.flatten() for one in parts]).sqrt())

    def log_ei(z):
        direct = torch.exp(normal.log_prob(z)) + z * normal.cdf(z)
        tail = normal.log_prob(z) - 2.0 * torch.log(z.abs().clamp_min(1.0))
        return torch.where(z > -5.0, torch.log(direct.clamp_min(1e-300)), tail)

    if with_predictions:
        trials.run(problem.first_predicted())
    else:
        trials.run_random(STARTS)
    while trials.left() > 0:
        left, ran = trials.untried(), trials.ran()
        mean, sd = posterior(ran, value[ran] - mean_value[ran], left)
        mean = mean + mean_value[left]
        score = torch.log(sd) + log_ei((mean - value[ran].max()) / sd) if ran else mean
        if not with_predictions:
            outcome = torch.tensor([1.0 if one in ran else -1.0 for one in trials.tried], dtype=torch.double)
            if len(set(outcome.tolist())) > 1:
                mean, sd = posterior(trials.tried, outcome, left)
                score = score + normal.cdf(mean / sd).clamp_min(1e-12).log()
        elif not mean_memory[left].isnan().any():
            measured = [one for one in ran if not memory[one].isnan()]
            mean, sd = posterior(measured, memory[measured] - mean_memory[measured], left, sd_without=0.2)
            score = score + normal.cdf(-(mean + mean_memory[left]) / sd).clamp_min(1e-12).log()
        trials.run(left[int(score.argmax())])


PEERS = {
    "random": lambda trials, seed: trials.run_random(TRIALS),
    "tpe": functools.partial(search_optuna, "TPESampler"),
    "gp": functools.partial(search_optuna, "GPSampler"),
    "cmaes": functools.partial(search_optuna, "CmaEsSampler"),
    "smac": functools.partial(search_asking, smac_asker),
    "ax": functools.partial(search_asking, ax_asker),
    "botorch": functools.partial(search_botorch, False),
    "botorch-sim": functools.partial(search_botorch, True),
}

OPTIONAL = {"cmaes", "smac", "ax"}  # in packages of the same names


def run_oppa(options, command, manifest, *more):
    """What it prints. `oppa run` ends with 1 where no trial of a search completed, which is a result."""
    output = subprocess.PIPE if command == "simulate" else None
    done = subprocess.run([options.oppa, command, manifest, *more], text=True, stdout=output)
    if done.returncode > (command == "run"):
        sys.exit(done.returncode)
    return done.stdout


def read_problems(options, manifest, records):
    rows = {}
    for what in ("--all", "--predictions"):
        rows[what] = collections.defaultdict(list)
        for row in csv.DictReader(run_oppa(options, "simulate", manifest, what, "--csv").splitlines()):
            rows[what][row["problem"]].append(row)
    infos = [json.loads(path.read_text()) for path in sorted(records.glob("*/problem.json"))]
    return [Problem(info, rows["--all"][info["name"]], rows["--predictions"][info["name"]]) for info in infos]


def read_table(path):
    if not path.exists():
        return []
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def row_of(problem, searcher, repeat, values, cpu_s):
    return dict(zip(COLUMNS, (problem.name, searcher, repeat, *curve(values, max(problem.value)), cpu_s)))


def oppa_rows(options, records, problem):
    for method in options.methods:
        for repeat in range(1, options.repeats + 1):
            run = records / problem.name / method / str(repeat)
            values = [float(row["exact_steps_per_s"] or 0.0) if row["outcome"] == "completed" else 0.0
                      for row in read_table(run / "trials.csv")]
            cpu_s = statistics.mean(float(row["cpu_s"]) for row in read_table(run / "thinking.csv"))
            yield row_of(problem, method, repeat, values, cpu_s)


def peer_rows(options, path, problems):
    rows = {(row["problem"], row["searcher"], int(row["repeat"])): row for row in read_table(path)}
    with open(path, "a") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not rows:
            writer.writeheader()
        for key in itertools.product(problems, options.peers, range(1, options.repeats + 1)):
            problem, peer, repeat = key
            if (problem.name, peer, repeat) not in rows:
                print(f"{problem.name}, {peer}, repeat {repeat}", file=sys.stderr, flush=True)
                trials = Trials(problem, repeat)
                begin = time.process_time()
                PEERS[peer](trials, repeat)
                row = row_of(problem, peer, repeat, [problem.value[one] for one in trials.tried],
                             (time.process_time() - begin) / len(trials.tried))
                rows[problem.name, peer, repeat] = row
                writer.writerow(row)
                file.flush()
            yield rows[problem.name, peer, repeat]


def means_of_problems(rows, searcher, k, of=lambda result: result):
    """Of each problem, the mean over repeats after k trials."""
    by_problem = collections.defaultdict(list)
    for row in rows:
        if row["searcher"] == searcher:
            by_problem[row["problem"]].append(of(float(row[str(k)])))
    return [statistics.mean(values) for values in by_problem.values()]


def summary(rows, searchers, problems):
    """A row per searcher: means over problems, with 95% intervals by bootstrap over problems."""
    for searcher in searchers:
        own = [row for row in rows if row["searcher"] == searcher]
        repeats = collections.Counter(row["problem"] for row in own).values()
        result = {"problems": problems, "searcher": searcher,
                  "repeats": " to ".join(map(str, sorted({min(repeats), max(repeats)})))}
        for k in AFTER:
            means = means_of_problems(own, searcher, k)
            draws = random.Random(1)
            resampled = sorted(statistics.mean(draws.choices(means, k=len(means))) for _ in range(2000))
            result |= {f"after_{k}": statistics.mean(means), f"after_{k}_low": resampled[50],
                       f"after_{k}_high": resampled[1949]}
        yield result | {"cpu_s_per_suggestion": statistics.median(float(row["cpu_s_per_suggestion"]) for row in own)}


def write(path, table):
    with open(path, "w") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)


def draw_profiles(path, halves, searchers):
    """A column of panels per half: the mean result after each trial, and the share of searches that reached TARGET."""
    with open(path.with_suffix(".csv"), "w") as file:
        writer = csv.writer(file)
        for of in (lambda result: result, lambda result: float(result >= TARGET)):
            for rows in halves.values():
                writer.writerow(["trials", *searchers])
                for k in range(1, TRIALS + 1):
                    writer.writerow([k, *(statistics.mean(means_of_problems(rows, one, k, of)) for one in searchers)])
                file.write("\n\n")  # an index for gnuplot
    if not shutil.which("gnuplot"):
        sys.exit("could not draw the profiles: install gnuplot, and rerun the same command")
    names = " ".join(half or "all" for half in halves)
    subprocess.run(["gnuplot", "-e", f"base='{path}'; halves='{names}'; searchers={len(searchers)}; target={TARGET}",
                    ROOT / "benchmarks/searchers/profiles.gp"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifests", nargs="*", type=pathlib.Path, default=[ROOT / "experiments/suite-8gpu.toml"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--methods", type=lambda text: text.split(","),
                        default=["oppa", "oppa-sim", "predicted-order", "vanilla-bo"])
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    parser.add_argument("--held-out", action="store_true", help="include the problems that the manifest holds out")
    parser.add_argument("--oppa", default=ROOT / "build/release/oppa")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results/bench-searchers")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    logging.disable(logging.WARNING)
    missing = {peer for peer in options.peers if peer in OPTIONAL and not importlib.util.find_spec(peer)}
    if missing:
        print("skipped, because their packages are not installed:", *sorted(missing), file=sys.stderr)
    options.peers = [peer for peer in options.peers if peer not in missing]
    warnings.simplefilter("ignore")
    family = []
    for manifest in options.manifests:
        development = None
        if options.held_out and "held_out" in manifest.read_text():  # `oppa simulate` shows no problems that are held out
            shown = run_oppa(options, "simulate", manifest, "--all", "--csv").splitlines()
            development = {row["problem"] for row in csv.DictReader(shown)}
            options.results.mkdir(parents=True, exist_ok=True)
            text = re.sub("(?m)^held_out.*\n", "", manifest.read_text())
            text = re.sub(r'"(?=[a-z]+/[^"]+\.(toml|json)")', f'"{manifest.resolve().parent}/', text)
            manifest = options.results / manifest.name
            manifest.write_text(text)
        run_oppa(options, "run", manifest, "--methods", ",".join(options.methods), "--repeats", str(options.repeats),
                 "--set", f"budget.trials={TRIALS}", "--results", options.results, "--no-report")
        records = options.results / manifest.stem
        problems = read_problems(options, manifest, records)
        rows = [row for problem in problems for row in oppa_rows(options, records, problem)]
        rows += peer_rows(options, records / "peers.csv", problems)
        halves = {"": rows}
        if development:
            halves |= {"development": [row for row in rows if row["problem"] in development],
                       "held-out": [row for row in rows if row["problem"] not in development]}
        table = [row for half, own in halves.items() for row in summary(own, options.methods + options.peers, half)]
        write(options.results / f"{manifest.stem}.csv", table)
        if FAMILY in manifest.stem:
            family += rows
        print(f"{manifest.stem}: {len(problems)} problems, {options.repeats} repeats; found / best after trials "
              + ", ".join(map(str, AFTER)))
        for row in table:
            print(f"{row['problems']:11} {row['searcher']:16}", *(f"{row[f'after_{k}']:.3f}" for k in AFTER),
                  f" {row['cpu_s_per_suggestion']:.3f} CPU s per suggestion")
        if development:
            del halves[""]
        draw_profiles(options.results / f"{manifest.stem}_profiles", halves, options.methods + options.peers)
    if family:
        write(options.results / f"{FAMILY}.csv", list(summary(family, options.methods + options.peers, "")))


if __name__ == "__main__":
    main()
