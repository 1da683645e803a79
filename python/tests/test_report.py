"""Training programs report their steps with one line: PyTorch, Hugging Face's Trainer, Lightning."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import oppa

PLAIN = """
import time, torch, oppa
for batch in oppa.steps(torch.rand(100, 4)):
    time.sleep(0.02)
    (batch @ batch).item()
"""
TRANSFORMERS = """
import torch, transformers
from oppa.integrations.transformers import OppaCallback
config = transformers.GPT2Config(n_embd=16, n_head=2, n_layer=1, n_positions=16, vocab_size=32, bos_token_id=0,
                                 eos_token_id=0)
data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)}] * 4096
args = transformers.TrainingArguments("out", use_cpu=True, per_device_train_batch_size=2, report_to=[],
                                      gradient_accumulation_steps=2, save_strategy="no")
trainer = transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=args, train_dataset=data)
trainer.add_callback(OppaCallback())
trainer.train()
"""
LIGHTNING = """
import torch, lightning
from oppa.integrations.lightning import OppaCallback
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
lightning.Trainer(callbacks=[OppaCallback()], max_epochs=9, accelerator="cpu", logger=False, accumulate_grad_batches=2,
                  enable_checkpointing=False, enable_progress_bar=False).fit(
    Model(), torch.utils.data.DataLoader(torch.rand(200, 4), batch_size=2))
"""


@pytest.mark.parametrize("library,program", [("torch", PLAIN), ("transformers", TRANSFORMERS),
                                             ("lightning", LIGHTNING)])
def test_a_program_with_one_line_is_a_program_of_trials(library, program, manifest, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "job.py").write_text(f"#!{sys.executable}\n{program}")
    path = Path(oppa.__file__).parents[1]
    text = manifest.read_text().replace("trials = 9", "trials = 1")
    manifest.write_text(text.replace("[workload]", f'environment = ["PYTHONPATH={path}"]\nfolder = "."\n[workload]'))
    oppa._program.Program().run(["run", str(manifest), "--no-report", "--results", str(tmp_path / "results")])
    (trial,) = oppa.create_study(manifest, tmp_path / "results", load_if_exists=True).trials
    assert (trial.state, len(trial.step_times)) == ("complete", 6), trial.message
    assert 50e6 < trial.peak_memory_bytes < 20e9
    if library == "torch":
        assert all(0.02 < time_s < 1.0 for time_s in trial.step_times)


@pytest.mark.parametrize("library,program", [("torch", PLAIN), ("transformers", TRANSFORMERS),
                                             ("lightning", LIGHTNING)])
def test_outside_of_a_search_nothing_changes(library, program, tmp_path):
    pytest.importorskip(library)
    program = program.replace("4096", "40").replace("max_epochs=9", "max_epochs=1")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPPA_")}
    environment["PYTHONPATH"] = str(Path(oppa.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "oppa {" not in done.stdout


def test_steps_count_over_epochs_and_accumulated_batches(manifest, tmp_path):
    study = oppa.create_study(manifest, tmp_path)
    trial = study.ask()
    seen = [time.sleep(0.04) for _ in oppa.steps(range(100), batches_per_step=3, trial_of_study=trial)]
    assert len(seen) == 3 * trial.max_steps
    assert len(study.tell(trial).step_times) == trial.max_steps


def test_reports_are_those_of_the_protocol(monkeypatch, tmp_path):
    monkeypatch.setenv("OPPA_TRIAL", json.dumps({"max_steps": 2, "config": {"dp": 1}}))
    monkeypatch.setenv("OPPA_REPORT", str(tmp_path / "report"))
    (tmp_path / "report").touch()
    monkeypatch.setenv("RANK", "1")
    clock = oppa.StepClock()
    clock.start()
    assert [clock.step(), clock.step()] == [False, True]
    lines = [json.loads(line[len("oppa "):]) for line in (tmp_path / "report").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"peak_memory_bytes"}] * 2  # rank 0 reports the times
    assert oppa.is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate"))


def test_a_wrong_environment_gets_a_sentence(monkeypatch):
    monkeypatch.setenv("OPPA_TRIAL", json.dumps({"max_steps": 2, "config": {}}))
    for name, rank, is_first in (("RANK", "", True), ("OMPI_COMM_WORLD_RANK", "3", False), ("RANK", "2", False)):
        monkeypatch.setenv(name, rank)
        assert oppa.StepClock()._is_first_rank == is_first
    for name, value in (("RANK", "first"), ("OPPA_TRIAL", "{config"), ("OPPA_TRIAL", "[1]")):
        monkeypatch.setenv(name, value)
        with pytest.raises(oppa.OppaError, match=name):
            oppa.StepClock()


def test_a_report_takes_numbers_of_any_library_and_any_text(tmp_path, monkeypatch):
    numpy = pytest.importorskip("numpy")
    monkeypatch.setenv("OPPA_TRIAL", "{}")
    monkeypatch.setenv("OPPA_REPORT", str(tmp_path / "reports"))
    copied = {}
    exec((Path(oppa.__file__).parents[2] / "experiments/programs/oppa_report.py").read_text(), copied)
    for report in (oppa.report, copied["report"]):
        (tmp_path / "reports").write_text("")
        report(step_time_s=numpy.float32(0.5), peak_memory_bytes=numpy.int64(7))
        report(loss=None)
        report(status="failed", message=os.fsdecode(b"no file \xff"))
        lines = (tmp_path / "reports").read_text().splitlines()
        assert [json.loads(line[len("oppa "):]) for line in lines] == [
            {"step_time_s": 0.5, "peak_memory_bytes": 7}, {"loss": None}, {"status": "failed", "message": "no file ?"}]
