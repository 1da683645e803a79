"""Optuna, Ray Tune, Transformers and Lightning. Each module needs its library."""

from typing import Any

import oppa


def tell(study: oppa.Study, trial: oppa.Trial, *, state: Any, **values: Any) -> oppa.FrozenTrial:
    """As Study.tell. A result that is refused is told as failed, with the reason, so that the study goes on."""
    try:
        return study.tell(trial, state=state, **values)
    except oppa.OppaError as error:
        return study.tell(trial, state="failed", step_times=[], message=str(error))
