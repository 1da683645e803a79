"""What a training program reports to the search that started it (docs/external-trials.md).

Outside of a search, all of this does nothing.
"""
from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Optional, TypeVar

from ._program import OppaError

if TYPE_CHECKING:
    from ._study import Trial

Batch = TypeVar("Batch")


def trial() -> Optional[Dict[str, Any]]:
    """The request of the search: {"config": {...}, "max_steps": 30, ...}; None outside of a search."""
    text = os.environ.get("OPPA_TRIAL")
    try:
        request: Optional[Dict[str, Any]] = dict(json.loads(text)) if text else None
    except (TypeError, ValueError) as error:
        raise OppaError(f"OPPA_TRIAL in the environment is not what oppa sets ({error}): unset it") from None
    return request


def _rank() -> int:
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        text = os.environ.get(name, "")
        try:
            return int(text)
        except ValueError:
            if text:
                raise OppaError(f"{name} = '{text}' in the environment: set it to the number of this process") from None
    return 0


def report(**values: Any) -> None:
    """Reports step_time_s, peak_memory_bytes, loss, skipped, or status ("out_of_memory", "failed", "diverged") with a message.

    One write, so that reports and the output of other processes cannot mix.
    """
    if "OPPA_TRIAL" not in os.environ:
        return
    if values.get("loss") is not None:
        values["loss"] = float(values["loss"])  # a tensor may be given
    line = ("oppa " + json.dumps(values, default=float, ensure_ascii=False) + "\n").encode(errors="replace")
    path = os.environ.get("OPPA_REPORT")
    file = os.open(path, os.O_WRONLY | os.O_APPEND) if path else 1  # 1: standard output
    try:
        os.write(file, line)
    finally:
        if path:
            os.close(file)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of PyTorch says that the memory of a device is exhausted."""
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error)


class StepClock:
    """Times the steps of a training loop and reports them with the peak memory.

    For the search that started this process, or for `trial` of a Study. Rank 0 reports step times, and each rank its
    peak: of the GPU by PyTorch, else of the process.
    """

    def __init__(self, trial_of_study: "Optional[Trial]" = None) -> None:
        self._trial = trial_of_study
        request = trial()
        self.max_steps: int = trial_of_study.max_steps if trial_of_study else request["max_steps"] if request else 0
        self.active: bool = self.max_steps > 0
        self.steps = 0
        self._is_first_rank = _rank() == 0
        self._begin_s = 0.0

    def start(self) -> None:
        """The next step begins now: before the first one, and after what is no part of a step, such as an evaluation."""
        self._begin_s = self._now()

    def step(self) -> bool:
        """A step has ended, and the next one begins. True: end the training."""
        if not self.active:
            return False
        now = self._now()
        step_time_s = now - self._begin_s
        self._begin_s = now
        self.steps += 1
        if self._trial is not None:
            self._trial.report(step_time_s)
            return self.steps >= self.max_steps or self._trial.should_prune()
        if self.steps <= self.max_steps:
            values: Dict[str, float] = {"step_time_s": step_time_s} if self._is_first_rank else {}
            report(peak_memory_bytes=self.peak_memory_bytes(), **values)
        return self.steps >= self.max_steps

    def peak_memory_bytes(self) -> float:
        """Of this rank, so far."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            return float(torch.cuda.max_memory_reserved())
        import resource
        kilobyte = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobyte)

    @staticmethod
    def _now() -> float:
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


_clock: Optional[StepClock] = None


def steps(batches: Iterable[Batch], *, batches_per_step: int = 1,
          trial_of_study: "Optional[Trial]" = None) -> Iterator[Batch]:
    """The batches, whose time is reported as that of steps; ends when the search has enough steps.

        for batch in oppa.steps(loader):
            train_step(batch)

    batches_per_step: batches that one step of the optimizer accumulates. The steps of several epochs count together.
    """
    global _clock
    if trial_of_study is not None:
        clock = StepClock(trial_of_study)
    else:
        clock = _clock = _clock or StepClock()
    if clock.active and clock.steps >= clock.max_steps:
        return
    clock.start()
    for count, batch in enumerate(batches, 1):
        yield batch
        if count % batches_per_step == 0 and clock.step():
            return
