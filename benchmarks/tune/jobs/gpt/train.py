"""Trains a GPT on CPU ranks with PyTorch. It does not depend on oppa.

    torchrun --nproc-per-node=2 train.py --zero 0 --micro-batch 8

The defaults are those of PyTorch and torchrun: DistributedDataParallel with buckets of 25 MB, AdamW without `foreach`
or `fused`, one thread per rank, no recomputation, and no gradient accumulation.
"""

import argparse
import resource
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

LAYERS, HEADS, HIDDEN, VOCABULARY = 4, 4, 256, 4096
ADAMW = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class Block(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def compute(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    def forward(self, x):
        return checkpoint(self.compute, x, use_reentrant=False) if self.recompute else self.compute(x)


class Gpt(nn.Module):
    def __init__(self, length, recompute):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(length, HIDDEN)
        self.blocks = nn.ModuleList(Block(recompute) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def distribute(model, args):
    """The model and its optimizer under a ZeRO stage: 0 and 1 are DDP, 2 and 3 are FSDP."""
    options = {"lr": 1e-3, **ADAMW[args.adamw]}
    if args.zero < 2:
        model = DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb, gradient_as_bucket_view=True)
        if args.zero == 1:
            return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **options)
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for module in (*model.blocks, model):
            fully_shard(module, mesh=mesh, reshard_after_forward=args.zero == 3)
    return model, torch.optim.AdamW(model.parameters(), **options)


def synchronize_in(model, last):
    """Gradients are reduced in the last microbatch of a step only."""
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = last
    else:
        model.set_requires_gradient_sync(last)


def train_step(model, optimizer, args):
    accumulated = args.batch // dist.get_world_size() // args.micro_batch
    for part in range(accumulated):
        tokens = torch.randint(VOCABULARY, (args.micro_batch, args.seq + 1))
        synchronize_in(model, part + 1 == accumulated)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / accumulated
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item() * accumulated


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16, help="sequences of a step over all ranks")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--zero", type=int, choices=range(4), default=0)
    parser.add_argument("--bucket-mb", type=int, default=25)
    parser.add_argument("--recompute", type=int, choices=(0, 1), default=0)
    parser.add_argument("--adamw", choices=ADAMW, default="for-loop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model, optimizer = distribute(Gpt(args.seq, args.recompute == 1), args)
    for step in range(args.steps):
        begin = time.perf_counter()
        loss = train_step(model, optimizer, args)
        if dist.get_rank() == 0:
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"step {step} loss {loss:.3f} took {time.perf_counter() - begin:.5f} s, peak {peak_mib:.0f} MiB",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
