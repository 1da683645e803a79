"""Compares the training speed of oppa-train on one CPU core with PyTorch and llm.c.

    python3 benchmarks/trainer.py [--program build/release/oppa-train] [--rounds 3] [--threads 1] [--llm-c FOLDER]

FOLDER is a checkout of github.com/karpathy/llm.c. Its train_gpt2.c is compiled in a temporary folder, with the sequence
length below and the flags of its Makefile, and reads random weights and tokens.

The model is a GPT-2 with 4 layers, 4 heads, 256 hidden units and a vocabulary of 4096 (4.3 million parameters),
trained with Adam on 4 sequences of 256 tokens in float. The programs run in turn, and CPU seconds count, because other
processes change wall time most. PyTorch is that of oppa-train-torch, in the Python that runs this.
"""

import argparse
import functools
import json
import os
import pathlib
import random
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

LAYERS, HEADS, HIDDEN, VOCABULARY, BATCH, LENGTH = 4, 4, 256, 4096, 4, 256
CONFIG = {
    "model_type": "gpt2", "n_layer": LAYERS, "n_head": HEADS, "n_embd": HIDDEN, "vocab_size": VOCABULARY,
    "n_positions": LENGTH, "resid_pdrop": 0.0,
}


def train(words, threads, steps):
    """Runs oppa-train, or its counterpart in PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "config.json"
        model.write_text(json.dumps(CONFIG))
        subprocess.run([*words, "--model", str(model), "--batch-size", str(BATCH), "--sequence-length", str(LENGTH),
                        "--steps", str(steps), "--config", f"dp={threads},tp=1,pp=1"], check=True, stdout=subprocess.DEVNULL)


def cpu_s(run, steps):
    """The CPU time of a step on all cores, in seconds: without that of the start."""
    few, times = 2, []
    for count in (few, few + steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(count)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (times[1] - times[0]) / steps


class LlmC:
    """llm.c's CPU trainer, compiled for the same model."""

    def __init__(self, folder, scratch, threads):
        self.scratch, self.threads = pathlib.Path(scratch), threads
        source = (pathlib.Path(folder) / "train_gpt2.c").read_text()
        source, found = re.subn(r"int T = \d+;", f"int T = {LENGTH};", source)
        if found != 1 or f"int B = {BATCH};" not in source:
            raise SystemExit(f"{folder}/train_gpt2.c: batch and sequence length are not where they were expected")
        (self.scratch / "train.c").write_text(source)
        subprocess.run(["gcc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-Wno-unused-result", f"-I{folder}", "train.c",
                        "-o", "train", "-lm"], cwd=scratch, check=True)
        layer = 12 * HIDDEN * HIDDEN + 13 * HIDDEN
        count = (VOCABULARY + LENGTH) * HIDDEN + LAYERS * layer + 2 * HIDDEN
        header = struct.pack("8i", 20240326, 3, LENGTH, VOCABULARY, LAYERS, HEADS, HIDDEN, VOCABULARY)
        weights = struct.pack(f"{count}f", *(random.gauss(0.0, 0.02) for _ in range(count)))
        (self.scratch / "gpt2_124M.bin").write_bytes(header.ljust(1024, b"\0") + weights)
        tokens = 64 * BATCH * LENGTH
        data = struct.pack("3i", 20240520, 1, tokens).ljust(1024, b"\0")
        data += struct.pack(f"{tokens}H", *(random.randrange(VOCABULARY) for _ in range(tokens)))
        folder = self.scratch / "dev/data/tinyshakespeare"
        folder.mkdir(parents=True)
        for part in ("train", "val"):
            (folder / f"tiny_shakespeare_{part}.bin").write_bytes(data)

    def run(self, steps):
        with subprocess.Popen(["stdbuf", "-oL", "./train"], cwd=self.scratch, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": str(self.threads)}) as process:
            for line in process.stdout:
                steps -= "took " in line
                if steps == 0:
                    process.kill()
                    break


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/oppa-train")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch, and data-parallel ranks")
    parser.add_argument("--llm-c", help="a checkout of llm.c, to compare with its CPU trainer")
    options = parser.parse_args()
    program, torch = pathlib.Path(options.program).resolve(), [sys.executable, f"{options.program}-torch"]
    programs = {"oppa-train": functools.partial(train, [program], options.threads),
                "PyTorch": functools.partial(train, torch, options.threads)}
    with tempfile.TemporaryDirectory() as scratch:
        if options.llm_c:
            programs["llm.c"] = LlmC(pathlib.Path(options.llm_c).resolve(), scratch, options.threads).run
        times = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, run in programs.items():
                times[name].append(cpu_s(run, options.steps))
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, values in times.items():
        rates = sorted(BATCH * LENGTH / value for value in values)
        print(f"{name:<10} {statistics.median(rates):8.0f} tokens per CPU second ({rates[0]:.0f} to {rates[-1]:.0f}), "
              f"{statistics.median(values) / statistics.median(times['oppa-train']):6.2f} times that of oppa-train")


if __name__ == "__main__":
    main()
