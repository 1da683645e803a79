#include "trials/simulator/layer_cost.h"

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "tests/trials/simulator/operator_bytes.h"
#include "tests/trials/simulator/paper_problem.h"
#include "tests/trials/simulator/problem.h"
#include "trials/gpu_architecture.h"

namespace trials::layer_cost_test {

LayerCosts Costs(const Workload& workload, const Framework& framework,
                 const Shard& shard) {
  const GpuModel gpu(SmallCluster().gpu, workload.precision,
                     framework.kernels.launch_s);
  return ComputeLayerCosts(workload, framework, gpu, shard);
}

Framework Megatron() {
  Framework framework;
  framework.kernels.fused_operators = true;
  framework.kernels.flash_attention = false;
  return framework;
}

TEST(LayerCost, ParameterTensorsSumToTheModelsParameters) {
  const std::filesystem::path folder =
      fakes::SourceFolder() / "experiments" / "workloads";
  for (const std::string name :
       {"bert-base-uncased", "qwen2-1.5b", "llama-3.2-1b", "llama-2-7b",
        "moe-32-experts", "gpt2", "qwen3-8b", "qwen3-30b-a3b", "gemma-2-9b",
        "deepseek-v2", "deepseek-v3", "vit-base-patch16-224"}) {
    const Workload workload{name, ReadModel(folder / (name + ".json")), 8, 256,
                            Precision::kBf16};
    const LayerCosts costs = Costs(workload, {}, {1.0, 1, false});
    const int dense = workload.model.dense_layers;
    EXPECT_DOUBLE_EQ(
        costs.block.ParameterCount() * (workload.model.layers - dense) +
            costs.dense_block.ParameterCount() * dense +
            costs.embedding.ParameterCount() + costs.head.ParameterCount(),
        static_cast<double>(ParameterCount(workload.model)))
        << name;
  }
}

TEST(LayerCost, LocalAttentionComputesTheScoresOfItsWindow) {
  Workload workload = SmallWorkload();
  workload.sequence_length = 8192;
  workload.model.windowed_share = 1.0;
  const auto core_s = [&](int window) {
    workload.model.window = window;
    return Costs(workload, {}, {1.0}).block.core_forward_s;
  };
  const double all_s = core_s(8192);
  EXPECT_DOUBLE_EQ(core_s(16384), all_s);
  // 2 r - r^2 of the scores under the mask; the launch gap and the start of
  // each block of queries remain.
  EXPECT_NEAR(core_s(4096) / all_s, 0.75, 0.01);
  EXPECT_NEAR(core_s(819) / all_s, 0.19, 0.04);
}

TEST(LayerCost, ParallelLayersShareTheirCollectives) {
  Workload workload = SmallWorkload();
  const Shard shard{2.0, 2, false};
  const double one_by_one =
      Costs(workload, {}, shard).block.forward_collectives.Count();
  workload.model.parallel_layers = true;
  EXPECT_DOUBLE_EQ(Costs(workload, {}, shard).block.forward_collectives.Count(),
                   one_by_one / 2);
}

TEST(LayerCost, GateAndUpApartReduceTheGradientOfTheirInputEach) {
  Workload workload = SmallWorkload();
  const auto reductions = [&](double gate, bool sp) {
    Framework framework;
    framework.collectives.gate_reductions = gate;
    const LayerCost block = Costs(workload, framework, {2.0, 2, sp}).block;
    EXPECT_EQ(block.forward_collectives.all_reduces, sp ? 0 : 2);
    return block.backward_collectives.all_reduces;
  };
  workload.model.gated_ffn = true;
  EXPECT_EQ(reductions(1, false), 2);
  EXPECT_EQ(reductions(2, false), 3);
  EXPECT_EQ(reductions(2, true), 0);
  workload.model.gated_ffn = false;
  EXPECT_EQ(reductions(2, false), 2);
}

TEST(LayerCost, OperatorsAddUpToBlockEmbeddingAndHead) {
  const Workload gpt{"gpt", Gpt(), 8, 1024, Precision::kFp16};
  const Framework eager;
  const GpuModel gpu(SmallCluster().gpu, Precision::kFp16,
                     eager.kernels.launch_s);
  for (const auto& [workload, framework] :
       {std::pair{gpt, Megatron()}, std::pair{SmallWorkload(), eager}}) {
    const Shard shard{4.0, 2, false};
    const LayerCosts costs = Costs(workload, framework, shard);
    OperatorCost sum;
    for (const OperatorCost& one :
         ComputeOperatorCosts(workload, framework, gpu, shard)) {
      EXPECT_GE(one.forward_s, 0.0) << one.name;
      sum.forward_s += one.forward_s;
      sum.backward_s += one.backward_s;
      sum.accumulate_s += one.accumulate_s;
      sum.forward_dispatch_s += one.forward_dispatch_s;
      sum.backward_dispatch_s += one.backward_dispatch_s;
    }
    const auto total = [&](double LayerCost::*field) {
      return costs.block.*field + costs.embedding.*field + costs.head.*field;
    };
    const auto expect = [&](double actual, double LayerCost::*field) {
      EXPECT_NEAR(actual, total(field), 1e-9 * total(field));
    };
    expect(sum.forward_s, &LayerCost::forward_s);
    expect(sum.backward_s, &LayerCost::backward_s);
    expect(sum.accumulate_s, &LayerCost::accumulate_s);
    expect(sum.forward_dispatch_s, &LayerCost::forward_dispatch_s);
    expect(sum.backward_dispatch_s, &LayerCost::backward_dispatch_s);
  }
}

// Korthikanti et al. (2022), Eq. 1: s b h (34 + 5 a s / h) bytes. Eq. 2 and 4:
// tensor parallelism leaves 10 s b h whole, which sequence parallelism splits.
// Eq. 6: without the core of attention, 34 s b h / t remain.
TEST(LayerCost, SavedActivationsAreKorthikantis) {
  const Workload workload{"gpt", Gpt(), 8, 1024, Precision::kFp16};
  const double sbh = 1024.0 * 4 * 2048;
  const double scores = 5.0 * 16 * 1024 / 2048;
  const auto block = [&](int tp, bool sp) {
    return Costs(workload, Megatron(), {4, tp, sp}).block;
  };
  EXPECT_DOUBLE_EQ(block(1, false).saved_bytes, sbh * (34 + scores));
  EXPECT_DOUBLE_EQ(block(4, false).saved_bytes,
                   sbh * (10 + 24 / 4.0 + scores / 4));
  const LayerCost split = block(4, true);
  EXPECT_DOUBLE_EQ(split.saved_bytes, sbh * (34 / 4.0 + scores / 4));
  EXPECT_DOUBLE_EQ(split.saved_bytes - split.selective_bytes, sbh * 34 / 4);
  EXPECT_GT(split.core_forward_s, 0.0);
  EXPECT_LT(split.core_forward_s, split.forward_s);
}

TEST(LayerCost, ContextsShareTokensButSeeAllKeys) {
  const Framework framework;
  const LayerCosts whole = Costs(SmallWorkload(), framework, {8.0, 1, false});
  const LayerCosts half =
      Costs(SmallWorkload(), framework, {.sequences = 8.0, .cp = 2});
  EXPECT_DOUBLE_EQ(half.boundary_bytes, whole.boundary_bytes / 2);
  EXPECT_DOUBLE_EQ(half.block.saved_bytes, whole.block.saved_bytes / 2);
  EXPECT_DOUBLE_EQ(half.block.ring_bytes, whole.block.ring_bytes / 2);
  // Attention is half the work, not a quarter of it.
  EXPECT_GT(half.block.core_forward_s, 0.45 * whole.block.core_forward_s);
}

TEST(LayerCost, CopiedHeadsTravelAroundTheRingAsQueriesDo) {
  Framework framework;
  const Shard shard{.sequences = 8.0, .cp = 2};
  const double bytes =
      Costs(SmallWorkload(), framework, shard).block.ring_bytes;
  framework.kernels.repeat_kv = true;  // 8 heads for 16
  EXPECT_DOUBLE_EQ(Costs(SmallWorkload(), framework, shard).block.ring_bytes,
                   2 * bytes);
}

TEST(LayerCost, RecomputationThatStopsEarlyOmitsTheLastProduct) {
  Framework framework;
  const Shard shard{4.0, 2, true};
  const LayerCost whole = Costs(SmallWorkload(), framework, shard).block;
  EXPECT_EQ(whole.last_forward_s, 0.0);
  EXPECT_EQ(whole.last_collectives.Count(), 0.0);
  framework.recomputation.recompute_stops_early = true;
  const LayerCost block = Costs(SmallWorkload(), framework, shard).block;
  EXPECT_EQ(block.last_collectives.gathers_and_scatters, 1);
  const GpuModel gpu(SmallCluster().gpu, Precision::kBf16,
                     framework.kernels.launch_s);
  for (const OperatorCost& one :
       ComputeOperatorCosts(SmallWorkload(), framework, gpu, shard)) {
    if (one.name == "ffn-out") {
      EXPECT_NEAR(block.last_forward_s, one.forward_s, 1e-12);
    }
  }
}

TEST(LayerCost, SelectionByOperatorGathersInputsAgain) {
  Framework framework;
  framework.recomputation.selective_by_operator = true;
  const auto gathers = [&] {
    return Costs(SmallWorkload(), framework, {4.0, 2, true})
        .block.selective_collectives.gathers_and_scatters;
  };
  EXPECT_EQ(gathers(), 0);  // backward repeats them in any case
  framework.collectives.gather_again = false;
  EXPECT_EQ(gathers(), 2);
}

// GPT-2's 50257 columns are odd; half of them, rounded down, are 8 * 3141.
TEST(LayerCost, AnOddVocabularyMakesTheHeadSlowUntilARanksShareIsAligned) {
  Workload odd = SmallWorkload();
  odd.model.vocab_size = 50257;
  Workload padded = odd;
  padded.model.vocab_size = 50304;
  const auto head_s = [](const Workload& workload, int tp) {
    return Costs(workload, {}, {4.0, tp, false}).head.forward_s;
  };
  EXPECT_GT(head_s(odd, 1), 1.3 * head_s(padded, 1));
  EXPECT_NEAR(head_s(odd, 2), head_s(padded, 2), 0.01 * head_s(padded, 2));
}

TEST(LayerCost, GathersIn8BitsMoveHalfTheBytesAndScattersAll) {
  Framework framework;
  framework.collectives.fp8_gathers = true;
  const auto block = [&](Precision precision) {
    const GpuModel gpu(FindGpu("h100-sxm"), precision, 2e-6);
    return ComputeLayerCosts(SmallWorkload(), framework, gpu, {4, 2, true})
        .block;
  };
  const LayerCost bf16 = block(Precision::kBf16);
  EXPECT_EQ(bf16.forward_collectives.gathers_and_scatters, 4);
  const LayerCost fp8 = block(Precision::kFp8);
  EXPECT_EQ(fp8.collective_bytes, bf16.collective_bytes);
  EXPECT_EQ(fp8.forward_collectives.gathers_and_scatters, 2 * 0.5 + 2);
  EXPECT_EQ(fp8.backward_collectives.hidden_gathers, 2 * 0.5);
}

TEST(LayerCost, LinearLayersIn8BitsAreFasterAndCast) {
  Workload workload = SmallWorkload();
  workload.model.hidden_size = 4096;
  workload.model.ffn_size = 16384;
  const auto cost = [&](Precision precision) {
    const GpuModel gpu(FindGpu("h100-sxm"), precision, 2e-6);
    return ComputeLayerCosts(workload, Framework{}, gpu, {.sequences = 8});
  };
  const LayerCosts bf16 = cost(Precision::kBf16);
  const LayerCosts fp8 = cost(Precision::kFp8);
  EXPECT_LT(fp8.block.forward_s, bf16.block.forward_s);
  EXPECT_GT(fp8.block.forward_s, 0.5 * bf16.block.forward_s);
  EXPECT_NEAR(fp8.block.core_forward_s, bf16.block.core_forward_s, 1e-12);
  EXPECT_EQ(fp8.head.forward_s, bf16.head.forward_s);
  EXPECT_EQ(fp8.block.ParameterCount(), bf16.block.ParameterCount());
}

// Their owners cast them, once in a step: 4 bytes an element and a launch.
TEST(LayerCost, WeightsGatheredIn8BitsAreNotCastForEveryProduct) {
  Workload workload = SmallWorkload();
  workload.model.ffn_size = 4096;
  Framework framework;
  const GpuModel gpu(FindGpu("h100-sxm"), Precision::kFp8, 2e-6);
  const auto block = [&] {
    return ComputeLayerCosts(workload, framework, gpu, {.sequences = 8}).block;
  };
  const double casts_s = block().forward_s;
  framework.collectives.fp8_gathers = true;
  const int products = 3 + 1 + 3;  // q, k, v; output; gate, up, down
  const double elements =
      block().ParameterCount() - 2.0 * workload.model.hidden_size;  // no norms
  EXPECT_NEAR(casts_s - block().forward_s,
              gpu.MemoryTime(4 * elements, products), 1e-9);
}

// A GPU on which only products of matrices take time: no bytes, no launches,
// one multiprocessor (no waves).
GpuModel ComputeOnly(const Gpu& gpu) {
  Gpu ideal = gpu;
  ideal.memory_bandwidth_bytes_per_s = 1e30;
  ideal.multiprocessors = 1;
  return {ideal, Precision::kBf16, 1e-30};
}

double FlopPerSecond(const Gpu& gpu) {
  return gpu.half_flop_per_s *
         FindGpuArchitecture(gpu.architecture).tensor_fraction;
}

// Kaplan et al. (2020): 2 N a token forward and 4 N backward, plus the scores:
// 4 s h forward (half of it causal) and 2.5 times that backward. The tiles'
// prologues cost a few percent.
TEST(LayerCost, FlopsOfABlockAreSixPerParameterAndAttention) {
  const PaperProblem problem("llama7b-32gpu");
  const Model& model = problem.workload.model;
  const Gpu& gpu = problem.cluster.gpu;
  const LayerCosts costs = ComputeLayerCosts(
      problem.workload, Framework{}, ComputeOnly(gpu), {.sequences = 4});
  const double tokens = 4.0 * problem.workload.sequence_length;
  const GpuArchitecture& reached = FindGpuArchitecture(gpu.architecture);
  const double scores =
      0.5 * 4.0 * problem.workload.sequence_length * model.hidden_size;
  const double parameters = static_cast<double>(BlockParameters(model));
  const double rate = FlopPerSecond(gpu);
  const double forward =
      tokens * (2 * parameters + scores / reached.flash_fraction);
  const double backward =
      tokens *
      (4 * parameters + 2.5 * scores / reached.flash_backward_fraction);
  EXPECT_GE(costs.block.forward_s * rate, forward * 0.999);
  EXPECT_NEAR(costs.block.forward_s * rate / forward, 1.0, 0.05);
  EXPECT_GE(costs.block.backward_s * rate, backward * 0.999);
  EXPECT_NEAR(costs.block.backward_s * rate / backward, 1.0, 0.05);
}

TEST(LayerCost, AFusedNormKeepsNoCopyInFp32) {
  OperatorBytes model;
  const double eager = model.Block().saved_bytes;
  model.framework.kernels.fused_norm = true;
  const Workload& workload = model.workload;
  EXPECT_DOUBLE_EQ(eager - model.Block().saved_bytes,
                   workload.model.norms * 4.0 * model.shard.sequences *
                       workload.sequence_length * workload.model.hidden_size);
}

// To fp32 (6 bytes), scale (8), mask (9), softmax (8 and 12), back (6).
TEST(LayerCost, HeadsThatTheFusedSoftmaxDoesNotTakeGoThroughFiveOperators) {
  OperatorBytes model;
  Framework::Kernels& kernels = model.framework.kernels;
  kernels.flash_attention = false;
  kernels.fused_operators = true;
  kernels.score_forward_bytes = 3.0;
  kernels.score_backward_bytes = 4.0;
  const double tokens = model.workload.sequence_length;
  const double batch =
      model.shard.sequences * model.workload.model.attention_heads;
  const double n = batch * tokens * tokens;
  kernels.fused_softmax_multiple = batch / 2.0;
  ExpectTraffic(model.Of("softmax"), {3.0 * n, 1, 4.0 * n, 1});
  const double kept = model.Block().saved_bytes;
  kernels.fused_softmax_multiple = batch * 2.0;
  ExpectTraffic(model.Of("softmax"), {37.0 * n, 5, 41.0 * n, 5});
  EXPECT_DOUBLE_EQ(model.Block().saved_bytes - kept, 4.0 * n);
}

// Before attention, before the feed-forward layer, and after each.
TEST(LayerCost, ABlockHasOneToFourNorms) {
  OperatorBytes model;
  const auto norms = [&](int count) {
    model.workload.model.norms = count;
    return model.Of("norm");
  };
  const Traffic one = norms(1);
  const double parameters = model.Block().ParameterCount();
  for (const int n : {2, 3, 4}) {
    EXPECT_DOUBLE_EQ(norms(n).forward_bytes, n * one.forward_bytes);
    EXPECT_EQ(norms(n).forward_kernels, n * one.forward_kernels);
    EXPECT_EQ(model.Block().ParameterCount(), parameters + (n - 1) * 1024);
  }
}

}  // namespace trials::layer_cost_test
