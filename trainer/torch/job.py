"""What a trial trains: options, config.json and the configuration, checked. Needs no PyTorch.
The definitions are those of oppa-train: trials/model_config.cc, trials/workload.cc (Scaled), trials/constraints.cc."""
import argparse
import json
import os

PROGRAM = "oppa-train-torch"


class InputError(Exception):
    """One line for the user: what is invalid, and the rule."""


def describe(keys):
    """The shape of the model of a config.json of transformers, with the defaults of that library; 0: not in this model."""
    kind, get = keys["model_type"], keys.get
    gpt2, bert, vit, llama, qwen2, mixtral = (kind == name for name in ("gpt2", "bert", "vit", "llama", "qwen2", "mixtral"))
    rotary = llama or qwen2 or mixtral
    if not (gpt2 or bert or vit or rotary):
        raise ValueError(f"{PROGRAM} does not implement model_type '{kind}': gpt2, bert, vit, llama, qwen2 or mixtral")
    if mixtral and get("sliding_window"):
        raise ValueError(f"{PROGRAM} does not implement attention to a window")
    layers, hidden, heads = (keys[name] for name in (("n_layer", "n_embd", "n_head") if gpt2 else
                                                     ("num_hidden_layers", "hidden_size", "num_attention_heads")))
    epsilon = 1e-5 if gpt2 or mixtral else 1e-6 if rotary else 1e-12
    bias = get("attention_bias", False) if llama else not rotary
    return argparse.Namespace(
        layers=layers, hidden=hidden, heads=heads, kv_heads=get("num_key_value_heads") or heads,
        head=get("head_dim") or hidden // heads, ffn=get("n_inner") or 4 * hidden if gpt2 else keys["intermediate_size"],
        vocabulary=0 if vit else keys["vocab_size"], types=keys["type_vocab_size"] if bert else 0,
        positions=(0 if rotary else keys["n_positions"] if gpt2 else keys["max_position_embeddings"] if bert else
                   (keys["image_size"] // keys["patch_size"]) ** 2 + 1),
        rotary_base=get("rope_theta", (get("rope_parameters") or {}).get("rope_theta", 1e6 if mixtral else 1e4)),
        epsilon=get("layer_norm_epsilon" if gpt2 else "rms_norm_eps" if rotary else "layer_norm_eps", epsilon),
        layer_norm=not rotary, gated=rotary, gelu="tanh" if gpt2 else "none", causal=not (bert or vit),
        bert=bert,  # norms after the residual, one after the embedding, and a transform before the logits
        qkv_bias=get("qkv_bias", True) if vit else qwen2 or bias, out_bias=bias,
        ffn_bias=get("mlp_bias", False) if llama else not rotary, tied=not vit and get("tie_word_embeddings", gpt2 or bert),
        experts=keys["num_local_experts"] if mixtral else 0, chosen=keys["num_experts_per_tok"] if mixtral else 0,
        patch=get("num_channels", 3) * keys["patch_size"] ** 2 if vit else 0, classes=get("num_labels", 1000) if vit else 0)


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
    length = max(length // factor, 2) if model.patch else divide(length, 32)
    model.positions = length if model.patch else max(model.positions // factor, length) if model.positions else 0
    return length


# Defaults of a configuration. `schedule` and `compile` are knobs of this program alone ([space.custom]).
KNOBS = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "sp": 1, "dp_bucket_mb": 25, "zero_stage": 0,
         "zero_bucket_mb": 24, "overlap_zero_comm": 1, "overlap_zero_allgather": 0, "microbatches": 1,
         "model_chunks": 1, "overlap_p2p": 0, "grad_checkpoint": 0, "micro_batch_size": 0,
         "schedule": "1f1b", "compile": 0}
POSITIVE = ("dp", "tp", "pp", "cp", "ep", "sp", "dp_bucket_mb", "microbatches", "model_chunks")


def check(job):
    """Refuses what does not fit the model, and what has no counterpart in PyTorch or would have no effect."""
    model, c = job.model, job.config
    zero, chunked = c.zero_stage > 0, c.pp > 1 and c.model_chunks > 1
    rules = [
        (job.memory and job.backend == "cpu", "--memory is for cuda: PyTorch does not count the memory of a CPU rank"),
        (not 0 <= c.zero_stage <= 3 or not 0 <= c.grad_checkpoint <= 2, "zero_stage must be 0 to 3, grad_checkpoint 0 to 2"),
        (c.schedule not in ("1f1b", "gpipe"), "schedule must be 1f1b or gpipe"),
        (model.heads % c.tp or model.kv_heads % c.tp or model.ffn % c.tp,
         f"tp must divide the {model.heads} heads, {model.kv_heads} key-value heads and the feed-forward size {model.ffn}"),
        (c.sp not in (1, c.tp) or job.length % c.sp, f"sp must be 1 or tp, and divide the sequence length {job.length}"),
        (c.pp * (c.model_chunks if chunked else 1) > model.layers, f"pp * model_chunks exceeds the {model.layers} layers"),
        (job.batch % (c.dp * c.microbatches), f"dp * microbatches must divide the batch size {job.batch}"),
        (c.micro_batch_size not in (0, job.sequences), "dp * microbatches * micro_batch_size must be the batch size"),
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
    add("--model", required=True, metavar="FILE", dest="file", help="Hugging Face config.json")
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
        knobs = (trial.get("config", {}) if job.config is None else
                 dict(item.split("=", 1) for item in job.config.split(",") if item))
    except ValueError:
        raise InputError("OPPA_TRIAL must be JSON, and --config a list such as dp=2,tp=2") from None
    job.config = argparse.Namespace(**KNOBS)
    for name, value in knobs.items():
        if name not in KNOBS:
            raise InputError(f"{PROGRAM} does not apply the knob '{name}'; known: {', '.join(KNOBS)}")
        try:
            setattr(job.config, name, value if name == "schedule" else int({"true": 1, "false": 0}.get(value, value)))
        except ValueError:
            raise InputError(f"invalid value '{value}' for {name}: must be an integer") from None
    job.steps = job.steps or trial.get("max_steps", 10)
    job.seed = trial.get("seed", 0) if job.seed is None else job.seed
    job.precision = job.precision or ("bf16" if job.backend == "cuda" else "float")
    if min(job.batch, job.steps, job.scale, job.length or 1, *(getattr(job.config, name) for name in POSITIVE)) < 1:
        raise InputError(f"--batch-size, --sequence-length, --steps, --scale, {', '.join(POSITIVE)} must be 1 or more")
    try:
        with open(job.file, encoding="utf-8") as file:
            job.model = describe(json.load(file))
    except (OSError, KeyError, ValueError) as error:
        what = f"the key {error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"{job.file}: {what}") from None
    if job.length is None and not job.model.patch:
        raise InputError("--sequence-length is required for this model")
    job.length = scale(job.model, job.length or job.model.positions, job.scale)
    job.ranks = job.config.dp * job.config.tp * job.config.pp
    job.sequences = job.batch // (job.config.dp * job.config.microbatches)  # of a microbatch
    check(job)
    return job
