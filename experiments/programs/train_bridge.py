# Trains a new model of a config.json of Hugging Face with Megatron Bridge: the
# keys of a ConfigContainer are those of a YAML file.
import argparse

from megatron.bridge import AutoBridge
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
from transformers import AutoConfig


def container():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-json", required=True)
    parser.add_argument("--config-file", required=True)
    arguments = parser.parse_args()
    config = _pretrain_common()
    bridge = AutoBridge.from_hf_config(AutoConfig.from_pretrained(arguments.config_json))
    config.model = bridge.to_megatron_provider(load_weights=False)
    config.model.cross_entropy_loss_fusion = True
    config.model.cross_entropy_fusion_impl = "te"
    if config.model.num_moe_experts:
        config.model.moe_token_dispatcher_type = "alltoall"
        config.model.moe_grouped_gemm = True
    config.tokenizer.tokenizer_type = "NullTokenizer"
    config.ddp.data_parallel_sharding_strategy = "no_shard"
    config = process_config_with_overrides(config, config_filepath=arguments.config_file)
    config.mixed_precision = get_mixed_precision_config(config.mixed_precision)
    config.mixed_precision.grad_reduce_in_fp32 = False
    config.model.pipeline_dtype = config.mixed_precision.pipeline_dtype
    config.comm_overlap = CommOverlapConfig(
        tp_comm_overlap=config.model.sequence_parallel, bucket_size=config.ddp.bucket_size,
        overlap_grad_reduce=config.ddp.overlap_grad_reduce, overlap_param_gather=config.ddp.overlap_param_gather)
    return config


if __name__ == "__main__":
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(config=container(), forward_step_func=forward_step)
