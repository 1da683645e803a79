// Peaks of allocated memory that others have published.

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "trials/simulator/simulator.h"

namespace trials::published_memory_test {

Cluster OneHost() {
  Cluster cluster;
  cluster.name = "one-host";
  cluster.gpu = {"GPU", "hopper", 190e9, 3.3e12, 989e12, 67e12, 132, 0.0};
  cluster.gpus_per_node = 8;
  cluster.intra = {"NVLink", 400e9, 3e-6};
  return cluster;
}

struct Row {
  int layers;
  int hidden_size;
  int attention_heads;
  int ffn_size;
  int tp;
  int pp;
  double allocated_gib;
};

// Llama 3 with fewer blocks on 8 B200 under Megatron-LM with Transformer Engine
// 2.11, distributed optimizer, fused cross-entropy, sequence parallelism with
// tp. Source: SimuMax v1.2, docs/b200/b200_release_v1.2_summary.json.
const std::vector<Row> kB200 = {
    {12, 8192, 64, 28672, 1, 2, 66.55},  {12, 8192, 64, 28672, 2, 1, 60.68},
    {12, 8192, 64, 28672, 4, 1, 39.07},  {12, 8192, 64, 28672, 8, 1, 28.29},
    {4, 16384, 128, 53248, 1, 2, 87.08}, {4, 16384, 128, 53248, 2, 1, 81.59},
    {4, 16384, 128, 53248, 4, 1, 52.89}, {4, 16384, 128, 53248, 8, 1, 38.57},
};

double AllocatedGib(const MemoryBreakdown& memory) {
  return (memory.Total() - memory.context_bytes - memory.allocator_bytes) /
         std::exp2(30.0);
}

Workload Llama3(const Row& row, int dp) {
  Workload workload;
  Model& model = workload.model;
  model.type = "llama";
  model.layers = row.layers;
  model.hidden_size = row.hidden_size;
  model.attention_heads = row.attention_heads;
  model.kv_heads = 8;
  model.head_size = 128;
  model.ffn_size = row.ffn_size;
  model.vocab_size = 128256;
  model.gated_ffn = true;
  workload.sequence_length = 4096;
  workload.batch_size = 4 * dp;
  return workload;
}

TEST(PublishedMemory, LlamaUnderMegatronIsWithinOnePercent) {
  Framework framework = FindFramework("megatron-core");
  framework.kernels.fused_cross_entropy = true;
  for (const Row& row : kB200) {
    const ParallelConfig config{.dp = 8 / row.tp / row.pp,
                                .tp = row.tp,
                                .pp = row.pp,
                                .zero_stage = 1,
                                .microbatches = 4,
                                .sp = row.tp};
    const Simulator simulator(Llama3(row, config.dp), OneHost(),
                              Simulator::Options{.framework = framework});
    EXPECT_NEAR(
        AllocatedGib(simulator.Simulate(config).memory) / row.allocated_gib,
        1.0, 0.01)
        << row.hidden_size << " tp " << row.tp << " pp " << row.pp;
  }
}

// DeepSeek V2 and V3 with one dense block and three with experts, of the same
// source. The busiest expert takes the mean: tokens are padded to a capacity
// factor of 1.
TEST(PublishedMemory, DeepSeekUnderMegatronIsWithinOnePercent) {
  struct Run {
    std::string model;
    int pp;
    double allocated_gib;
  };
  Framework framework = FindFramework("megatron-core");
  framework.kernels.fused_cross_entropy = true;
  framework.experts.expert_imbalance = 1.0;
  for (const auto& [name, pp, allocated_gib] :
       {Run{"deepseek-v2", 1, 45.63}, Run{"deepseek-v2", 2, 44.70},
        Run{"deepseek-v3", 1, 104.3}, Run{"deepseek-v3", 2, 114.0}}) {
    ParallelConfig config;
    config.pp = pp;
    config.dp = config.ep = 8 / pp;
    config.zero_stage = 1;
    config.microbatches = 8;
    Workload workload;
    workload.model = ReadModel(fakes::SourceFolder() / "experiments/workloads" /
                               (name + ".json"));
    workload.model.layers = 4;
    workload.model.dense_layers = 1;
    workload.sequence_length = 4096;
    workload.batch_size = 8 * config.dp;
    const Simulator simulator(workload, OneHost(),
                              Simulator::Options{.framework = framework});
    EXPECT_NEAR(AllocatedGib(simulator.Simulate(config).memory) / allocated_gib,
                1.0, 0.01)
        << name << " pp " << pp;
  }
}

}  // namespace trials::published_memory_test
