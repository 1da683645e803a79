#!/usr/bin/env python3
"""Compares `oppa tune` with defaults, settings by hand, random search and Optuna's TPE on real training jobs.

    benchmarks/tune/tune.py [--jobs gpt,layouts] [--repeats 1] [--rounds 5] [--results results]

Each job in benchmarks/tune/jobs/ is tuned by `oppa tune` for the minutes of its manifest, with predictions and without.
Random search and TPE get as many minutes as `oppa tune` took in total with predictions, with its preflight and its
repeated measurements. All of them start
with the default configuration and run the same command, with the same number of steps and the same limits, contained
and recorded by `oppa`. At the end, all chosen configurations run in turn, in several rounds, so that a drift of the
machine affects all of them.

The records are in RESULTS/bench-tune/, the table in RESULTS/bench-tune/summary.csv, which scripts/docs writes
into the documentation. Rerun the same command to resume. The Python that runs this needs PyTorch and Optuna.
"""

import argparse
import csv
import json
import os
import pathlib
import signal
import sys
import time

from intervals import bootstrap, ratios
from job import JOBS, Failure, Job, Space, read_csv
from searchers import run_random, run_tpe, run_tune

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEARCHERS = {"tune": "`oppa tune`", "tune-plain": "`oppa tune` without predictions", "random": "random search",
             "tpe": "Optuna's TPE"}
TUNE_METHODS = {"tune": "oppa-sim", "tune-plain": "oppa"}
CHOICES = {"default": "default", "hand-set": "set by hand", **SEARCHERS}
COLUMNS = ["job", "title", "choice", "label", "repeats", "minutes", "trials", "distinct", "stopped", "failed", "rounds",
           "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "ratio", "ratio_low", "ratio_high", "config",
           "changes", "machine"]


