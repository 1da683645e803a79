"""Optuna drives a search of oppa."""
import pytest

import drive
import job
import oppa
from test_study import measured

optuna = pytest.importorskip("optuna")


def objective_of(sampler):
    def objective(trial):
        config = sampler.config(trial)
        sampler.peak_memory(job.peak_memory_bytes(config))
        try:
            for step in range(1, sampler.max_steps + 1):
                trial.report(job.step_time_s(config, step), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
        except job.OutOfMemory:
            return sampler.out_of_memory(trial)
        return job.step_time_s(config, sampler.max_steps)
    return objective


def study_of(manifest, storage):
    from oppa.integrations.optuna import OppaPruner, OppaSampler
    sampler = OppaSampler(oppa.create_study(manifest, storage))
    return optuna.create_study(sampler=sampler, pruner=OppaPruner(sampler)), sampler


def test_has_the_trials_of_the_command_line_and_of_python(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path / "optuna")
    study.optimize(objective_of(sampler), n_trials=100)
    oppa._program.run(["run", str(manifest), "--results", str(tmp_path / "run"), "--no-report"])
    by_program = oppa.create_study(manifest, tmp_path / "run", load_if_exists=True)
    by_python = oppa.create_study(manifest, tmp_path / "python")
    drive.run(by_python)
    assert measured(sampler.study.trials) == measured(by_program.trials) == measured(by_python.trials)
    assert len(study.trials) == 9  # the budget of the manifest stops optimize()
    assert study.best_params == sampler.study.best_trial.config


def test_out_of_memory_is_a_violated_constraint(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)
    sampler.study.enqueue_trial("dp=8")
    study.optimize(objective_of(sampler), n_trials=2)
    first, second = study.trials
    assert first.params["dp"] == 8 and first.state == optuna.trial.TrialState.COMPLETE
    assert study.best_trial == second
    assert sampler.study.trials[0].state == "memory_out"


def test_a_distribution_must_contain_the_value(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)
    with pytest.raises(oppa.OppaError, match="dp = .* not in"):
        study.optimize(lambda trial: trial.suggest_int("dp", 100, 200), n_trials=1)
    with pytest.raises(oppa.OppaError, match="unknown parameter 'lr'"):
        study.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=1)
    assert [one.state for one in sampler.study.trials] == ["failed", "failed"]
