"""Models, weights and data of oppa-train in PyTorch: each a function of the seed and of names and places."""
import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

MASK_EVERY = 7  # tokens of a model that is not causal
GOLDEN = 0x9E3779B97F4A7C15


def signed(x):
    """A 64-bit pattern as int64, whose arithmetic wraps as that of uint64 does."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def shift(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def modulo(x, size):
    """Of the pattern as uint64."""
    return (shift(x, 1) % size * 2 + (x & 1)) % size


def mix(x):
    """SplitMix64, as in trainer/random.h."""
    x = x + signed(GOLDEN)
    x = (x ^ shift(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift(x, 31)


def key_of(name, seed):
    """DeriveSeed of common/hash.h."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & ((1 << 64) - 1)
    return mix(torch.tensor(signed(state + seed * GOLDEN)))


@torch.no_grad()
def fill(weight, key):
    flat = weight.view(-1)
    for begin in range(0, flat.numel(), 1 << 24):
        part = flat[begin:begin + (1 << 24)]
        bits = mix(key.to(flat.device) ^ mix(torch.arange(begin, begin + part.numel(), device=flat.device)))
        total = sum(shift(bits, at) & 0xFFFF for at in (0, 16, 32, 48)).double()
        part.copy_(0.02 * ((total - 131070.0) / 37837.2270233))


def initialize(unit, name, seed):
    """Norms begin as the identity; biases that are added after a sum over ranks are 0."""
    for path, weight in unit.named_parameters():
        owner, _, kind = path.rpartition(".")
        if "norm" in owner:
            nn.init.constant_(weight, float(kind == "weight"))
        elif kind == "bias" and owner.split(".")[-1] in ("out", "down", "patches", "transform"):
            nn.init.zeros_(weight)
        else:
            fill(weight, key_of(f"{name}.{path.removesuffix('.weight')}", seed))


def make_batch(job, device, step, first, count):
    """Samples first ... of a step, inputs and labels, as trainer/data.cc makes them; labels that do not count are -100."""
    model, length = job.model, job.length
    samples = torch.arange(first, first + count, device=device)[:, None]
    places = torch.arange(length + 1, device=device)
    key = mix(torch.tensor(signed(job.seed + 1), device=device))

    def random(position):
        return mix(mix(key ^ (step * job.batch + samples)) ^ position)
    if model.patch:
        labels = modulo(random(-1), model.classes)
        values = torch.arange(length * model.patch, device=device)
        patches = (shift(random(values), 48).float() / 32768 - 1) + (values % model.patch % model.classes == labels)
        patches[:, :model.patch] = 0  # the place of the class token
        return patches.unflatten(1, (length, model.patch)).to(torch.get_default_dtype()), labels
    bits = random(places)
    tokens = (bits & 0xFFFFFFFF) % model.vocabulary * (shift(bits, 32) % model.vocabulary) // model.vocabulary
    if model.causal:
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    tokens = tokens[:, :-1]
    masked = (places[:-1] + modulo(random(-1), MASK_EVERY)) % MASK_EVERY == 0
    return torch.where(masked, 0, tokens), torch.where(masked, tokens, -100)


def norm_of(model):
    return (nn.LayerNorm if model.layer_norm else nn.RMSNorm)(model.hidden, eps=model.epsilon)


class Embedding(nn.Module):
    def __init__(self, model):
        super().__init__()
        if model.patch:
            self.patches = nn.Linear(model.patch, model.hidden)
            self.register_parameter("class", nn.Parameter(torch.empty(1, model.hidden)))
        else:
            self.tokens = nn.Embedding(model.vocabulary, model.hidden)
        self.positions = nn.Embedding(model.positions, model.hidden) if model.positions else None
        self.types = nn.Embedding(model.types, model.hidden) if model.types else None
        self.norm = norm_of(model) if model.bert else nn.Identity()

    def forward(self, inputs):
        x = self.tokens(inputs) if hasattr(self, "tokens") else torch.cat(
            [getattr(self, "class").expand(len(inputs), 1, -1), self.patches(inputs[:, 1:])], 1)
        if self.positions is not None:
            x = x + self.positions.weight[:x.shape[1]]
        return self.norm(x if self.types is None else x + self.types.weight[0])


