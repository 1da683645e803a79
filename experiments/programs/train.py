#!/usr/bin/env python3
"""A training program as `[backend] type = "command"` expects one.

It stands for yours and needs nothing but Python: dp * tp * pp processes compute
gradients of a small linear model, each its share, and sum them up over pipes.
What matters for oppa is in `main`: what is to be tried comes in OPPA_TRIAL, and
what was measured is printed, a line for each step.
"""
import json
import multiprocessing
import os
import resource
import sys
import time

WORK = 4000  # numbers in a step, over all ranks


def report(**values):
    print("oppa", json.dumps(values), flush=True)  # flush: the line counts when it is seen


def rank(share, connection):
    weight = 0.0
    while connection.recv():
        gradient = sum((weight * x - 2.0 * x) * x for x in range(share)) / share**3
        connection.send(gradient)
        weight = connection.recv()


def main():
    trial = json.loads(os.environ["OPPA_TRIAL"])
    config = trial["config"]
    ranks = config["dp"] * config["tp"] * config["pp"]
    if config["zero_stage"] == 0 and config["dp"] == ranks:
        # A model that does not fit; CUDA's own message in the output would do as well.
        report(status="out_of_memory", message="every rank holds the whole model")
        return 1
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
        report(step_time_s=time.perf_counter() - begin)
    report(peak_memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return 0


sys.exit(main())
