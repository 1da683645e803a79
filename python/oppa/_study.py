"""A search that this process drives: ask for a configuration, tell what it measured."""
from __future__ import annotations

import csv
import os
import tempfile
import threading
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Set, Union

from ._program import OppaError, Program, Server, ServerDied

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

    def __init__(self, study: "Study", fields: Mapping[str, Any], steps: List[float]) -> None:
        self._study = study
        self._steps = steps  # those reported, also where the wait for the answer was interrupted
        self._prune = False
        self.number: int = fields["number"]
        self.config: Config = dict(fields["config"])
        self._asked = dict(self.config)
        self.max_steps: int = fields["max_steps"]
        self.seed: int = fields["seed"]
        self.time_limit_s: Optional[float] = None if fields["time_limit_s"] == "inf" else fields["time_limit_s"]
        predicted = fields["predicted"]
        self.predicted: Optional[Predicted] = Predicted(**predicted) if predicted else None

    def report(self, step_time_s: float, step: Optional[int] = None) -> None:
        """Reports the time of a step, of all steps from the first one on. `step` counts from 1; repeats are ignored."""
        reported = len(self._steps)
        step = reported + 1 if step is None else step
        if step <= reported:
            return
        if step != reported + 1:
            raise OppaError(f"step {step} is reported after step {reported}: report every step")
        self._study._require_asked(self)
        answer = self._study._request("report", trial=self.number, step_time_s=step_time_s)
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
        self._program = Program()
        self._lock = threading.RLock()
        self._queue: List[Any] = []
        self._open: Dict[int, Dict[str, Any]] = {}
        """The trials that run, each as it was "asked", with the "steps" that were reported, and the thread to which ask()
        has not returned it."""
        self._telling: Set[int] = set()
        """The trials of which a tell() has begun."""
        self._told: Dict[int, Any] = {}
        """The last trial that was told, and what."""
        self._server: Optional[Server] = None
        self._newer: Optional["weakref.ref[Study]"] = None
        for other in list(_studies):  # such as that of a notebook's cell that runs again
            if other._words == self._words:
                other._give_way(self)
        try:
            hello = self._serving().hello
        except OppaError as error:  # the same search by other words: a link to its folder, other settings
            owners = [other for other in list(_studies) if f" process {other._pid()} on " in str(error)]
            if not owners:
                raise
            owners[0]._give_way(self)
            hello = self._serving().hello
        _studies.add(self)
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
        caller = threading.get_ident()
        lost = [one for one in self._open.values() if one["undelivered"] == caller]  # an earlier call was interrupted
        if not lost:
            answer = self._request("ask", caller)
            if answer["trial"] is None:
                raise SearchEnded(f"the search has ended: {answer['ended']}")
            lost = [self._open[answer["trial"]["number"]]]
        trial = Trial(self, lost[0]["asked"], lost[0]["steps"])
        if self._server is not None:
            self._server.left.pop(caller, None)
        lost[0]["undelivered"] = None
        return trial

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
        outcome = _outcome(state)
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(trial, Trial):
            self._require_asked(trial)
        told = (outcome, step_times if step_times is None else list(step_times), peak_memory_bytes, duration_s, message)
        if step_times is None and number in self._open and self._open[number]["steps"]:
            step_times = self._open[number]["steps"][:self._open[number]["asked"]["max_steps"]]
        fields: Dict[str, Any] = {
            "trial": number, "outcome": outcome, "peak_memory_bytes": peak_memory_bytes, "message": message,
            "duration_s": duration_s, "step_times_s": None if step_times is None else list(step_times)}
        again = number in self._telling or self._told.get(number) == told
        self._telling.add(number)
        try:
            answer = self._request("tell", **fields)
        except OppaError as error:
            # An earlier call was interrupted, or the program was killed: before or after it had recorded the trial.
            died = isinstance(error, ServerDied)
            trials = self._request("trials")["trials"] if again or died else []
            recorded = [one for one in trials if one["number"] == number]
            if recorded:
                self._forget(number)
            elif not died:
                self._telling.discard(number)
                raise
            answer = {"trial": recorded[0]} if recorded else self._request("tell", **fields)
        self._told = {number: told}  # before an interrupt that only the caller notices
        self._telling.discard(number)
        return _frozen(answer["trial"])

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
        if completed not in self._queue:
            self._queue.append(completed)
        return completed

    def add_trial(self, config: Config, *, state: State = "complete", step_time_s: Optional[float] = None,
                  step_time_stddev_s: Optional[float] = None, peak_memory_bytes: Optional[float] = None,
                  message: str = "") -> None:
        """Adds a trial that was measured elsewhere, as `oppa import` does. No trial may be running."""
        if self._open:
            raise OppaError(f"trial {min(self._open)} is running: tell() its result before add_trial(), or close() drops it")
        if "microbatches" in config:  # the sequences of one follow from it
            config = {name: value for name, value in config.items() if name != "micro_batch_size"}
        row = {**config, "outcome": _outcome(state), "step_time_s": step_time_s, "step_time_stddev_s": step_time_stddev_s,
               "peak_memory_bytes": peak_memory_bytes, "message": " ".join(message.split())}
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "trials.csv"
            with table.open("w", newline="", encoding="utf-8", errors="replace") as file:
                writer = csv.DictWriter(file, [name for name, value in row.items() if value not in (None, "")],
                                        extrasaction="ignore")
                writer.writeheader()
                writer.writerow(row)
            self.close()
            try:
                output = self._program.run([*self._import_words, str(table), "--results", str(self.folder.parent)])
            except OppaError as error:
                raise OppaError(str(error).replace(f"{table}:2", "add_trial")) from None
        if " left out " in output:
            raise OppaError(output.strip())

    def close(self) -> None:
        """Ends the program. The next call starts it again; a trial that is running is not recorded."""
        self._open.clear()
        if self._server is not None:
            self._server.close()
            self._server = None

    def __del__(self) -> None:
        if getattr(self, "_server", None) is not None:
            self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_server": None, "_lock": None, "_newer": None, "_open": {}}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def _pid(self) -> int:
        return self._server.pid if self._server is not None else -1

    def _give_way(self, newer: "Study") -> None:
        self.close()
        self._newer = weakref.ref(newer)

    def _serving(self) -> Server:
        server = self._server
        if server is not None and not server.ended:
            return server
        with self._lock:
            if self._server is None or self._server.ended:
                if self._server is not None:
                    self._server.wait()
                newer = self._newer() if self._newer is not None else None
                if newer is not None and newer._server is not None:
                    raise OppaError(f"another Study of {newer.folder} was made in this process: use that one, or "
                                    "close() it")
                server = Server(self._program, self._words)
                try:
                    self._continue(server)
                except BaseException:
                    server.kill()
                    raise
                self._server = server
            return self._server

    def _continue(self, server: Server) -> None:
        """After the program was killed: what was enqueued, and the trials that run, each with its reports."""
        for one in server.request("trials")["trials"] if self._open else []:
            self._forget(one["number"])  # the answer to its tell() was lost
        enqueued = [{"op": "enqueue", "config": _text(config)} for config in self._queue]
        asked_before = any(one["config"] not in self._queue for one in self._open.values())
        for request in [] if asked_before else enqueued:
            server.request(**request)
        for _ in range(len(self._open)):
            answer = server.request("ask")
            number, config = (answer["trial"] or {}).get("number"), (answer["trial"] or {}).get("config")
            if number not in self._open or self._open[number]["config"] != config:
                server.left[threading.get_ident()] = answer["id"]  # the records have changed meanwhile
                break
            for step_time_s in self._open[number]["steps"]:
                server.request("report", trial=number, step_time_s=step_time_s)
        for request in enqueued if asked_before else []:
            server.request(**request)

    def _require_asked(self, trial: Trial) -> None:
        """Refuses a trial of a close()d or another Study whose number another configuration has, and changed values."""
        asked = self._open.get(trial.number, {}).get("config", trial._asked)
        if trial._asked != asked or any(trial.config.get(name, value) != value for name, value in asked.items()):
            raise OppaError(f"trial {trial.number} was asked with {_text(asked)}, not {_text(trial.config)}: measure the "
                            "configuration of the trial that ask() returned last")

    def _forget(self, number: int) -> None:
        trial = self._open.pop(number, None)
        if trial is not None and trial["config"] in self._queue:
            self._queue.remove(trial["config"])

    def _request(self, op: str, caller: Optional[int] = None, **fields: Any) -> Any:
        """The answer to a request. Where the program is killed meanwhile, another one answers."""
        fields = {name: value for name, value in fields.items() if value is not None}
        steps: List[Any] = []
        for last in (False, True):
            server = self._serving()
            if op == "report" and fields.get("trial") in self._open:
                steps = self._open[fields["trial"]]["steps"]
            steps.append(fields.get("step_time_s"))  # also where the wait for the answer is interrupted
            try:
                answer = server.request(op, **fields)
                if op == "ask" and answer["trial"] is not None:  # no call, which an interrupt could precede
                    self._open[answer["trial"]["number"]] = {"asked": answer["trial"], "config": answer["trial"]["config"],
                                                             "steps": [], "undelivered": caller}
                break
            except OppaError as error:
                steps.pop()
                if last or op == "tell" or not isinstance(error, ServerDied):
                    raise
        del answer["id"]
        if op == "tell":
            self._forget(answer["trial"]["number"])
        return answer


