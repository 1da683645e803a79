"""A search by Python: the records of the command line, also after a kill."""
import decimal
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import drive
import job
import oppa
from conftest import ROOT

FOLDER = Path(__file__).parent
numpy = pytest.importorskip("numpy")


def measured(trials):
    """What does not depend on the clock."""
    return [(one.config, one.state, one.step_times, one.peak_memory_bytes, one.chosen_by) for one in trials]


def recorded(storage):
    """The files of a search, without the times of suggestions and what names the run."""
    folder = storage / "job/oppa/1"
    return {name: (folder / name).read_text() for name in ("trials.csv", "steps.csv", "fits.csv")}


def drive_in_process(manifest, storage, *event):
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER.parent}:{FOLDER}"}
    return subprocess.Popen([sys.executable, FOLDER / "drive.py", manifest, storage, *map(str, event)],
                            env=environment)


def test_has_the_trials_of_the_command_line(manifest, tmp_path):
    oppa._program.Program().run(["run", str(manifest), "--results", str(tmp_path / "run"), "--no-report"])
    by_program = oppa.create_study(manifest, tmp_path / "run", load_if_exists=True)
    study = oppa.create_study(manifest, tmp_path / "python")
    drive.run(study)
    assert measured(study.trials) == measured(by_program.trials)
    assert {"complete", "pruned"} <= {one.state for one in study.trials}


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("op", ["ask", "report", "tell", "best", "trials", "space", "plan"])
def test_an_interrupted_call_leaves_every_other_its_own_answer(manifest, tmp_path, op):
    """The program is stopped while a call waits, and a timer raises an exception in it."""
    study = oppa.create_study(manifest, tmp_path / "results")
    trial = study.ask() if op in ("report", "tell") else None
    calls = {"ask": study.ask, "report": lambda: trial.report(1.0), "best": lambda: study.best_trial,
             "tell": lambda: study.tell(trial, state="failed"), "trials": lambda: study.trials,
             "space": lambda: study.parameters, "plan": lambda: study.plan(2)}

    def interrupt(number, frame):
        raise Interrupted

    server = study._serving()._process.pid
    before = signal.signal(signal.SIGALRM, interrupt)
    os.kill(server, signal.SIGSTOP)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            calls[op]()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.kill(server, signal.SIGCONT)
    assert len(study.plan(3)) == 3
    assert len(study.trials) == (op == "tell")
    assert "microbatches" in study.parameters
    if op == "report":
        trial.report(2.0)
        study.tell(trial, state="pruned")
        assert study.trials[0].step_times == [1.0, 2.0]
    following = study.ask()
    assert following.number == 1 + (op in ("report", "tell"))  # a trial that nobody got is handed out
    assert study._request("best")["op"] == "best"


