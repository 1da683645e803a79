"""`oppa plan`: the fastest layouts of a job, predicted."""
from __future__ import annotations

import html
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._program import OppaError, Program

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]

Band = Tuple[float, float]
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Memory:
    """Peak memory of the GPU that needs most, in bytes."""
    peak_bytes: float
    capacity_bytes: float
    fit_probability: float
    """From 0 to 1: that the peak stays below the capacity."""
    band: Optional[Band]
    """(low, high) in bytes: nine of ten cases are in it; None where no measurement is comparable."""


@dataclass(frozen=True)
class Layout:
    """A layout of the job, with its best configuration."""
    framework: str
    name: str
    """Such as "dp=4 tp=2"."""
    config: Dict[str, int]
    """Every parameter by its name (docs/search_space.md)."""
    command: str
    """The command line that starts the training with this configuration."""
    step_time_s: float
    """Seconds of an optimizer step over the whole batch."""
    tokens_per_second_per_gpu: float
    mfu: float
    """Model FLOPs utilization, from 0 to 1."""
    band: Optional[Band]
    """(low, high) of the step time in seconds: nine of ten cases are in it; None where no measurement is comparable."""
    memory: Memory
    microbatches: int
    """Microbatches of a step on each replica of the model."""
    micro_batch_size: int
    """Sequences of a microbatch."""
    shares: Dict[str, float]
    """The parts of the step time by name ("compute", "bubble", ...), each from 0 to 1; they sum to 1."""
    notes: List[str]
    raw: Mapping[str, Any] = field(repr=False)
    """The object of `oppa plan --json` (docs/schemas/plan.json)."""


@dataclass(frozen=True)
class Plan:
    """The layouts of all frameworks, the fastest first. print() and notebooks show them as a table."""
    layouts: List[Layout]
    raw: List[Mapping[str, Any]] = field(repr=False)
    words: List[str] = field(repr=False)
    _program: Program = field(repr=False, compare=False)

    @property
    def best(self) -> Layout:
        """The fastest layout. Raises OppaError with the reasons where none fits."""
        if not self.layouts:
            raise OppaError(self._reasons())
        return self.layouts[0]

    @property
    def notes(self) -> List[str]:
        """What was assumed of the model and the training, and what no measurement was compared with, by framework."""
        return [f"{each['framework']}: {label}{each[key]}" for each in self.raw for key, label in
                (("note", ""), ("training", "training: "), ("not_validated", "not validated: ")) if each.get(key)]

    def why(self, config: Union[str, Mapping[str, Any]]) -> str:
        """Why the best configuration with these values ("dp=8,tp=2") is slower, or is not offered, by framework."""
        if not isinstance(config, str):
            config = ",".join(f"{name}={value}" for name, value in config.items())
        answers: List[Dict[str, str]] = _run(self._program, [*self.words, "--why", config, "--json"])
        return "\n\n".join(answer.get("text") or answer["problem"] for answer in answers).strip()

    def to_dataframe(self) -> "pandas.DataFrame":
        """The layouts as a table of pandas, one in a row: seconds, bytes, and a column params_NAME for each parameter."""
        import pandas
        return pandas.DataFrame([{
            "framework": one.framework, "layout": one.name, "step_time_s": one.step_time_s,
            "tokens_per_second_per_gpu": one.tokens_per_second_per_gpu, "mfu": one.mfu,
            "peak_memory_bytes": one.memory.peak_bytes, "fit_probability": one.memory.fit_probability,
            "microbatches": one.microbatches, "micro_batch_size": one.micro_batch_size, "command": one.command,
            **{f"params_{name}": value for name, value in one.config.items()}} for one in self.layouts])

    def __str__(self) -> str:
        if not self.layouts:
            return self._reasons()
        rows = self._table()
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(width) if place < 2 else cell.rjust(width)
                                   for place, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        if not self.layouts:
            return f"<pre>{html.escape(self._reasons())}</pre>"
        rows = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
                for tag, row in zip(["th", *["td"] * len(self.layouts)], self._table())]
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    def _table(self) -> List[List[str]]:
        return [["framework", "layout", "microbatches", "tokens/s/GPU", "step s", "MFU", "peak GiB", "fits"],
                *([one.framework, one.name, f"{one.microbatches} x {one.micro_batch_size}",
                   f"{one.tokens_per_second_per_gpu:,.0f}", f"{one.step_time_s:.4g}", f"{one.mfu:.1%}",
                   f"{one.memory.peak_bytes / 2**30:.1f}", f"{one.memory.fit_probability:.0%}"] for one in self.layouts)]

    def _reasons(self) -> str:
        return "\n".join(each.get("problem") or f"{each['framework']}: no layout fits: " + "; ".join(
            f"{one['count']} {one['reason']}" for one in each["excluded"]) for each in self.raw)


