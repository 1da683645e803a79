"""A training job: its search space, and trials that `oppa` runs and records."""

import contextlib
import csv
import dataclasses
import pathlib
import re
import shutil
import statistics
import subprocess

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"

# The parameters on which it depends whether others have an effect come first.
FIRST = ("dp", "tp", "pp", "zero_stage")

# What a person would set without measuring.
HAND_SET = {
    # The model fits on every rank, so data parallelism alone, without recomputation and with the largest microbatch; a
    # thread per core; fused AdamW, which torch.optim describes as the fastest.
    "gpt": "zero_stage=0,dp_bucket_mb=25,microbatches=1,grad_checkpoint=0,adamw=fused,threads=1",
    # The same layout; the distributed optimizer of Megatron Core with its overlaps.
    "layouts": "dp=4,tp=1,pp=1,zero_stage=1,zero_bucket_mb=24,overlap_zero_comm=1,overlap_zero_allgather=1,"
               "microbatches=1,grad_checkpoint=0",
}


class Failure(Exception):
    """Something that ends the benchmark: a message for the user."""


def read_csv(path):
    """The rows of a table, without its version line."""
    with open(path, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def run(words, folder, show=None, codes=(0,)):
    """Runs a program, passes each line of its output to `show`, and returns all of them."""
    lines = []
    with subprocess.Popen([str(word) for word in words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        try:
            for line in process.stdout:
                lines.append(line)
                if show:
                    show(line.rstrip())
        except BaseException:
            process.terminate()
            process.wait()  # `oppa` ends its trial before it exits
            raise
    if process.returncode not in codes:
        raise Failure("".join(lines[-15:]) + f"{' '.join(map(str, words))}: exit code {process.returncode}")
    return lines


class Space:
    """The configurations that a search may try: dictionaries of the parameters that vary."""

    def __init__(self, rows):
        parameters = [name for name in rows[0] if name not in ("problem", "candidate", "micro_batch_size")]
        names = [name for name in parameters if len({row[name] for row in rows}) > 1]
        self.fixed = {name: rows[0][name] for name in parameters if name not in names}
        self.names = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
        self.candidates = [self.varying(row) for row in rows]
        self.values = {name: self.values_among(self.candidates, name) for name in self.names}

    def varying(self, row):
        return {name: row[name] for name in self.names}

    @staticmethod
    def values_among(candidates, name):
        """The values of a parameter: numbers in order, others as the manifest lists them."""
        values = list(dict.fromkeys(candidate[name] for candidate in candidates))
        with contextlib.suppress(ValueError):
            values.sort(key=float)
        return values

    def find(self, text):
        """The one configuration that has the values of "dp=2,microbatches=4"."""
        named = dict(pair.split("=") for pair in text.split(","))
        found = [one for one in self.candidates
                 if all(one.get(name, value) == value for name, value in named.items())]
        if len(found) != 1:
            raise Failure(f"'{text}' describes {len(found)} configurations of the space")
        return found[0]

    @staticmethod
    def text(config):
        return ",".join(f"{name}={value}" for name, value in config.items())


@dataclasses.dataclass
class Trial:
    """A row of trials.csv with its steps."""
    config: dict
    outcome: str
    steps_per_s: float  # the estimate on which `oppa` bases its search; None without one
    step_times_s: list
    elapsed_s: float

    def tokens_per_s(self, tokens):
        """The throughput of the steps behind the first one; None if the trial has not completed."""
        if self.outcome != "completed" or len(self.step_times_s) < 2:
            return None
        return tokens / statistics.fmean(self.step_times_s[1:])


class Job:
    """A copy of a job's folder, in which trials run."""

    def __init__(self, name, oppa, folder, seed, minutes=None, steps=None):
        self.name, self.oppa, self.folder = name, oppa, folder
        text = (JOBS / name / f"{name}.toml").read_text(encoding="utf-8")
        text = text.replace("[experiment]\n", f"[experiment]\nseed = {seed}\n", 1)
        if minutes:
            text = re.sub(r"^time_minutes = .*$", f"time_minutes = {minutes:g}", text, flags=re.MULTILINE)
        if steps:
            text = re.sub(r"^q_max = .*$", f"q_max = {steps}", text, flags=re.MULTILINE)
        self.manifest = folder / f"{name}.toml"
        if self.manifest.exists() and self.manifest.read_text(encoding="utf-8") != text:
            raise Failure(f"{self.manifest} has other settings; rerun with those, or with another --results folder")
        shutil.copytree(JOBS / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        self.manifest.write_text(text, encoding="utf-8")
        listed = run([oppa, "space", self.manifest.name, "--csv"], folder)
        self.space = Space(list(csv.DictReader(listed)))
        self.title = re.search(r'^title = "(.*)"$', text, re.MULTILINE)[1]
        sizes = [int(re.search(rf"^{key} = (\d+)$", text, re.MULTILINE)[1]) for key in
                 ("batch_size", "sequence_length")]
        self.tokens = sizes[0] * sizes[1]
        self.default = self.space.find(re.search(r'^start = \["(.*)"\]$', text, re.MULTILINE)[1])
        self.hand_set = self.space.find(HAND_SET[name])

    def with_method(self, method):
        """The path of a copy of the manifest that searches with this method."""
        path = self.manifest.with_name(f"{self.name}-{method}.toml")
        text = re.sub(r"^methods = .*$", f'methods = ["{method}"]', self.manifest.read_text(encoding="utf-8"),
                      flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")
        return path

    def changes(self, config):
        """The values that the default does not have, as text; "default" if there are none."""
        return Space.text({name: value for name, value in config.items() if value != self.default[name]}) or "default"

    def trials(self, records):
        """What a run has recorded."""
        if not (records / "trials.csv").exists():
            return []
        times = {}
        for row in read_csv(records / "steps.csv"):
            times.setdefault(row["trial"], []).append(float(row["step_time_s"]))
        return [Trial(self.space.varying(row), row["outcome"],
                      float(row["throughput_steps_per_s"]) if row["throughput_steps_per_s"] else None,
                      times.get(row["trial"], []), float(row["elapsed_s"]))
                for row in read_csv(records / "trials.csv")]

    def run_random(self, results, seconds, settings=(), show=None):
        """`oppa run` with the method `random`; returns its trials. It resumes what `results` has."""
        words = [self.oppa, "run", self.manifest.name, "--results", results, "--no-report", "--methods", "random",
                 "--set", f"budget.time_minutes={max(seconds, 1e-3) / 60:.6f}"]
        for setting in settings:
            words += ["--set", setting]
        run(words, self.folder, show, codes=(0, 1))  # 1: no trial has completed
        return self.trials(results / self.name / "random" / "1")

    def measure(self, config, results, seconds=3600.0):
        """One trial of a configuration."""
        trials = self.run_random(results, seconds, [f'experiment.start=["{Space.text(self.space.fixed | config)}"]', "budget.trials=1"])
        if len(trials) != 1 or trials[0].config != config:
            raise Failure(f"{results}: not a trial of {Space.text(config)}")
        return trials[0]
