#!/usr/bin/env python3
"""Breaks runs in every way we can think of, and sees that nothing is lost.

    tests/faults/campaign.py PROGRAM [--faults N] [--seed N] [--slurm N] [--report FILE]

N faults are drawn from the local kinds, each in a turn of its own, and --slurm N
more from those that need Slurm (SLURM_CONF names a private one, see
tests/slurm/slurm-up.sh). Everything random comes from the seed; what the
operating system makes of it in time does not.

After each fault:
  1. every trial that was on record when the fault struck still is, and was not
     done again: its row in thinking.csv, which holds times that never repeat, is
     the same. (Not where the fault is damage to that very row.)
  2. the run is run again, to its end, and trials.csv, steps.csv and fits.csv are
     byte for byte those of a run that was left alone.
  3. external trials, which run on a real clock: instead of 2, the rows that were on record
     are unchanged, the run comes to its end, and no process of a trial is left.
The report is a table: fault, times, how often it struck a run that was under way,
survived.
"""
import argparse
import collections
import ctypes
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from small_experiment import RECORDS, ROOT, Lost, acknowledged, compile_shim, manifest_text

TRIALS = 24
MANIFEST = manifest_text("vanilla-bo", TRIALS, q_max=6, more="[slurm]\nretries = 3\n")


# Trials by a program (docs/external-trials.md), on a real clock: what they take
# differs from run to run, so here the rows of what was on record must stay.
EXTERNAL_TRIALS = 8
EXTERNAL = MANIFEST.replace('type = "simulator"', """type = "command"
program = ["./trial.sh"]
patience_s = 0.2""").replace('"vanilla-bo"', '"random"').replace(
    "qwen2-1.5b", "tiny-qwen2").replace("sequence_length = 1024", "sequence_length = 128").replace(
    f"trials = {TRIALS}", f"trials = {EXTERNAL_TRIALS}").replace('name = "m"', 'name = "x"')
TRIAL = """#!/bin/sh
setsid -f sh -c 'trap "" TERM; while :; do sleep 0.05; done' "$PWD/stray"
for i in 1 2 3 4 5 6; do sleep 0.02; echo 'oppa {"step_time_s": 0.02}'; done
"""


