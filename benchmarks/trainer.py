"""Compares the training speed of oppa-train on one CPU core with PyTorch and llm.c.

    python3 benchmarks/trainer.py [--program build/release/oppa-train] [--rounds 3] [--threads 1] [--llm-c FOLDER]

FOLDER is a checkout of github.com/karpathy/llm.c. Its train_gpt2.c is compiled in a temporary folder, with the sequence
length below and the flags of its Makefile, and reads random weights and tokens.

The model is a GPT-2 with 4 layers, 4 heads, 256 hidden units and a vocabulary of 4096 (4.3 million parameters),
trained with Adam on 4 sequences of 256 tokens in float. The programs run in turn, so that the load of the machine
affects all of them, and the fastest step of each counts. PyTorch has to be installed for the Python that runs this.
"""

import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import time

LAYERS, HEADS, HIDDEN, VOCABULARY, BATCH, LENGTH = 4, 4, 256, 4096, 4, 256
CONFIG = {
    "model_type": "gpt2", "n_layer": LAYERS, "n_head": HEADS, "n_embd": HIDDEN, "vocab_size": VOCABULARY,
    "n_positions": LENGTH, "resid_pdrop": 0.0,
}


def oppa_step_s(program, steps, threads):
    """The fastest step of a trial, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "config.json"
        model.write_text(json.dumps(CONFIG))
        command = [program, "--model", str(model), "--batch-size", str(BATCH), "--sequence-length", str(LENGTH),
                   "--steps", str(steps), "--config", f"dp={threads},tp=1,pp=1"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    times = [json.loads(line[5:]).get("step_time_s") for line in lines if line.startswith("oppa {")]
    return min(t for t in times if t)


def torch_model():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, 2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(LENGTH, HIDDEN)
            self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
            self.norm = nn.LayerNorm(HIDDEN)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions(torch.arange(LENGTH))
            return self.norm(self.blocks(x)) @ self.tokens.weight.T

    return Gpt()


def torch_steps(steps, threads):
    """A function that returns the fastest of some steps, in seconds."""
    import torch

    torch.set_num_threads(threads)
    model = torch_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))

    def run():
        times = []
        for _ in range(steps):
            begin = time.perf_counter()
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - begin)
        return min(times)

    return run


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

    def step_s(self, steps):
        """The fastest of some steps, in seconds."""
        times = []
        with subprocess.Popen(["stdbuf", "-oL", "./train"], cwd=self.scratch, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": str(self.threads)}) as process:
            for line in process.stdout:
                found = re.search(r"took ([0-9.]+) ms", line)
                times += [float(found[1]) / 1e3] if found else []
                if len(times) == steps:
                    process.kill()
                    break
        return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/oppa-train")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch, and data-parallel ranks")
    parser.add_argument("--llm-c", help="a checkout of llm.c, to compare with its CPU trainer")
    options = parser.parse_args()
    run_torch = torch_steps(options.steps, options.threads)
    programs = {"oppa-train": lambda: oppa_step_s(options.program, options.steps, options.threads), "PyTorch": run_torch}
    with tempfile.TemporaryDirectory() as scratch:
        if options.llm_c:
            llm_c = LlmC(pathlib.Path(options.llm_c).resolve(), scratch, options.threads)
            programs["llm.c"] = lambda: llm_c.step_s(max(2, options.steps // 4))
        fastest = {name: float("inf") for name in programs}
        for _ in range(options.rounds):
            for name, step_s in programs.items():
                fastest[name] = min(fastest[name], step_s())
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, seconds in fastest.items():
        print(f"{name:<10} {BATCH * LENGTH / options.threads / seconds:8.0f} tokens/s per core, "
              f"{seconds / fastest['oppa-train']:6.2f} times the step of oppa-train")


if __name__ == "__main__":
    main()
