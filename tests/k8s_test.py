"""Checks TrainJobs against the published schema, and the recommender.

Usage: k8s_test.py OPPA
"""

import base64
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"k8s: NOT RUN: {error}")
    sys.exit(77)

OPPA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = (ROOT / "examples/k8s/trainjob.yaml").read_text()
SCHEMA = jsonschema.Draft7Validator(json.loads((ROOT / "tests/reference/trainjob.schema.json").read_text()))
MODEL = ROOT / "experiments/workloads/llama-3-8b.json"


def oppa(*words, text=""):
    return subprocess.run([OPPA, "plan", *map(str, words)], input=text, capture_output=True, text=True)


def recommend(text, *words):
    run = oppa("--trainjob", "-", *words, text=text)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return run.stdout


def changed(change):
    job = yaml.safe_load(EXAMPLE)
    change(job)
    return json.dumps(job)


def args_of(job):
    return dict(word.removeprefix("--").split("=", 1) for word in job["spec"]["trainer"]["args"] if "=" in word)


class WrittenTest(unittest.TestCase):
    def test_a_written_train_job_meets_the_schema_and_carries_its_files(self):
        for framework in ["megatron-lm", "torchtitan", "hf-trainer", "hf-trainer-fsdp", "deepspeed", "nanotron", "nemo"]:
            with self.subTest(framework), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                run = oppa("--model", MODEL, "--gpus", "2x8", "--gpu", "mi300x", "--batch", 256, "--seq", 4096,
                           "--framework", framework, "--write", folder, "--k8s", "--queue", "team-a")
                self.assertEqual(run.returncode, 0, run.stderr)
                files, job = yaml.safe_load_all((folder / "trainjob.yaml").read_text())
                SCHEMA.validate(job)
                self.assertEqual(files["data"], {path.name: path.read_text() for path in folder.iterdir()
                                                 if path.name != "trainjob.yaml"})
                trainer = job["spec"]["trainer"]
                self.assertEqual((trainer["numNodes"], trainer["numProcPerNode"]), (2, 8))
                self.assertEqual(trainer["resourcesPerNode"], {"limits": {"amd.com/gpu": 8}})
                self.assertEqual(job["metadata"]["labels"], {"kueue.x-k8s.io/queue-name": "team-a"})
                words = " ".join(trainer["command"] + [each["value"] for each in trainer.get("env", [])])
                self.assertNotRegex(words, r"nnodes|nproc|rdzv|HEAD_NODE|\$here|" + str(folder))

    def test_a_launcher_other_than_torchrun_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            run = oppa("--model", MODEL, "--gpus", "1x8", "--gpu", "h100", "--batch", 64, "--seq", 4096,
                       "--framework", "accelerate-fsdp", "--write", folder, "--k8s")
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("starts by 'accelerate'", run.stderr)
            self.assertEqual(os.listdir(folder), [])


