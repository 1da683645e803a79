"""Compares the training speed of oppa-train on one CPU core with PyTorch.

    python3 benchmarks/trainer.py [--program build/release/oppa-train] [--rounds 3] [--threads 1]

The model is a GPT-2 with 4 layers, 4 heads, 256 hidden units and a vocabulary of 4096 (4.3 million parameters),
trained with Adam on 4 sequences of 256 tokens in float. Both programs run in turn, so that the load of the machine
affects both, and the fastest step of each counts. PyTorch has to be installed for the Python that runs this.
"""

import argparse
import json
import os
import pathlib
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/oppa-train")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch, and data-parallel ranks")
    options = parser.parse_args()
    run_torch = torch_steps(options.steps, options.threads)
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(oppa_step_s(options.program, options.steps, options.threads))
        theirs.append(run_torch())
    tokens = BATCH * LENGTH / options.threads
    print(f"oppa-train {tokens / min(ours):8.0f} tokens/s per core")
    print(f"PyTorch    {tokens / min(theirs):8.0f} tokens/s per core")
    print(f"ratio      {min(theirs) / min(ours):8.2f}  (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
