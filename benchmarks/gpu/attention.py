#!/usr/bin/env python3
"""Times fused causal attention, forward and backward.

  benchmarks/gpu/attention.py NAME TABLE.csv HALF_TFLOPS

Appends lines to a table of bench_gpu: PyTorch's scaled_dot_product_attention in
bf16. Needs PyTorch with a GPU; without it, the table stays as it is.
"""

import sys


SHORTEST_S = 150e-6  # shorter calls wait for the CPU: up to 140 us were seen beside an H100


def seconds(torch, call):
    """Of one call, after a quarter of a second of warm-up."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def repeat(times):
        begin.record()
        for _ in range(times):
            call()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end) / times

    repeat(2)
    times = max(3, min(5000, int(0.25 / repeat(3))))
    repeat(times)
    return repeat(times)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    name, table, half_tflops = sys.argv[1], sys.argv[2], float(sys.argv[3])
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("attention.py: no PyTorch with a GPU here; attention was not measured", file=sys.stderr)
        return 0
    attention = torch.nn.functional.scaled_dot_product_attention
    shapes = [(batch, s, heads, head)
              for s in (512, 2048, 4096, 16384)
              for heads in (4, 16, 64)
              for head in (64, 128)
              for batch in ([8] if s == 512 else [1])]
    with open(table, "a", encoding="utf-8") as csv:
        for i, (batch, s, heads, head) in enumerate(shapes):
            print(f"\rattention {i + 1} of {len(shapes)}", end="", file=sys.stderr)
            q, k, v = (torch.randn(batch, heads, s, head, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                       for _ in range(3))
            out = attention(q, k, v, is_causal=True)
            gradient = torch.randn_like(out)
            forward_s = seconds(torch, lambda: attention(q, k, v, is_causal=True))
            backward_s = seconds(torch, lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
            for operator, products, time_s in (("sdp_fwd", 2, forward_s), ("sdp_bwd", 5, backward_s)):
                if time_s < SHORTEST_S:
                    continue
                # All scores are counted, as in SimuMax's table, though half are masked.
                share = products * batch * s * s * heads * 2 * head / time_s / (half_tflops * 1e12)
                csv.write(f'{name},{half_tflops:.6g},{operator},"batch={batch}, seq_len={s}, head_num={heads}, '
                          f'kv_head_num={heads}, qk_head_dim={head}, v_head_dim={head}",{share:.6g}\n')
        print(file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
