#!/usr/bin/env python3
"""Gives `oppa plan --log` and the trials of `oppa run` logs of frameworks and programs, as ranks and crashes change them.

    tests/faults/framework_logs.py PROGRAM [--logs 300] [--seed 1] [--jobs 4]

Each log has steps of a known time: printed by several ranks, with decimal commas, colors, CRLF, other lines, lines that are
cut, glued or twice, and losses of NaN. A file with it is read by `oppa plan`, and a program prints one in its pace as a trial
of `oppa run`. Each reading is right within 6%, or it is refused; a trial that prints a loss of NaN has diverged.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import tomllib
except ImportError as error:
    print(f"not run: {error}")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
BATCH, SEQUENCE, GPUS, STEPS = 64, 128, 8, 5
TOKENS_OF_GPU = BATCH * SEQUENCE / GPUS
REPLAY = """#!/usr/bin/env python3
import json, time
begin = time.monotonic()
for seconds, text in json.load(open("lines.json")):
    time.sleep(max(0.0, begin + seconds - time.monotonic()))
    print(text, end="", flush=True)
"""
MANIFEST = """[experiment]
title = "Logs"
methods = ["random"]
repeats = 1
[backend]
type = "command"
program = ["./replay.py"]
[workload]
model = "{root}/experiments/workloads/tiny-qwen2.json"
batch_size = 64
sequence_length = 128
[cluster]
file = "{root}/experiments/clusters/a5000-8.toml"
[space]
dp = [8]
tp = [1]
pp = [1]
zero_stage = [0]
microbatches = [1]
dp_bucket_mb = [16]
zero_bucket_mb = [16]
grad_checkpoint = [0]
[budget]
trials = 1
q_max = {steps}
"""


def thousands(number):
    return f"{number:,.0f}"


# The adapter, or the pattern of --step-time; and a line of it.
FORMS = (
    ("megatron-lm", lambda step, s, at: f" [2026-01-01 10:00:00] iteration {step:8}/ 500 | consumed samples: {64 * step} | "
     f"elapsed time per iteration (ms): {1e3 * s:.1f} | learning rate: 1.0E-04 | global batch size: 64 | lm loss: 3.1E+00 |"),
    ("megatron-lm", lambda step, s, at: f"iteration {step:8}/ 500 | elapsed time per iteration (s): {s:.4f} | loss scale: 1.0 |"),
    ("torchtitan", lambda step, s, at: f"[titan] 2026-01-01 10:00:00,100 - root - INFO - step: {step:2}  loss:  9.1  "
     f"memory: 4.00GiB(5.00%)  tps: {thousands(TOKENS_OF_GPU / s)}  tflops: 1,300.00"),
    ("nanotron", lambda step, s, at: f"iteration: {step} / 500 | time_per_iteration_ms: " +
     (f"{s:.3g}K" if s >= 1 else f"{1e3 * s:.3g}") + " | tokens_per_sec: 22.8K | lm_loss: 2.3 | lr: 0.0003"),
    ("deepspeed", lambda step, s, at: f"[timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, "
     f"RunningAvgSamplesPerSec=58.73, CurrSamplesPerSec={BATCH / s:.6f}, MemAllocated=0.01GB, MaxMemAllocated=0.52GB"),
    ("deepspeed", lambda step, s, at: f"steps: {step} loss: 2.3000 iter time (s): {s:.3f} samples/sec: {BATCH / s:.3f}"),
    ("nemo", lambda step, s, at: f"Training epoch 0, iteration {step}/499 | global_step: {step} | reduced_train_loss: 9.1 | "
     f"train_step_timing in s: {s:.4f}"),
    ("hf-trainer", lambda step, s, at: "{'loss': 2.31, 'grad_norm': 1.3, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
     f"  6%|#         | {step}/90 [{int(at) // 60:02}:{int(at) % 60:02}<02:29, {at / step:5.2f}s/it]"),
    ("took ([0-9.,]+)", lambda step, s, at: f"took {s:.4f} s"),
    ("time[^0-9]*([0-9.,]+)", lambda step, s, at: f"time {1e3 * s:.1f}ms"),
    ("time .*?([0-9.,]+)", lambda step, s, at: f"step {step}: time {s / 60:.6f} min, loss 2.1"),
    ("([0-9.]+)(?:it/s|s/it)", lambda step, s, at: f"Steps: {step}/500 [00:31<00:47, " +
     (f"{1 / s:.2f}it/s" if s < 1 else f"{s:.2f}s/it") + ", lr=1e-5]"),
    ("time ([0-9.]+)ms", lambda step, s, at: f"iter {step}: loss 2.3100, time {1e3 * s:.2f}ms, mfu 12.50%"),
    ("step_time=([0-9.,]+)", lambda step, s, at: f"12:{int(at) // 60 % 60:02}:{at % 60:06.3f} step_time={s:.4f}"),
    ("sec/step: ([0-9.,]+)", lambda step, s, at: f"Epoch 1, loss 2.2, sec/step: {s:.4f}"),
    ("seconds: ([0-9.,]+)", lambda step, s, at: f"completed step: {step}, seconds: {s:.3f}, TFLOP/s/device: 180.4, loss: 10.1"),
    ("timing_s/step:([0-9.,]+)", lambda step, s, at: f"step:{step} - timing_s/gen:{s / 2:.3f} - timing_s/step:{s:.4f}"),
    (" time: ([0-9.,]+)", lambda step, s, at: f"eta: 1:02:03  iter: {step}  time: {s:.4f}  data_time: {s / 90:.4f}  lr: 1e-3"),
    (r"\| ([0-9.,]+) ms", lambda step, s, at: f"step {step}/18865 | loss 6.5 (-1.20z)| norm 1.5 | {1e3 * s:.2f} ms | 45.1% bf16 MFU"),
)
# The same of numbers that are no time of a step: each log must be refused.
NO_STEPS = (
    ("per_gpu: ([0-9.,]+)", lambda step, s, at: f"step {step} tokens_per_second_per_gpu: {TOKENS_OF_GPU / s:.1f}"),
    ("tok/s[ :]+([0-9.,]+)", lambda step, s, at: f"step {step} | loss 2.31 | tok/s {BATCH * SEQUENCE / s:.1f} | lr 1e-4"),
    ("TFLOPS: ([0-9.,]+)", lambda step, s, at: f"step {step} TFLOPS: {120 / s:.2f}, mfu 40%"),
    ("([0-9.,]+) samples", lambda step, s, at: f"[{step}/500] {BATCH / s:.2f} samples/sec"),
    ("remaining ([0-9.,]+)", lambda step, s, at: f"step {step} time remaining {500 * s - at:.1f} s"),
    ("time: ([0-9.,]+)", lambda step, s, at: f"Epoch {step}/90 - loss: 2.31 - time: {50 * s:.1f}s"),
    ("took ([0-9.,]+)", lambda step, s, at: f"iter {10 * step}: 10 steps took {10 * s:.2f} s"),
    ("data_time: ([0-9.,]+)", lambda step, s, at: f"iter: {step}  time: {s:.4f}  data_time: {s / 9:.4f}  lr: 1e-3"),
    ("fwd ([0-9.,]+)", lambda step, s, at: f"step {step} fwd {300 * s:.1f} ms bwd {600 * s:.1f} ms"),
    ("bwd_time=([0-9.,]+)", lambda step, s, at: f"tflops=180.5 step={step} loss=2.3 fwd_bwd_time={s / 2:.4f}"),
)
OTHER = ("Loading checkpoint shards: 100%|####| 4/4 [00:02<00:00,  1.95it/s]", "WARNING 12:00:01 something at 0.5 of 1.0",
         "Map: 100%|###| 669/669 [00:00<00:00, 3076.21 examples/s]", "saving checkpoint at iteration 7 took long",
         "validate step: 99  loss: 9.0  memory: 4.00GiB(5%)  tps: 99,000", "val loss: nan", "loss_scale: inf",
         "{'eval_loss': 2.2, 'eval_samples_per_second': 734.5}", "time (ms) | forward-compute: 193.77 |")
NAN = ("loss: nan", "{'loss': nan, 'grad_norm': nan}", " | lm loss: NAN |", "step: 4  loss: nan  grad_norm: nan",
       "| lm_loss: nan |", "reduced_train_loss: nan")


class Log:
    """Lines with the times of their arrival, and what is true of them."""

    def __init__(self, form, seed, least_s, most_s, steps):
        pick = self.random = random.Random(seed)
        self.name, line = form
        self.is_adapter = (ROOT / f"experiments/adapters/{self.name}.toml").exists()
        self.step_s = math.exp(pick.uniform(math.log(least_s), math.log(most_s)))
        ranks = 1 if self.chance(0.5) else pick.randint(2, 8)
        named, color, twice = self.chance(0.5), self.chance(0.2), self.chance(0.1)
        comma = not self.is_adapter and self.chance(0.4)
        interval = 1 if self.name == "hf-trainer" else pick.choice((1, 1, 1, 10))  # of a bar's count
        self.lines = []
        at = pick.uniform(0.0, 0.2)
        begin = at
        for step in range(1, steps + 1):
            s = self.step_s * pick.uniform(0.99, 1.01) * (pick.uniform(1, 5) if step == 1 else 1)
            at += s
            for rank in range(ranks):
                text = line(step * interval, s * pick.uniform(0.999, 1.001), at - begin)
                text = text.replace(".", ",") if comma else text
                text = f"[rank{rank}]: {text}" if named and ranks > 1 else text
                text = f"\x1b[36m{text}\x1b[0m" if color else text
                self.lines += [(at + 0.001 * rank, text)] * (2 if twice else 1)
            if self.chance(0.1):
                self.lines.append((at + 0.01, pick.choice(OTHER)))
        self.damage()

    def chance(self, probability):
        return self.random.random() < probability

    def damage(self):
        rate = 0.0 if self.chance(0.5) else 0.06
        newline = "\r\n" if self.chance(0.2) else "\n"
        lines = []
        for seconds, text in self.lines:
            end = newline
            if self.chance(rate):
                text = text[:self.random.randrange(len(text))]
            elif self.chance(rate):
                end = ""
            lines.append((seconds, text + end))
        self.lines = lines

    def patterns(self):
        """[backend.log] of a manifest."""
        if self.is_adapter:
            text = (ROOT / f"experiments/adapters/{self.name}.toml").read_text()
            return "[backend.log]\n" + text.split("\n[log]\n", 1)[1]
        return f"[backend.log]\nstep_time_s = '{self.name}'\n"

    def losses(self):
        """A pattern of the lines that its patterns take for a loss."""
        found = tomllib.loads(self.patterns())["backend"]["log"].get("loss", "loss: ")
        return "|".join([found] if isinstance(found, str) else found)


def called(program, words, folder):
    return subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def refused(result):
    """Why the program says no; '' if it says so badly."""
    lines = result.stderr.strip().splitlines()
    return lines[-1] if result.returncode in (1, 2) and lines else ""


def read_file(program, form, seed, folder):
    """What is wrong with `oppa plan --log` of a log: '' if nothing is; and what came of it."""
    log = Log(form, seed, 0.3, 60.0, random.Random(seed).randint(8, 27))
    (folder / "job.log").write_bytes("".join(text for _, text in log.lines).encode())
    framework = ["--framework", log.name] if log.is_adapter else ["--framework", "megatron-lm", "--step-time", log.name]
    result = called(program, ["plan", "--model", ROOT / "experiments/workloads/tiny-qwen2.json", "--gpus", f"1x{GPUS}", "--gpu",
                              "h100", "--batch", str(BATCH), "--seq", str(SEQUENCE), "--config",
                              f"dp={GPUS},micro_batch_size=1", "--log", "job.log", *framework], folder)
    if result.returncode != 0:
        return "" if refused(result) else f"exit code {result.returncode}: {result.stderr[-300:]}", "refused"
    found = re.search(r"^your run takes ([-0-9.e]+) s per step", result.stdout, re.M)
    if not found:
        return f"no step time with exit code 0: {result.stdout[-300:]}", "read"
    return judged(float(found[1]), log.step_s), "read"


def read_none(program, form, seed, folder):
    """The same of a log without a time of a step."""
    problem, outcome = read_file(program, form, seed, folder)
    return ("a number is read that is no time of a step", outcome) if outcome == "read" else (problem, outcome)


def judged(found, true):
    return "" if abs(found / true - 1) < 0.06 else f"{found:.4g} s instead of {true:.4g} s"


def run_trial(program, form, seed, folder):
    """The same of a trial that prints a log."""
    log = Log(form, seed, 0.1, 0.25, STEPS + 3)
    diverges = log.chance(0.15)
    if diverges:
        at = len(log.lines) // 2
        text = next((each for each in NAN if re.search(log.losses(), each)), NAN[0])
        log.lines.insert(at, (log.lines[at][0], f"\n{text}\n"))
    (folder / "lines.json").write_text(json.dumps(log.lines))
    (folder / "replay.py").write_text(REPLAY)
    (folder / "replay.py").chmod(0o755)
    (folder / "m.toml").write_text(MANIFEST.format(root=ROOT, steps=STEPS) + log.patterns())
    result = called(program, ["run", "m.toml", "--no-report", "--results", "r"], folder)
    records = folder / "r/m/random/1"
    if not (records / "trials.csv").exists():
        return "" if refused(result) else f"exit code {result.returncode}: {result.stderr[-300:]}", "refused"
    row = next(csv.DictReader((records / "trials.csv").read_text().splitlines()[1:]))
    if row["outcome"] != "completed":
        expected = "diverged" if diverges else "failed"
        return "" if row["outcome"] == expected else f"{row['outcome']} instead of {expected}: {row['message']}", row["outcome"]
    steps = [float(each["step_time_s"]) for each in csv.DictReader((records / "steps.csv").read_text().splitlines()[1:])]
    return "it prints a loss of NaN" if diverges else judged(statistics.median(steps[1:]), log.step_s), "completed"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--only", choices=("plan", "none", "trial"))
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    counts = collections.Counter()
    failures = []

    def read(job):
        number, what, reading = job
        forms = NO_STEPS if reading == read_none else FORMS
        form = forms[number % len(forms)]
        with tempfile.TemporaryDirectory() as name:
            problem, outcome = reading(program, form, f"{arguments.seed} {number} {what}", Path(name))
        return number, what, form[0], problem, outcome

    readings = [("plan", read_file), ("none", read_none), ("trial", run_trial)]
    jobs = [(number, what, reading) for number in range(arguments.logs) for what, reading in readings
            if arguments.only in (None, what)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for number, what, form, problem, outcome in pool.map(read, jobs):
            counts[f"{what} {'wrong' if problem else outcome}"] += 1
            if problem:
                failures.append(f"--seed {arguments.seed}, {what} of log {number} ({form}): {problem}")
    for what, count in sorted(counts.items()):
        print(f"{count:5} {what}")
    print("\n".join(failures[:20]))
    print(f"{arguments.logs} logs, {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
