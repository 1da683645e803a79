"""`oppa plan`: the fastest layouts of a job, predicted."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._program import OppaError, run

Band = Tuple[float, float]


@dataclass(frozen=True)
class Memory:
    """Peak memory of a GPU, in bytes."""
    peak_bytes: float
    capacity_bytes: float
    fit_probability: float
    band: Optional[Band]
    """Nine of ten cases are in it; None where no measurement is comparable."""


@dataclass(frozen=True)
class Layout:
    """A layout of the job, with its best configuration."""
    framework: str
    name: str
    config: Dict[str, int]
    command: str
    step_time_s: float
    tokens_per_second_per_gpu: float
    mfu: float
    band: Optional[Band]
    """Of the step time: nine of ten cases are in it; None where no measurement is comparable."""
    memory: Memory
    notes: List[str]
    raw: Mapping[str, Any] = field(repr=False)
    """The object of `oppa plan --json` (docs/schemas/plan.json)."""


@dataclass(frozen=True)
class Plan:
    """The layouts of all frameworks, the fastest first."""
    layouts: List[Layout]
    raw: List[Mapping[str, Any]] = field(repr=False)
    words: List[str] = field(repr=False)

    @property
    def best(self) -> Layout:
        """The fastest layout. Raises OppaError with the reasons where none fits."""
        if not self.layouts:
            raise OppaError("\n".join(each.get("problem") or f"{each['framework']}: no layout fits: " + "; ".join(
                f"{one['count']} {one['reason']}" for one in each["excluded"]) for each in self.raw))
        return self.layouts[0]

    @property
    def notes(self) -> List[str]:
        """What was assumed of the model and the training, and what no measurement was compared with, by framework."""
        return [f"{each['framework']}: {label}{each[key]}" for each in self.raw for key, label in
                (("note", ""), ("training", "training: "), ("not_validated", "not validated: ")) if each.get(key)]

    def why(self, config: str) -> str:
        """Why the best configuration with these values ("dp=8,tp=2") is slower, or is not offered, by framework."""
        answers: List[Dict[str, str]] = json.loads(run([*self.words, "--why", config, "--json"]))
        return "\n\n".join(answer.get("text") or answer["problem"] for answer in answers).strip()


def plan(model: Union[str, "os.PathLike[str]", Mapping[str, Any]], *, gpus: Union[str, int], batch: int, seq: int,
         gpu: Optional[str] = None, cluster: Optional[str] = None, framework: Union[str, Sequence[str], None] = None,
         layouts: Optional[int] = None, **options: Any) -> Plan:
    """Predicts the fastest layouts of a job.

    model: a config.json of Hugging Face, its folder, or sizes: {"layers": 32, "hidden": 4096, ...}.
    gpus: nodes x GPUs ("2x8") or GPUs (16). gpu or cluster: which. batch: sequences of a step. seq: tokens of one.
    options: those of `oppa plan` with _ for -, such as precision="fp8", headroom=5, rule=["$tp > 4"], as_="llama".
    """
    if isinstance(model, Mapping):
        model = ",".join(f"{name}={value}".lower() for name, value in model.items())
    words = ["plan", "--model", os.fspath(model), "--gpus", str(gpus), "--batch", str(batch), "--seq", str(seq)]
    for name, value in {"gpu": gpu, "cluster": cluster, "framework": framework, "layouts": layouts, **options}.items():
        if name in ("rule", "constant", "training") and not isinstance(value, str):
            values = list(value or [])
        elif value is None or value is False:
            values = []
        else:
            values = [value if isinstance(value, (str, int, float)) else ",".join(value)]
        for one in values:
            words += ["--" + name.rstrip("_").replace("_", "-")] + ([] if one is True else [str(one)])
    raw = json.loads(run([*words, "--json"]))
    found = [_layout(each, one) for each in raw for one in each.get("layouts", [])]
    found.sort(key=lambda layout: -layout.tokens_per_second_per_gpu)
    return Plan(found, raw, words)


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
                  row["tokens_per_s_per_gpu"], row["mfu"], band("step_time_s"), memory, list(row["notes"]), row)
