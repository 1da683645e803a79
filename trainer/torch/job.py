"""What a trial trains: options, config.json and the configuration, checked. Needs no PyTorch.

The definitions are those of oppa-train: trials/model_config.cc, trials/workload.cc (Scaled), trials/constraints.cc.
"""
import argparse
import dataclasses
import json
import os

PROGRAM = "oppa-train-torch"


class InputError(Exception):
    """One line for the user: what is invalid, and the rule."""


@dataclasses.dataclass
class Model:
    """The shape of a transformer; the defaults are those of BERT, GPT-2 and ViT."""
    kind: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    epsilon: float  # of norms
    kv_heads: int = 0
    head: int = 0  # size
    vocabulary: int = 0
    positions: int = 0  # learned; 0: rotary
    rotary_base: float = 10000.0
    types: int = 0
    gated: bool = False
    qkv_bias: bool = True
    out_bias: bool = True
    ffn_bias: bool = True
    layer_norm: bool = True  # else RMSNorm
    tied: bool = False
    causal: bool = False
    experts: int = 0
    chosen: int = 0  # experts of a token
    patch: int = 0  # values of an image patch
    classes: int = 0

    @property
    def bert(self):
        """Norms after the residual, one after the embedding, and a transform before the logits."""
        return self.kind == "bert"


