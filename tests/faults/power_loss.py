#!/usr/bin/env python3
"""Loses the power before each sync of a small run, and sees that it can go on.

    tests/faults/power_loss.py PROGRAM

A run is killed before its n-th fsync or fdatasync, for every n. What was not synced is then
dropped: the content of files since their last sync, and names (of files and folders) since the
last sync of the folder that they are in. On what is left

  1. every trial whose row was synced is on record, and
  2. the run ends with the same records as one that was left alone.
"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from small_experiment import RECORDS, ROOT, compile_shim, manifest_text

TRIALS = 4
MANIFEST = manifest_text("random", TRIALS, q_max=3, experiments=ROOT / "experiments", rule_sets=())


class Disk:
    """What is durable, computed from the log of operations."""

    def __init__(self, root, record):
        self.root, self.record = str(root), record
        self.names = {}  # path -> inode, as processes see them
        self.durable = collections.defaultdict(dict)  # folder -> name -> inode
        self.synced = set()  # inodes of files with durable content
        self.acknowledged = 0
        for line in (record / "log").read_text().splitlines():
            what, inode, a, b = line.split("\t")
            if what == "kill":
                break
            self.apply(what, inode, a, b)

    def apply(self, what, inode, a, b):
        if what in ("make", "link", "rename"):
            self.names[b or a] = inode
        if what in ("rename", "unlink"):
            self.names.pop(a, None)
        if what == "sync":
            self.synced.add(inode)
            self.durable[a] = {path: i for path, i in self.names.items()
                               if os.path.dirname(path) == a}
            if os.path.basename(a).endswith("trials.csv"):
                rows = (self.record / f"content-{inode}").read_text().count("\n") - 2
                self.acknowledged = max(self.acknowledged, rows)

    def restore(self, folder, to):
        """Copies what is durable below `folder` to another place."""
        for path, inode in self.durable[folder].items():
            target = to / os.path.basename(path)
            content = self.record / f"content-{inode}"
            if content.exists():
                shutil.copy(content, target)
            elif path in self.folders:
                target.mkdir()
                self.restore(path, target)
            else:
                target.touch()  # the name was synced, the content never

    @property
    def folders(self):
        return {os.path.dirname(path) for path in self.names} | set(self.durable)


def run(program, manifest, results, **environment):
    return subprocess.run([program, "run", manifest, "--results", results, "--no-report",
                           "--jobs", "1"], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


def records(results):
    return {name: (results / "m/random/1" / name).read_bytes() for name in RECORDS}


def lose_power(program, manifest, shim, work, call, expected):
    """False if the run has fewer syncs. Throws if records are lost."""
    base, record, after = (work / f"{call}-{name}" for name in ("disk", "record", "after"))
    for folder in (base, record, after):
        folder.mkdir()
    run(program, manifest, base / "r", LD_PRELOAD=str(shim), RECORD_PATH=str(base),
        RECORD_TO=str(record), RECORD_KILL=str(call))
    if "kill\t" not in (record / "log").read_text():
        return False
    disk = Disk(base, record)
    disk.restore(str(base), after)
    trials = after / "r/m/random/1/trials.csv"
    kept = trials.read_text().count("\n") - 2 if trials.exists() else 0
    if kept < disk.acknowledged:
        sys.exit(f"power_loss: sync {call}: {disk.acknowledged} trials were on record, "
                 f"{max(kept, 0)} are left")
    again = run(program, manifest, after / "r")
    if again.returncode != 0:
        sys.exit(f"power_loss: sync {call}: cannot go on: {again.stdout}{again.stderr}")
    if records(after / "r") != expected:
        sys.exit(f"power_loss: sync {call}: other records")
    return True


def main():
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="oppa-power-") as folder:
        work = Path(folder)
        shim = compile_shim("record_io", work)
        manifest = work / "m.toml"
        manifest.write_text(MANIFEST)
        if run(program, manifest, work / "whole").returncode != 0:
            sys.exit("power_loss: the undisturbed run fails")
        expected = records(work / "whole")
        call = 1
        while lose_power(program, manifest, shim, work, call, expected):
            call += 1
        if call < 10:
            sys.exit("power_loss: hardly anything is synced")
        print(f"power_loss: before each of {call - 1} syncs, every trial on record was kept")


if __name__ == "__main__":
    main()
