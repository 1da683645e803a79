"""fully_shard on CPU ranks; --reshard 1 shards parameters again after forward (ZeRO 3), 0 does not (ZeRO 2)."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tiny_gpt import TinyGpt, loss_of, peak_mib


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, required=True)
    parser.add_argument("--reshard", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seq", type=int, default=64)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = TinyGpt()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=bool(args.reshard))
    fully_shard(model, mesh=mesh, reshard_after_forward=bool(args.reshard))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        begin = time.perf_counter()
        for part in range(args.accumulate):
            model.set_requires_gradient_sync(part + 1 == args.accumulate)
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
