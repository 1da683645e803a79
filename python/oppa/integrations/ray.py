"""A searcher of Ray Tune.

    search = OppaSearch(oppa.create_study("tune.toml"))

    def train(config):
        for step in range(config["max_steps"]):
            ray.tune.report({"step_time_s": train_step(config), "peak_memory_bytes": peak()})

    ray.tune.Tuner(train, tune_config=ray.tune.TuneConfig(search_alg=search, num_samples=-1),
                   run_config=ray.tune.RunConfig(stop=search.should_stop)).fit()

Every step is reported. A program that runs out of memory reports {"step_time_s": math.inf, "state": "memory_out"} and
returns. One trial runs at a time. A trial that raises, reports NaN or misses a step is told as failed.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from ray.tune.search import Searcher

import oppa

from . import tell


class OppaSearch(Searcher):
    """Suggests the configurations of a search of oppa, which keeps the records and decides when to stop."""

    def __init__(self, study: oppa.Study) -> None:
        super().__init__(metric="step_time_s", mode="min")
        self.study = study
        self._trial: Optional[oppa.Trial] = None
        self._id = ""
        self._peak: Optional[float] = None
        self._state: Any = None
        self._message = ""

    def suggest(self, trial_id: str) -> Any:
        if self._trial is not None:
            return None  # later
        try:
            self._trial = self.study.ask()
        except oppa.SearchEnded:
            return Searcher.FINISHED
        self._id, self._peak, self._state, self._message = trial_id, None, None, ""
        return {**self._trial.config, "max_steps": self._trial.max_steps}

    def on_trial_result(self, trial_id: str, result: Dict[str, Any]) -> None:
        self._take(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: Optional[Dict[str, Any]] = None, error: bool = False) -> None:
        if self._trial is None or trial_id != self._id:
            return
        self._take(trial_id, result or {})
        trial, self._trial = self._trial, None
        state: oppa.State = "failed" if error else "pruned" if trial.should_prune() else "complete"
        tell(self.study, trial, state=self._state or state, peak_memory_bytes=self._peak, message=self._message)

    def should_stop(self, trial_id: str, result: Dict[str, Any]) -> bool:
        """For RunConfig(stop=...): ends trials that are unlikely to beat the best one."""
        self._take(trial_id, result)
        return self._trial is not None and trial_id == self._id and (bool(self._message) or self._trial.should_prune())

    def save(self, checkpoint_path: str) -> None:
        """The records of the search are its state."""

    def restore(self, checkpoint_path: str) -> None:
        """The records of the search are its state."""

    def set_search_properties(self, metric: Optional[str], mode: Optional[str], config: Dict[str, Any],
                              **spec: Any) -> bool:
        if self._trial is not None:  # of a fit() that was interrupted: it is asked again
            self.study.close()
            self._trial = None
        return not config  # the manifest defines the search space

    def _take(self, trial_id: str, result: Dict[str, Any]) -> None:
        if self._trial is None or trial_id != self._id:
            return
        try:
            if "peak_memory_bytes" in result:
                self._peak = max(self._peak or 0.0, float(result["peak_memory_bytes"]))
            if "state" in result:
                self._state = result["state"]
            elif "step_time_s" in result:
                self._trial.report(result["step_time_s"], result.get("training_iteration"))
        except (oppa.OppaError, TypeError, ValueError) as error:  # it must not end the experiment
            self._state, self._message = "failed", self._message or str(error)