def processes(*words, slurm=False):
    """With these words in the command line; `slurm`: of the Slurm that SLURM_CONF names."""
    mark = b"SLURM_CONF=" + os.environ.get("SLURM_CONF", "").encode() + b"\0"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
            if all(word.encode() in line for word in words) and (
                    not slurm or mark in (entry / "environ").read_bytes()):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def children(process):
    """The supervisors of a runner."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(child) for child in text.split()]


def kill(pids, sig=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


class Campaign:
    def __init__(self, program, seed, work):
        self.program, self.random, self.work = program, random.Random(seed), work
        for name in ("workloads", "clusters", "rules"):
            (work / name).symlink_to(ROOT / "experiments" / name)
        self.manifest = work / "m.toml"
        self.manifest.write_text(MANIFEST)
        self.shim = compile_shim("faulty_calls", work)
        self.number = 0
        self.new_results()
        self.run_again()
        self.expected = self.records()
        if len(self.expected["trials.csv"].splitlines()) != TRIALS + 2:
            sys.exit("campaign: the undisturbed run is not what it should be")

    def new_results(self):
        self.number += 1
        self.results = self.work / f"r{self.number}"
        self.folder = self.results / "m/vanilla-bo/1"

    # The program.

    def command(self, *extra):
        return [self.program, "run-one", self.manifest, "--results", self.results, "--method",
                "vanilla-bo", "--repeat", "1", "--lease-s", "0.4", *extra]

    def start(self, **environment):
        return subprocess.Popen(self.command(), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, **environment))

    def run_all(self):
        return subprocess.run([self.program, "run", self.manifest, "--results", self.results,
                               "--no-report", "--jobs", "1"], capture_output=True, text=True)

    def check_refused(self, name):
        """The run is refused because of one of its files."""
        refused = self.run_all()
        if refused.returncode == 0 or name not in refused.stdout + refused.stderr:
            raise Lost(f"damage of {name} is not refused: {refused.stdout}{refused.stderr}")

    def run_again(self):
        done = self.run_all()
        if done.returncode != 0:
            log = self.folder / "log.txt"
            raise Lost("cannot be run again: " + done.stdout[-300:] + done.stderr +
                       (log.read_text() if log.exists() else ""))

    # Its records.

    def read(self, name):
        file = self.folder / name
        return file.read_bytes() if file.exists() else b""

    def records(self):
        return {name: self.read(name) for name in RECORDS}

    def acknowledged(self):
        return acknowledged(self.folder)

    def wait_for_trials(self, count, process=None):
        end = time.monotonic() + 60
        while self.read("trials.csv").count(b"\n") < count + 2:
            if time.monotonic() > end or (process and process.poll() is not None):
                return
            time.sleep(0.002)

    def begin(self):
        """Starts a run and waits for some of its trials."""
        process = self.start()
        self.wait_for_trials(self.random.randint(0, TRIALS - 3), process)
        return process

    # Local faults. Each returns what was acknowledged, and whether the run was under way.

    def signal_runner(self, sig):
        process = self.begin()
        before = self.acknowledged()
        process.send_signal(sig)
        process.communicate()
        return before, len(before) < TRIALS

    def stop_writer(self):
        """It wakes up after another attempt took over, and has to give in."""
        first = self.begin()
        first.send_signal(signal.SIGSTOP)
        before = self.acknowledged()
        under_way = len(before) < TRIALS
        second = self.start()
        if self.random.random() < 0.5:  # wakes up while the second one writes
            self.wait_for_trials(min(len(before) + 2, TRIALS), second)
        else:
            second.wait()
        first.send_signal(signal.SIGCONT)
        complaint = first.communicate()[1]
        if under_way and first.returncode != 1:
            raise Lost(f"the loser ends with {first.returncode}: {complaint}")
        if under_way and "taken these records over" not in complaint:
            raise Lost("the loser says: " + complaint)
        if second.wait() != 0:
            raise Lost("the second attempt fails: " + second.communicate()[1])
        return before, under_way

    def second_attempt(self):
        """Two at the same time: the second has to give in."""
        first = self.begin()
        before = self.acknowledged()
        second = self.start()
        first.wait()
        second.wait()
        if first.returncode != 0:
            raise Lost("the writer was disturbed: " + first.communicate()[1])
        first.communicate(), second.communicate()
        return before, len(before) < TRIALS

    def bad_disk(self, error):
        disk = {"LD_PRELOAD": str(self.shim), "FAULT_PATH": "/vanilla-bo/1/", "FAULT_WRITES": "1",
                "FAULT_CALL": str(self.random.randint(1, 16 * TRIALS)), "FAULT_FOREVER": "1",
                "FAULT_ERRNO": str(error), "FAULT_KIND": self.random.choice(["error", "short"])}
        process = self.start(**disk)
        complaint = process.communicate()[1]
        if process.returncode and (complaint.count("\n") != 1 or "cannot" not in complaint):
            raise Lost("not one clear line: " + complaint)
        return self.acknowledged(), process.returncode != 0

    def clock_jump(self):
        jump = self.random.choice([-86400, -3600, 3600, 10 * 365 * 86400])
        first = self.start(LD_PRELOAD=str(self.shim), FAULT_CLOCK=str(jump))
        self.wait_for_trials(self.random.randint(0, TRIALS - 3), first)
        before = self.acknowledged()
        second = self.start(LD_PRELOAD=str(self.shim), FAULT_CLOCK=str(-jump))
        first.communicate(), second.communicate()
        if first.returncode != 0:
            raise Lost("a jump of the clock ended the run")
        return before, len(before) < TRIALS

    def damage(self, change):
        """Of the last row of a file, after the runner was killed.

        A crash can leave a row of trials.csv without its end, and this trial is then lost. Rows of
        fits.csv are recomputed, and suggestion times may be unknown. A damaged trial and lost steps
        of one on record are refused until the file is restored, and so is a finished run whose
        files have changed.
        """
        before, under_way = self.signal_runner(signal.SIGKILL)
        names = [n for n in (*RECORDS, "thinking.csv") if self.read(n).count(b"\n") > 2]
        if not names:
            return [], False
        name = self.random.choice(names)
        content = self.read(name)
        last_row = content.rstrip(b"\n").rfind(b"\n") + 1
        at = self.random.randrange(last_row, len(content))
        changed = change(content, at)
        (self.folder / name).write_bytes(changed)
        trial = int(content[last_row:].split(b",")[0])
        finished = b'"finished": true' in self.read("run.json")
        damaged = len(changed) == len(content) and changed.endswith(b"\n")
        if (finished or (name == "steps.csv" and trial <= len(before))
                or (name == "trials.csv" and damaged)):
            self.check_refused(name)
            (self.folder / name).write_bytes(content)
            return before, under_way
        if name == "thinking.csv":
            return before[:trial - 1], under_way
        return before[:trial - 1] if name == "trials.csv" else before, under_way

    def truncate(self):
        return self.damage(lambda content, at: content[:at])

    def flip(self):
        bit = 1 << self.random.randrange(8)
        return self.damage(
            lambda content, at: content[:at] + bytes([content[at] ^ bit]) + content[at + 1:])

    # Faults of external trials.

    def external(self, strike):
        """Strikes while a trial runs; then the run has to come to its end."""
        (self.work / "trial.sh").write_text(TRIAL)
        (self.work / "trial.sh").chmod(0o755)
        manifest = self.work / "x.toml"
        manifest.write_text(EXTERNAL)
        self.folder = self.results / "x/random/1"
        run = [self.program, "run-one", manifest, "--results", self.results, "--method",
               "random", "--repeat", "1", "--lease-s", "0.4"]
        process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_for_trials(self.random.randint(1, EXTERNAL_TRIALS - 3), process)
        time.sleep(self.random.uniform(0.0, 0.1))
        before = self.acknowledged()
        rows = self.read("trials.csv").split(b"\n")[:2 + len(before)]
        strike(self, process)
        process.communicate()
        if process.returncode == 0 and strike == Campaign.kill_runner:
            raise Lost("the runner was killed and says that it is done")
        if strike != Campaign.kill_both:  # then the next start ends them
            self.wait_for_no_strays()
        again = subprocess.run(run, capture_output=True, text=True)
        if again.returncode != 0:
            raise Lost("cannot be run again: " + again.stderr)
        self.wait_for_no_strays()
        self.check(before)
        after = self.read("trials.csv").split(b"\n")
        if after[:len(rows)] != rows:
            raise Lost("rows of trials.csv have changed")
        if len(after) != EXTERNAL_TRIALS + 3 or len(set(after)) != len(after):
            raise Lost(f"{len(after) - 3} trials on record at the end")
        shutil.rmtree(self.results, ignore_errors=True)
        return len(before) < EXTERNAL_TRIALS

    def wait_for_no_strays(self):
        for _ in range(200):
            left = self.strays()
            if not left:
                return
            time.sleep(0.05)
        raise Lost(f"{len(left)} processes of trials are left")

    def strays(self):
        """Processes of trials, or what they leave behind."""
        return processes(f"{self.work}/stray") + processes(f"{self.work}/trial.sh")

    def kill_trial(self, process):
        kill(processes(f"{self.work}/trial.sh"))

    def kill_supervisor(self, process):
        kill(children(process))

    def kill_both(self, process):
        """As `pkill -9 oppa` does. A stopped runner cannot react in between."""
        process.send_signal(signal.SIGSTOP)
        kill([*children(process), process.pid])

    def stop_supervisor(self, process):
        kill(children(process), signal.SIGSTOP)

    def kill_runner(self, process):
        process.kill()

    # Faults of Slurm. The run is an array task.

    def submit(self):
        self.mend_nodes()
        done = subprocess.run([self.program, "run", self.manifest, "--results", self.results,
                               "--dispatch", "slurm", "--no-report"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Lost("cannot submit: " + done.stderr)
        self.job = done.stdout.split("submitted as job ")[1].split(",")[0] + "_0"
        self.wait_for_trials(self.random.randint(1, TRIALS // 2))
        return self.acknowledged()

    def mend_nodes(self):
        """After earlier faults: every node has its daemon and is up."""
        for _ in range(60):
            down = [line.split()[0] for line in self.slurm(
                "sinfo", "-h", "-N", "-o", "%N %t").splitlines()
                if line.split()[1].rstrip("*") not in ("idle", "mix", "alloc", "comp")
                or line.endswith("*")]
            if not down:
                return
            for node in down:
                if not processes("slurmd\0-N\0" + node + "\0", slurm=True):
                    subprocess.run(["slurmd", "-N", node], check=False)
                self.slurm("scontrol", "update", "NodeName=" + node, "State=RESUME")
            time.sleep(0.5)
        raise Lost("nodes do not come up: " + self.slurm("sinfo", "-N"))

    def slurm(self, *words):
        return subprocess.run(words, capture_output=True, text=True).stdout

    def finish_by_slurm(self, before):
        """`oppa run --dispatch slurm` again until the record says that it is done."""
        under_way = len(before) < TRIALS
        end = time.monotonic() + 120
        while time.monotonic() < end:
            subprocess.run([self.program, "run", self.manifest, "--results", self.results,
                            "--dispatch", "slurm", "--no-report"], capture_output=True)
            for _ in range(20):
                if b'"finished": true' in self.read("run.json"):
                    return before, under_way
                time.sleep(0.1)
        raise Lost("does not come to its end: " + self.slurm("squeue", "-r"))

    def by_slurm(self, strike):
        """Strikes while the run is under way; then the run has to come to its end."""
        before = self.submit()
        strike(self)
        return self.finish_by_slurm(before)

    def kill_task(self):
        kill(processes("run-task", str(self.results), slurm=True))

    def requeue(self):
        self.slurm("scontrol", "update", "JobId=" + self.job, "Requeue=1")
        self.slurm("scontrol", "requeue", self.job)

    def node(self):
        return self.slurm("squeue", "-h", "-j", self.job, "-o", "%N").strip() or "n1"

    def drain(self):
        self.slurm("scontrol", "update", "NodeName=" + self.node(), "State=DOWN", "Reason=fault")

    def kill_slurmd(self):
        node = self.node()
        kill(processes("slurmd\0-N\0" + node + "\0", slurm=True))
        self.kill_task()  # the node is gone
        time.sleep(0.5)
        subprocess.run(["slurmd", "-N", node], check=False)

    def kill_slurmctld(self):
        kill(processes("slurmctld", slurm=True))
        time.sleep(self.random.uniform(0.1, 1.0))
        subprocess.run(["slurmctld"], check=True)

    def check(self, before):
        after = self.acknowledged()
        if after[:len(before)] != before:
            raise Lost(f"{len(before)} trials were on record, of which "
                       f"{sum(a == b for a, b in zip(after, before))} still are")

    def one(self, fault):
        self.new_results()
        outcome = fault()
        if isinstance(outcome, bool):
            return outcome  # has made its own checks
        before, under_way = outcome
        self.check(before)
        self.run_again()
        self.check(before)
        records = self.records()
        for name in RECORDS:
            if records[name] != self.expected[name]:
                raise Lost(f"{name} differs from that of an undisturbed run")
        for _ in range(40):  # another attempt of Slurm's may be just starting
            left = [p.name for p in self.folder.iterdir() if p.name.startswith(".publish")]
            if not left:
                break
            time.sleep(0.1)
        else:
            raise Lost(f"left behind: {left}")
        shutil.rmtree(self.results, ignore_errors=True)  # a last job may still be at it
        return under_way


LOCAL = {
    "kill -9 of the runner": lambda c: c.signal_runner(signal.SIGKILL),
    "SIGTERM of the runner": lambda c: c.signal_runner(signal.SIGTERM),
    "SIGSTOP of a writer, takeover, SIGCONT": Campaign.stop_writer,
    "a second attempt at the same time": Campaign.second_attempt,
    "ENOSPC on write, fsync or rename": lambda c: c.bad_disk(errno.ENOSPC),
    "EIO on write, fsync or rename": lambda c: c.bad_disk(errno.EIO),
    "clock jump, with a second attempt": Campaign.clock_jump,
    "truncated tail": Campaign.truncate,
    "flipped bit in the last row": Campaign.flip,
    "kill -9 of a trial": lambda c: c.external(Campaign.kill_trial),
    "kill -9 of a trial's supervisor": lambda c: c.external(Campaign.kill_supervisor),
    "kill -9 of runner and supervisor": lambda c: c.external(Campaign.kill_both),
    "a trial's supervisor is stopped": lambda c: c.external(Campaign.stop_supervisor),
    "kill -9 of the runner in a trial": lambda c: c.external(Campaign.kill_runner),
}
SLURM = {
    "kill -9 of the runner under Slurm": lambda c: c.by_slurm(Campaign.kill_task),
    "scancel": lambda c: c.by_slurm(lambda c: c.slurm("scancel", c.job)),
    "scontrol requeue": lambda c: c.by_slurm(Campaign.requeue),
    "node down": lambda c: c.by_slurm(Campaign.drain),
    "kill -9 of slurmstepd":
        lambda c: c.by_slurm(lambda c: kill(processes("slurmstepd", slurm=True))),
    "kill -9 of slurmd": lambda c: c.by_slurm(Campaign.kill_slurmd),
    "kill -9 of slurmctld": lambda c: c.by_slurm(Campaign.kill_slurmctld),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--faults", type=int, default=180)
    parser.add_argument("--slurm", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds with this in their name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    # This process must reap what a killed slurmstepd or runner leaves behind.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    work = Path(tempfile.mkdtemp(prefix="oppa-faults-"))
    campaign = Campaign(arguments.program.resolve(), arguments.seed, work)
    for kinds in (LOCAL, SLURM):
        for name in [name for name in kinds if arguments.only not in name]:
            del kinds[name]
    turns = [(LOCAL, i) for i in range(arguments.faults)]
    turns += [(SLURM, i) for i in range(arguments.slurm)]
    counts = collections.defaultdict(lambda: [0, 0, 0])
    failures = []
    for kinds, turn in turns:
        name = list(kinds)[turn % len(kinds)]
        campaign.random = random.Random(f"{arguments.seed}/{name}/{turn}")
        counts[name][0] += 1
        try:
            counts[name][1] += campaign.one(lambda: kinds[name](campaign))
            counts[name][2] += 1
        except Lost as lost:
            failures.append(f"{name}, turn {turn}, {campaign.results}: {lost}")
            print("campaign:", failures[-1], file=sys.stderr, flush=True)
    table = f"{'fault':40} {'times':>6} {'under way':>10} {'survived':>9}\n"
    for name, (times, under_way, survived) in counts.items():
        table += f"{name:40} {times:6} {under_way:10} {survived:9}\n"
    total = [sum(column) for column in zip(*counts.values())]
    table += f"{'all':40} {total[0]:6} {total[1]:10} {total[2]:9}\n"
    print(table, end="")
    if arguments.report:
        arguments.report.write_text(table)
    if failures:
        sys.exit(f"campaign: {len(failures)} faults were not survived; see {work}")
    shutil.rmtree(work)


main()
