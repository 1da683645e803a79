# torchtitan 0.3.0, --module titan_model --config sizes: its Qwen3 decoder with the
# sizes in TITAN_MODEL.
import dataclasses
import os
import types

from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.models import qwen3
from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear
from torchtitan.models.common.config_utils import (
    get_attention_config, make_ffn_config, make_gqa_config, make_moe_config, make_routed_experts_config, make_router_config)
from torchtitan.models.common.nn_modules import RMSNorm
from torchtitan.models.common.param_init import skip_param_init
from torchtitan.models.qwen3 import config_registry
from torchtitan.models.qwen3.model import Qwen3TransformerBlock
from torch import nn


def normal(parameter):
    nn.init.normal_(parameter, std=0.02)


LINEAR = {"weight": normal, "bias": nn.init.zeros_}
EXPERTS = {"w1_EFD": normal, "w2_EDF": normal, "w3_EFD": normal}


def read():
    numbers = {name: float(value) for name, value in (each.split("=") for each in os.environ["TITAN_MODEL"].split())}
    return types.SimpleNamespace(**{
        name: value if name in ("theta", "eps", "route_scale", "scaling_factor") else int(value) for name, value in numbers.items()})


def norm(m, size):
    return RMSNorm.Config(normalized_shape=size, eps=m.eps, param_init={"weight": nn.init.ones_})


def feed_forward(m, size):
    return make_ffn_config(dim=m.dim, hidden_dim=size, w1_param_init=LINEAR, w2w3_param_init=LINEAR)


def attention(m):
    config = make_gqa_config(
        dim=m.dim, n_heads=m.heads, n_kv_heads=m.kv_heads, head_dim=m.head_dim, fuse_qkv=True,
        wqkv_param_init=LINEAR, wo_param_init=LINEAR, inner_attention=get_attention_config("flex"),
        qk_norm=norm(m, m.head_dim) if m.qk_norm else None,
        rope=(ComplexRoPE.Config(dim=m.head_dim, max_seq_len=m.length, theta=m.theta, scaling="llama",
                                 scaling_factor=m.scaling_factor) if m.llama3_scaling else
              CosSinRoPE.Config(dim=m.head_dim, max_seq_len=m.length, theta=m.theta)))
    config.qkv_linear.wqkv.bias = bool(m.qkv_bias)
    return config


def experts(m):
    return make_moe_config(
        num_experts=m.experts, load_balance_coeff=1e-3 if m.sigmoid else None,
        router=make_router_config(
            dim=m.dim, num_experts=m.experts, gate_param_init=LINEAR, top_k=m.top_k,
            score_func="sigmoid" if m.sigmoid else "softmax", route_norm=not m.unnormalized, route_scale=m.route_scale,
            num_expert_groups=m.groups if m.groups > 1 else None,
            num_limited_groups=m.limited_groups if m.groups > 1 else None),
        routed_experts=make_routed_experts_config(
            dim=m.dim, hidden_dim=m.ffn, num_experts=m.experts, top_k=m.top_k, param_init=EXPERTS, comm_backend="standard"),
        shared_experts=feed_forward(m, m.shared_ffn) if m.shared_ffn else None)


def block(m, layer):
    has_experts = m.experts > 0 and layer >= m.dense_layers
    return Qwen3TransformerBlock.Config(
        attention_norm=norm(m, m.dim), ffn_norm=norm(m, m.dim), attention=attention(m),
        moe=experts(m) if has_experts else None,
        feed_forward=None if has_experts else feed_forward(m, m.dense_ffn if m.dense_layers else m.ffn))


def sizes():
    m = read()
    model = qwen3.Qwen3Model.Config(
        dim=m.dim, vocab_size=m.vocab, enable_weight_tying=bool(m.tied), norm=norm(m, m.dim),
        tok_embeddings=Embedding.Config(num_embeddings=m.vocab, embedding_dim=m.dim,
                                        param_init={"weight": skip_param_init if m.tied else normal}),
        lm_head=Linear.Config(in_features=m.dim, out_features=m.vocab, param_init=LINEAR),
        layers=[block(m, layer) for layer in range(m.layers)])
    config = config_registry.qwen3_32b()
    config.model_spec = dataclasses.replace(qwen3.model_registry("debugmodel"), flavor="sizes", model=model,
                                            state_dict_adapter=None)
    config.loss = ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=m.vocab))
    config.hf_assets_path = "./assets/hf"
    return config
