"""Models, weights and data of oppa-train in PyTorch: each a function of the seed and of names and places."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

MASK_EVERY = 7  # tokens of a model that is not causal
GOLDEN = 0x9E3779B97F4A7C15


def signed(x):
    """A 64-bit pattern as int64, whose arithmetic wraps as that of uint64 does."""
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x


def shift(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def modulo(x, size):
    """Of the pattern as uint64."""
    return (shift(x, 1) % size * 2 + (x & 1)) % size


def scramble(x):
    x = (x ^ shift(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift(x, 31)


def mix(x):
    """SplitMix64, as in trainer/random.h."""
    return scramble(x + signed(GOLDEN))


def key_of(name, seed):
    """DeriveSeed of common/hash.h."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & ((1 << 64) - 1)
    return scramble(torch.tensor(signed(state + (seed + 1) * GOLDEN)))


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


class Data:
    """Batches as trainer/data.cc makes them; labels that do not count are -100."""

    def __init__(self, job, device):
        self.job, self.device = job, device
        self.key = mix(torch.tensor(signed(job.seed + 1))).to(device)

    def random(self, step, samples, position):
        return mix(mix(self.key ^ (step * self.job.batch + samples)) ^ position)

    def batch(self, step, first, count):
        """Inputs and labels of samples first ... of a step."""
        model, length = self.job.model, self.job.length
        samples = torch.arange(first, first + count, device=self.device)[:, None]
        places = torch.arange(length + 1, device=self.device)
        if model.patch:
            labels = modulo(self.random(step, samples, -1), model.classes)
            values = torch.arange(length * model.patch, device=self.device)
            bits = self.random(step, samples, values)
            patches = (shift(bits, 48).float() / 32768 - 1) + (values % model.patch % model.classes == labels)
            patches[:, :model.patch] = 0  # the place of the class token
            return patches.unflatten(1, (length, model.patch)).to(torch.get_default_dtype()), labels
        bits = self.random(step, samples, places)
        size = model.vocabulary
        tokens = (bits & 0xFFFFFFFF) % size * (shift(bits, 32) % size) // size
        if model.causal:
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        tokens = tokens[:, :-1]
        masked = (places[:-1] + modulo(self.random(step, samples, -1), MASK_EVERY)) % MASK_EVERY == 0
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
        if hasattr(self, "patches"):
            token = getattr(self, "class").expand(len(inputs), 1, -1)
            x = torch.cat([token, self.patches(inputs[:, 1:])], 1)
        else:
            x = self.tokens(inputs)
        if self.positions is not None:
            x = x + self.positions(torch.arange(x.shape[1], device=x.device))
        if self.types is not None:
            x = x + self.types(torch.zeros(1, dtype=torch.long, device=x.device))
        return self.norm(x)


class Attention(nn.Module):
    def __init__(self, model, recompute):
        super().__init__()
        self.head, self.causal, self.recompute = model.head, model.causal, recompute
        self.grouped = model.kv_heads < model.heads
        self.rotary = None  # a table (see rotary_table), once there is a device
        self.q = nn.Linear(model.hidden, model.heads * model.head, bias=model.qkv_bias)
        self.k = nn.Linear(model.hidden, model.kv_heads * model.head, bias=model.qkv_bias)
        self.v = nn.Linear(model.hidden, model.kv_heads * model.head, bias=model.qkv_bias)
        self.out = nn.Linear(model.heads * model.head, model.hidden, bias=model.out_bias)

    def rotate(self, x):
        if self.rotary is None:
            return x
        cos, sin = self.rotary
        first, second = x.to(cos.dtype).chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).type_as(x)

    def core(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.grouped)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        operands = self.rotate(q), self.rotate(k), v
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
        self.approximate = "tanh" if model.kind == "gpt2" else "none"

    def forward(self, x):
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


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
        mlp = self.get_submodule(self.feed_forward)
        if self.post_norm:
            x = self.attention_norm(x + self.attention(x))
            return self.mlp_norm(x + mlp(x))
        x = x + self.attention(self.attention_norm(x))
        return x + mlp(self.mlp_norm(x))

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=False) if self.full else self.run(x)


class Logits(nn.Linear):
    """A linear layer whose weight may be the table of the embedding."""

    def __init__(self, model, has_table):
        super().__init__(model.hidden, model.classes or model.vocabulary, bias=bool(model.classes) or model.bert)
        if has_table:
            self.weight = None

    def forward(self, x, table):
        return F.linear(x, self.weight if table is None else table, self.bias)


class Head(nn.Module):
    """The sum of the losses of all labels, [1]."""

    def __init__(self, model, has_table):
        super().__init__()
        self.classifies = model.classes > 0
        self.norm = nn.Identity() if model.bert else norm_of(model)
        self.transform = nn.Linear(model.hidden, model.hidden) if model.bert else None
        self.transform_norm = norm_of(model) if model.bert else None
        self.logits = Logits(model, has_table)

    def forward(self, x, labels, table):
        x = self.norm(x[:, :1] if self.classifies else x)
        if self.transform is not None:
            x = self.transform_norm(F.gelu(self.transform(x)))
        logits = self.logits(x, table).flatten(0, 1)
        if logits.dtype == torch.bfloat16:
            logits = logits.float()
        loss = F.cross_entropy(logits, labels.flatten(), reduction="sum")
        return torch.stack([loss.to_local() if hasattr(loss, "to_local") else loss])


class Stage(nn.Module):
    """Blocks begin ... end of a model, with the embedding ahead of the first and the head behind the last."""

    def __init__(self, model, begin, end, recompute, dtype):
        super().__init__()
        first, last = begin == 0, end == model.layers
        self.dtype = dtype  # of what stages exchange
        self.tied = model.tied and first and last
        self.embedding = Embedding(model) if first else None
        self.block = nn.ModuleDict({str(i): Block(model, recompute) for i in range(begin, end)})
        self.head = Head(model, self.tied) if last else None

    def units(self):
        """Names and modules, in the order of the forward pass."""
        blocks = [(f"block.{i}", block) for i, block in self.block.items()]
        ends = [(name, getattr(self, name)) for name in ("embedding", "head")]
        return [unit for unit in (ends[0], *blocks, ends[1]) if unit[1] is not None]

    def forward(self, x, labels=None):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.block.values():
            x = block(x)
        if self.head is None:
            return x.to(self.dtype)
        return self.head(x, labels, self.embedding.tokens.weight if self.tied else None)
