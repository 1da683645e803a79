"""A callback of Hugging Face's Trainer, for a training program that `oppa tune` starts or for a trial of a Study.

    trainer.add_callback(OppaCallback())
"""
from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import oppa


class OppaCallback(TrainerCallback):
    """Reports step times, data loading included, and peak memory. Ends the training when the search has enough steps."""

    def __init__(self, trial: Optional[oppa.Trial] = None) -> None:
        self.clock = oppa.StepClock(trial)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                       **kwargs: Any) -> None:
        self.clock.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                    **kwargs: Any) -> None:
        if self.clock.step():
            control.should_training_stop = True

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                    **kwargs: Any) -> None:
        self.clock.start()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.clock.start()
