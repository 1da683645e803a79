#!/usr/bin/env python3
"""First losses of tiny models in PyTorch, for trainer/tests/reference_test.cc.

The models are those of the package transformers, with eager attention, in double
precision. Weights and tokens are the functions of seed and place that the trainer
uses (trainer/random.h, data.cc), written again here.

usage: make_trainer_reference.py   (needs torch and transformers; writes
tests/reference/trainer/MODEL.json, the config.json of each model, and
tests/reference/trainer/losses.json)
"""
import json
import pathlib

import numpy
import torch

# The models compute norms, rotary positions and routers in float: make that
# double, too, before they are imported.
torch.set_default_dtype(torch.float64)
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
import transformers  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "trainer"
SEED, BATCH, LENGTH, STEPS, RATE = 7, 4, 12, 6, 1e-3
MASK = (1 << 64) - 1
MASK_EVERY = 7


def scramble(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def mix(x):
    return scramble((x + 0x9E3779B97F4A7C15) & MASK)


def key_of(name):
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    return scramble((state + (SEED + 1) * 0x9E3779B97F4A7C15) & MASK)


def weight(name, *shape):
    key = key_of(name)
    values = []
    for index in range(int(numpy.prod(shape))):
        bits = mix(key ^ mix(index))
        total = sum(bits >> shift & 0xFFFF for shift in (0, 16, 32, 48))
        values.append(0.02 * ((total - 131070.0) / 37837.2270233))
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def random(step, sample, position):
    index = step * BATCH + sample
    return mix(mix(mix(SEED + 1) ^ index) ^ (position & MASK))


def skewed(bits, size):
    return (bits & 0xFFFFFFFF) % size * ((bits >> 32) % size) // size


def batch(step, vocabulary, causal):
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    labels = torch.full((BATCH, LENGTH), -100)
    for sample in range(BATCH):
        shift = random(step, sample, -1) % MASK_EVERY
        for i in range(LENGTH):
            token = skewed(random(step, sample, i), vocabulary)
            tokens[sample, i] = token
            if causal:
                labels[sample, i] = skewed(random(step, sample, i + 1), vocabulary)
            elif (i + shift) % MASK_EVERY == 0:
                labels[sample, i], tokens[sample, i] = token, 0
    return tokens, labels




def attention(values, theirs, ours, q, kv, hidden, bias, names=("q_proj", "k_proj", "v_proj", "o_proj")):
    for name, part, rows in zip(names, ("q", "k", "v"), (q, kv, kv)):
        values[f"{theirs}.{name}.weight"] = weight(f"{ours}.{part}", rows, hidden)
        if bias:
            values[f"{theirs}.{name}.bias"] = weight(f"{ours}.{part}.bias", rows)
    values[f"{theirs}.{names[3]}.weight"] = weight(f"{ours}.out", hidden, q)


def llama_weights(config):
    hidden, ffn = config.hidden_size, config.intermediate_size
    kv = hidden // config.num_attention_heads * config.num_key_value_heads
    values = {"model.embed_tokens.weight": weight("embedding.tokens", config.vocab_size, hidden),
              "lm_head.weight": weight("head.logits", config.vocab_size, hidden)}
    for i in range(config.num_hidden_layers):
        ours, theirs = f"block.{i}", f"model.layers.{i}"
        attention(values, theirs + ".self_attn", ours + ".attention", hidden, kv, hidden, False)
        experts = getattr(config, "num_local_experts", 0)
        for part, rows, cols in (("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn)):
            if not experts:
                values[f"{theirs}.mlp.{part}_proj.weight"] = weight(f"{ours}.mlp.{part}", rows, cols)
        if experts:
            values[theirs + ".router"] = weight(ours + ".experts.router", experts, hidden)
            values[theirs + ".gate_up"] = torch.stack([torch.cat([
                weight(f"{ours}.experts.{e}.gate", ffn, hidden),
                weight(f"{ours}.experts.{e}.up", ffn, hidden)]) for e in range(experts)])
            values[theirs + ".down"] = torch.stack(
                [weight(f"{ours}.experts.{e}.down", hidden, ffn) for e in range(experts)])
    return values


def gpt2_weights(config):
    hidden, ffn = config.n_embd, config.n_inner
    values = {"transformer.wte.weight": weight("embedding.tokens", config.vocab_size, hidden),
              "transformer.wpe.weight": weight("embedding.positions", config.n_positions, hidden)}
    for i in range(config.n_layer):
        ours, theirs = f"block.{i}", f"transformer.h.{i}"
        parts = [weight(f"{ours}.attention.{p}", hidden, hidden) for p in "qkv"]
        values[theirs + ".attn.c_attn.weight"] = torch.cat(parts).T
        values[theirs + ".attn.c_attn.bias"] = torch.cat(
            [weight(f"{ours}.attention.{p}.bias", hidden) for p in "qkv"])
        values[theirs + ".attn.c_proj.weight"] = weight(ours + ".attention.out", hidden, hidden).T
        values[theirs + ".mlp.c_fc.weight"] = weight(ours + ".mlp.up", ffn, hidden).T
        values[theirs + ".mlp.c_fc.bias"] = weight(ours + ".mlp.up.bias", ffn)
        values[theirs + ".mlp.c_proj.weight"] = weight(ours + ".mlp.down", hidden, ffn).T
    return values


def bert_weights(config):
    hidden, ffn = config.hidden_size, config.intermediate_size
    values = {
        "bert.embeddings.word_embeddings.weight": weight("embedding.tokens", config.vocab_size, hidden),
        "bert.embeddings.position_embeddings.weight":
            weight("embedding.positions", config.max_position_embeddings, hidden),
        "bert.embeddings.token_type_embeddings.weight": weight("embedding.types", config.type_vocab_size, hidden),
        "cls.predictions.transform.dense.weight": weight("head.transform", hidden, hidden),
        "cls.predictions.bias": weight("head.logits.bias", config.vocab_size)}
    for i in range(config.num_hidden_layers):
        ours, theirs = f"block.{i}", f"bert.encoder.layer.{i}"
        attention(values, theirs + ".attention.self", ours + ".attention", hidden, hidden, hidden, True,
                  ("query", "key", "value", "unused"))
        values[theirs + ".attention.output.dense.weight"] = values.pop(theirs + ".attention.self.unused.weight")
        values[theirs + ".intermediate.dense.weight"] = weight(ours + ".mlp.up", ffn, hidden)
        values[theirs + ".intermediate.dense.bias"] = weight(ours + ".mlp.up.bias", ffn)
        values[theirs + ".output.dense.weight"] = weight(ours + ".mlp.down", hidden, ffn)
    return values


def set_weights(model, values):
    """Norms begin with scale 1, biases without a value with 0."""
    rest = dict(values)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = rest.pop(name, None)
            if value is None and "experts" in name or name.endswith("gate.weight") and value is None:
                layer = "model.layers." + name.split(".")[2]
                part = "gate_up" if "gate_up" in name else "down" if "down" in name else "router"
                value = rest.pop(f"{layer}.{part}")
            if value is not None:
                parameter.copy_(value)
            elif parameter.dim() == 1:
                is_scale = "norm" in name.lower() or ".ln_" in name
                parameter.fill_(1.0 if is_scale and name.endswith("weight") else 0.0)
            else:
                raise SystemExit(f"no value for {name} {tuple(parameter.shape)}")
    if rest:
        raise SystemExit(f"unused values: {sorted(rest)}")


def losses(model, vocabulary, causal):
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    result = []
    for step in range(STEPS):
        tokens, labels = batch(step, vocabulary, causal)
        optimizer.zero_grad()
        logits = model(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def main():
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    small = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 8}
    decoder = small | {"num_key_value_heads": 4, "max_position_embeddings": 64,
                       "tie_word_embeddings": False}
    models = {
        "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(
            **decoder, rms_norm_eps=1e-4, rope_theta=500.0, **eager), llama_weights),
        "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(
            vocab_size=61, n_embd=32, n_inner=48, n_layer=2, n_head=8, n_positions=24, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-4, **eager), gpt2_weights),
        "bert": (transformers.BertForMaskedLM, transformers.BertConfig(
            **small, max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            layer_norm_eps=1e-3, pad_token_id=None, **eager), bert_weights),  # token 0 is the mask
        "mixtral": (transformers.MixtralForCausalLM, transformers.MixtralConfig(
            **decoder, num_local_experts=8, num_experts_per_tok=2, **eager), llama_weights),
    }
    FOLDER.mkdir(exist_ok=True)
    reference = {"seed": SEED, "batch_size": BATCH, "sequence_length": LENGTH, "learning_rate": RATE,
                 "torch": torch.__version__, "transformers": transformers.__version__, "losses": {}}
    for name, (kind, config, weights) in models.items():
        model = kind(config).double().train()
        set_weights(model, weights(config))
        reference["losses"][name] = losses(model, 61, name != "bert")
        kept = json.loads(config.to_json_string(use_diff=True))
        kept = {key: value for key, value in kept.items() if not key.startswith("_") and value is not None}
        kept.update({key: getattr(config, key) for key in
                     ("vocab_size", "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size",
                      "num_key_value_heads", "max_position_embeddings", "tie_word_embeddings", "num_local_experts",
                      "num_experts_per_tok", "type_vocab_size", "n_embd", "n_inner", "n_layer", "n_head", "n_positions")
                     if hasattr(config, key)})
        (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(name, reference["losses"][name])
    (FOLDER / "losses.json").write_text(json.dumps(reference, indent=1) + "\n")


main()
