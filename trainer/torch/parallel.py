"""A rank's part of a job: stages under DTensor, FSDP2 or DDP, their optimizer and schedule."""
import contextlib
import itertools

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput,
                                               RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import model as models

def gathered(layout, *others, local=False):
    """For a module that needs the whole of its first input, which comes in a layout."""
    return PrepareModuleInput(input_layouts=(layout, *others), desired_input_layouts=(Replicate(), *others),
                              use_local_output=local)


def split(unit, mesh, sequence):
    """The vocabulary, heads and feed-forward columns; with sequence parallelism, norms and residuals by tokens."""
    outer = Shard(1) if sequence else Replicate()
    scattered = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=outer)

    def split_linear(path, inputs, output, outer):  # columns of `inputs` behind one gathered input, rows of `output`
        parallelize_module(unit, mesh, {path: gathered(outer), **{f"{path}.{name}": ColwiseParallel() for name in inputs},
                                        f"{path}.{output}": RowwiseParallel(output_layouts=outer)})
    if hasattr(unit, "tokens"):
        parallelize_module(unit, mesh, {"tokens": RowwiseParallel(input_layouts=Replicate())})
    if hasattr(unit, "logits"):
        parallelize_module(unit, mesh, {"logits": ColwiseParallel(use_local_output=False)})  # for loss_parallel
    if hasattr(unit, "attention"):
        split_linear("attention", ("q", "k", "v"), "out", outer)
    if hasattr(unit, "mlp"):
        split_linear("mlp", ("up",) if unit.mlp.gate is None else ("gate", "up"), "down", outer)
    for i in range(len(getattr(unit, "experts", ()))):  # their router has all tokens on each rank
        split_linear(f"experts.{i}", ("gate", "up"), "down", Replicate())
    if sequence and hasattr(unit, "attention"):
        norm = SequenceParallel(use_local_output=True)
        parallelize_module(unit, mesh, {"attention_norm": norm, "mlp_norm": norm})
    if sequence and hasattr(unit, "experts"):
        parallelize_module(unit.experts, mesh, gathered(outer, local=True))
        parallelize_module(unit.experts, mesh, scattered)
    elif sequence and not hasattr(unit, "attention"):
        parallelize_module(unit, mesh, gathered(outer, None, local=True) if hasattr(unit, "logits") else scattered)


