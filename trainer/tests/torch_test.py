#!/usr/bin/env python3
"""oppa-train-torch: what it refuses, and its losses against those of oppa-train.

usage: torch_test.py OPPA_TRAIN   (the losses need PyTorch: run it with an interpreter that has it)
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "trainer/torch/oppa-train-torch"
OPPA_TRAIN = sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/release/oppa-train"
sys.dont_write_bytecode = True
sys.path.insert(0, str(PROGRAM.parent))
loader = importlib.machinery.SourceFileLoader("oppa_train_torch", str(PROGRAM))
program = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(program)
jobs = program.jobs

# Every scheme that both programs have, and the knobs that PyTorch has alone, which change no loss.
CASES = [
    ("tiny-qwen2", "dp=1,tp=1,pp=1"),
    ("tiny-qwen2", "dp=2,microbatches=2,dp_bucket_mb=1"),
    ("tiny-qwen2", "dp=2,zero_stage=1"),
    ("tiny-qwen2", "dp=2,zero_stage=2,microbatches=2"),
    ("tiny-qwen2", "dp=2,zero_stage=3,overlap_zero_allgather=1"),
    ("tiny-qwen2", "tp=2,grad_checkpoint=1"),
    ("tiny-qwen2", "tp=2,sp=2,grad_checkpoint=2"),
    ("tiny-qwen2", "pp=2,microbatches=4"),
    ("tiny-qwen2", "pp=2,microbatches=4,schedule=gpipe"),
    ("tiny-qwen2", "pp=2,microbatches=4,model_chunks=2"),
    ("tiny-qwen2", "dp=2,tp=2,pp=2,sp=2,zero_stage=3,microbatches=2"),
    ("tiny-gpt2", "dp=1,compile=1"),
    ("tiny-gpt2", "dp=2,tp=2,zero_stage=1"),
    ("tiny-gpt2", "dp=2,pp=2,microbatches=2"),
    ("tiny-gpt2", "tp=2,pp=2,microbatches=2"),
    ("tiny-gpt2", "dp=2,pp=2,zero_stage=2,microbatches=2,model_chunks=2"),
    ("tiny-bert", "tp=2,sp=2"),
    ("tiny-bert", "dp=2,pp=2,zero_stage=3,microbatches=2"),
    ("tiny-vit", "dp=2,tp=2"),
    ("tiny-vit", "pp=2,microbatches=2"),
    ("tiny-mixtral", "dp=2,zero_stage=3"),
    ("tiny-mixtral", "tp=2,sp=2"),
    ("tiny-mixtral", "tp=2,pp=2,microbatches=2"),
]
# Relative. In float, the rounding of a router's logits decides between experts that are nearly equal.
TOLERANCE = {"float": 1e-5, "double": 1e-12}


def words(model, config):
    length = [] if model == "tiny-vit" else ["--sequence-length=32"]
    return ["--model", str(ROOT / f"experiments/workloads/{model}.json"), "--batch-size=8", *length, f"--config={config}",
            "--timeout-s=120"]


def why_not():
    try:
        program.require_torch()
        return ""
    except jobs.InputError as error:
        return str(error)


class RefusalTest(unittest.TestCase):
    """Needs no PyTorch."""

    def refuse(self, config, message, model="tiny-qwen2"):
        with self.assertRaisesRegex(jobs.InputError, message):
            jobs.read_job(words(model, config))

    def test_a_knob_without_a_counterpart_is_refused_by_name(self):
        for setting in ("cp=2", "dp=2,ep=2", "dp=2,zero_stage=2,zero_bucket_mb=4", "dp=2,zero_stage=1,overlap_zero_comm=0",
                        "dp=2,zero_stage=1,overlap_zero_allgather=1", "pp=2,model_chunks=2,microbatches=2,overlap_p2p=1"):
            self.refuse(setting, "oppa-train-torch does not apply")
        self.refuse("flash=1", "does not apply the knob 'flash'")

    def test_a_configuration_that_does_not_fit_is_refused_with_the_rule(self):
        self.refuse("tp=4", "tp must divide the 6 heads")
        self.refuse("dp=3", "must divide the batch size 8")
        self.refuse("pp=16,microbatches=8", "exceeds the 8 layers")
        self.refuse("dp=2,microbatches=0", "microbatches, model_chunks must be 1 or more")
        self.refuse("tp=two", "invalid value 'two' for tp")

    def test_a_model_that_it_does_not_implement_is_refused(self):
        self.refuse("dp=1", "does not implement model_type 'qwen3'", "qwen3-8b")

    def test_the_configuration_comes_from_the_request_of_a_search(self):
        request = {"max_steps": 4, "seed": 9, "config": {"dp": 2, "tp": 1, "pp": 1, "compile": True}}
        with unittest.mock.patch.dict(os.environ, OPPA_TRIAL=json.dumps(request)):
            job = jobs.read_job([word for word in words("tiny-qwen2", "") if not word.startswith("--config")])
        self.assertEqual((job.config.dp, job.config.compile, job.steps, job.seed), (2, 1, 4, 9))

    def test_it_says_which_pytorch_it_needs(self):
        if not why_not():
            self.skipTest("this interpreter has PyTorch")
        run = subprocess.run([sys.executable, PROGRAM, *words("tiny-qwen2", "dp=1")], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("needs PyTorch", run.stderr)


@unittest.skipIf(why_not(), f"losses not compared: {why_not()}")
class LossTest(unittest.TestCase):
    def setUp(self):
        seed = (1 << 63) + 7  # seeds of searches are unsigned
        self.request = unittest.mock.patch.dict(os.environ, OPPA_TRIAL=json.dumps({"max_steps": 3, "seed": seed}))
        self.request.start()
        self.addCleanup(self.request.stop)

    def losses(self, command, report):
        self.assertEqual(command(), 0)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["losses"]

    def test_losses_are_those_of_oppa_train_under_every_scheme(self):
        for model, config in CASES:
            with self.subTest(model=model, config=config), tempfile.TemporaryDirectory() as folder:
                report = f"{folder}/report.json"
                precision = "double" if model == "tiny-mixtral" else "float"
                options = [f"--report={report}", f"--precision={precision}"]
                job = jobs.read_job(words(model, config) + options)
                ours = self.losses(lambda: program.run_all(job), report)
                shared = ",".join(item for item in config.split(",") if not item.startswith(("schedule", "compile")))
                reference = self.losses(lambda: subprocess.run(
                    [OPPA_TRAIN, *words(model, shared), *options], stdout=subprocess.DEVNULL).returncode, report)
                worst = max(abs(a - b) / abs(b) for a, b in zip(ours, reference, strict=True))
                print(f"{worst:.1e} {model} {config} {precision}", flush=True)
                self.assertLess(worst, TOLERANCE[precision])

    def test_memory_that_is_exhausted_on_a_rank_is_an_outcome_and_ends_the_others(self):
        import torch

        def exhaust(job, rank, *_):
            if rank == 1:
                raise torch.OutOfMemoryError("no memory")
            time.sleep(600)
        with unittest.mock.patch.object(program, "train", exhaust), tempfile.NamedTemporaryFile("r+") as reports, \
                unittest.mock.patch.dict(os.environ, OPPA_REPORT=reports.name):
            self.assertEqual(program.run_all(jobs.read_job(words("tiny-qwen2", "dp=2"))), program.OUT_OF_MEMORY)
            self.assertEqual(reports.read(), 'oppa {"status": "out_of_memory", "message": "rank 1: no memory"}\n')

    def test_a_request_to_stop_ends_all_ranks_without_an_error(self):
        def stop(job, rank, *_):
            if rank == 1:
                os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(600)
        with unittest.mock.patch.object(program, "train", stop), self.assertRaises(SystemExit) as ended:
            program.run_all(jobs.read_job(words("tiny-qwen2", "dp=2")))
        self.assertEqual(ended.exception.code, 0)
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)


if __name__ == "__main__":
    unittest.main()
