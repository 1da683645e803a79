#!/usr/bin/env python3
"""Stands in for sbatch, squeue, scontrol and scancel in tests.

Called under one of these names through a link; the link's folder holds what it
is told and what it remembers:

    calls.jsonl       every call: name, words, environment
    jobs.json         the jobs so far
    sbatch-errors     one line per call that is to fail, with its message; a
                      line "+MESSAGE" takes the job all the same
    hold              if it is there, sbatch starts nothing
    hang              if it is there, sbatch does not respond
    die               ids of array tasks that are killed before they begin
    max-array-size    of `scontrol show config`
    squeue-down       if it is there, the controller is away
sbatch runs the tasks before it returns, one after the other. Several processes
may call at once, as runs side by side do: what is remembered changes under a
lock, which is free while a task runs.
"""
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

name = Path(sys.argv[0]).name
home = Path(sys.argv[0]).parent
words = sys.argv[1:]


def read(path, otherwise):
    file = home / path
    return file.read_text() if file.exists() else otherwise


@contextlib.contextmanager
def locked():
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def remembered():
    """The jobs, stored again at the end of the block."""
    with locked():
        jobs = json.loads(read("jobs.json", "[]"))
        yield jobs
        (home / "jobs.json").write_text(json.dumps(jobs))


def option(flag, otherwise=None):
    values = [w.split("=", 1)[1] for w in words if w.startswith(flag + "=")]
    return values[-1] if values else otherwise


def task_ids(spec):
    ids = []
    for part in spec.split("%")[0].split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return ids


def planned_error():
    with locked():
        errors = read("sbatch-errors", "").splitlines()
        (home / "sbatch-errors").write_text("\n".join(errors[1:]))
        return errors[0] if errors else ""


def set_state(job, task, state):
    with remembered() as jobs:
        next(j for j in jobs if j["id"] == job)["tasks"][task] = state


def sbatch():
    if (home / "hang").exists():
        time.sleep(600)
    error = planned_error()
    if error and not error.startswith("+"):
        sys.exit("sbatch: error: " + error)
    script = next(i for i, w in enumerate(words) if not w.startswith("--"))
    array = option("--array")
    hold = (home / "hold").exists()
    dead = read("die", "").split()
    tasks = [str(i) for i in (task_ids(array) if array else [-1])]
    with remembered() as jobs:
        job = 100 + len(jobs)
        jobs.append({"id": job, "name": option("--job-name", ""), "comment": option("--comment", ""),
                     "tasks": {task: "PENDING" if hold else "COMPLETED" for task in tasks}})
    for task in tasks:
        if hold:
            continue
        if task in dead:
            set_state(job, task, "NODE_FAIL")
            continue
        environment = dict(os.environ, SLURM_JOB_ID=str(job), SLURMD_NODENAME="n1")
        if array:
            environment["SLURM_ARRAY_TASK_ID"] = task
        log = option("--output").replace("%a", task)
        with open(log, "a") as out:
            code = subprocess.call(["/bin/sh"] + words[script:], env=environment,
                                   stdout=out, stderr=out, cwd=option("--chdir"))
        set_state(job, task, "COMPLETED" if code == 0 else "FAILED")
    if error:
        sys.exit("sbatch: error: " + error[1:])
    print(job)


def squeue():
    if (home / "squeue-down").exists():
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller")
    with remembered() as jobs:
        known = list(jobs)
    for job in known:
        if option("--name") and option("--name") != job["name"]:
            continue
        if option("--format") == "%F|%k":
            print(f"{job['id']}|{job['comment']}")
            continue
        for task, state in job["tasks"].items():
            reason = {"PENDING": "Priority", "HELD": "launch failed requeued held",
                      "AVOIDING": "ReqNodeNotAvail, UnavailableNodes:n1"}.get(state, "None")
            state = {"HELD": "PENDING", "AVOIDING": "PENDING"}.get(state, state)
            print(f"{job['id']}|{'N/A' if task == '-1' else task}|{state}|n1|9:00|{reason}")


def scancel():
    with remembered() as jobs:
        for word in words:
            if word.startswith("--"):
                continue
            job, _, task = word.partition("_")
            for known in jobs:
                if str(known["id"]) == job and option("--name", known["name"]) == known["name"]:
                    for key in known["tasks"]:
                        if not task or key == task:
                            known["tasks"][key] = "CANCELLED"


with locked(), open(home / "calls.jsonl", "a") as calls:
    calls.write(json.dumps({"name": name, "words": words, "environment": dict(os.environ)}) + "\n")
if name == "scontrol":
    print("MaxArraySize            =", read("max-array-size", "1001").strip())
else:
    {"sbatch": sbatch, "squeue": squeue, "scancel": scancel}[name]()