def test_a_program_that_was_killed_is_started_again_with_the_running_trial(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results", settings=["budget.in_flight=2"])
    first, second = study.ask(), study.ask()
    first.report(1.0, 1)
    os.kill(study._server.pid, signal.SIGKILL)
    first.report(2.0, 2)
    study.tell(second, state="failed")
    os.kill(study._server.pid, signal.SIGKILL)
    assert study.tell(first, state="pruned").step_times == [1.0, 2.0]
    assert [one.state for one in study.trials] == ["failed", "pruned"]


def test_a_kill_at_every_event_changes_no_trial(manifest, tmp_path):
    undisturbed, study = (oppa.create_study(manifest, tmp_path / name) for name in ("undisturbed", "killed"))
    drive.run(undisturbed)
    drive.run(study, lambda: os.kill(study._server.pid, signal.SIGKILL))
    assert measured(study.trials) == measured(undisturbed.trials)
    assert "pruned" in [one.state for one in study.trials]


def test_a_current_folder_that_was_removed_is_needed_for_relative_paths_only(manifest, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert oppa.create_study(manifest, tmp_path).ask().number == 1
    with pytest.raises(oppa.OppaError, match="job.toml: the current folder was removed"):
        oppa.create_study("job.toml")


def test_a_change_of_folder_moves_nothing(manifest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/oppa").symlink_to(os.environ["OPPA"])
    (tmp_path / "model.json").write_text((ROOT / "experiments/workloads/qwen2-1.5b.json").read_text())
    monkeypatch.setenv("OPPA", "bin/oppa")
    study = oppa.create_study("job.toml", "results")
    plan = oppa.plan("model.json", gpus="1x8", gpu="h100", batch=64, seq=2048, framework="megatron-lm")
    monkeypatch.chdir("/")
    study.tell(study.ask(), state="failed")
    study.close()  # the next request starts the program again
    study.add_trial(study.plan(1)[0]["config"], step_time_s=0.5)
    assert [one.chosen_by for one in study.trials] == ["random", "imported"]
    assert study.folder == tmp_path / "results/job"
    assert "per step" in plan.why("dp=8")


@pytest.mark.parametrize("words", [("./job.toml", "results"), ("job.toml", "link"), ("link/../job.toml", "./results/")])
def test_a_search_has_one_study_in_a_process(manifest, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results")
    older = oppa.create_study("job.toml", "results")
    trial = older.ask()
    newer = oppa.create_study(*words)
    assert newer.ask().config == trial.config
    with pytest.raises(oppa.OppaError, match="another Study .* in this process"):
        older.best_trial
    newer.close()
    assert older.ask().config == trial.config


def test_other_settings_of_a_search_replace_its_study(manifest, tmp_path):
    older = oppa.create_study(manifest, tmp_path)
    newer = oppa.create_study(manifest, tmp_path, settings=["budget.trials=20"])
    assert newer.ask().number == 1
    with pytest.raises(oppa.OppaError, match="another Study"):
        older.ask()


def test_a_signal_handler_may_use_a_study_that_waits(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path)
    server, found = study._server.pid, []

    def ask_too(number, frame):
        os.kill(server, signal.SIGCONT)
        found.append(len(study.plan(2)))

    before = signal.signal(signal.SIGALRM, ask_too)
    os.kill(server, signal.SIGSTOP)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert len(study.plan(3)) == 3 and found == [2]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_forked_process_is_told_who_has_the_search(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path)
    trial = study.ask()
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            study.ask()
        except BaseException as error:
            os.write(write, str(error).encode())
        os._exit(0)
    assert f"process {study._server.pid} on" in os.read(read, 1000).decode()
    study.tell(trial, state="failed")


@pytest.mark.parametrize("program", ["/bin/true", "/bin/echo", "/bin/false", "/etc/passwd"])
def test_another_program_is_named(manifest, tmp_path, monkeypatch, program):
    monkeypatch.setenv("OPPA", program)
    for call in (lambda: oppa.create_study(manifest, tmp_path), lambda: oppa.plan({"layers": 2}, gpus=8, batch=8, seq=8)):
        with pytest.raises(oppa.OppaError, match="OPPA|exit code 1"):
            call()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the check of the schema
@pytest.mark.parametrize("line", ["[]", "7", "{}", "[" * 9999, '{"op": "hello"}'])
def test_a_program_with_other_answers_is_named(manifest, tmp_path, monkeypatch, line):
    program = tmp_path / "other"
    program.write_text(f"#!/bin/sh\necho '{line}'\nexec sleep 60")
    program.chmod(0o755)
    monkeypatch.setenv("OPPA", str(program))
    with pytest.raises(oppa.OppaError, match="is not the program oppa"):
        oppa.create_study(manifest, tmp_path)


@pytest.mark.parametrize("time_s", [numpy.float32(0.5), numpy.int64(2), numpy.array(0.5), decimal.Decimal("0.5")])
def test_a_step_time_is_any_number(manifest, tmp_path, time_s):
    trial = oppa.create_study(manifest, tmp_path / "results").ask()
    trial.report(time_s)
    with pytest.raises(oppa.OppaError, match="not finite"):
        trial.report(float("nan"))


@pytest.mark.wrong_requests
def test_a_request_that_the_program_cannot_read_is_refused_and_no_call_waits(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results")
    trial = study.ask()
    for wrong, message in [(10**400, "overflow"), ("1" * (17 << 20), "at most 16777216")]:
        with pytest.raises(oppa.OppaError, match=message):
            trial.report(wrong)
        assert study.trials == []


def test_a_message_of_any_text_is_recorded(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results")
    name = os.fsdecode(b"no file \xff\n")  # as in the error of open()
    assert study.tell(study.ask(), state="failed", message=name).message == "no file ? "
    study.add_trial({"dp": 2, "pp": 4, "microbatches": 4}, state="failed", message=name)
    assert study.trials[1].message == "no file ?"


def test_a_trial_that_was_not_asked_so_is_refused(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results")
    old = study.ask()
    study.close()
    study.enqueue_trial("dp=2,pp=4,microbatches=4")
    trial = study.ask()
    for call in (lambda: old.report(1.0), lambda: study.tell(old, step_times=[1.0] * 6)):
        with pytest.raises(oppa.OppaError, match="trial 1 was asked with dp=2"):
            call()
    trial.config["microbatches"] = 64
    with pytest.raises(oppa.OppaError, match="not .*microbatches=64"):
        study.tell(trial, step_times=[1.0] * 6)
    trial.config.pop("microbatches")  # the program needs no such argument
    assert study.tell(trial, step_times=[1.0] * 6).config["microbatches"] == 4


def test_a_trial_is_not_dropped_by_one_that_is_added(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results")
    trial = study.ask()
    with pytest.raises(oppa.OppaError, match=r"trial 1 is running: tell\(\)"):
        study.add_trial({"dp": 2, "pp": 4, "microbatches": 4}, step_time_s=1.0)
    assert study.tell(numpy.int64(trial.number), step_times=numpy.ones(6)).state == "complete"


def test_arguments_of_another_type_are_refused_in_a_sentence(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path / "results", settings="budget.trials=3")
    config = {"dp": 2, "pp": 4, "microbatches": 4}
    for call, message in [(lambda: study.enqueue_trial(5), "config 5: it must be a dict"),
                          (lambda: study.add_trial(config, state="fine"), "unknown state 'fine'"),
                          (lambda: study.add_trial(config, step_time_s=-1.0), "^add_trial: step_time_s must be"),
                          (lambda: study.tell(1, state=["failed"]), "unknown state")]:
        with pytest.raises(oppa.OppaError, match=message):
            call()


def test_a_killed_process_resumes_to_the_same_records(manifest, tmp_path):
    assert drive_in_process(manifest, tmp_path / "whole").wait() == 0
    whole = recorded(tmp_path / "whole")
    for event in range(1, 50, 8):
        storage = tmp_path / f"event-{event}"
        assert drive_in_process(manifest, storage, event).wait() == -9
        assert drive_in_process(manifest, storage).wait() == 0
        assert recorded(storage) == whole, event
    random.seed(1)
    storage = tmp_path / "at-any-time"
    for _ in range(6):
        process = drive_in_process(manifest, storage)
        time.sleep(random.uniform(0.1, 0.8))
        process.kill()
        process.wait()
    assert drive_in_process(manifest, storage).wait() == 0
    assert recorded(storage) == whole


def test_the_command_line_continues_a_search_of_python(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path)
    for _ in range(3):
        trial = study.ask()
        study.tell(trial, state="timed_out" if trial.number < 3 else "diverged", message="too slow")
    study.close()
    oppa._program.Program().run(["run", str(manifest), "--results", str(tmp_path), "--no-report"])
    trials = study.trials
    assert [one.state for one in trials[:3]] == ["timed_out", "timed_out", "diverged"]
    assert len(trials) == 9
    with pytest.raises(oppa.SearchEnded, match="trial budget"):
        study.ask()


def test_trials_in_flight_are_told_in_any_order_and_resume(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path, settings=["budget.in_flight=2"])
    first, second = study.ask(), study.ask()
    with pytest.raises(oppa.OppaError, match="in_flight"):
        study.ask()
    study.tell(second, state="failed")
    third = study.ask()
    study.close()  # as after a kill
    assert [study.ask().config, study.ask().config] == [first.config, third.config]
    with pytest.raises(oppa.OppaError, match="in_flight"):
        study.enqueue_trial(second.config)
    assert study.tell(third.number, step_times=[0.5] * 6).number == 3
    assert study.tell(first.number, step_times=[0.4] * 6).number == 1
    assert study.best_trial.number == 1


def test_an_enqueued_trial_is_next_and_resumes(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path)
    study.tell(study.ask(), state="failed")
    config = study.enqueue_trial({"dp": 2, "pp": 4, "microbatches": 4})
    assert study.enqueue_trial(config) == config  # and not twice
    assert (config["dp"], config["tp"], config["pp"], config["microbatches"]) == (2, 1, 4, 4)
    trial = study.ask()
    assert trial.config == config
    study.tell(trial, step_times=[0.6, 0.5, 0.52, 0.49, 0.51, 0.5])
    with pytest.raises(oppa.OppaError, match="was tried as trial 2"):
        study.enqueue_trial(config)
    with pytest.raises(oppa.OppaError, match="dp=3.*not in the search space.*oppa space"):
        study.enqueue_trial("dp=3")
    study.close()  # the next request reads the records again
    drive.run(study)
    assert [one.chosen_by for one in study.trials[1:3]] == ["given", "model"]


def test_an_added_trial_is_not_tried_and_can_be_the_best(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path, method="oppa-sim")
    first, second = (one["config"] for one in study.plan(2))
    study.add_trial(first, step_time_s=0.2, peak_memory_bytes=5e9)
    study.add_trial(second, state="memory_out")
    drive.run(study)
    assert [one.state for one in study.trials[:2]] == ["complete", "memory_out"]
    assert [one.config for one in study.trials].count(first) == 1
    assert study.best_trial.number == 1
    assert len(study.trials) == 2 + 9
    with pytest.raises(oppa.OppaError, match="tried before"):
        study.add_trial(first, step_time_s=0.01)


def test_trials_have_predictions_and_a_table(manifest, tmp_path):
    pandas = pytest.importorskip("pandas")
    study = oppa.create_study(manifest, tmp_path, settings=["budget.trials=2"])
    trial = study.ask()
    assert trial.predicted.step_time_s > 0 and trial.predicted.peak_memory_bytes > 1e9
    with pytest.raises(oppa.OppaError, match="no trial is complete"):
        study.best_trial
    study.tell(trial, step_times=[1.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    table = study.trials_dataframe()
    assert isinstance(table, pandas.DataFrame)
    assert table.loc[0, "params_dp"] == trial.config["dp"] and table.loc[0, "step_time_s"] == pytest.approx(0.5)


@pytest.mark.wrong_requests
def test_errors_have_the_words_of_the_program(manifest, tmp_path):
    with pytest.raises(oppa.OppaError, match="none.toml"):
        oppa.create_study(tmp_path / "none.toml")
    with pytest.raises(oppa.OppaError, match="unknown method 'opa'.*did you mean 'oppa'"):
        oppa.create_study(manifest, tmp_path, method="opa")
    study = oppa.create_study(manifest, tmp_path)
    with pytest.raises(oppa.OppaError, match="no trial is running"):
        study.tell(1)
    trial = study.ask()
    with pytest.raises(oppa.OppaError, match="trial 1 is running"):
        study.ask()
    for wrong, message in [({"step_times": [1.0]}, "6 step_times_s"), ({"step_times": [1.0] * 5 + [-1]}, "step_time_s"),
                           ({"step_times": [1.0] * 6, "peak_memory_bytes": -1}, "peak_memory_bytes"),
                           ({"state": "pruned"}, "step_times_s"), ({"state": "fine"}, "unknown state")]:
        with pytest.raises(oppa.OppaError, match=message):
            study.tell(trial, **wrong)
    study.tell(trial, step_times=[1.0] * 6)  # nothing of this changed the trial
    with pytest.raises(oppa.OppaError, match="load_if_exists"):
        oppa.create_study(manifest, tmp_path)
    manifest.write_text(manifest.read_text().replace("batch_size = 64", "batch_size = 32"))
    with pytest.raises(oppa.OppaError, match="workload.batch_size was 64, is 32"):
        oppa.create_study(manifest, tmp_path, load_if_exists=True)


def test_a_manifest_without_a_program_is_for_clients_only(manifest, tmp_path):
    manifest.write_text(manifest.read_text().replace('"command"\nprogram = ["./job.py"]', '"client"'))
    study = oppa.create_study(manifest, tmp_path / "python")
    drive.run(study)
    assert len(study.trials) == 9
    with pytest.raises(oppa.OppaError):
        oppa._program.Program().run(["run", str(manifest), "--results", str(tmp_path / "run")])
    log = (tmp_path / "run/job/oppa/1/log.txt").read_text()
    assert "oppa serve" in log
