"""A search that this process drives: ask for a configuration, tell what it measured."""
from __future__ import annotations

import csv
import os
import tempfile
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Union

from ._program import OppaError, Server, run

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]

Config = Dict[str, Any]
State = Literal["complete", "pruned", "memory_out", "failed", "timed_out", "diverged"]

_OUTCOMES: Dict[str, str] = {"complete": "completed", "pruned": "terminated_early", "memory_out": "out_of_memory",
                             "failed": "failed", "timed_out": "timed_out", "diverged": "diverged"}
_STATES: Dict[str, Any] = {outcome: state for state, outcome in _OUTCOMES.items()}


class SearchEnded(OppaError):
    """There is no further trial; the message says why."""


@dataclass(frozen=True)
class Predicted:
    """What the simulator predicts for a configuration."""
    step_time_s: float
    peak_memory_bytes: float


@dataclass(frozen=True)
class FrozenTrial:
    """A trial on record."""
    number: int
    config: Config
    state: State
    step_time_s: Optional[float]
    """Of the estimated throughput; None where too few steps ran."""
    step_times: List[float]
    peak_memory_bytes: Optional[float]
    duration_s: float
    elapsed_s: float
    """The time of the search when the trial ended."""
    chosen_by: str
    """random, model, given (a start or an enqueued one) or imported (add_trial)."""
    message: str


class Trial:
    """A trial that runs."""

    def __init__(self, study: "Study", fields: Mapping[str, Any]) -> None:
        self._study = study
        self._reported = 0
        self._prune = False
        self.number: int = fields["number"]
        self.config: Config = fields["config"]
        self.max_steps: int = fields["max_steps"]
        self.seed: int = fields["seed"]
        self.time_limit_s: Optional[float] = None if fields["time_limit_s"] == "inf" else fields["time_limit_s"]
        predicted = fields["predicted"]
        self.predicted: Optional[Predicted] = Predicted(**predicted) if predicted else None

    def report(self, step_time_s: float, step: Optional[int] = None) -> None:
        """Reports the time of a step, of all steps from the first one on. `step` counts from 1; repeats are ignored."""
        step = self._reported + 1 if step is None else step
        if step <= self._reported:
            return
        if step != self._reported + 1:
            raise OppaError(f"step {step} is reported after step {self._reported}: report every step")
        self._reported = step  # also where the wait for the answer is interrupted
        try:
            answer = self._study._request("report", trial=self.number, step_time_s=step_time_s)
        except OppaError:
            self._reported = step - 1
            raise
        self._prune = self._prune or answer["should_prune"]

    def should_prune(self) -> bool:
        """Whether the trial is unlikely to beat the best one: end it, and tell the state "pruned"."""
        return self._prune

    def __repr__(self) -> str:
        return f"Trial({self.number}, {self.config})"


_studies: "weakref.WeakSet[Study]" = weakref.WeakSet()


