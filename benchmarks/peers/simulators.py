"""Simulators of other authors, driven by their own classes from a checkout at a stated commit.

A simulator has `result(facts, one)`: the step time in s and the peak in bytes of the layout `one` (columns of a measured
table as integers) of a job whose facts have the names of experiments/validation/*.toml. It raises Unsupported for what the
simulator cannot express. `capacity(facts)` is the memory of a GPU in bytes, READINGS what a measured table leaves open.

Calculon (systems a100_80g and h100_80g_nvl8): 16 bits, fused activations, all-reduces or sequence parallelism,
data-parallel messages that overlap, no offload. Stages use the links within a host if their pipeline fits there, data
parallelism if all GPUs do. Its blocks have no gate: a gated one becomes one of as many parameters. It has neither embedding
nor head, and stores the scores of attention unless it computes them again.
SimuMax (systems b200_bf16_ceperm and a100_pcie): Megatron Core's ZeRO 1, synchronous messages of the pipeline, recomputation
of all layers or none. Its own 16 forecasts of simumax_b200 come out to the digit.
llm-analysis (GPUs a100-sxm-80gb and h100-sxm-80gb): FlashAttention, no bubbles of pipelines.
"""

import contextlib
import io
import json
import logging
import sys
import warnings

HOST = 8  # GPUs
NO_RECOMPUTATION, FULL, SELECTIVE = 0, 1, 2
GIB = 1024**3


class Unsupported(Exception):
    """What a simulator cannot express."""


def gpu_of(facts):
    """The first word of a cluster's name."""
    return facts["cluster"].partition("-")[0]


class Calculon:
    NAME = "Calculon"
    REPOSITORY, COMMIT = "calculon-ai/calculon", "caa4b11f8fe1fee3ba57adaacb7590d7deabd053"
    SYSTEMS = {"a100": "a100_80g", "h100": "h100_80g_nvl8"}
    RECOMPUTATION = {NO_RECOMPUTATION: "none", FULL: "full", SELECTIVE: "attn_only"}
    CHUNKS = (1, 2, 4, 8)
    CHUNKED_FROM = 2  # stages
    HAS_CP = False
    CHOOSES_SHARDING = True  # ZeRO 0 or 1, and sequence parallelism or none
    # FlashAttention stores no scores and computes them again in the backward pass.
    READINGS = {"scores computed again": {"flash": SELECTIVE}, "scores stored": {"flash": NO_RECOMPUTATION}}

    def __init__(self, checkout):
        self.checkout = checkout
        from calculon.llm.llm import Llm
        from calculon.system import System
        self.llm, self.system = Llm, System

    def sizes(self, facts):
        return facts["layers"], facts["attention_heads"], 1

    def settings(self, facts):
        try:
            return json.loads((self.checkout / f"systems/{self.SYSTEMS[gpu_of(facts)]}.json").read_text())
        except KeyError as error:
            raise Unsupported(f"no system {error}") from None

    def capacity(self, facts):
        return self.settings(facts)["mem1"]["GiB"] * GIB

    def execution(self, facts, one, recomputation):
        return self.llm.Execution.from_json({
            "num_procs": facts["gpus"], "tensor_par": one["tp"], "pipeline_par": one["pp"], "data_par": one["dp"],
            "tensor_par_net": 0, "pipeline_par_net": int(one["tp"] * one["pp"] > HOST),
            "data_par_net": int(facts["gpus"] > HOST), "batch_size": facts["global_batch_size"],
            "microbatch_size": one["micro_batch_size"], "datatype": "float16", "fused_activation": True,
            "attention_type": "multihead", "activation_recompute": self.RECOMPUTATION[recomputation],
            "pipeline_interleaving": one["model_chunks"],
            "optimizer_sharding": one["zero_stage"] == 1 and one["dp"] > 1,
            "tensor_par_comm_type": "rs_ag" if one["sp"] > 1 else "ar", "tensor_par_overlap": "none",
            "seq_par_ag_redo": False, "data_par_overlap": one["dp"] > 1, "weight_offload": False,
            "activations_offload": False, "optimizer_offload": False, "training": True})

    def result(self, facts, one, flash=NO_RECOMPUTATION):
        hidden, heads = facts["hidden_size"], facts["attention_heads"]
        if one["cp"] > 1 or facts.get("experts") or one["tp"] > HOST:
            raise Unsupported("context parallelism, experts, or tensor parallelism over hosts")
        if facts["layers"] % (one["pp"] * one["model_chunks"]):
            raise Unsupported("stages of different sizes")
        app = self.llm.Application({
            "hidden": hidden, "feedforward": facts.get("ffn_size", 4 * hidden) * (3 if facts.get("family") == "llama" else 2) // 2,
            "seq_size": facts["sequence_length"], "attn_heads": heads, "attn_size": hidden // heads,
            "num_blocks": facts["layers"]})
        settings = self.settings(facts)
        settings["mem1"]["GiB"] = 1 << 20  # the caller compares
        system = self.system(settings)
        model = self.llm(app, logging.getLogger("calculon"))
        model.compile(system, self.execution(facts, one, one["grad_checkpoint"] or flash))
        model.run(system)
        return model.get_total_time(), model.get_mem_tier1_cap_req()


