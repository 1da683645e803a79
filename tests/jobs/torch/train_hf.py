"""The Trainer of Transformers on a tiny GPT-2 with random weights; all options are those of TrainingArguments."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(256, (64,))
        return {"input_ids": tokens, "labels": tokens}


def main():
    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = GPT2LMHeadModel(GPT2Config(n_embd=64, n_head=4, n_layer=4, n_positions=64, vocab_size=256,
                                       bos_token_id=0, eos_token_id=0))
    Trainer(model=model, args=arguments, train_dataset=Tokens()).train()


if __name__ == "__main__":
    main()