class Attention(nn.Module):
    def __init__(self, model, recompute):
        super().__init__()
        self.head, self.recompute = model.head, recompute
        self.core = functools.partial(F.scaled_dot_product_attention, is_causal=model.causal,
                                      enable_gqa=model.kv_heads < model.heads)
        self.rotary = None  # a table (see rotary_table), once there is a device
        self.q, self.k, self.v = (nn.Linear(model.hidden, heads * model.head, bias=model.qkv_bias)
                                  for heads in (model.heads, model.kv_heads, model.kv_heads))
        self.out = nn.Linear(model.heads * model.head, model.hidden, bias=model.out_bias)

    def rotate(self, x):
        cos, sin = self.rotary
        first, second = x.to(cos.dtype).chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).type_as(x)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        operands = (self.rotate(q), self.rotate(k), v) if self.rotary else (q, k, v)
        y = checkpoint(self.core, *operands, use_reentrant=False) if self.recompute else self.core(*operands)
        return self.out(y.transpose(1, 2).flatten(2))


def rotary_table(model, length, device):
    """Cosines and sines [length, head / 2] of Su et al. (2021), with the pairs of Llama."""
    half = torch.arange(model.head // 2, dtype=torch.double)
    angles = torch.outer(torch.arange(length, dtype=torch.double), model.rotary_base ** (-2 * half / model.head))
    return tuple(part.to(device, torch.get_default_dtype()) for part in (angles.cos(), angles.sin()))


class Mlp(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.gate = nn.Linear(model.hidden, model.ffn, bias=model.ffn_bias) if model.gated else None
        self.up = nn.Linear(model.hidden, model.ffn, bias=model.ffn_bias)
        self.down = nn.Linear(model.ffn, model.hidden, bias=model.ffn_bias)
        self.gelu = model.gelu

    def forward(self, x):
        up = self.up(x)
        return self.down(F.gelu(up, approximate=self.gelu) if self.gate is None else F.silu(self.gate(x)) * up)


class Experts(nn.ModuleList):
    def __init__(self, model):
        super().__init__(Mlp(model) for _ in range(model.experts))
        self.router = nn.Linear(model.hidden, model.experts, bias=False)
        self.chosen = model.chosen

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = self.router(rows).topk(self.chosen)
        weights = weights.softmax(-1)
        y = torch.zeros_like(rows)
        for i in range(self.router.out_features):  # also without tokens: ranks exchange the gradients of all
            token, choice = (chosen == i).nonzero(as_tuple=True)
            y = y.index_add(0, token, (self[i](rows[token]) * weights[token, choice, None]).type_as(y))
        return y.view_as(x)


class Block(nn.Module):
    def __init__(self, model, recompute):
        super().__init__()
        self.full, self.post_norm = recompute == 1, model.bert
        self.attention_norm, self.mlp_norm = norm_of(model), norm_of(model)
        self.attention = Attention(model, recompute == 2)
        self.feed_forward = "experts" if model.experts else "mlp"
        self.add_module(self.feed_forward, Experts(model) if model.experts else Mlp(model))

    def run(self, x):
        for norm, part in ((self.attention_norm, self.attention), (self.mlp_norm, getattr(self, self.feed_forward))):
            x = norm(x + part(x)) if self.post_norm else x + part(norm(x))
        return x

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=False) if self.full else self.run(x)


class Head(nn.Module):
    """The sum of the losses of all labels, [1]."""

    def __init__(self, model):
        super().__init__()
        self.classifies = model.classes > 0
        self.norm = nn.Identity() if model.bert else norm_of(model)
        self.transform = nn.Linear(model.hidden, model.hidden) if model.bert else None
        self.transform_norm = norm_of(model) if model.bert else None
        self.logits = nn.Linear(model.hidden, model.classes or model.vocabulary, bias=self.classifies or model.bert)

    def forward(self, x, labels):
        x = self.norm(x[:, :1] if self.classifies else x)
        logits = self.logits(self.transform_norm(F.gelu(self.transform(x))) if self.transform else x).flatten(0, 1)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float))
        loss = F.cross_entropy(logits, labels.flatten(), reduction="sum")
        return torch.stack([loss.to_local() if hasattr(loss, "to_local") else loss])


class Stage(nn.Module):
    """Blocks begin ... end of a model, with the embedding ahead of the first and the head behind the last."""

    def __init__(self, model, begin, end, recompute, dtype):
        super().__init__()
        self.dtype = dtype  # of what stages exchange
        self.shares = model.tied and begin == 0 and end == model.layers  # the table of the embedding with the head
        self.embedding = Embedding(model) if begin == 0 else nn.Identity()
        self.block = nn.ModuleDict({str(i): Block(model, recompute) for i in range(begin, end)})
        self.head = Head(model) if end == model.layers else None
        if self.shares:
            self.head.logits.weight = None

    def forward(self, x, labels=None):
        x = self.embedding(x)
        for block in self.block.values():
            x = block(x)
        shared = {"logits.weight": self.embedding.tokens.weight} if self.shares else {}
        return torch.func.functional_call(self.head, shared, (x, labels)) if self.head else x.to(self.dtype)
