"""A training job that trains nothing: its step times are a function of the configuration. Also a program of trials."""
import json
import os


class OutOfMemory(Exception):
    pass


def step_time_s(config, step):
    """Of a step, from 1. Replicas of the whole model do not fit."""
    if config["dp"] == 8 and config["zero_stage"] == 0:
        raise OutOfMemory
    noise = (config["dp"] * 7 + config["microbatches"] * 5 + step * 3) % 11 / 1000
    time_s = 0.2 + 0.1 * config["pp"] / config["microbatches"] + 0.05 * config["tp"] + 0.03 * config["grad_checkpoint"]
    return (2.0 if step == 1 else 1.0) * time_s + noise


def peak_memory_bytes(config):
    return 3e9 + 2e9 * config["micro_batch_size"] / (1 + config["grad_checkpoint"]) / config["pp"]


def report(**values):
    with open(os.environ["OPPA_REPORT"], "a") as file:
        file.write("oppa " + json.dumps(values) + "\n")


def main():
    trial = json.loads(os.environ["OPPA_TRIAL"])
    config = trial["config"]
    try:
        report(peak_memory_bytes=peak_memory_bytes(config))
        for step in range(1, trial["max_steps"] + 1):
            report(step_time_s=step_time_s(config, step))
    except OutOfMemory:
        report(status="out_of_memory", message="replicas of the whole model")


if __name__ == "__main__":
    main()