def describe(keys):
    """The model of a config.json of transformers, with the defaults of that library."""
    kind, get = keys["model_type"], keys.get
    if kind == "gpt2":
        return Model(kind, keys["n_layer"], keys["n_embd"], keys["n_head"], get("n_inner") or 4 * keys["n_embd"],
                     get("layer_norm_epsilon", 1e-5), vocabulary=keys["vocab_size"], positions=keys["n_positions"],
                     tied=get("tie_word_embeddings", True), causal=True)
    if kind not in ("bert", "vit", "llama", "qwen2", "mixtral"):
        raise ValueError(f"{PROGRAM} does not implement model_type '{kind}': gpt2, bert, vit, llama, qwen2 or mixtral")
    sizes = [keys[key] for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")]
    if kind == "bert":
        return Model(kind, *sizes, get("layer_norm_eps", 1e-12), vocabulary=keys["vocab_size"], types=keys["type_vocab_size"],
                     positions=keys["max_position_embeddings"], tied=get("tie_word_embeddings", True))
    if kind == "vit":
        size = keys["patch_size"]
        return Model(kind, *sizes, get("layer_norm_eps", 1e-12), patch=get("num_channels", 3) * size ** 2,
                     positions=(keys["image_size"] // size) ** 2 + 1, classes=get("num_labels", 1000),
                     qkv_bias=get("qkv_bias", True))
    llama, mixtral = kind == "llama", kind == "mixtral"
    if mixtral and get("sliding_window"):
        raise ValueError(f"{PROGRAM} does not implement attention to a window")
    bias = llama and get("attention_bias", False)
    base = (get("rope_parameters") or {}).get("rope_theta", 1e6 if mixtral else 1e4)
    return Model(kind, *sizes, get("rms_norm_eps", 1e-5 if mixtral else 1e-6), get("num_key_value_heads") or 0,
                 get("head_dim") or 0, keys["vocab_size"], rotary_base=get("rope_theta", base), gated=True,
                 qkv_bias=kind == "qwen2" or bias, out_bias=bias, ffn_bias=llama and get("mlp_bias", False), layer_norm=False,
                 tied=get("tie_word_embeddings", False), causal=True, experts=keys["num_local_experts"] if mixtral else 0,
                 chosen=keys["num_experts_per_tok"] if mixtral else 0)


def read_model(path):
    try:
        with open(path, encoding="utf-8") as file:
            model = describe(json.load(file))
    except KeyError as error:
        raise InputError(f"{path}: the key {error} is missing") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    model.kv_heads = model.kv_heads or model.heads
    model.head = model.head or model.hidden // model.heads
    return model


def scale(model, length, factor):
    """Divides the sizes that no parallelism splits; returns the length of a sequence."""
    def divide(value, least):
        return min(value, max(value // factor // least, 1) * least)
    if factor == 1:
        return length
    fills = model.hidden == model.heads * model.head
    model.head = divide(model.head, 8)
    model.hidden = model.heads * model.head if fills else divide(model.hidden, 64)
    model.ffn, model.vocabulary, model.patch = divide(model.ffn, 64), divide(model.vocabulary, 512), divide(model.patch, 8)
    if model.patch:
        model.positions = max(length // factor, 2)
        return model.positions
    length = divide(length, 32)
    model.positions = max(model.positions // factor, length) if model.positions else 0
    return length


# Defaults of a configuration. `schedule` and `compile` are knobs of this program alone ([space.custom]).
KNOBS = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "sp": 1, "dp_bucket_mb": 25, "zero_stage": 0,
         "zero_bucket_mb": 24, "overlap_zero_comm": 1, "overlap_zero_allgather": 0, "microbatches": 1,
         "model_chunks": 1, "overlap_p2p": 0, "grad_checkpoint": 0, "micro_batch_size": 0,
         "schedule": "1f1b", "compile": 0}
POSITIVE = ("dp", "tp", "pp", "cp", "ep", "sp", "dp_bucket_mb", "microbatches", "model_chunks")


def parse_config(values):
    """A namespace of the knobs, from texts or numbers by name."""
    config = argparse.Namespace(**KNOBS)
    for name, value in values.items():
        if name not in KNOBS:
            raise InputError(f"{PROGRAM} does not apply the knob '{name}'; known: {', '.join(KNOBS)}")
        if name == "schedule":
            if value not in ("1f1b", "gpipe"):
                raise InputError(f"invalid value '{value}' for schedule: 1f1b or gpipe")
        else:
            try:
                value = int({"true": 1, "false": 0}.get(value, value))
            except ValueError:
                raise InputError(f"invalid value '{value}' for {name}: an integer") from None
        setattr(config, name, value)
    return config


def check(job):
    """Refuses what does not fit the model, and what has no counterpart in PyTorch or would have no effect."""
    model, c = job.model, job.config
    zero, chunked = c.zero_stage > 0, c.pp > 1 and c.model_chunks > 1
    rules = [
        (min(getattr(c, name) for name in POSITIVE) < 1, f"{', '.join(POSITIVE)} must be 1 or more"),
        (not 0 <= c.zero_stage <= 3 or not 0 <= c.grad_checkpoint <= 2, "zero_stage must be 0 to 3, grad_checkpoint 0 to 2"),
        (model.heads % c.tp or model.kv_heads % c.tp or model.ffn % c.tp,
         f"tp must divide the {model.heads} heads, {model.kv_heads} key-value heads and the feed-forward size {model.ffn}"),
        (c.sp not in (1, c.tp) or job.length % c.sp, f"sp must be 1 or tp, and divide the sequence length {job.length}"),
        (c.pp * (c.model_chunks if chunked else 1) > model.layers,
         f"pp * model_chunks must not exceed the {model.layers} layers"),
        (job.batch % (c.dp * c.microbatches), f"dp * microbatches must divide the batch size {job.batch}"),
        (c.micro_batch_size not in (0, job.batch // (c.dp * c.microbatches)),
         "dp * microbatches * micro_batch_size must be the batch size"),
        (chunked and c.microbatches % c.pp, "the interleaved schedule needs microbatches to be a multiple of pp"),
        (c.pp > c.microbatches and c.schedule == "1f1b", "1F1B needs a microbatch for each stage"),
        (model.head % 2, f"the head size {model.head} must be even"),
        (model.positions and job.length > model.positions, f"length {job.length}: the model has {model.positions} positions"),
        (c.cp > 1, f"{PROGRAM} does not apply cp: it has no context parallelism"),
        (c.ep > 1, f"{PROGRAM} does not apply ep: every rank has all experts"),
        (zero and c.zero_bucket_mb != KNOBS["zero_bucket_mb"],
         f"{PROGRAM} does not apply zero_bucket_mb: the buckets of FSDP2 are blocks, those of ZeRO 1 are DDP's"),
        (zero and not c.overlap_zero_comm, f"{PROGRAM} does not apply overlap_zero_comm=0: DDP and FSDP2 always overlap"),
        (c.zero_stage == 1 and c.overlap_zero_allgather,
         f"{PROGRAM} does not apply overlap_zero_allgather: ZeroRedundancyOptimizer sends weights before a step ends"),
        (chunked and c.overlap_p2p, f"{PROGRAM} does not apply overlap_p2p: the schedules of PyTorch have no such choice"),
        (chunked and c.schedule != "1f1b", f"{PROGRAM} does not apply schedule: model_chunks > 1 is interleaved 1F1B"),
    ]
    text = ",".join(f"{key}={value}" for key, value in vars(c).items() if value != KNOBS[key] or key in ("dp", "tp", "pp"))
    for broken, rule in rules:
        if broken:
            raise InputError(f"invalid configuration {text}: {rule}")


def read_job(words=None):
    """The job of the command line and of OPPA_TRIAL (docs/external-trials.md)."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Trains a transformer with PyTorch for a few steps under one parallelism configuration.")
    add = parser.add_argument
    add("--model", required=True, metavar="FILE", help="Hugging Face config.json")
    add("--batch-size", type=int, required=True, dest="batch", help="sequences per step, all ranks")
    add("--sequence-length", type=int, dest="length", help="tokens per sequence (default for images: all patches)")
    add("--config", help="such as dp=4,tp=2,zero_stage=1 (default: that of OPPA_TRIAL, else one rank)")
    add("--steps", type=int, help="default: max_steps of OPPA_TRIAL, else 10")
    add("--seed", type=int, help="seed of weights and data (default: that of OPPA_TRIAL, else 0)")
    add("--scale", type=int, default=1, help="divide the sizes of the model by this")
    add("--learning-rate", type=float, default=1e-3, help="of AdamW")
    add("--backend", choices=["cpu", "cuda"], default="cpu", help="gloo on CPU ranks, or NCCL on GPUs")
    add("--precision", choices=["float", "double", "bf16"], help="default: bf16 for cuda, else float")
    add("--memory", type=float, help="bytes that PyTorch may allocate on a GPU")
    add("--rendezvous", help="file of a shared file system where ranks meet that srun starts")
    add("--local-ranks", type=int, choices=[0, 1], default=0,
        help="1: this process is rank SLURM_PROCID (default: it starts all ranks, except under torchrun)")
    add("--timeout-s", type=float, default=600, help="end if a rank does not enter a collective for this long")
    add("--report", metavar="FILE", help="write the losses and step times as JSON")
    job = parser.parse_args(words)
    try:
        trial = json.loads(os.environ.get("OPPA_TRIAL") or "{}")
        if job.config is not None:
            job.config = dict(item.split("=", 1) for item in job.config.split(",") if item)
    except ValueError:
        raise InputError("OPPA_TRIAL must be JSON, and --config a list such as dp=2,tp=2") from None
    job.config = parse_config(job.config if job.config is not None else trial.get("config", {}))
    job.steps = job.steps or trial.get("max_steps", 10)
    job.seed = trial.get("seed", 0) if job.seed is None else job.seed
    job.precision = job.precision or ("bf16" if job.backend == "cuda" else "float")
    if job.memory and job.backend == "cpu":
        raise InputError("--memory is for --backend cuda: PyTorch does not count the memory of a CPU rank")
    if min(job.batch, job.steps, job.scale, job.length or 1) < 1:
        raise InputError("--batch-size, --sequence-length, --steps and --scale must be 1 or more")
    job.name, job.model = job.model, read_model(job.model)
    if job.length is None and not job.model.patch:
        raise InputError("--sequence-length is required for this model")
    job.length = scale(job.model, job.length or job.model.positions, job.scale)
    check(job)
    job.ranks = job.config.dp * job.config.tp * job.config.pp
    job.sequences = job.batch // (job.config.dp * job.config.microbatches)  # of a microbatch
    return job