class SimuMax:
    NAME = "SimuMax"
    REPOSITORY, COMMIT = "MooreThreads/SimuMax", "4dcaae513ba7679d56c116a17cd4a691ec41e252"
    MODELS = {"llama-3-8b": "llama3-8b", "llama-3-70b": "llama3-70b", "deepseek-v2": "deepseekv2"}
    RECOMPUTATION = {NO_RECOMPUTATION: None, FULL: "full_block"}
    CHUNKS = (1, 2, 4)
    CHUNKED_FROM = 3
    HAS_CP = True
    CHOOSES_SHARDING = False
    MEMORY = {"b200": 192e9, "a100": 80 * GIB}  # its files have 80 for both
    SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    # Its efficiencies of causal attention are of all operations, those of shapes that it has not measured a guess. Its
    # file of the A100 has the links of PCIe cards.
    READINGS = {"its defaults, data-sheet links": {"sparse": 0.0}, "half of attention, data-sheet links": {},
                "half of attention, links of oppa": {"links": "cluster"}}

    def __init__(self, checkout):
        self.checkout = checkout
        from simumax.core import config
        from simumax.core.perf_llm import PerfLLM
        self.config, self.perf = config, PerfLLM

    def model(self, facts):
        gated = facts.get("family") == "llama"
        if "config" in facts or facts.get("experts"):
            path = self.checkout / f"configs/models/{self.MODELS[facts['config']] if 'config' in facts else 'mixtral-8x7b'}.json"
            model = self.config.ModelConfig.init_from_config_file(str(path))
            model.layer_num = facts.get("layers", model.layer_num)
            return model
        hidden, heads = facts["hidden_size"], facts["attention_heads"]
        return self.config.ModelConfig(
            hidden_size=hidden, head_num=heads, kv_head_num=facts.get("kv_heads", heads), head_size=hidden // heads,
            intermediate_size=facts.get("ffn_size", 4 * hidden), layer_num=facts["layers"],
            vocab_size=facts["vocab_size"], use_swiglu=gated)

    def sizes(self, facts):
        model = self.model(facts)
        return model.layer_num, model.kv_head_num, model.expert_num or 1

    def capacity(self, facts):
        return self.MEMORY[gpu_of(facts)]

    def system(self, facts, links):
        """The system of a GPU; that of the A100 gets NVLink with the efficiencies of the B200's."""
        def read(name):
            return json.loads((self.checkout / f"configs/system/{name}.json").read_text())

        system = read("b200_bf16_ceperm")
        if facts["cluster"] == "b200-infiniband":
            system["networks"]["inter_node"]["bandwidth"]["gbps"] = 400
        if gpu_of(facts) == "b200":
            return system
        if gpu_of(facts) != "a100":
            raise Unsupported(f"no system of {facts['cluster']}")
        networks, a100 = system["networks"], read("a100_pcie")
        a100["networks"] = networks | {"inter_node": a100["networks"]["inter_node"]}
        for name, gbps in (("high_intra_node", facts["intra_gbps"][links]), ("low_intra_node", facts["intra_gbps"][links]),
                           ("inter_node", facts["inter_gbps"][links])):
            network = a100["networks"][name]
            network["bandwidth"]["gbps"] = gbps
            if links == "cluster":  # what collectives reach
                network["bandwidth"]["efficient_factor"] = 1.0
                for operation in network["op"].values():
                    operation["efficient_factor"] = 1.0
        return a100

    def strategy(self, facts, one, model, sparse):
        return {
            "seq_len": facts["sequence_length"], "micro_batch_size": one["micro_batch_size"],
            "micro_batch_num": one["microbatches"], "world_size": facts["gpus"], "tp_size": one["tp"],
            "cp_size": one["cp"], "pp_size": one["pp"], "ep_size": one["ep"], "interleaving_size": one["model_chunks"],
            "enable_sequence_parallel": one["sp"] == one["tp"], "zero_state": int(one["zero_stage"] > 0 or one["dp"] == 1),
            "pp_comm_async": False, "attention_sparse_ratio": sparse, "enable_recompute": one["grad_checkpoint"] == FULL,
            "recompute_granularity": self.RECOMPUTATION[one["grad_checkpoint"]],
            "recompute_layer_num": model.layer_num if one["grad_checkpoint"] == FULL else 0,
            **facts.get("simumax", {})}

    def result(self, facts, one, links="data sheet", sparse=0.5):
        system, model = self.system(facts, links), self.model(facts)
        if model.layer_num % (one["pp"] * one["model_chunks"]):
            raise Unsupported("stages of different sizes")
        strategy = self.config.StrategyConfig.init_from_dict(self.strategy(facts, one, model, sparse))
        run = self.perf()
        with contextlib.redirect_stdout(io.StringIO()):
            run.configure(strategy_config=strategy, model_config=model,
                          system_config=self.config.SystemConfig.init_from_dict(system))
            run.run_estimate()
            value, unit = run.analysis_cost().data["duration_time_per_iter"].split()
            peaks = run.get_pp_stage_peak_mem(run.analysis_mem(), "peak_mem_with_reserved")
        return float(value) * self.SECONDS[unit], max(peaks.values())


