"""Ray Tune drives a search of oppa."""
import pytest

import drive
import oppa
from test_study import FOLDER, measured

tune = pytest.importorskip("ray.tune")


def train(config):
    import job
    try:
        for step in range(1, config["max_steps"] + 1):
            tune.report({"step_time_s": job.step_time_s(config, step),
                         "peak_memory_bytes": job.peak_memory_bytes(config)})
    except job.OutOfMemory:
        tune.report({"step_time_s": float("inf"), "state": "memory_out",
                     "peak_memory_bytes": job.peak_memory_bytes(config)})


def train_badly(config):
    """What goes wrong depends on the configuration."""
    import job
    way = (config["dp"] + config["microbatches"]) % 4
    if way == 0:
        raise ZeroDivisionError
    for step in range(1, config["max_steps"] + 1):
        if way == 1 and step == 3:
            return
        tune.report({"step_time_s": float("nan") if way == 2 and step == 2 else job.step_time_s({**config, "dp": 1}, step)})


@pytest.fixture(scope="module")
def cluster():
    import ray
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": f"{FOLDER.parent}:{FOLDER}"}})
    yield
    ray.shutdown()


def fit(search, program, folder):
    return tune.Tuner(program, tune_config=tune.TuneConfig(search_alg=search, num_samples=-1, metric="step_time_s",
                                                           mode="min"),
                      run_config=tune.RunConfig(stop=search.should_stop, storage_path=str(folder / "tune"), verbose=0)
                      ).fit()


def test_has_the_trials_of_python(manifest, tmp_path, cluster):
    from oppa.integrations.ray import OppaSearch
    by_python = oppa.create_study(manifest, tmp_path / "python")
    drive.run(by_python)
    search = OppaSearch(oppa.create_study(manifest, tmp_path / "ray"))
    assert len(fit(search, train, tmp_path)) == 9
    assert measured(search.study.trials) == measured(by_python.trials)


def test_wrong_trials_are_told_as_failed_and_the_search_goes_on(manifest, tmp_path, cluster):
    from oppa.integrations.ray import OppaSearch
    search = OppaSearch(oppa.create_study(manifest, tmp_path / "ray"))
    for config in ({"dp": 4, "tp": 2, "microbatches": 4}, {"dp": 4, "tp": 2, "microbatches": 1},
                   {"dp": 2, "pp": 4, "microbatches": 4}):
        search.study.enqueue_trial(config)
    fit(search, train_badly, tmp_path)
    trials = search.study.trials
    assert len(trials) == 9 and [one.state for one in trials[:3]] == ["failed"] * 3
    for one in trials:
        wrong = (one.config["dp"] + one.config["microbatches"]) % 4 != 3
        assert (one.state == "failed") == wrong, one


@pytest.mark.wrong_requests
def test_a_result_of_any_kind_ends_no_experiment(manifest, tmp_path):
    """Of what Ray Tune passes on, without its processes."""
    from oppa.integrations.ray import OppaSearch
    search = OppaSearch(oppa.create_study(manifest, tmp_path, settings=["budget.trials=100"]))
    wrong = [{"step_time_s": float("nan"), "training_iteration": 1}, {"step_time_s": "fast"}, {"step_time_s": None},
             {"step_time_s": 1.0, "training_iteration": 2}, {"step_time_s": -1.0}, {"state": "fine"}, {"state": None},
             {"peak_memory_bytes": "much"}, {"peak_memory_bytes": float("nan")}, {"peak_memory_bytes": None}, {}, None]
    for number, result in enumerate(wrong):
        assert search.suggest(str(number))["max_steps"] == 6
        if result is not None:
            search.on_trial_result(str(number), result)
            search.should_stop(str(number), result)
        search.on_trial_complete(str(number), result)
    assert [one.state for one in search.study.trials] == ["failed"] * len(wrong)
    search.suggest("right")
    for step in range(6):
        search.on_trial_result("right", {"step_time_s": 1.0})  # without training_iteration
    search.on_trial_complete("right", None)
    assert search.study.trials[-1].state == "complete"
    search.suggest("interrupted")
    assert search.suggest("second") is None
    search.set_search_properties(None, None, {})  # of another fit()
    assert search.suggest("again") is not None
