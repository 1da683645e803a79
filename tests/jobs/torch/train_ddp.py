"""A training program that does not depend on oppa: DistributedDataParallel on CPU ranks.

    torchrun --nproc-per-node=2 train_ddp.py --micro-batch 2 --accumulate 4 --bucket-mb 25
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tiny_gpt import TinyGpt, loss_of, peak_mib


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, required=True)
    parser.add_argument("--bucket-mb", type=int, default=25)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seq", type=int, default=64)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(TinyGpt(), bucket_cap_mb=args.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        begin = time.perf_counter()
        for part in range(args.accumulate):
            model.require_backward_grad_sync = part + 1 == args.accumulate
            loss = loss_of(model, args.micro_batch, args.seq) / args.accumulate
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.3f} took {time.perf_counter() - begin:.5f} s, "
                  f"peak {peak_mib():.0f} MiB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
