#!/usr/bin/env python3
"""Runs a small experiment where limits, environment, descriptors, signals, names and files are odd.

    tests/faults/surroundings.py PROGRAM [--only TEXT]

  limits       of open files, memory, file sizes and CPU time: the run ends as if undisturbed, or
               with exit code 1 or 2 and a reason, or by the signal of the limit; without the limit,
               it resumes to the records of an undisturbed run
  environment  locales, missing variables, signals that are blocked or ignored, closed descriptors,
               umask: the same records, and exit code 1 where what it prints is lost
  names        of the results folder: the same records, or a line that names the folder
  files        of a run, an experiment and a submission that are FIFOs, folders, links to nowhere,
               to themselves or to /dev/full: each command ends within 40 s, without a signal, and
               says why unless the file is not one that it reads

Each row of the output is a case. No case may leave control characters on the terminal.
"""
import argparse
import collections
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from exhaustive import MANIFEST
from small_experiment import RECORDS, Lost, copy_experiments

LIMIT_S = 40  # a lease that does not name its holder is taken after 20 s
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def records(results):
    run = Path(os.fsdecode(results)) / "m/cost-model/1"
    return [(run / name).read_bytes() for name in RECORDS]


class Place:
    """A folder with the manifest and its files, and the records of an undisturbed run."""

    def __init__(self, program, work):
        self.program, self.work = program, work
        copy_experiments(work)
        (work / "m.toml").write_text(MANIFEST)
        self.whole = work / "whole"
        if self.oppa("run", results=self.whole).returncode != 0:
            sys.exit("surroundings: the undisturbed run fails")
        self.expected = records(self.whole)

    def oppa(self, verb="run", *words, results, **process):
        more = ["--no-report", "--jobs", "1"] if verb == "run" else []
        target = [results] if verb == "check" else ["m.toml", "--results", results]
        ended = subprocess.run([self.program, verb, *target, *more, *words], cwd=self.work,
                               stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                               **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **process})
        for output in (ended.stdout, ended.stderr):
            if output and CONTROL.search(output):
                raise Lost(f"control characters: {output[-300:]}")
        return ended

    def new(self, label):
        results = self.work / f"r-{re.sub('[^a-z0-9]+', '-', label.lower())}"
        shutil.rmtree(results, ignore_errors=True)
        return results

    def check_resumes(self, results):
        again = self.oppa(results=results)
        if again.returncode != 0:
            raise Lost(f"does not resume: {again.stdout[-300:]} {again.stderr[-300:]}")
        if records(results) != self.expected:
            raise Lost("other records than an undisturbed run")


def limits(place):
    def run(label, kind, value, signals=()):
        results = place.new(label)
        ended = place.oppa(results=results,
                           preexec_fn=lambda: resource.setrlimit(kind, (value, value)))
        if ended.returncode not in (0, 1, 2, 127, *(-s for s in signals)):
            raise Lost(f"exit code {ended.returncode}: {ended.stderr[-300:]}")
        if ended.returncode > 0 and not ended.stderr + ended.stdout:
            raise Lost("no reason")
        place.check_resumes(results)

    # 127 is that of the dynamic linker, which does not find its libraries.
    for count in (3, 4, 5, 6, 8, 10, 14, 20):
        yield f"open files {count}", lambda n=count: run(f"files {n}", resource.RLIMIT_NOFILE, n)
    for size in (20, 30, 40, 60, 100, 200, 400):
        yield f"memory {size} MB", \
            lambda n=size: run(f"memory {n}", resource.RLIMIT_AS, n << 20)
    for size in (100, 1000, 2000, 4000):
        yield f"file size {size}", lambda n=size: run(
            f"size {n}", resource.RLIMIT_FSIZE, n, [signal.SIGXFSZ])
    yield "CPU 0 s", lambda: run("cpu", resource.RLIMIT_CPU, 0, [signal.SIGKILL, signal.SIGXCPU])


def environment(place):
    def run(label, code=0, **process):
        results = place.new(label)
        process.setdefault("env", os.environ)
        ended = place.oppa(results=results, **process)
        if ended.returncode != code:
            raise Lost(f"exit code {ended.returncode}: {ended.stderr}")
        if records(results) != place.expected:
            raise Lost("other records")

    def all_signals(how):
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            if how is None:
                signal.pthread_sigmask(signal.SIG_BLOCK, [number])
            else:
                signal.signal(number, how)

    here = dict(os.environ)
    for variables in ({"LC_ALL": "de_DE.utf8"}, {"LC_ALL": "tr_TR.utf8"}, {"LC_ALL": "xx_YY"},
                      {"TZ": "garbage"}, {"TERM": "dumb", "COLUMNS": "1"}, {"HOME": "/dev/null"},
                      {"OMP_NUM_THREADS": "64", "MALLOC_PERTURB_": "165"}):
        label = " ".join(f"{key}={value}" for key, value in variables.items())
        yield label, lambda v=variables, at=label: run(at, env={**here, **v})
    yield "no variables", lambda: run("empty", env={})
    for closed in ((0,), (1,), (2,), (0, 1, 2)):
        yield f"closed {closed}", lambda fds=closed: run(
            f"closed {fds}", code=1 if 1 in fds else 0,  # what was printed is lost
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: [os.close(fd) for fd in fds])
    yield "umask 077", lambda: run("umask", preexec_fn=lambda: os.umask(0o077))
    yield "all signals blocked", lambda: run("blocked", preexec_fn=lambda: all_signals(None))
    yield "all signals ignored", lambda: run("ignored",
                                             preexec_fn=lambda: all_signals(signal.SIG_IGN))


