#!/usr/bin/env python3
"""Forecasts of oppa beside those of Calculon, SimuMax and llm-analysis on measured rows.

    benchmarks/peers/forecasts.py [--peers FOLDER] [--results results/bench-forecast] [--oppa PROGRAM] [SOURCE...]

FOLDER has (or gets, by git from GitHub) a checkout of each peer at the commit that benchmarks/peers/simulators.py states,
which also says how it is driven; sources.toml lists the tables, which are in OPPA_DATA. What a table leaves open has two
readings, and each has its line. All lines of a source are about the same rows: those that every peer can express.

  mean, bias   of predicted / measured - 1, absolute and signed, over the rows that ran
  Spearman     of step times within a scenario, mean over scenarios with at least 3 configurations that ran
  pairs        share of pairs within a scenario that are ordered rightly, of those that differ by more than 5%
  fastest      how much slower the configuration with the least predicted time is than the best, among those that ran
  pick         the same for the configuration that a user would start: docs/validation.md#own-pick, where the probability of
               fitting of a peer is 0 or 1; mean over scenarios with at least 8 configurations
  CPU          time per configuration: of a call of the peer, of all of `oppa validate` for oppa

Writes summary.csv and rows.csv.
"""

import argparse
import collections
import csv
import itertools
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from simulators import SIMULATORS, Unsupported, opened  # noqa: E402

LAYOUT = {"gpus": None, "dp": None, "tp": None, "pp": None, "cp": 1, "ep": 1, "zero_stage": 1, "micro_batch_size": None,
          "microbatches": None, "model_chunks": 1, "grad_checkpoint": 0, "sp": 1}
FAILED_TRY = 0.05  # the share of a training that an out-of-memory error costs
SUMMARY = ["source", "program", "reading", "rows", "mean", "bias", "spearman", "pairs", "fastest", "pick", "oom_rows",
           "precision", "recall", "cpu_ms"]

Forecast = collections.namedtuple("Forecast", "time_s probability")


def checkout(folder, simulator):
    """The checkout of a simulator at its commit."""
    path = folder / simulator.REPOSITORY.partition("/")[2]
    if not path.is_dir():
        url = f"https://github.com/{simulator.REPOSITORY}.git"
        for words in (["clone", "--quiet", "--filter=blob:none", url, path], ["-C", path, "checkout", "--quiet", simulator.COMMIT]):
            if subprocess.run(["git", *words]).returncode:
                raise SystemExit(f"forecasts.py: cannot get {url}: put a checkout of {simulator.COMMIT} into {path}")
    elif (path / ".git").exists():
        head = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        if head != simulator.COMMIT:
            raise SystemExit(f"forecasts.py: {path} is at {head}: check out {simulator.COMMIT}, or remove the folder")
    return path


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def number(text):
    """A cell or fact as a number or truth value where it is one."""
    if text in ("true", "false"):
        return text == "true"
    try:
        value = float(text)
        return int(value) if value == int(value) else value
    except (TypeError, ValueError):
        return text


def cluster_gbps(name, data):
    """GB/s that collectives reach within a host, and those of a host's network."""
    path = next(path for path in (ROOT / f"experiments/clusters/{name}.toml", data / f"clusters/{name}.toml") if path.is_file())
    cluster = tomllib.loads(path.read_text())
    inter = cluster.get("inter", {})
    return cluster["intra"]["bandwidth_gb_per_s"], inter.get("bandwidth_gb_per_s", 0) * inter.get("nics_per_node", 1)


