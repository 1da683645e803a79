"""A sampler and a pruner of Optuna, from version 5 on.

    sampler = OppaSampler(oppa.create_study("tune.toml"))
    study = optuna.create_study(sampler=sampler, pruner=OppaPruner(sampler))

    def objective(trial):
        config = sampler.config(trial)
        try:
            for step in range(1, sampler.max_steps + 1):
                trial.report(train_step(config), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
        except torch.OutOfMemoryError:
            return sampler.out_of_memory(trial)
        return step_time(config)

    study.optimize(objective)

The objective is a step time in seconds, to be minimized. Every step is reported, from 1. One trial runs at a time.
Configurations of study.enqueue_trial() are tried next. A trial without all steps or with NaN is told as failed.
One that is interrupted (Ctrl-C) is not told, and asked again.
"""
from __future__ import annotations

import contextlib
import inspect
from typing import Any, Dict, Optional, Sequence, Union

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

import oppa

from . import tell

AnyTrial = Union[optuna.Trial, FrozenTrial]


class OppaSampler(BaseSampler):
    """Suggests the configurations of a search of oppa, which keeps the records and decides when to stop."""

    def __init__(self, study: oppa.Study) -> None:
        self.study = study
        self.max_steps = study.max_steps
        self._parameters = study.parameters
        self._next: Optional[oppa.Trial] = None
        self._number: Optional[int] = None  # of Optuna's trial that runs
        self._peak: Optional[float] = None
        self._out_of_memory = False
        self._fixed: Dict[int, Dict[str, Any]] = {}  # what Optuna's enqueue_trial() set, by its trial

    def config(self, trial: optuna.Trial) -> Dict[str, Any]:
        """The configuration of a trial, whose parameters Optuna records."""
        self.trial_of(trial)
        return {name: trial.suggest_categorical(name, values) for name, values in self._parameters.items()}

    def trial_of(self, trial: AnyTrial) -> oppa.Trial:
        """The trial of oppa that runs as a trial of Optuna."""
        if self._number not in (None, trial.number):
            raise oppa.OppaError(f"trial {self._number} of Optuna is running, and one trial runs at a time: n_jobs=1")
        fixed = self._fixed.get(trial.number, {})
        if self._number is None and fixed and (self._next is None or not _agree(fixed, self._next.config)):
            if self._next is not None:
                self.study.close()  # what was asked ahead is asked again later
                self._next = None
            self.study.enqueue_trial(fixed)
        if self._next is None:
            self._next = self.study.ask()
        if not _agree(fixed, self._next.config):
            raise oppa.OppaError(f"{fixed} was enqueued in Optuna, and it is the turn of {self._next.config}: enqueue it "
                                 "in oppa's study (the starts of the manifest come first)")
        self._number = trial.number
        return self._next

    def peak_memory(self, peak_memory_bytes: float) -> None:
        """The peak memory of the running trial."""
        self._peak = max(peak_memory_bytes, self._peak or 0.0)

    def out_of_memory(self, trial: optuna.Trial) -> float:
        """Marks a trial that ran out of memory, as a constraint that is violated. Returns its objective."""
        self._out_of_memory = True
        trial.set_constraint("memory", 1.0)
        return float("inf")

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._fixed[trial.number] = dict(trial.system_attrs.get("fixed_params", {}))

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Dict[str, BaseDistribution]:
        return {}

    def sample_relative(self, study: optuna.Study, trial: FrozenTrial,
                        search_space: Dict[str, BaseDistribution]) -> Dict[str, Any]:
        return {}

    def sample_independent(self, study: optuna.Study, trial: FrozenTrial, param_name: str,
                           param_distribution: BaseDistribution) -> Any:
        config = self.trial_of(trial).config
        if param_name not in config:
            raise oppa.OppaError(f"unknown parameter '{param_name}'; known: {', '.join(config)}")
        value = config[param_name]
        try:
            inside = param_distribution._contains(param_distribution.to_internal_repr(value))
        except ValueError:
            inside = False
        if not inside:
            raise oppa.OppaError(f"{param_name} = {value} is in the search space of the manifest and not in "
                                 f"{param_distribution}: restrict [space], or use sampler.config(trial)")
        return value

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState,
                    values: Optional[Sequence[float]]) -> None:
        self._fixed.pop(trial.number, None)
        if self._next is None or self._number != trial.number:
            return
        raised = _error_of_objective() if state == TrialState.FAIL else None
        running, self._next, self._number = self._next, None, None
        peak, self._peak = self._peak, None
        names: Dict[TrialState, oppa.State] = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
        told: oppa.State = "memory_out" if self._out_of_memory else names.get(state, "failed")
        self._out_of_memory = False
        if isinstance(raised, KeyboardInterrupt):
            self.study.close()  # it says nothing about the configuration, which is asked again
            return
        if not _agree(trial.params, running.config):
            self.study.close()  # the trial is not recorded, and asked again
            raise oppa.OppaError(f"trial {trial.number} of Optuna ran {trial.params}, and oppa asked for "
                                 f"{running.config}: it is not recorded; take the configuration from sampler.config(trial)")
        try:
            step_times = _step_times(trial)[:running.max_steps]
        except oppa.OppaError as error:
            told = "failed" if told == "complete" else told
            tell(self.study, running, state=told, step_times=[], peak_memory_bytes=peak, message=str(error))
        else:
            low, high = min(step_times, default=0.0), max(step_times, default=0.0)
            if told == "complete" and values and low > 0.0 and not 0.9 * low <= values[0] <= 1.1 * high:
                self.study.close()
                raise oppa.OppaError(f"trial {trial.number} of Optuna returned {values[0]:g}, and its reported steps took "
                                     f"{low:g} to {high:g} s: it is not recorded; return a step time in seconds")
            tell(self.study, running, state=told, step_times=step_times, peak_memory_bytes=peak,
                 message=f"{type(raised).__name__}: {raised}" if raised is not None else "")
        if study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
            return  # a configuration that Optuna has enqueued is next
        try:
            self._next = self.study.ask()
        except oppa.SearchEnded:
            with contextlib.suppress(RuntimeError):  # not in optimize(): the next trial fails with SearchEnded
                study.stop()


class OppaPruner(optuna.pruners.BasePruner):
    """Prunes the trials that are unlikely to beat the best one of the search."""

    def __init__(self, sampler: OppaSampler) -> None:
        self._sampler = sampler

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        running = self._sampler.trial_of(trial)
        for step, time_s in enumerate(_step_times(trial), 1):
            running.report(time_s, step)
        return running.should_prune()


def _error_of_objective() -> Optional[BaseException]:
    """What optimize() caught from its objective, which Optuna does not pass on; None where the trial was told."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_run_trial":
            error = frame.f_locals.get("func_err")
            return error if isinstance(error, BaseException) else None
        frame = frame.f_back
    return None


def _agree(params: Dict[str, Any], config: Dict[str, Any]) -> bool:
    return all(config.get(name, value) == value for name, value in params.items())


def _step_times(trial: FrozenTrial) -> "list[float]":
    reported = sorted(trial.intermediate_values.items())
    numbers = [number for number, _ in reported]
    if numbers and numbers[-1] - numbers[0] >= len(numbers):
        raise oppa.OppaError(f"the steps {numbers} were reported: report every step")
    return [time_s for _, time_s in reported]
