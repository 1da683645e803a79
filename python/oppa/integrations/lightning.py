"""A callback of Lightning, for a training program that `oppa tune` starts or for a trial of a Study.

    lightning.Trainer(callbacks=[OppaCallback()], ...)
"""
from __future__ import annotations

from typing import Any, Optional

from lightning.pytorch import Callback, LightningModule, Trainer

import oppa


class OppaCallback(Callback):
    """Reports step times, data loading included, and peak memory. Ends the training when the search has enough steps."""

    def __init__(self, trial: Optional[oppa.Trial] = None) -> None:
        self.clock = oppa.StepClock(trial)
        self._steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._steps = trainer.global_step
        self.clock.start()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        if trainer.global_step == self._steps:
            return  # gradients are accumulated
        self._steps = trainer.global_step
        if self.clock.step():
            trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.clock.start()
