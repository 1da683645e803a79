# Trains a new model of a config.json of Hugging Face with an Accelerator.
import argparse
import time

import accelerate
import torch
from transformers import AutoConfig, AutoModelForCausalLM


class Tokens(torch.utils.data.Dataset):
    """Random tokens."""

    def __init__(self, vocab_size, length, sequences=10**6):
        self.vocab_size, self.length, self.sequences = vocab_size, length, sequences

    def __len__(self):
        return self.sequences

    def __getitem__(self, index):
        return torch.randint(self.vocab_size, (self.length,), generator=torch.Generator().manual_seed(index))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config_json", required=True)
    parser.add_argument("--sequence_length", type=int, required=True)
    parser.add_argument("--per_device_train_batch_size", type=int, required=True)
    parser.add_argument("--gradient_accumulation_steps", type=int, required=True)
    parser.add_argument("--max_steps", type=int, default=1000)
    return parser.parse_args()


def main():
    options = parse()
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=options.gradient_accumulation_steps)
    config = AutoConfig.from_pretrained(options.config_json)
    config.dtype = torch.float32  # of the weights; that of the file is of its checkpoint
    model = AutoModelForCausalLM.from_config(config)
    data = torch.utils.data.DataLoader(
        Tokens(config.vocab_size, options.sequence_length), batch_size=options.per_device_train_batch_size)
    model, data = accelerator.prepare(model, data)
    optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=0.0003, weight_decay=0.1, fused=True))
    steps, start = 0, time.perf_counter()
    for tokens in data:
        with accelerator.accumulate(model):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            steps += 1
            accelerator.print(f"step {steps}: loss {loss.item():.3f}, {time.perf_counter() - start:.3f} s", flush=True)
            start = time.perf_counter()
            if steps == options.max_steps:
                break


if __name__ == "__main__":
    main()