def names(place):
    def run(name):
        results = os.path.join(os.fsencode(place.work), b"names", name)
        ended = place.oppa(results=results)
        if ended.returncode != 0:
            raise Lost(f"exit code {ended.returncode}: {ended.stderr[-300:]}")
        if records(results) != place.expected:
            raise Lost("other records")
        for verb in ("status", "check"):
            if place.oppa(verb, results=results).returncode != 0:
                raise Lost(f"{verb} fails")

    for name in (b"with space", b"'quoted' \"twice\"", "Köln 東京".encode(), b"new\nline", b"100%d",
                 b"-dash", b"back\\slash", b"*?[a]", b"$(touch x)`id`", b"latin-1 \xe9 \xff\xfe",
                 b"tab\t and \x1b[31m", b"d" * 200 + b"/" + b"e" * 200):
        yield repr(name)[1:60], lambda n=name: run(n)

    def too_long():
        ended = place.oppa(results="/".join([str(place.work)] + ["d" * 100] * 50))
        if ended.returncode not in (1, 2) or ended.stderr.count(b"\n") != 1:
            raise Lost(f"exit code {ended.returncode}: {ended.stderr[-300:]}")
    yield "5000 characters", too_long


SPECIAL = {
    "FIFO": os.mkfifo,
    "folder": os.mkdir,
    "link to nowhere": lambda path: os.symlink("/nowhere/at/all", path),
    "link to itself": lambda path: os.symlink(os.path.basename(path), path),
    "link to /dev/full": lambda path: os.symlink("/dev/full", path),
    "link to /dev/zero": lambda path: os.symlink("/dev/zero", path),
    "file of NULs": lambda path: Path(path).write_bytes(bytes(5000)),
    "null": lambda path: Path(path).write_text("null\n"),
}
FILES = ("cost-model/1/trials.csv", "cost-model/1/steps.csv", "cost-model/1/fits.csv",
         "cost-model/1/thinking.csv", "cost-model/1/run.json", "problem.json", "experiment.json",
         ".slurm/20261122t032930.547-f73c2c5c/submission.json")
READ_BY = {  # commands that must refuse damage to a file
    "run": FILES[:5], "status": (*FILES[:5], FILES[7]), "check": FILES,
    "report": (*FILES[:5], *FILES[5:7])}


def files(place):
    def look(name, kind, make):
        for verb, read in READ_BY.items():
            results = place.new("special")
            shutil.copytree(place.whole, results)
            file = results / "m" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            make(file)
            words = ["--figures", "throughput-time"] if verb == "report" else []
            ended = place.oppa(verb, *words, results=results)
            if ended.returncode not in (0, 1, 2):
                raise Lost(f"{verb}: exit code {ended.returncode}: {ended.stderr[-300:]}")
            if ended.returncode == 0 and name in read and verb != "run":
                raise Lost(f"{verb}: exit code 0: {ended.stdout[-300:]}")
            if ended.returncode and not re.search(rb"m/|m\.toml", ended.stderr):
                raise Lost(f"{verb}: names no file: {ended.stderr[-300:]}")
            if len(ended.stderr) > 3000:
                raise Lost(f"{verb}: {len(ended.stderr)} bytes of message")

    for kind, make in SPECIAL.items():
        for name in FILES:
            yield f"{name.rsplit('/', 1)[-1]} is a {kind}", \
                lambda n=name, k=kind, m=make: look(n, k, m)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="oppa-surroundings-"))
    place = Place(arguments.program.resolve(), work)
    counts = collections.Counter()
    lost = 0
    for group in (limits, environment, names, files):
        for label, case in group(place):
            if arguments.only not in f"{group.__name__}: {label}":
                continue
            counts[group.__name__] += 1
            try:
                case()
            except (Lost, OSError, subprocess.TimeoutExpired) as error:
                lost += 1
                print(f"surroundings: {group.__name__}: {label}: {error}", file=sys.stderr)
    print("surroundings:", ", ".join(f"{count} {group}" for group, count in counts.items()))
    if lost:
        sys.exit(f"surroundings: {lost} of {sum(counts.values())} cases were not survived")
    shutil.rmtree(work)


main()
