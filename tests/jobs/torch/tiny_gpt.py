"""A small decoder for the training programs of this folder."""

import resource

import torch
from torch import nn

VOCABULARY = 256
HIDDEN = 64
HEADS = 4
LAYERS = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.attention = nn.MultiheadAttention(HIDDEN, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.mlp = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, x):
        length = x.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class TinyGpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch_of(sequences, length):
    tokens = torch.randint(VOCABULARY, (sequences, length + 1))
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, sequences, length):
    inputs, targets = batch_of(sequences, length)
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