class Study:
    """A search. create_study() makes it."""

    def __init__(self, words: Sequence[str], import_words: Sequence[str]) -> None:
        self._words = list(words)
        self._import_words = list(import_words)
        self._queue: List[Any] = []
        self._server: Optional[Server] = None
        for other in list(_studies):  # such as that of a notebook's cell that runs again
            if other._words == self._words:
                other.close()
        _studies.add(self)
        hello = self._serving().hello
        self.name: str = hello["name"]
        self.description: str = hello["description"]
        self.folder = Path(hello["folder"])
        """The records, for `oppa report` and `oppa status`."""
        self.method: str = hello["method"]
        self.max_steps: int = hello["max_steps"]
        self.candidates: int = hello["candidates"]
        """The size of the search space."""

    def ask(self) -> Trial:
        """The next trial, which runs until it is told. Raises SearchEnded where there is none."""
        answer = self._request("ask")
        if answer["trial"] is None:
            raise SearchEnded(f"the search has ended: {answer['ended']}")
        return Trial(self, answer["trial"])

    def __iter__(self) -> Iterator[Trial]:
        """Trials until the search ends, each to be told before the next."""
        while True:
            try:
                yield self.ask()
            except SearchEnded:
                return

    def tell(self, trial: Union[Trial, int], *, state: State = "complete",
             step_times: Optional[Sequence[float]] = None, peak_memory_bytes: Optional[float] = None,
             duration_s: Optional[float] = None, message: str = "") -> FrozenTrial:
        """Records a trial. When this returns, the record survives a crash.

        step_times: seconds, the first step included; those that were reported if None. A complete trial has max_steps.
        duration_s: what the trial costs the search; the time since ask() if None. message: the reason of a failure.
        """
        if state not in _OUTCOMES:
            raise OppaError(f"unknown state '{state}'; known: {', '.join(_OUTCOMES)}")
        answer = self._request("tell", trial=trial if isinstance(trial, int) else trial.number,
                               outcome=_OUTCOMES[state], peak_memory_bytes=peak_memory_bytes, duration_s=duration_s,
                               step_times_s=None if step_times is None else list(step_times), message=message)
        told = _frozen(answer["trial"])
        if told.config in self._queue:
            self._queue.remove(told.config)
        return told

    @property
    def best_trial(self) -> FrozenTrial:
        """The best complete trial. Raises OppaError where there is none."""
        best = self._request("best")["trial"]
        if best is None:
            raise OppaError("no trial is complete yet")
        return _frozen(best)

    @property
    def trials(self) -> List[FrozenTrial]:
        """All trials on record."""
        return [_frozen(one) for one in self._request("trials")["trials"]]

    def trials_dataframe(self) -> "pandas.DataFrame":
        """All trials as a table of pandas, with a column params_NAME for each parameter."""
        import pandas
        rows = []
        for one in self.trials:
            row = asdict(one)
            config = row.pop("config")
            rows.append({**row, **{f"params_{name}": value for name, value in config.items()}})
        return pandas.DataFrame(rows)

    @property
    def parameters(self) -> Dict[str, List[Any]]:
        """The values of each parameter in the search space. Not all combinations are possible."""
        parameters: Dict[str, List[Any]] = self._request("space")["parameters"]
        return parameters

    def plan(self, count: int = 10) -> List[Mapping[str, Any]]:
        """The configurations that the predictions would try first, as {"config", "label", "predicted"}."""
        layouts: List[Mapping[str, Any]] = self._request("plan", count=count)["layouts"]
        return layouts

    def enqueue_trial(self, config: Union[Config, str]) -> Config:
        """Tries a configuration next, after the starts of the manifest. Returns it with every parameter.

        Parameters that are left out have the nearest possible value to their default. What was not asked when this
        process ends is forgotten.
        """
        completed: Config = self._request("enqueue", config=_text(config))["config"]
        self._queue.append(completed)
        return completed

    def add_trial(self, config: Config, *, state: State = "complete", step_time_s: Optional[float] = None,
                  step_time_stddev_s: Optional[float] = None, peak_memory_bytes: Optional[float] = None,
                  message: str = "") -> None:
        """Adds a trial that was measured elsewhere, as `oppa import` does. No trial may be running."""
        if "microbatches" in config:  # the sequences of one follow from it
            config = {name: value for name, value in config.items() if name != "micro_batch_size"}
        row = {**config, "outcome": _OUTCOMES[state], "step_time_s": step_time_s,
               "step_time_stddev_s": step_time_stddev_s, "peak_memory_bytes": peak_memory_bytes, "message": message}
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "trials.csv"
            with table.open("w", newline="") as file:
                writer = csv.DictWriter(file, [name for name, value in row.items() if value not in (None, "")],
                                        extrasaction="ignore")
                writer.writeheader()
                writer.writerow(row)
            self.close()
            output = run([*self._import_words, str(table), "--results", str(self.folder.parent)])
        if " left out " in output:
            raise OppaError(output.strip())

    def close(self) -> None:
        """Ends the program. The next call starts it again; a trial that is running is not recorded."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def __del__(self) -> None:
        if getattr(self, "_server", None) is not None:
            self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def _serving(self) -> Server:
        if self._server is None:
            self._server = Server(self._words)
            for config in self._queue:
                self._server.request("enqueue", config=_text(config))
        return self._server

    def _request(self, op: str, **fields: Any) -> Any:
        return self._serving().request(op, **{name: value for name, value in fields.items() if value is not None})


def create_study(manifest: Union[str, "os.PathLike[str]"], storage: Union[str, "os.PathLike[str]", None] = None, *,
                 load_if_exists: bool = False, method: Optional[str] = None, settings: Sequence[str] = (),
                 accept_changed: bool = False) -> Study:
    """The search of a manifest, with `type = "client"` or `type = "command"` as its [backend] (docs/python.md).

    storage: the folder of all records (None: oppa-results next to the manifest, as for `oppa tune`).
    method: instead of that of the manifest. settings: values instead of those of the manifest, "budget.trials=50".
    accept_changed: continues records of another input. Raises OppaError where there are trials on record, unless
    load_if_exists.
    """
    common = [os.fspath(manifest)]
    for setting in [*settings, *([f'experiment.methods=["{method}"]'] if method else [])]:
        common += ["--set", setting]
    words = [*common, *(["--results", os.fspath(storage)] if storage is not None else []),
             *(["--accept-changed"] if accept_changed else [])]
    study = Study(words, ["import", *common])
    trials = study._serving().hello["trials"]
    if trials > 0 and not load_if_exists:
        study.close()
        raise OppaError(f"{study.folder} has {trials} trials: load_if_exists=True continues them, and another storage "
                        "or experiment.name begins a new search")
    return study


def _text(config: Union[Config, str]) -> str:
    if isinstance(config, str):
        return config
    return ",".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                    for name, value in config.items())


def _frozen(fields: Mapping[str, Any]) -> FrozenTrial:
    return FrozenTrial(fields["number"], fields["config"], _STATES[fields["outcome"]], fields["step_time_s"],
                       fields["step_times_s"], fields["peak_memory_bytes"], fields["duration_s"], fields["elapsed_s"],
                       fields["chosen_by"], fields["message"])