class RecommenderTest(unittest.TestCase):
    def test_it_sets_gpus_layout_and_reasons_and_keeps_the_rest(self):
        before = yaml.safe_load(EXAMPLE)
        after = yaml.safe_load(recommend(EXAMPLE))
        SCHEMA.validate(after)
        trainer = after["spec"]["trainer"]
        gpus = trainer["numNodes"] * trainer["numProcPerNode"]
        self.assertIn(gpus, [8, 16, 32])
        self.assertEqual(trainer["resourcesPerNode"]["limits"], {"nvidia.com/gpu": trainer["numProcPerNode"], "cpu": "64"})
        args = args_of(after)
        plan = dict(item.split("=") for item in after["metadata"]["annotations"]["oppa/config"].split(","))
        self.assertEqual((args["tensor-model-parallel-size"], args["pipeline-model-parallel-size"]), (plan["tp"], plan["pp"]))
        self.assertEqual(int(args["micro-batch-size"]) * int(plan["dp"]) * int(plan["microbatches"]), 256)
        self.assertLessEqual(args_of(before).keys(), args.keys())
        self.assertIn("in nine of ten", after["metadata"]["annotations"]["oppa/prediction"])
        self.assertRegex(after["metadata"]["annotations"]["oppa/compared"], "before: .*\n(.*GPUs.*\n){3}")
        for job in (before, after):
            del job["metadata"]["annotations"]
            for key in ("numNodes", "numProcPerNode", "resourcesPerNode", "args", "env"):
                job["spec"]["trainer"].pop(key, None)
        self.assertEqual(before, after)

    def test_what_it_recommends_it_keeps(self):
        once = yaml.safe_load(recommend(EXAMPLE))
        twice = yaml.safe_load(recommend(yaml.safe_dump(once)))
        self.assertEqual(once["spec"], twice["spec"])

    def test_json_and_yaml_get_the_same_answer(self):
        text = changed(lambda job: None)
        self.assertEqual(json.loads(recommend(text)), yaml.safe_load(recommend(EXAMPLE)))

    def test_other_documents_and_scalars_stay_what_kubernetes_reads(self):
        job = EXAMPLE.replace("metadata:\n", "metadata:\n  x: {mode: 0644, hex: 0x1F, 'on': yes, 'no': 'no', n: ~, s: '1', f: 1.5, t: \"a\\n b\\n\"}\n", 1)
        other = "kind: ConfigMap  # mine\ndata: {a: 0644}\n"
        answer = recommend(other + "---\n" + job)
        self.assertTrue(answer.startswith(other + "---\n"))
        self.assertEqual(yaml.safe_load(answer.split("---\n")[1])["metadata"]["x"],
                         {"mode": 420, "hex": 31, "on": True, "no": "no", "n": None, "s": "1", "f": 1.5, "t": "a\n b\n"})

    def test_words_without_the_file_of_a_framework_have_its_defaults(self):
        text = changed(lambda job: (
            job["spec"]["trainer"].update(command=["torchrun", "run_clm.py", "--fsdp", "full_shard"], args=[]),
            job["metadata"]["annotations"].update({"oppa/framework": "hf-trainer-fsdp", "oppa/batch": "64", "oppa/seq": "2048",
                                                   "oppa/model": str(MODEL)})))
        answer = yaml.safe_load(recommend(text))["metadata"]["annotations"]
        self.assertIn("ZeRO-3", answer["oppa/prediction"])
        self.assertRegex(answer["oppa/compared"], "before: .*ZeRO-3")

    def test_a_subcommand_of_torchtitan_is_read_and_set_behind_its_flags(self):
        def answer(*words):
            return yaml.safe_load(recommend(changed(lambda job: (
                job["spec"]["trainer"].update(command=["torchrun", "-m", "torchtitan.train"], args=[
                    "--module=llama3", "--config=llama3_8b", "--parallelism.tensor_parallel_degree=4",
                    "--training.global_batch_size=256", "--training.seq_len=8192", *words]),
                job["metadata"]["annotations"].update({"oppa/model": str(MODEL)})))))
        full = answer("activation-checkpoint:full")
        self.assertRegex(full["metadata"]["annotations"]["oppa/compared"], "before: .*tp=4 ZeRO-3 full recomputation")
        self.assertRegex(full["spec"]["trainer"]["args"][-1], "^activation-checkpoint:(none|selective)$")
        unsaid = answer()
        self.assertRegex(unsaid["metadata"]["annotations"]["oppa/compared"],
                         "not counted: activation-checkpoint: = .absent.*local_batch_size is not given")
        self.assertEqual(unsaid["spec"], full["spec"])

    def test_precision_optimizer_and_offload_are_those_of_the_words(self):
        def prediction(*words, without=()):
            answer = yaml.safe_load(recommend(changed(lambda job: job["spec"]["trainer"].update(
                args=[word for word in job["spec"]["trainer"]["args"] if word not in without] + list(words)))))
            return answer["metadata"]["annotations"]["oppa/prediction"]
        bf16 = prediction()
        seen = {bf16}
        for words, without in [([], ["--bf16"]), (["--fp8-format=hybrid"], []), (["--optimizer=sgd"], []),
                               (["--optimizer-cpu-offload"], []), ([], ["--untie-embeddings-and-output-weights"]),
                               (["--kv-channels=256"], [])]:
            seen.add(prediction(*words, without=without))
        self.assertEqual(len(seen), 7)
        self.assertEqual(bf16, prediction("--lr=0.1", "--save=/a", "--log-interval=10", "--wandb-project=p", "--optimizer=adam",
                                          "--no-load-optim", "--adam-beta2=0.95", "--kv-channels=128"))

    def test_words_of_which_nothing_is_known_are_notes(self):
        answer = yaml.safe_load(recommend(changed(lambda job: job["spec"]["trainer"]["args"].append("--tp-comm-overlap"))))
        self.assertIn("--tp-comm-overlap nothing is known", answer["metadata"]["annotations"]["oppa/notes"])

    def test_what_the_training_would_contradict_is_refused(self):
        def trainer(**values):
            return changed(lambda job: job["spec"]["trainer"].update(values))

        def args(*words):
            return changed(lambda job: job["spec"]["trainer"]["args"].extend(words))

        def noted(**values):
            return changed(lambda job: job["metadata"]["annotations"].update({f"oppa/{key}": value for key, value in values.items()}))

        def titan(config):
            return changed(lambda job: (
                job["spec"]["trainer"].update(command=["torchrun", "-m", "torchtitan.train"], args=[
                    "--module=llama3", f"--config={config}", "--training.global_batch_size=256", "--training.seq_len=8192"]),
                job["metadata"]["annotations"].update({"oppa/model": str(MODEL)})))

        recommend(titan("llama3_8b"))
        recommend(titan("my_own"))
        sizes = "layers=16,hidden=2048,heads=16,ffn=8192,vocab=32000"
        for text, options, words in [
                (args("--lora-rank=16"), [], "--lora-rank=16: what it changes is not read"),
                (args("--use-megatron-fsdp"), [], "--use-megatron-fsdp"),
                (args("--mtp-num-layers", "1"), [], "--mtp-num-layers=1"),
                (args("--optimizer=lion"), [], "--optimizer=lion"),
                (args("--spec", "mamba", "stack"), [], "--spec=mamba"),
                (args("--use-checkpoint-args"), [], "--use-checkpoint-args"),
                (args("--make-vocab-size-divisible-by=131072"), [], "--make-vocab-size-divisible-by=131072"),
                (args("--multi-latent-attention"), [], "--multi-latent-attention: the model has none of it"),
                (args("--window-size=128,0"), [], "--window-size=128,0: the model has none of it"),
                (EXAMPLE, ["--model", sizes], "--num-layers=32: the model has 16"),
                (noted(model=sizes), [], "--hidden-size=4096: the model has 2048"),
                (titan("llama3_70b"), [], "--config=llama3_70b is for models with $layers = 80"),
                (titan("llama3_8b_float8"), [], "--config=llama3_8b_float8: the model has llama3_8b"),
                (EXAMPLE, ["--precision", "fp8"], "it trains with precision=bf16, and the options say precision=fp8"),
                (EXAMPLE, ["--training", "lora_rank=8"], "it does not say lora_rank=8"),
                (noted(gpu="a100"), [], "but the nodeSelector nvidia.com/gpu.product is NVIDIA-H100-80GB-HBM3"),
                (trainer(resourcesPerNode={"limits": {"amd.com/gpu": 8}}), [], "asks for amd.com/gpu"),
                (trainer(resourcesPerNode={"limits": {"nvidia.com/mig-1g.10gb": 8}}), [], "parts of GPUs are not forecast"),
                (trainer(numProcPerNode=4), [], "spec.trainer.numProcPerNode is 4, but spec.trainer.resourcesPerNode.limits"),
                (trainer(command=["torchrun", "--nproc-per-node=4", "pretrain_gpt.py"]), [], "--nproc-per-node of the command is 4"),
                (trainer(command=["torchrun", "--nnodes=2", "pretrain_gpt.py"]), [], "--nnodes of the command is 2")]:
            with self.subTest(words):
                run = oppa("--trainjob", "-", *options, text=text)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(words, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_what_it_cannot_know_or_set_it_refuses_by_the_key(self):
        def trainer(**values):
            return changed(lambda job: job["spec"]["trainer"].update(values))

        def without(*flags):
            return trainer(args=[word for word in yaml.safe_load(EXAMPLE)["spec"]["trainer"]["args"]
                                 if word.split("=")[0] not in flags])

        no_size = changed(lambda job: (job["metadata"].pop("annotations"), job["spec"]["trainer"].pop("resourcesPerNode")))
        for text, words in [
                (trainer(command=["torchrun", "mine.py"]), "oppa/framework: the words start no program"),
                (trainer(command=["bash", "-c", "torchrun pretrain_gpt.py"]), "no text for a shell"),
                (changed(lambda job: job["spec"].pop("trainer")), "spec.trainer: it is missing"),
                (changed(lambda job: job["spec"].pop("runtimePatches")), "oppa/gpu: the GPU is unknown"),
                (EXAMPLE.replace("NVIDIA-H100-80GB-HBM3", "Voodoo-2"), "'Voodoo-2'"),
                (without("--num-layers"), "oppa/model: the words do not say"),
                (without("--global-batch-size", "--micro-batch-size"), "oppa/batch: spec.trainer.args does not say it"),
                (without("--seq-length"), "oppa/seq"),
                (changed(lambda job: job["metadata"]["annotations"].update({"oppa/batch": "many"})), "'many' is no number"),
                (changed(lambda job: job["metadata"]["annotations"].update({"oppa/gpus": "1"})), "no layout fits"),
                (no_size, "spec.trainer.numProcPerNode"),
                (trainer(command=["torchrun", "train.py", "--deepspeed", "--deepspeed_config", "ds.json"]) .replace(
                    '"oppa/gpus"', '"oppa/framework": "deepspeed", "oppa/batch": "64", "oppa/seq": "2048", "oppa/model": "'
                    + str(MODEL) + '", "oppa/gpus"'), "ds.json, a file of the container"),
                (trainer(command=["torchrun", "run_clm.py", "--bf16", "--fsdp", "full_shard", "--per_device_train_batch_size", "1"],
                         args=[]).replace('"oppa/gpus"', '"oppa/framework": "hf-trainer-fsdp", "oppa/batch": "64", '
                                          f'"oppa/seq": "16384", "oppa/model": "{MODEL}", "oppa/gpus"'), "they cannot say dp="),
                ("kind: Pod\n", "there is no TrainJob"),
                ("a: [", "line"),
                (changed(lambda job: job["metadata"].update(annotations=3)), "--trainjob")]:
            with self.subTest(words):
                run = oppa("--trainjob", "-", text=text)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(words, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_the_webhook_patches_what_it_can_and_admits_the_rest_with_a_warning(self):
        sys.path.insert(0, str(ROOT / "examples/k8s"))
        os.environ["PATH"] = f"{pathlib.Path(OPPA).resolve().parent}:{os.environ['PATH']}"
        import webhook
        job = yaml.safe_load(EXAMPLE)
        answer = webhook.review({"uid": "u", "object": job})
        patched = copy.deepcopy(job)
        for step in json.loads(base64.b64decode(answer["patch"])):
            patched[step["path"][1:]] = step["value"]
        self.assertEqual(patched, yaml.safe_load(recommend(EXAMPLE)))
        refused = webhook.review({"uid": "u", "object": {"kind": "Pod"}})
        self.assertTrue(refused["allowed"])
        self.assertIn("TrainJob", refused["warnings"][0])


if __name__ == "__main__":
    unittest.main()
