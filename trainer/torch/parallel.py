"""A rank's part of a job: stages under DTensor, FSDP2 or DDP, their optimizer and schedule."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput,
                                               RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import model as models

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}


def split_embedding(unit, mesh, sequence):
    """Rows of the vocabulary; with sequence parallelism, the result by tokens."""
    if hasattr(unit, "tokens"):
        parallelize_module(unit, mesh, {"tokens": RowwiseParallel(input_layouts=Replicate())})
    if sequence:
        parallelize_module(unit, mesh, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1)))


def split_linear(unit, mesh, path, inputs, output, outer):
    """`inputs` by columns behind one gathered input, `output` by rows."""
    prefix = f"{path}." if path else ""
    plan = {path: PrepareModuleInput(input_layouts=(outer,), desired_input_layouts=(Replicate(),))}
    plan.update({prefix + name: ColwiseParallel() for name in inputs})
    plan[prefix + output] = RowwiseParallel(output_layouts=outer)
    parallelize_module(unit, mesh, plan)


def split_block(unit, mesh, sequence):
    """Heads and feed-forward columns; with sequence parallelism, norms and residuals by tokens."""
    outer = Shard(1) if sequence else Replicate()
    split_linear(unit, mesh, "attention", ("q", "k", "v"), "out", outer)
    gates = ("gate", "up") if hasattr(unit, "experts") or unit.mlp.gate is not None else ("up",)
    if hasattr(unit, "experts"):  # their router has all tokens on each rank
        for i in range(unit.experts.router.out_features):
            split_linear(unit, mesh, f"experts.{i}", gates, "down", Replicate())
    else:
        split_linear(unit, mesh, "mlp", gates, "down", outer)
    if not sequence:
        return
    norm = SequenceParallel(use_local_output=True)
    parallelize_module(unit, mesh, {"attention_norm": norm, "mlp_norm": norm})
    if hasattr(unit, "experts"):
        parallelize_module(unit, mesh, {"experts": PrepareModuleInput(
            input_layouts=(outer,), desired_input_layouts=(Replicate(),), use_local_output=True)})
        parallelize_module(unit, mesh, {"experts": PrepareModuleOutput(
            output_layouts=Replicate(), desired_output_layouts=outer)})


def split_head(unit, mesh, sequence):
    """Labels of the logits; loss_parallel computes with the parts."""
    for name, weight in list(unit.logits.named_parameters()):
        part = distribute_tensor(weight.detach(), mesh, [Shard(0)], src_data_rank=None)
        setattr(unit.logits, name, nn.Parameter(part))
    plan = {"logits": PrepareModuleInput(input_layouts=(Replicate(), None), desired_input_layouts=(Replicate(), None))}
    parallelize_module(unit, mesh, plan)
    if sequence:
        parallelize_module(unit, mesh, PrepareModuleInput(
            input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None), use_local_output=True))


class Rank:
    """This rank's stages, and a step of the job on them."""

    def __init__(self, job, device):
        c = self.config = job.config
        self.job, self.device = job, device
        self.dtype = torch.bfloat16 if job.precision == "bf16" else torch.get_default_dtype()
        # The order of oppa-train (trainer/mesh.h): tp first, then pp and dp.
        self.mesh = init_device_mesh(device.type, (c.dp, c.pp, c.tp), mesh_dim_names=("dp", "pp", "tp"))
        self.dp_index, self.pp_index, self.tp_index = self.mesh.get_coordinate()
        self.data = models.Data(job, device)
        chunks = c.model_chunks if c.pp > 1 else 1
        self.parts = c.pp * chunks
        self.stages = [self.make_stage(chunk * c.pp + self.pp_index) for chunk in range(chunks)]
        self.modules = [stage.module if isinstance(stage, DistributedDataParallel) else stage for stage in self.stages]
        self.optimizer = self.make_optimizer([p for stage in self.stages for p in stage.parameters()])
        self.tied_group = self.make_tied_group()
        self.schedule = self.make_schedule() if c.pp > 1 else None

    def make_stage(self, part):
        """A part of the model. Each unit is made, filled and split before the next, so that no rank holds the whole."""
        job, c, model = self.job, self.config, self.job.model
        policy = MixedPrecisionPolicy(param_dtype=self.dtype if self.dtype == torch.bfloat16 else None,
                                      reduce_dtype=torch.float32 if self.dtype == torch.bfloat16 else None)
        begin, end = (model.layers * i // self.parts for i in (part, part + 1))
        with torch.device("meta"):
            stage = models.Stage(model, begin, end, c.grad_checkpoint, self.dtype)
        rotary = None if model.positions else models.rotary_table(model, job.length, self.device)
        for name, unit in stage.units():
            unit.to_empty(device=self.device)
            models.initialize(unit, name, job.seed)
            kind = name.split(".")[0]
            if kind == "block":
                unit.attention.rotary = rotary
            elif kind == "head" and model.tied and not stage.tied:
                models.fill(unit.logits.weight, models.key_of("embedding.tokens", job.seed))
            if c.tp > 1:
                {"embedding": split_embedding, "block": split_block, "head": split_head}[kind](unit, self.mesh["tp"], c.sp > 1)
            if kind == "block" and c.compile:
                unit.compile()
            if kind == "block" and c.dp > 1 and c.zero_stage >= 2:
                fully_shard(unit, mesh=self.mesh["dp"], reshard_after_forward=c.zero_stage == 3, mp_policy=policy)
        if c.dp == 1:
            return stage
        if c.zero_stage < 2:
            return DistributedDataParallel(
                stage, device_mesh=self.mesh["dp"], bucket_cap_mb=c.dp_bucket_mb, gradient_as_bucket_view=True)
        fully_shard(stage, mesh=self.mesh["dp"], reshard_after_forward=False, mp_policy=policy)
        if c.overlap_zero_allgather:
            blocks = list(stage.block.values())
            for block, following in zip(blocks, blocks[1:]):
                block.set_modules_to_forward_prefetch([following])
        return stage

    def make_optimizer(self, parameters):
        options = {"lr": self.job.learning_rate, "weight_decay": 0.0, "fused": True}
        if self.config.dp > 1 and self.config.zero_stage == 1:
            return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, process_group=self.mesh["dp"].get_group(),
                                           **options)
        groups = {}  # an operation has the tensors of one mesh
        for parameter in parameters:
            groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        return torch.optim.AdamW([{"params": group} for group in groups.values()], **options)

    def make_tied_group(self):
        """The ranks that share the table of the embedding: first and last stage."""
        if not self.job.model.tied or self.config.pp == 1:
            return None
        ranks = self.mesh.mesh[:, [0, -1], :].transpose(1, 2).flatten(0, 1).tolist()
        groups = {tuple(pair): dist.new_group(pair) for pair in ranks}
        return next((group for pair, group in groups.items() if dist.get_rank() in pair), None)

    def make_schedule(self):
        job, c = self.job, self.config
        # Shapes are given, because stages that infer them run a backward pass, which DDP counts as one of a step.
        hidden = torch.empty(job.sequences, job.length // c.sp, job.model.hidden, dtype=self.dtype, device="meta",
                             requires_grad=True)
        inputs = self.data.batch(0, 0, job.sequences)[0].to("meta")
        loss = torch.empty(1, device="meta", requires_grad=True)
        parts = range(self.pp_index, self.parts, c.pp)
        stages = [PipelineStage(stage, part, self.parts, self.device, group=self.mesh["pp"].get_group(),
                                input_args=hidden if part else inputs,
                                output_args=hidden if part + 1 < self.parts else loss)
                  for part, stage in zip(parts, self.stages)]
        options = {"loss_fn": lambda loss, labels: (loss * self.loss_scale).sum(), "scale_grads": False}
        if c.model_chunks > 1:
            return ScheduleInterleaved1F1B(stages, c.microbatches, **options)
        return SCHEDULES[c.schedule](stages[0], c.microbatches, **options)

    def batch(self, step):
        """The data of this rank in a step, and the number of labels of all ranks."""
        job = self.job
        count = job.sequences * self.config.microbatches
        inputs, labels = self.data.batch(step, self.dp_index * count, count)
        if job.model.causal or job.model.classes:
            return inputs, labels, job.batch * labels.shape[1]
        return inputs, labels, int((self.data.batch(step, 0, job.batch)[1] >= 0).sum())

    def run_pipeline(self, inputs, labels):
        first, last = self.pp_index == 0, self.pp_index == self.config.pp - 1
        losses = []
        self.schedule.step(*([inputs] if first else []), losses=losses if last else None, return_outputs=False,
                           **({"target": labels, "labels": labels} if last else {}))
        return losses

    def run_microbatches(self, inputs, labels):
        stage, losses = self.stages[0], []
        parts = list(zip(inputs.split(self.job.sequences), labels.split(self.job.sequences)))
        for i, part in enumerate(parts):
            if isinstance(stage, DistributedDataParallel):
                stage.require_backward_grad_sync = i + 1 == len(parts)
            loss = (stage(*part) * self.loss_scale).sum()
            loss.backward()
            losses.append(loss.detach())
        return losses

    def step(self, inputs, labels, count):
        """Forward, backward and update; the mean loss over all labels."""
        self.loss_scale = self.config.dp / count  # DDP and FSDP2 average over dp
        with contextlib.ExitStack() as contexts:
            if self.config.tp > 1:
                contexts.enter_context(loss_parallel())
            if self.dtype == torch.bfloat16 and (self.config.dp == 1 or self.config.zero_stage < 2):
                contexts.enter_context(torch.autocast(self.device.type, self.dtype))
            losses = (self.run_pipeline if self.schedule else self.run_microbatches)(inputs, labels)
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
            for weight in stage.parameters():
                if isinstance(weight, DTensor) and weight.grad.placements != weight.placements:
                    weight.grad = weight.grad.redistribute(placements=weight.placements)
        for module in self.modules if self.tied_group else []:
            for unit, name in ((module.embedding, "tokens"), (module.head, "logits")):
                if unit is not None:
                    gradient = getattr(unit, name).weight.grad
                    dist.all_reduce(getattr(gradient, "_local_tensor", gradient), group=self.tied_group)