def create_study(manifest: Union[str, "os.PathLike[str]"], storage: Union[str, "os.PathLike[str]", None] = None, *,
                 load_if_exists: bool = False, method: Optional[str] = None, settings: Sequence[str] = (),
                 accept_changed: bool = False) -> Study:
    """The search of a manifest, with `type = "client"` or `type = "command"` as its [backend] (docs/python.md).

    storage: the folder of all records (None: oppa-results next to the manifest, as for `oppa tune`).
    method: instead of that of the manifest. settings: values instead of those of the manifest, "budget.trials=50".
    accept_changed: continues records of another input. Raises OppaError where there are trials on record, unless
    load_if_exists.
    """
    # Absolute, so that os.chdir() moves nothing; of one spelling, by which Studies of one search are found.
    try:
        folder, name = os.path.split(os.fsdecode(manifest))
        manifest = os.path.join(os.path.realpath(folder), name)
    except FileNotFoundError:
        raise OppaError(f"{manifest}: the current folder was removed: change to another one") from None
    common = [manifest]
    for setting in [*([settings] if isinstance(settings, str) else settings), *([f'experiment.methods=["{method}"]'] if method else [])]:
        common += ["--set", setting]
    words = [*common, *(["--results", os.path.realpath(storage)] if storage is not None else []),
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
    if not isinstance(config, Mapping):
        raise OppaError(f"config {config!r}: it must be a dict of parameters, or a text such as 'dp=4,pp=2'")
    return ",".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                    for name, value in config.items())


def _outcome(state: str) -> str:
    if state not in list(_OUTCOMES):
        raise OppaError(f"unknown state '{state}'; known: {', '.join(_OUTCOMES)}")
    return _OUTCOMES[state]


def _frozen(fields: Mapping[str, Any]) -> FrozenTrial:
    return FrozenTrial(fields["number"], fields["config"], _STATES[fields["outcome"]], fields["step_time_s"],
                       fields["step_times_s"], fields["peak_memory_bytes"], fields["duration_s"], fields["elapsed_s"],
                       fields["chosen_by"], fields["message"])
