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


def test_has_the_trials_of_python(manifest, tmp_path):
    import ray
    from oppa.integrations.ray import OppaSearch
    by_python = oppa.create_study(manifest, tmp_path / "python")
    drive.run(by_python)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": f"{FOLDER.parent}:{FOLDER}"}})
    try:
        search = OppaSearch(oppa.create_study(manifest, tmp_path / "ray"))
        results = tune.Tuner(train, tune_config=tune.TuneConfig(search_alg=search, num_samples=-1, metric="step_time_s",
                                                                mode="min"),
                             run_config=tune.RunConfig(stop=search.should_stop, storage_path=str(tmp_path / "tune"),
                                                       verbose=0)).fit()
        assert len(results) == 9
        assert measured(search.study.trials) == measured(by_python.trials)
    finally:
        ray.shutdown()
