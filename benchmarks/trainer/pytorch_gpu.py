#!/usr/bin/env python3
"""Step times of PyTorch on one GPU, for comparison with oppa-train.

The model of transformers with torch.compile, flash attention
(scaled_dot_product_attention) and fused Adam: bf16 weights with fp32 masters, the
settings of oppa-train.

usage: pytorch_gpu.py CONFIG.json MICROBATCH SEQUENCE_LENGTH STEPS
Prints JSON: parameters, and seconds of each step.
"""
import json
import sys
import time

import torch
import transformers


def main():
    path, batch, length, steps = sys.argv[1], *map(int, sys.argv[2:5])
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(path, attn_implementation="sdpa")
    for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    model = transformers.AutoModelForCausalLM.from_config(config).cuda().train()
    masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
    model = model.bfloat16()
    optimizer = torch.optim.Adam(masters, lr=1e-4, fused=True)
    compiled = torch.compile(model)
    times = []
    for _ in range(steps):
        tokens = torch.randint(config.vocab_size, (batch, length + 1), device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        logits = compiled(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        for master, weight in zip(masters, model.parameters()):
            master.grad = weight.grad.float()
            weight.grad = None
        optimizer.step()
        with torch.no_grad():
            for master, weight in zip(masters, model.parameters()):
                weight.copy_(master)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"parameters": sum(p.numel() for p in masters), "step_times_s": times,
                      "torch": torch.__version__}))


main()