class Source:
    def __init__(self, settings, data, oppa):
        self.settings, self.data, self.oppa = settings, data, oppa
        self.name, self.table = settings["name"], data / settings["table"]
        known = ROOT / f"experiments/validation/{self.name}.toml"
        self.known = tomllib.loads((known if known.is_file() else ROOT / "experiments/validation/any/measured.toml").read_text())
        scenarios = self.known.get("scenarios")
        self.scenarios = {row["scenario"]: row for row in read_csv(data / scenarios)} if scenarios else {}

    def predicted(self, framework):
        """The rows of `oppa validate --csv`, and its CPU seconds per row."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run([self.oppa, "validate", "--table", self.table, "--framework", framework, "--csv", "--no-figures"],
                             cwd=ROOT, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"forecasts.py: {self.name}: {run.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = list(csv.DictReader(run.stdout.splitlines()))
        return rows, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(rows)

    def facts(self, row):
        """The facts of a row, in the order of docs/validation.md#settings-of-a-table."""
        scenario = row["row_scenario"]
        facts = self.known.get("facts", {}) | self.settings.get("facts", {})
        for token in [*scenario.split("-"), scenario, row.get("model", "")]:
            facts |= self.known.get("facts_of", {}).get(token, {})
        facts |= {name: number(text) for source in (self.scenarios.get(scenario, {}), row) for name, text in source.items() if text}
        sheet, cluster = self.settings.get("data_sheet_gbps", (0, 0)), cluster_gbps(facts["cluster"], self.data)
        for kind, name in enumerate(("intra_gbps", "inter_gbps")):
            facts[name] = {"data sheet": sheet[kind], "cluster": cluster[kind]}
        layout = {name: facts.get(name, default) for name, default in LAYOUT.items()}
        if facts.get("sp") in (0, None) or facts.get("sequence_parallel"):  # some tables have it as a truth value
            layout["sp"] = layout["tp"] if facts.get("sequence_parallel") else 1
        elif self.name == "simumax_b200":
            layout["sp"] = layout["tp"]
        facts["global_batch_size"] = layout["dp"] * layout["micro_batch_size"] * layout["microbatches"]
        return facts, layout


def forecasts_of(simulator, source, rows, options):
    """The forecast of each row, None where the simulator cannot express it, and CPU seconds per call."""
    found, seconds = [], 0.0
    for row in rows:
        facts, layout = source.facts(row)
        begin = time.process_time()
        try:
            time_s, peak = simulator.result(facts, layout, **options)
            found.append(Forecast(time_s, float(peak <= simulator.capacity(facts))))
        except (Unsupported, AssertionError, simulator.llm.Error if hasattr(simulator, "llm") else AssertionError):
            found.append(None)
        seconds += time.process_time() - begin
    return found, seconds / max(len(rows), 1)


def own_forecasts(rows):
    return [Forecast(float(row["predicted_step_time_s"]), float(row["predicted_fit_probability"] or 1))
            if row["predicted_step_time_s"] else None for row in rows]


def ranks(values):
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def order_of_trials(forecasts):
    """The own pick first, then the others by expected throughput."""
    def expected(index):
        return forecasts[index].probability / forecasts[index].time_s

    order = sorted(range(len(forecasts)), key=expected, reverse=True)
    safe = forecasts[order[0]].time_s
    pick = max(order, key=lambda k: expected(k) + (1 - forecasts[k].probability) * (1 - FAILED_TRY) / safe)
    return [pick, *(index for index in order if index != pick)]


def judge_scenario(cases):
    """The figures of the order in one scenario; a case is (measured time or None, forecast)."""
    ran = [(time_s, forecast) for time_s, forecast in cases if time_s]
    found = {}
    if len(ran) >= 3:
        measured, predicted = [time_s for time_s, _ in ran], [forecast.time_s for _, forecast in ran]
        if len(set(predicted)) > 1 and len(set(measured)) > 1:
            found["spearman"] = statistics.correlation(ranks(measured), ranks(predicted))
        apart = [(a, b) for a, b in itertools.combinations(ran, 2) if max(a[0], b[0]) > 1.05 * min(a[0], b[0])]
        if apart:
            found["pairs"] = statistics.fmean((a[0] < b[0]) == (a[1].time_s < b[1].time_s) for a, b in apart)
    if ran and len(cases) >= 8:
        best = min(time_s for time_s, _ in ran)
        found["fastest"] = min(ran, key=lambda case: case[1].time_s)[0] / best - 1
        order = order_of_trials([forecast for _, forecast in cases])
        found["pick"] = next(cases[index][0] for index in order if cases[index][0]) / best - 1
    return found


def mean(values):
    return statistics.fmean(values) if values else ""


