"""Drives a whole search by the Python API; with a third argument, kills itself at that event.

    drive.py MANIFEST STORAGE [EVENT]
"""
import os
import signal
import sys

import job
import oppa


class Events:
    """Things that happen, at one of which the process is killed."""

    def __init__(self, last):
        self.left = last

    def __call__(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def run(study, at_event=lambda: None):
    for trial in study:
        at_event()
        peak = job.peak_memory_bytes(trial.config)
        # As of a trial that always costs the same, so that records are equal in every byte.
        fixed = {"peak_memory_bytes": peak, "duration_s": 10.0}
        try:
            for step in range(1, trial.max_steps + 1):
                trial.report(job.step_time_s(trial.config, step))
                at_event()
                if trial.should_prune():
                    break
            study.tell(trial, state="pruned" if trial.should_prune() else "complete", **fixed)
        except job.OutOfMemory:
            study.tell(trial, state="memory_out", message="replicas of the whole model", **fixed)
        at_event()


if __name__ == "__main__":
    run(oppa.create_study(sys.argv[1], sys.argv[2], load_if_exists=True), Events(int(sys.argv[3]) if len(sys.argv) > 3 else -1))