def log(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def load(path, default):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default


def save(path, value):
    """Replaces the file at once, so that an interruption leaves the old or the new one."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1), encoding="utf-8")
    new.replace(path)


def machine():
    names = [line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{names[0] if names else 'CPU'}, {os.cpu_count()} cores"


def search(name, repeat, options, folder):
    """Runs all searchers of a repeat; returns their summaries."""
    job = Job(name, options.oppa, folder / str(repeat), options.seed + repeat - 1, options.minutes, options.steps)
    path = job.folder / "searches.json"
    done = load(path, {})
    for searcher, label in SEARCHERS.items():
        if searcher in done:
            continue

        def show(line, label=label):
            if line.strip():
                log(f"{name} {repeat}, {label.replace('`', '')}: {line}")

        seconds = done.get("tune", {}).get("seconds")
        if searcher in TUNE_METHODS:
            found = run_tune(job, TUNE_METHODS[searcher], show)
        elif searcher == "random":
            found = run_random(job, seconds, show)
        else:
            found = run_tpe(job, seconds, options.seed + repeat - 1, show)
        done[searcher] = found.summary()
        save(path, done)
        show(f"{done[searcher]['trials']} trials in {found.seconds / 60:.1f} minutes, chose "
             f"{job.changes(found.config)}")
    return job, done


def measure_in_turn(job, configs, rounds, folder):
    """Runs each configuration once in each round, from another one on in every round; returns tokens/s by text."""
    path = folder / "measured.json"
    measured = load(path, {})
    texts = list(dict.fromkeys(map(Space.text, configs)))
    for r in range(rounds):
        for text in texts[r % len(texts):] + texts[:r % len(texts)]:
            values = measured.setdefault(text, [])
            if len(values) > r:
                continue
            trial = job.measure(job.space.find(text), folder / "rounds" / f"{r + 1}-{texts.index(text) + 1}")
            values.append(trial.tokens_per_s(job.tokens))
            save(path, measured)
            log(f"{job.name}, round {r + 1} of {rounds}: {job.changes(trial.config)}: " +
                (f"{values[-1]:.0f} tokens/s" if values[-1] else trial.outcome))
    return {text: measured[text][:rounds] for text in texts}


def rows_of(job, searches, measured, rounds):
    """The rows of summary.csv."""
    chosen = {"default": [job.default], "hand-set": [job.hand_set],
              **{name: [done[name]["config"] for done in searches] for name in SEARCHERS}}
    reference = measured[Space.text(job.default)]
    rows = []
    for choice, configs in chosen.items():
        texts = [Space.text(config) for config in configs]
        speed = bootstrap([[value for value in measured[text] if value] for text in texts])
        ratio = bootstrap([ratios(measured[text], reference) for text in texts])
        counts = [done[choice] for done in searches] if choice in SEARCHERS else []

        def total(key, counts=counts):
            return sum(count[key] for count in counts) if counts else ""

        rows.append([job.name, job.title, choice, CHOICES[choice], len(configs),
                     f"{total('seconds') / 60 / len(counts):.2f}" if counts else "",
                     *(total(key) for key in ("trials", "distinct", "stopped", "failed")), rounds,
                     *("" if value is None else f"{value:.6g}" for value in (*speed, *ratio)),
                     "; ".join(dict.fromkeys(texts)),
                     "; ".join(dict.fromkeys(job.changes(config) for config in configs)), machine()])
    return rows


def benchmark(name, options, folder):
    jobs, searches = zip(*(search(name, repeat, options, folder) for repeat in range(1, options.repeats + 1)))
    job = jobs[0]
    configs = [job.default, job.hand_set, *(done[searcher]["config"] for done in searches for searcher in SEARCHERS)]
    return rows_of(job, searches, measure_in_turn(job, configs, options.rounds, folder), options.rounds)


def write_table(path, rows):
    """Replaces the rows of these jobs."""
    if path.exists():
        jobs = {row[0] for row in rows}
        rows = [[row[column] for column in COLUMNS] for row in read_csv(path) if row["job"] not in jobs] + rows
    new = path.with_suffix(".new")
    with open(new, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    new.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oppa", type=pathlib.Path, default=ROOT / "build/release/oppa")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results")
    parser.add_argument("--jobs", default=",".join(sorted(path.name for path in JOBS.iterdir())))
    parser.add_argument("--repeats", type=int, default=1, help="searches of each searcher, with seeds of their own")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each chosen configuration")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="of a search by oppa tune (default: as in the job's manifest)")
    parser.add_argument("--steps", type=int, help="of a trial (default: as in the job's manifest)")
    options = parser.parse_args()
    options.oppa = options.oppa.resolve()
    # torchrun of this Python.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = options.results.resolve() / "bench-tune"
    rows = []
    try:
        import optuna  # noqa: F401  (fails now, not after the first search)
        for name in options.jobs.split(","):
            if not (JOBS / name).is_dir():
                raise Failure(f"unknown job '{name}'; known: {', '.join(sorted(path.name for path in JOBS.iterdir()))}")
            (folder / name).mkdir(parents=True, exist_ok=True)
            rows += benchmark(name, options, folder / name)
            write_table(folder / "summary.csv", rows)
    except ImportError as error:
        sys.exit(f"{error}: {sys.executable} -m pip install optuna")
    except Failure as failure:
        sys.exit(f"bench-tune: {failure}")
    except KeyboardInterrupt:
        sys.exit("interrupted; rerun the same command to resume")
    for row in (dict(zip(COLUMNS, row)) for row in rows):
        speed, ratio = ([f"{float(row[key + limit]):.4g}" if row[key + limit] else "?" for limit in ("", "_low", "_high")]
                        for key in ("tokens_per_s", "ratio"))
        log(f"{row['job']}, {row['choice']}: {speed[0]} tokens/s [{speed[1]}, {speed[2]}], {ratio[0]} times the default "
            f"[{ratio[1]}, {ratio[2]}], {row['trials'] or 'no'} trials: {row['changes']}")


if __name__ == "__main__":
    main()
