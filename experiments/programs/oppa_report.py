"""Reports of a training program to oppa (docs/external-trials.md). Copy this file.

    import oppa_report
    config = oppa_report.trial()["config"]
    oppa_report.report(step_time_s=0.41, peak_memory_bytes=19.2e9)
"""
import json
import os


def trial():
    """The request: {"config": {...}, "max_steps": 30, ...}."""
    return json.loads(os.environ["OPPA_TRIAL"])


def report(**values):
    """Appends a report with one write, so that reports and output of other processes cannot mix with it."""
    if values.get("loss") is not None:
        values["loss"] = float(values["loss"])  # a tensor may be given
    line = ("oppa " + json.dumps(values, default=float, ensure_ascii=False) + "\n").encode(errors="replace")
    path = os.environ.get("OPPA_REPORT")
    file = os.open(path, os.O_WRONLY | os.O_APPEND) if path else 1  # 1: standard output
    try:
        os.write(file, line)
    finally:
        if path:
            os.close(file)
