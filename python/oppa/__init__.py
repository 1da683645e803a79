"""Parallelism configurations of training jobs: predict them, and search for them by short trials.

    plan = oppa.plan("config.json", gpus="2x8", gpu="h100", batch=256, seq=8192)
    plan.best.command
    study = oppa.create_study("tune.toml", load_if_exists=True)
    for trial in study:
        study.tell(trial, step_times=train(trial.config, trial.max_steps))

    # in a training program that `oppa tune` starts
    for batch in oppa.steps(loader):
        train_step(batch)

docs/python.md describes it.
"""
from ._program import OppaError, __version__, find_program
from ._plan import Layout, Memory, Plan, plan
from ._report import StepClock, is_out_of_memory, report, steps, trial
from ._study import FrozenTrial, Predicted, SearchEnded, State, Study, Trial, create_study

__all__ = ["FrozenTrial", "Layout", "Memory", "OppaError", "Plan", "Predicted", "SearchEnded", "State", "StepClock",
           "Study", "Trial", "__version__", "create_study", "find_program", "is_out_of_memory", "plan", "report", "steps", "trial"]
