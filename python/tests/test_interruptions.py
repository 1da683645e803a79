"""Every message of a search, interrupted at every moment and in every way: the records are those of an undisturbed search."""
import itertools
import os
import signal
import sys
import threading
import time

import pytest

import job
import oppa
import oppa._study
from test_study import recorded

SETTINGS = ["budget.trials=3", "budget.q_max=2"]
ENQUEUED = "dp=2,pp=4,microbatches=4"


class Interrupted(Exception):
    pass


def insist(call):
    """What a user does in a notebook: the same cell again."""
    for _ in range(3):
        try:
            return call()
        except Interrupted:
            pass
    raise AssertionError("interrupted again and again")


def search(manifest, storage):
    study = insist(lambda: oppa.create_study(manifest, storage, load_if_exists=True, settings=SETTINGS))
    while True:
        told = len(insist(lambda: study.trials))
        questions = {0: [lambda: study.parameters, lambda: study.plan(2)],
                     1: [lambda: study.best_trial, lambda: study.enqueue_trial(ENQUEUED)]}
        for question in questions.get(told, []):
            insist(question)
        try:
            trial = insist(study.ask)
        except oppa.SearchEnded:
            study.close()
            return
        assert trial.number == told + 1
        for step in range(1, trial.max_steps + 1):
            insist(lambda: trial.report(job.step_time_s(trial.config, step), step))
        frozen = insist(lambda: study.tell(trial, duration_s=10.0, peak_memory_bytes=job.peak_memory_bytes(trial.config)))
        assert (frozen.number, frozen.config) == (trial.number, trial.config)


def raise_in_client(server):
    if threading.current_thread() is threading.main_thread():
        raise Interrupted
    signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
    time.sleep(0.005)


def handler(number, frame):
    raise Interrupted


WAYS = {"exception": raise_in_client,
        "kill of the server": lambda server: os.kill(server.pid, signal.SIGKILL),
        "kill of the client": lambda server: os.kill(os.getpid(), signal.SIGKILL)}
MOMENTS = ["before the request", "after the request", "at the answer"]


def disturb(monkeypatch, message, moment, way):
    """Does this once, at a message counted from 1. Returns the function that counts the messages."""
    counts = {each: itertools.count(1) for each in MOMENTS}
    seen = []

    def reach(now, server):
        seen.append(next(counts[now]))
        if now != moment or seen[-1] != message:
            return False
        WAYS[way](server)
        return True

    class Requests:
        def __init__(self, server, requests):
            self.server, self.requests = server, requests

        def put(self, line):
            if line is not None:
                reach(MOMENTS[0], self.server)
            self.requests.put(line)
            if line is not None:
                reach(MOMENTS[1], self.server)

    class Disturbed(oppa._program.Server):
        def __init__(self, *words):
            super().__init__(*words)
            self._requests = Requests(self, self._requests)

        def take(self, answer):
            reached = answer is not None and answer.get("op") != "hello" and reach(MOMENTS[2], self)
            if not (reached and way == "kill of the server"):  # which is done and not answered
                super().take(answer)

    monkeypatch.setattr(oppa._study, "Server", Disturbed)
    return lambda: max(seen)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", WAYS)
def test_no_interruption_changes_a_record(manifest, tmp_path, monkeypatch, moment, way):
    messages = disturb(monkeypatch, 0, moment, way)
    search(manifest, tmp_path / "whole")
    whole = recorded(tmp_path / "whole")
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for message in range(1, messages() + 1):
            storage = tmp_path / str(message)
            disturb(monkeypatch, message, moment, way)
            if way == "kill of the client":
                client = os.fork()
                if client == 0:
                    try:
                        search(manifest, storage)
                    finally:
                        os._exit(0)
                assert os.waitpid(client, 0)[1] == signal.SIGKILL
                disturb(monkeypatch, 0, moment, way)
            search(manifest, storage)
            assert recorded(storage) == whole, f"{way} {moment} {message}"
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("op", ["ask", "report", "tell"])
def test_a_call_can_be_repeated_that_was_interrupted_after_any_of_its_calls(manifest, tmp_path, op):
    """Where the interpreter handles signals: at the begin of a function, and after a call of one that is not Python."""
    study = oppa.create_study(manifest, tmp_path, method="random", settings=["budget.trials=300", "budget.q_max=2"])

    def run(call, moment):
        seen = itertools.count(1)

        def interrupt(frame, event, function):
            if event in ("call", "c_return", "c_exception") and "/oppa/_" in frame.f_code.co_filename:
                if next(seen) == moment:
                    raise Interrupted

        if moment is None:
            return call(), True
        try:
            sys.setprofile(interrupt)
            return call(), True
        except Interrupted:
            return call(), False
        finally:
            sys.setprofile(None)

    for moment in itertools.count(1):
        trial, asked = run(study.ask, moment if op == "ask" else None)
        assert trial.number == moment
        _, first = run(lambda: trial.report(moment, 1), moment if op == "report" else None)
        trial.report(0.5, 2)
        told, done = run(lambda: study.tell(trial), moment if op == "tell" else None)
        assert (told.number, told.step_times) == (moment, [moment, 0.5])
        if asked and first and done:
            break
    assert moment > 5 and len(study.trials) == moment
    with pytest.raises(oppa.OppaError, match="no trial is running"):
        study.tell(trial, state="failed")
