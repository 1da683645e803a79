# Trains a new model of a config.json of Hugging Face with Trainer.
import dataclasses

import torch
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


@dataclasses.dataclass
class ModelArguments:
    config_json: str
    sequence_length: int


class Tokens(torch.utils.data.Dataset):
    """Random tokens."""

    def __init__(self, vocab_size, length, sequences=10**6):
        self.vocab_size, self.length, self.sequences = vocab_size, length, sequences

    def __len__(self):
        return self.sequences

    def __getitem__(self, index):
        tokens = torch.randint(self.vocab_size, (self.length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def parse():
    return HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()


def main():
    options, arguments = parse()
    config = AutoConfig.from_pretrained(options.config_json)
    config.dtype = torch.float32  # of the weights; that of the file is of its checkpoint
    model = AutoModelForCausalLM.from_config(config)
    model.config.use_cache = False
    Trainer(model=model, args=arguments, train_dataset=Tokens(config.vocab_size, options.sequence_length)).train()


if __name__ == "__main__":
    main()
