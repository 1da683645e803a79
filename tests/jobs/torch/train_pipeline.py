"""torch.distributed.pipelining on CPU ranks: one stage per rank, GPipe or 1F1B."""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from tiny_gpt import VOCABULARY, TinyGpt, batch_of, peak_mib


class Stage(nn.Module):
    def __init__(self, model, rank, ranks):
        super().__init__()
        share = len(model.blocks) // ranks
        self.embedding = model.embedding if rank == 0 else nn.Identity()
        self.blocks = nn.ModuleList(model.blocks[rank * share:(rank + 1) * share])
        self.head = model.head if rank == ranks - 1 else nn.Identity()

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(output, target):
    return nn.functional.cross_entropy(output.reshape(-1, VOCABULARY), target.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--schedule", choices=["gpipe", "1f1b"], default="1f1b")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seq", type=int, default=64)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module = Stage(TinyGpt(), rank, ranks)
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
    kind = Schedule1F1B if args.schedule == "1f1b" else ScheduleGPipe
    schedule = kind(stage, args.microbatches, loss_fn=loss)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for step in range(args.steps):
        begin = time.perf_counter()
        inputs, targets = batch_of(args.batch, args.seq)
        if rank == 0:
            schedule.step(inputs)
        elif rank == ranks - 1:
            schedule.step(target=targets)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        if rank == ranks - 1:
            print(f"step {step} took {time.perf_counter() - begin:.5f} s, peak {peak_mib():.0f} MiB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