class Rank:
    """This rank's stages, and a step of the job on them."""

    def __init__(self, job, device):
        c = self.config = job.config
        self.job, self.device = job, device
        self.dtype = torch.bfloat16 if job.precision == "bf16" else torch.get_default_dtype()
        # The order of oppa-train (trainer/mesh.h): tp first, then pp and dp.
        self.mesh = init_device_mesh(device.type, (c.dp, c.pp, c.tp), mesh_dim_names=("dp", "pp", "tp"))
        self.dp_index, self.pp_index, self.tp_index = self.mesh.get_coordinate()
        chunks = c.model_chunks if c.pp > 1 else 1
        self.parts = c.pp * chunks
        self.stages = [self.make_stage(chunk * c.pp + self.pp_index) for chunk in range(chunks)]
        self.optimizer = self.make_optimizer([p for stage in self.stages for p in stage.parameters()])
        self.tied_group = self.make_tied_group()
        self.schedule = self.make_schedule() if c.pp > 1 else None

    def make_stage(self, part):
        """A part of the model. Each unit is made, filled and split before the next, so that no rank holds the whole."""
        job, c, model = self.job, self.config, self.job.model
        policy = MixedPrecisionPolicy(*((self.dtype, torch.float32) if self.dtype == torch.bfloat16 else ()))
        begin, end = (model.layers * i // self.parts for i in (part, part + 1))
        with torch.device("meta"):
            stage = models.Stage(model, begin, end, c.grad_checkpoint, self.dtype)
        rotary = None if model.positions else models.rotary_table(model, job.length, self.device)
        for name, unit in list(stage.named_modules()):
            if not isinstance(unit, (models.Embedding, models.Block, models.Head)):
                continue
            unit.to_empty(device=self.device)
            models.initialize(unit, name, job.seed)
            is_block = isinstance(unit, models.Block)
            if is_block:
                unit.attention.rotary = rotary
            elif name == "head" and model.tied and not stage.shares:
                models.fill(unit.logits.weight, models.key_of("embedding.tokens", job.seed))
            if c.tp > 1:
                split(unit, self.mesh["tp"], c.sp > 1)
            if c.compile and (is_block or c.tp == 1):
                unit.compile()
            if is_block and c.dp > 1 and c.zero_stage >= 2:
                fully_shard(unit, mesh=self.mesh["dp"], reshard_after_forward=c.zero_stage == 3, mp_policy=policy)
        if c.dp == 1:
            return stage
        if c.zero_stage < 2:
            return DistributedDataParallel(
                stage, device_mesh=self.mesh["dp"], bucket_cap_mb=c.dp_bucket_mb, gradient_as_bucket_view=True)
        fully_shard(stage, mesh=self.mesh["dp"], reshard_after_forward=False, mp_policy=policy)
        for block, following in itertools.pairwise(stage.block.values() if c.overlap_zero_allgather else ()):
            block.set_modules_to_forward_prefetch([following])
        return stage

    def make_optimizer(self, parameters):
        options = {"lr": self.job.learning_rate, "weight_decay": 0.0, "fused": True}
        if self.config.dp > 1 and self.config.zero_stage == 1:
            return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, self.mesh["dp"].get_group(), **options)
        groups = {}  # an operation has the tensors of one mesh
        for parameter in parameters:
            groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        return torch.optim.AdamW([{"params": group} for group in groups.values()], **options)

    def make_tied_group(self):
        """The ranks that share the table of the embedding: first and last stage."""
        if not self.job.model.tied or self.config.pp == 1:
            return None
        ranks = self.mesh.mesh[:, [0, -1], :].transpose(1, 2).flatten(0, 1).tolist()
        return dist.new_subgroups_by_enumeration(ranks)[0]

    def make_schedule(self):
        job, c = self.job, self.config
        # Shapes are given, because stages that infer them run a backward pass, which DDP counts as one of a step.
        hidden = torch.empty(job.sequences, job.length // c.sp, job.model.hidden, dtype=self.dtype, device="meta",
                             requires_grad=True)
        inputs = models.make_batch(job, self.device, 0, 0, job.sequences)[0].to("meta")
        loss = torch.empty(1, device="meta", requires_grad=True)
        parts = range(self.pp_index, self.parts, c.pp)
        stages = [PipelineStage(stage, part, self.parts, self.device, group=self.mesh["pp"].get_group(),
                                input_args=hidden if part else inputs,
                                output_args=hidden if part + 1 < self.parts else loss)
                  for part, stage in zip(parts, self.stages)]
        schedule = get_schedule_class("interleaved1f1b" if c.model_chunks > 1 else c.schedule)
        return schedule(stages if c.model_chunks > 1 else stages[0], c.microbatches, scale_grads=False,
                        loss_fn=lambda loss, labels: (loss * self.loss_scale).sum())

    def batch(self, step):
        """The data of this rank in a step, and the number of labels of all ranks."""
        job, count = self.job, self.job.sequences * self.config.microbatches
        inputs, labels = models.make_batch(job, self.device, step, self.dp_index * count, count)
        if job.model.causal or job.model.classes:
            return inputs, labels, job.batch * labels.shape[1]
        return inputs, labels, int((models.make_batch(job, self.device, step, 0, job.batch)[1] >= 0).sum())

    def run(self, inputs, labels):
        """Forward and backward of all microbatches; their losses on the last stage."""
        losses = []
        if self.schedule:
            last = {"target": labels, "labels": labels, "losses": losses} if self.pp_index + 1 == self.config.pp else {}
            self.schedule.step(*([inputs] if self.pp_index == 0 else []), return_outputs=False, **last)
            return losses
        stage, parts = self.stages[0], list(zip(inputs.split(self.job.sequences), labels.split(self.job.sequences)))
        for i, part in enumerate(parts):
            stage.require_backward_grad_sync = i + 1 == len(parts)  # of DDP
            losses.append((stage(*part) * self.loss_scale).sum())
            losses[-1].backward()
        return losses

    def step(self, inputs, labels, count):
        """Forward, backward and update; the mean loss over all labels."""
        self.loss_scale = self.config.dp / count  # DDP and FSDP2 average over dp
        mixed = self.dtype == torch.bfloat16 and (self.config.dp == 1 or self.config.zero_stage < 2)  # else by FSDP2
        with (loss_parallel() if self.config.tp > 1 else contextlib.nullcontext(),
              torch.autocast(self.device.type, torch.bfloat16, enabled=mixed)):
            losses = self.run(inputs, labels)
        self.finish_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad()
        total = torch.zeros(1, dtype=torch.double, device=self.device)
        if losses and self.tp_index == 0:
            total += torch.stack([loss.detach().double().sum() for loss in losses]).sum() / self.config.dp
        dist.all_reduce(total)
        return total.item()

    def finish_gradients(self):
        """Sums what tensor parallelism left as terms, and the gradients of tied weights in different stages."""
        for stage in self.stages:
            for name, weight in stage.named_parameters():
                if isinstance(weight, DTensor) and weight.grad.placements != weight.placements:
                    weight.grad = weight.grad.redistribute(placements=weight.placements)
                if self.tied_group and name.endswith(("embedding.tokens.weight", "head.logits.weight")):
                    dist.all_reduce(getattr(weight.grad, "_local_tensor", weight.grad), group=self.tied_group)