def plan(model: Union[Path, Mapping[str, Any]], *, gpus: Union[str, int], batch: int, seq: int,
         gpu: Optional[str] = None, cluster: Optional[Path] = None, framework: Union[str, Sequence[str], None] = None,
         precision: Optional[str] = None, layouts: Optional[int] = None, headroom: Optional[float] = None,
         training: Union[str, Sequence[str], None] = None, config_file: Optional[Path] = None,
         rule: Union[str, Sequence[str], None] = None, constant: Union[str, Sequence[str], None] = None,
         intra: Optional[float] = None, inter: Optional[float] = None, nics: Optional[int] = None,
         as_: Optional[str] = None, parameters: Union[str, float, None] = None, calibrate: Optional[Path] = None,
         calibration: Optional[Path] = None, save_calibration: Optional[Path] = None, accept_foreign: bool = False,
         price: Optional[float] = None, write: Optional[Path] = None, slurm: bool = False, force: bool = False) -> Plan:
    """Predicts the fastest layouts of a job.

    model: a config.json of Hugging Face, its folder, or sizes: {"layers": 32, "hidden": 4096, ...}.
    gpus: nodes x GPUs ("2x8") or GPUs (16). gpu or cluster: which ("h100"), or the file or name of a cluster.
    batch: sequences of a step over all GPUs. seq: tokens of a sequence. precision: fp32, fp16, bf16 (default) or fp8.
    framework: adapters or frameworks ("megatron-lm", or several). layouts: how many of each (5).
    headroom: percent of the memory that stays free (10). rule: excludes configurations ("$tp > 4").
    training: what differs from full training ("lora_rank=16"). config_file: of DeepSpeed, Accelerate, FSDP, ...
    constant: changes a constant of the framework ("expert_imbalance=1.0"). as_: the model_type to read the model as.
    intra, inter: GB/s between two GPUs of a node, and of a network card, per direction; nics: such cards of a node.
    parameters: raises unless the model has so many, within 1%. price: of a GPU hour. calibrate: measured trials to
    scale by; calibration: what save_calibration stored; accept_foreign: also of another job. write: a folder for the
    script of the best layout, with slurm for sbatch, with force replacing files.
    Raises OppaError for what is wrong or contradicts.
    """
    given: Dict[str, Any] = dict(locals())
    if ".." in str(gpus):
        raise OppaError(f"gpus = '{gpus}': one size of the machine, such as '2x8'; call plan() for each")
    if isinstance(model, Mapping):
        given["model"] = ",".join(f"{name}={value}".lower() for name, value in model.items())
    if isinstance(framework, Sequence) and not isinstance(framework, str):
        given["framework"] = ",".join(map(str, framework))
    words = ["plan"]
    for name, value in given.items():
        if value is True and (plan.__kwdefaults__ or {}).get(name) is False:
            words.append(_option(name))
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [_option(name), os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    program = Program()
    raw = _run(program, [*words, "--json"])
    found = [_layout(each, one) for each in raw for one in each.get("layouts", [])]
    found.sort(key=lambda layout: -layout.tokens_per_second_per_gpu)
    return Plan(found, raw, words, program)


def _option(argument: str) -> str:
    return "--" + argument.rstrip("_").replace("_", "-")


_ARGUMENTS = {_option(name): name for name in plan.__annotations__}


def _run(program: Program, words: Sequence[str]) -> Any:
    try:
        return program.run_json(words)
    except OppaError as error:  # options are arguments here
        raise OppaError(re.sub(r"--[a-z][a-z-]*", lambda found: _ARGUMENTS.get(found[0], found[0]), str(error))) from None


def _layout(framework: Mapping[str, Any], row: Mapping[str, Any]) -> Layout:
    def band(name: str) -> Optional[Band]:
        # The program gives that of the fastest layout. It is relative to the prediction.
        value = framework.get("bands", {}).get(name)
        scale = row[name] / framework["layouts"][0][name]
        return (value[0] * scale, value[1] * scale) if value else None

    config = {name: int(value) for name, value in (pair.split("=") for pair in row["config"].split(","))}
    memory = Memory(row["peak_memory_bytes"], framework["capacity_bytes"], row["fit_probability"],
                    band("peak_memory_bytes"))
    return Layout(framework["framework"], row["layout"], config, row["command"], row["step_time_s"],
                  row["tokens_per_s_per_gpu"], row["mfu"], band("step_time_s"), memory, row["microbatches"],
                  row["micro_batch_size"], dict(row["shares"]), list(row["notes"]), row)
