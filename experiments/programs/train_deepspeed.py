# Trains a new model of a config.json of Hugging Face with DeepSpeed.
import argparse
import json

import deepspeed
import torch
import torch._dynamo  # here, as it fails inside of zero.Init
from transformers import AutoConfig, AutoModelForCausalLM


class Tokens(torch.utils.data.Dataset):
    """Random tokens."""

    def __init__(self, vocab_size, length, sequences):
        self.vocab_size, self.length, self.sequences = vocab_size, length, sequences

    def __len__(self):
        return self.sequences

    def __getitem__(self, index):
        return torch.randint(self.vocab_size, (self.length,), generator=torch.Generator().manual_seed(index))


def parse():
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    parser.add_argument("--config_json", required=True)
    parser.add_argument("--sequence_length", type=int, required=True)
    parser.add_argument("--recompute_blocks", action="store_true")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--local_rank", type=int, default=-1)
    return parser.parse_args()


def main():
    arguments = parse()
    deepspeed.init_distributed()
    with open(arguments.deepspeed_config) as file:
        settings = json.load(file)
    model_config = AutoConfig.from_pretrained(arguments.config_json)
    with deepspeed.zero.Init(config_dict_or_path=settings, enabled=settings["zero_optimization"]["stage"] == 3):
        model = AutoModelForCausalLM.from_config(model_config)
    if arguments.recompute_blocks:
        model.gradient_checkpointing_enable()
    data = Tokens(model_config.vocab_size, arguments.sequence_length, arguments.steps * settings["train_batch_size"])
    engine, _, loader, _ = deepspeed.initialize(
        args=arguments, model=model, model_parameters=model.parameters(), training_data=data)
    for tokens in loader:
        tokens = tokens.to(engine.device)
        engine.backward(engine(input_ids=tokens, labels=tokens, use_cache=False).loss)
        engine.step()


if __name__ == "__main__":
    main()
