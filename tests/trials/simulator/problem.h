// Small problems for the tests of the simulator.

#pragma once

#include "trials/cluster.h"
#include "trials/workload.h"

namespace trials {

// A Llama-like model with round sizes.
inline Model SmallLlama() {
  Model model;
  model.name = "small-llama";
  model.type = "llama";
  model.layers = 8;
  model.hidden_size = 1024;
  model.attention_heads = 16;
  model.kv_heads = 8;
  model.head_size = 64;
  model.ffn_size = 2816;
  model.vocab_size = 32000;
  model.gated_ffn = true;
  model.tied_embeddings = true;
  return model;
}

// GPT as in Korthikanti et al.: every linear layer has a bias, learned
// positions, dropout, four hidden sizes in the feed-forward layer.
inline Model Gpt() {
  Model model;
  model.name = "gpt";
  model.type = "gpt";
  model.layers = 8;
  model.hidden_size = 2048;
  model.attention_heads = model.kv_heads = 16;
  model.head_size = 128;
  model.ffn_size = 8192;
  model.vocab_size = 51200;
  model.max_positions = 1024;
  model.attention_bias = model.output_bias = model.ffn_bias = true;
  model.norm_bias = true;
  model.tied_embeddings = true;
  return model;
}

inline Workload SmallWorkload() {
  return {"small", SmallLlama(), 64, 512, Precision::kBf16};
}

// Two PCIe hosts with four GPUs each, two behind a switch.
inline Cluster SmallCluster() {
  Cluster cluster;
  cluster.name = "2x4";
  cluster.gpu = {"GPU", "ampere_ga102", 24e9, 768e9, 111e12, 28e12, 64, 0.0};
  cluster.gpus_per_node = 4;
  cluster.nodes = 2;
  cluster.intra = {"PCIe", 20e9, 5e-6};
  cluster.gpus_per_switch = 2;
  cluster.uplink = {"uplink", 20e9, 5e-6};
  cluster.inter = {"Ethernet", 3e9, 30e-6};
  return cluster;
}

}  // namespace trials
