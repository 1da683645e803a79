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
    oppa._program.Program().run(["run", str(manifest), "--results", str(tmp_path / "run"), "--no-report"])
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


def test_what_optuna_enqueues_is_measured_and_recorded(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)
    space = sampler.study.parameters
    fixed = [{"dp": 2, "pp": 4, "microbatches": 4}, {"dp": 4, "tp": 2, "microbatches": 8}, {"dp": 2, "tp": 2, "pp": 2}]
    study.enqueue_trial(fixed[0])
    study.optimize(objective_of(sampler), n_trials=2)
    study.enqueue_trial(fixed[1])  # after the next configuration was asked
    study.enqueue_trial(fixed[2])
    study.optimize(objective_of(sampler), n_trials=100)
    recorded = sampler.study.trials
    assert [one.params for one in study.trials] == [one.config for one in recorded]
    for number, params in zip([0, 2, 3], fixed):
        assert params.items() <= recorded[number].config.items()
        assert recorded[number].chosen_by == "given"
    assert len(recorded) == 9 and set(space) == set(recorded[0].config)
    study.enqueue_trial(fixed[0])
    with pytest.raises(oppa.OppaError, match="was tried as trial 1|has ended"):
        study.optimize(objective_of(sampler), n_trials=1)


def test_what_was_not_asked_is_not_recorded(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)
    asked = sampler.study.enqueue_trial({"dp": 4, "tp": 2})

    def objective(trial):
        trial.suggest_int("dp", 2, 2)  # Optuna asks no sampler for a single value
        trial.suggest_categorical("tp", sampler.study.parameters["tp"])
        return 1.0

    with pytest.raises(oppa.OppaError, match="ran .*'dp': 2.* and oppa asked for .*'dp': 4"):
        study.optimize(objective, n_trials=1)
    assert sampler.study.trials == []
    optuna.create_study(sampler=sampler).optimize(objective_of(sampler), n_trials=1)
    assert asked.items() == sampler.study.trials[0].config.items()


def wrong_objectives(sampler):
    def steps(trial, count, last):
        sampler.config(trial)
        for step in range(1, count):
            trial.report(1.0, step)
        trial.report(last, count)
        trial.should_prune()
        return last

    def raise_error(trial, error):
        sampler.config(trial)
        raise error

    return {"no report": lambda trial: sampler.config(trial) and 1.0,
            "no result": lambda trial: sampler.config(trial) and None,
            "a gap between steps": lambda trial: [sampler.config(trial), *(trial.report(1.0, step) for step in (1, 2, 3, 4, 5, 7))] and 1.0,
            "a step is missing": lambda trial: steps(trial, 3, 1.0),
            "not finite": lambda trial: steps(trial, 6, float("nan")),
            "a negative time": lambda trial: steps(trial, 6, -1.0),
            "exception": lambda trial: raise_error(trial, ZeroDivisionError())}


@pytest.mark.wrong_requests
@pytest.mark.parametrize("wrong", wrong_objectives(None))
def test_a_wrong_trial_is_told_as_failed_and_the_study_goes_on(manifest, tmp_path, wrong):
    study, sampler = study_of(manifest, tmp_path)
    right, first = objective_of(sampler), []

    def objective(trial):
        if trial.number == 1:
            return wrong_objectives(sampler)[wrong](trial)
        return right(trial)

    for _ in range(2):
        try:
            study.optimize(objective, n_trials=2)
        except (oppa.OppaError, ZeroDivisionError):
            first.append(1)
    study.optimize(objective, n_trials=100)
    trials = sampler.study.trials
    assert len(trials) == 9 and trials[1].state == "failed"
    assert [one.number for one in trials] == list(range(1, 10))


def test_an_interrupted_trial_is_asked_again(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)
    right, asked = objective_of(sampler), []

    def objective(trial):
        asked.append(sampler.config(trial))
        if trial.number == 1:
            trial.report(1.0, 1)
            raise KeyboardInterrupt
        return right(trial)

    with pytest.raises(KeyboardInterrupt):
        study.optimize(objective, n_trials=3)
    assert len(sampler.study.trials) == 1
    study.optimize(objective, n_trials=1)
    assert asked[1] == asked[2] == sampler.study.trials[1].config
    assert sampler.study.trials[1].state != "failed"


def test_the_reason_of_a_failure_is_recorded(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)

    def objective(trial):
        sampler.config(trial)
        raise ValueError("odd shape")

    study.optimize(objective, n_trials=1, catch=(ValueError,))
    assert [(one.state, one.message) for one in sampler.study.trials] == [("failed", "ValueError: odd shape")]


def test_an_objective_that_is_not_the_time_of_its_steps_is_refused(manifest, tmp_path):
    study, sampler = study_of(manifest, tmp_path)

    def objective(trial):
        sampler.config(trial)
        for step in range(1, sampler.max_steps + 1):
            trial.report(0.3, step)
        return 99.0

    with pytest.raises(oppa.OppaError, match=r"returned 99, and its reported steps took 0\.3 to 0\.3 s"):
        study.optimize(objective, n_trials=1)
    assert sampler.study.trials == []
