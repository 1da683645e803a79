#!/usr/bin/env python3
"""A training program as `[backend] type = "command"` expects one.

It takes the place of your program and needs only Python: dp * tp * pp processes
compute shares of the gradients of a small linear model and sum them over pipes.
The part that concerns oppa is in `main`: it reads the configuration to try and
reports the time of each step.
"""
import multiprocessing
import resource
import sys
import time

import oppa_report

WORK = 4000  # numbers in a step, over all ranks


def rank(share, connection):
    weight = 0.0
    while connection.recv():
        gradient = sum((weight * x - 2.0 * x) * x for x in range(share)) / share**3
        connection.send(gradient)
        weight = connection.recv()


def main():
    trial = oppa_report.trial()
    config = trial["config"]
    ranks = config["dp"] * config["tp"] * config["pp"]
    if config["zero_stage"] == 0 and config["dp"] == ranks:
        # A model that does not fit. The message of CUDA in the output would do as well.
        oppa_report.report(status="out_of_memory", message="every rank holds the whole model")
        return 1
    print(f"{ranks} ranks, {config['microbatches']} microbatches", flush=True)
    connections = []
    for _ in range(ranks):
        ours, theirs = multiprocessing.Pipe()
        multiprocessing.Process(target=rank, args=(WORK // ranks + 1, theirs), daemon=True).start()
        connections.append(ours)

    weight = 0.0
    for _ in range(trial["max_steps"]):
        begin = time.perf_counter()
        for _ in range(config["microbatches"]):
            for connection in connections:
                connection.send(True)
            gradient = sum(connection.recv() for connection in connections) / ranks
            weight -= 0.1 * gradient
            for connection in connections:
                connection.send(weight)
        oppa_report.report(step_time_s=time.perf_counter() - begin)
    oppa_report.report(peak_memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return 0


sys.exit(main())