def judge(rows, forecasts, ranked):
    """The figures of a program on the rows of a source."""
    errors, scenarios, outcomes = [], collections.defaultdict(dict), []
    for row, forecast in zip(rows, forecasts):
        ran = row["measured_status"] == "ok"
        if ran:
            errors.append(forecast.time_s / float(row["measured_step_time_s"]) - 1)
        outcomes.append((forecast.probability < 0.5, not ran))
        key = tuple(row.get(name) for name in LAYOUT)
        case = scenarios[row["row_scenario"]].setdefault(key, ([], forecast))
        case[0].extend([float(row["measured_step_time_s"])] if ran else [])
    judged = [judge_scenario([(statistics.median(times) if times else None, forecast) for times, forecast in cases.values()])
              for cases in scenarios.values()] if ranked else []
    said, failed = sum(says for says, _ in outcomes), sum(fails for _, fails in outcomes)
    right = sum(says and fails for says, fails in outcomes)
    return {"rows": len(rows), "mean": mean([abs(error) for error in errors]), "bias": mean(errors), "oom_rows": failed,
            "precision": right / said if said and failed else "", "recall": right / failed if failed else "",
            **{name: mean([one[name] for one in judged if name in one]) for name in ("spearman", "pairs", "fastest", "pick")}}


def compare(source, simulators, tell):
    """The lines of a source, and its rows with every forecast."""
    framework, *others = source.settings["frameworks"]
    rows, cpu_s = source.predicted(framework)
    lines = {("oppa", framework): (own_forecasts(rows), cpu_s)}
    for other in others:
        again, cpu_s = source.predicted(other)
        lines["oppa", other] = own_forecasts(again), cpu_s
    kept = [index for index, row in enumerate(rows) if row["measured_status"] in ("ok", "oom") and row["row_clean"] == "1"
            and all(forecasts[index] for forecasts, _ in lines.values())]
    rows = [rows[index] for index in kept]
    lines = {key: ([forecasts[index] for index in kept], cpu_s) for key, (forecasts, cpu_s) in lines.items()}
    for name in source.settings["peers"]:
        for reading, options in simulators[name].READINGS.items():
            lines[simulators[name].NAME, reading] = forecasts_of(simulators[name], source, rows, options)
            tell(f"{source.name}: {name}, {reading}")
    kept = [index for index in range(len(rows)) if all(forecasts[index] for forecasts, _ in lines.values())]
    tell(f"{source.name}: {len(kept)} of {len(rows)} rows can be expressed by all")
    rows = [rows[index] for index in kept]
    lines = {key: ([forecasts[index] for index in kept], cpu_s) for key, (forecasts, cpu_s) in lines.items()}
    summary = [{"source": source.name, "program": program, "reading": reading, "cpu_ms": 1e3 * cpu_s,
                **judge(rows, forecasts, source.settings.get("ranked", True))}
               for (program, reading), (forecasts, cpu_s) in lines.items()]
    details = [{"source": source.name, **{name: row.get(name, "") for name in ("scenario", *LAYOUT, "measured_status",
                                                                            "measured_step_time_s")},
                "program": program, "reading": reading, "predicted_step_time_s": forecasts[index].time_s,
                "fit_probability": forecasts[index].probability}
               for (program, reading), (forecasts, _) in lines.items() for index, row in enumerate(rows)]
    return summary, details


def write_csv(path, columns, rows):
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results/bench-forecast")
    parser.add_argument("--oppa", type=pathlib.Path, default=ROOT / "build/release/oppa")
    options = parser.parse_args()
    data = pathlib.Path(os.environ.get("OPPA_DATA", ""))
    settings = tomllib.loads((pathlib.Path(__file__).parent / "sources.toml").read_text())["source"]
    unknown = set(options.sources) - {one["name"] for one in settings}
    if unknown or not os.environ.get("OPPA_DATA"):
        parser.error(f"unknown source {', '.join(unknown)}" if unknown else "set OPPA_DATA to the folder of measured tables")
    options.peers.mkdir(parents=True, exist_ok=True)
    simulators = {package: opened(checkout(options.peers, simulator).resolve()) for package, simulator in SIMULATORS.items()}
    options.results.mkdir(parents=True, exist_ok=True)
    summary, details = [], []
    for one in settings:
        if options.sources and one["name"] not in options.sources:
            continue
        lines, rows = compare(Source(one, data, options.oppa.resolve()), simulators, lambda line: print(line, flush=True))
        summary += [{**line, "source": one["label"]} for line in lines]
        details += rows
        for line in lines:
            print("  " + ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{value}"
                                   for name, value in line.items() if value != ""), flush=True)
    write_csv(options.results / "summary.csv", SUMMARY, summary)
    write_csv(options.results / "rows.csv", list(details[0]), details)


if __name__ == "__main__":
    main()