class LlmAnalysis:
    NAME = "llm-analysis"
    REPOSITORY, COMMIT = "cli99/llm-analysis", "d841e40aec8c84b9e76ba9cfbce67418adb172bd"
    GPUS = {"a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb"}
    # "up to 0.5 for large-scale training" of its README; what products reach, as SimuMax's file of the A100 has it.
    READINGS = {"half of the peak": {"efficiency": 0.5}, "rate of products": {"efficiency": 0.75}}

    def __init__(self, checkout):
        from llm_analysis import analysis, config
        from llm_analysis.logger import logger
        logger.setLevel(logging.ERROR)
        self.analysis, self.config = analysis, config

    def gpu(self, facts):
        try:
            return self.config.gpu_configs[self.GPUS[gpu_of(facts)]]
        except KeyError as error:
            raise Unsupported(f"no GPU {error}") from None

    def capacity(self, facts):
        return self.gpu(facts).mem_per_GPU_in_GB * GIB

    def result(self, facts, one, efficiency=0.5):
        if one["cp"] > 1 or facts.get("experts") or one["model_chunks"] > 1:
            raise Unsupported("context parallelism, experts or chunks")
        gated = facts.get("family") == "llama"
        model = self.config.ModelConfig(
            name="job", num_layers=facts["layers"], n_head=facts["attention_heads"], hidden_dim=facts["hidden_size"],
            vocab_size=facts["vocab_size"], max_seq_len=facts["sequence_length"],
            num_key_value_heads=facts.get("kv_heads"), ffn_embed_dim=facts.get("ffn_size"), mlp_gated_linear_units=gated)
        parallelism = self.config.ParallelismConfig(tp_size=one["tp"], pp_size=one["pp"], dp_size=one["dp"], sp_size=one["sp"])
        job = self.analysis.LLMAnalysis(model, self.gpu(facts), self.config.DtypeConfig(), parallelism,
                                        flops_efficiency=efficiency)
        recomputation = self.analysis.ActivationRecomputation
        summary = job.training(
            batch_size_per_gpu=one["micro_batch_size"], gradient_accumulation_steps=one["microbatches"],
            global_batch_size=facts["global_batch_size"], seq_len=facts["sequence_length"],
            activation_recomputation=recomputation.FULL if one["grad_checkpoint"] == FULL else recomputation.NONE,
            ds_zero=self.analysis.DSZeRO(one["zero_stage"]), flash_attn=facts.get("flash_attention", True))
        return summary["latency_per_iter"], summary["estimated_peak_memory_per_gpu"]


SIMULATORS = {"calculon": Calculon, "simumax": SimuMax, "llm_analysis": LlmAnalysis}  # by their package


def opened(checkout):
    """The simulator in a checkout, or None."""
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    for package, simulator in SIMULATORS.items():
        if (checkout / package).is_dir():
            sys.path.insert(0, str(checkout))
            return simulator(checkout)
    return None
