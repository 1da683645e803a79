// What fine-tuning, frozen weights and optimizers cost.

#include "trials/training.h"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/trials/simulator/problem.h"
#include "trials/simulator/simulator.h"

namespace trials::training_test {

using testing::HasSubstr;

Training Read(const std::vector<std::string>& settings) {
  Training training;
  ReadTraining(TrainingTable(settings), training);
  return training;
}

// Step reports of the same configuration under different training.
struct Reports {
  Workload workload = SmallWorkload();

  [[nodiscard]] StepReport Of(const std::vector<std::string>& settings,
                              const std::string& config = "dp=8") const {
    Workload other = workload;
    other.training = Read(settings);
    return Simulator(other, SmallCluster())
        .Simulate(ParseParallelConfig(config));
  }
};

TEST(Training, EverythingIsTrainedUnlessSomethingIsSet) {
  EXPECT_TRUE(Read({}).IsUsual());
  EXPECT_TRUE(Read({"loss_chunks=8", "packed_tokens=512"}).IsUsual());
  for (const char* setting : {"lora_rank=8", "freeze=embeddings",
                              "optimizer=adam-8bit", "reference_model=true"}) {
    EXPECT_FALSE(Read({setting}).IsUsual()) << setting;
  }
}

TEST(Training, AnUnknownKeyOrValueIsRefusedWithItsName) {
  const auto error = [](const std::vector<std::string>& settings) {
    return fakes::ErrorOf([&] { return Read(settings); });
  };
  EXPECT_THAT(error({"lora_rnak=8"}), HasSubstr("lora_rnak"));
  EXPECT_THAT(error({"optimizer=adamm"}), HasSubstr("did you mean"));
  EXPECT_THAT(error({"lora_rank=8", "lora_targets=norms"}),
              HasSubstr("lora_targets"));
  EXPECT_THAT(error({"freeze=attention+ffn+norms+embeddings"}),
              HasSubstr("nothing is left to train"));
  EXPECT_THAT(error({"frozen_bits=4"}), HasSubstr("needs adapters"));
  EXPECT_THAT(error({"lora_rank"}), HasSubstr("must be KEY=VALUE"));
  EXPECT_THAT(error({"method=lora"}), HasSubstr("unknown key 'method'"));
}

// Hu et al. (2021), Sec. 4.2: no gradients and no optimizer states of frozen
// weights, gradients pass through them.
TEST(Training, AdaptersOmitStatesAndWeightGradientsButNotTheBackwardPass) {
  const Reports reports;
  const StepReport full = reports.Of({}, "dp=8,microbatches=2");
  const StepReport lora = reports.Of({"lora_rank=4"}, "dp=8,microbatches=2");
  EXPECT_LT(lora.memory.optimizer_bytes, 0.2 * full.memory.optimizer_bytes);
  EXPECT_LT(lora.memory.gradients_bytes, 0.2 * full.memory.gradients_bytes);
  EXPECT_GT(lora.memory.parameters_bytes, full.memory.parameters_bytes);
  EXPECT_GT(lora.time.backward_s, 0.4 * full.time.backward_s);
  EXPECT_LT(lora.time.optimizer_s, full.time.optimizer_s);
}

// rank (in + out) of every target of a block; the sizes are those of the model.
TEST(Training, TheTrainedParametersAreThoseOfTheAdapters) {
  const Reports reports;
  const Model& m = reports.workload.model;
  constexpr int kRank = 4;
  const double query = m.attention_heads * m.head_size;
  const double key = m.kv_heads * m.head_size;
  const Framework framework;  // eager: each product has a weight of its own
  const GpuModel gpu(SmallCluster().gpu, Precision::kBf16, 5e-6);
  Workload workload = reports.workload;
  workload.training = Read({"lora_rank=4", "lora_targets=attention"});
  const LayerCosts costs = ComputeLayerCosts(workload, framework, gpu, {});
  double trained = 0.0;
  for (const double elements : costs.block.parameters) {
    trained += elements;
  }
  const bool fused = framework.kernels.fused_operators;
  const double attention =
      fused ? (m.hidden_size + query + 2 * key) + (query + m.hidden_size)
            : (m.hidden_size + query) + 2 * (m.hidden_size + key) +
                  (query + m.hidden_size);
  EXPECT_DOUBLE_EQ(trained, kRank * attention);
  EXPECT_DOUBLE_EQ(costs.block.frozen, static_cast<double>(BlockParameters(m)));
}

// Mixtral in PEFT, linear_fc1 and linear_fc2 in Megatron-Bridge: no router.
TEST(Training, ARouterHasNoAdapter) {
  constexpr int kRank = 4;
  const GpuModel gpu(SmallCluster().gpu, Precision::kBf16, 5e-6);
  Workload workload = SmallWorkload();
  workload.model.experts = 8;
  workload.model.experts_per_token = 2;
  workload.training = Read({"lora_rank=4", "lora_targets=ffn"});
  const LayerCost block =
      ComputeLayerCosts(workload, Framework{}, gpu, {}).block;
  double trained = 0.0;
  for (const auto* elements : {&block.parameters, &block.expert_parameters}) {
    trained += std::accumulate(elements->begin(), elements->end(), 0.0);
  }
  const Model& m = workload.model;
  EXPECT_DOUBLE_EQ(trained, (m.gated_ffn ? 3 : 2) * m.experts * kRank *
                                (m.hidden_size + m.ffn_size));
}

// The result of a norm is the input of the weights after it: an adapter needs
// it for its gradient, frozen weights do not keep it.
TEST(Training, ARecomputedNormSavesTheInputOfTheWeightsAfterIt) {
  const GpuModel gpu(SmallCluster().gpu, Precision::kBf16, 5e-6);
  const auto saved = [&](const std::vector<std::string>& settings) {
    Workload workload = SmallWorkload();
    workload.training = Read(settings);
    const auto selective_bytes = [&](bool recompute_norms) {
      Framework framework;
      framework.recomputation.recompute_norms = recompute_norms;
      return ComputeLayerCosts(workload, framework, gpu, {})
          .block.selective_bytes;
    };
    return selective_bytes(true) - selective_bytes(false);
  };
  EXPECT_GT(saved({}), 0.0);
  EXPECT_DOUBLE_EQ(saved({"lora_rank=4"}), saved({}));
  EXPECT_DOUBLE_EQ(saved({"freeze=attention"}), 0.5 * saved({}));
  EXPECT_DOUBLE_EQ(saved({"freeze=norms"}), saved({}));
}

TEST(Training, FourBitsHoldFrozenWeightsInAQuarter) {
  const Reports reports;
  const double half = reports.Of({"lora_rank=4"}).memory.parameters_bytes;
  const double quarter =
      reports.Of({"lora_rank=4", "frozen_bits=4"}).memory.parameters_bytes;
  EXPECT_LT(quarter, 0.5 * half);  // embeddings stay in 16 bits
  EXPECT_GT(reports.Of({"lora_rank=4", "frozen_bits=4"}).step_time_s,
            reports.Of({"lora_rank=4"}).step_time_s);
}

TEST(Training, FullyShardedFrozenWeightsAreShared) {
  const Reports reports;
  const auto parameters = [&](const char* config) {
    return reports.Of({"lora_rank=4"}, config).memory.parameters_bytes;
  };
  EXPECT_NEAR(parameters("dp=8,zero_stage=3"), parameters("dp=8") / 8.0,
              0.05 * parameters("dp=8"));
}

TEST(Training, OptimizersDifferByTheirMoments) {
  const Reports reports;
  const double adamw = reports.Of({}).memory.optimizer_bytes;
  const double sgd = reports.Of({"optimizer=sgd"}).memory.optimizer_bytes;
  const double muon = reports.Of({"optimizer=muon"}).memory.optimizer_bytes;
  EXPECT_NEAR(adamw / sgd, 12.0 / 4.0, 1e-9);
  EXPECT_NEAR(adamw / muon, 12.0 / 8.0, 1e-9);
}

TEST(Training, ALossInChunksHoldsFewerLogits) {
  const Reports reports;
  EXPECT_LT(reports.Of({"loss_chunks=8"}).memory.logits_bytes,
            0.5 * reports.Of({}).memory.logits_bytes);
}

TEST(Training, AReferenceModelNeedsItsWeightsAndLoraHasThem) {
  const Reports reports;
  const auto parameters = [&](const std::vector<std::string>& settings) {
    return reports.Of(settings).memory.parameters_bytes;
  };
  EXPECT_DOUBLE_EQ(parameters({"reference_model=true"}), 2 * parameters({}));
  EXPECT_DOUBLE_EQ(parameters({"lora_rank=4", "reference_model=true"}),
                   parameters({"lora_rank=4"}));
}

TEST(Training, PackedDocumentsNeedLessAttention) {
  Reports reports;
  reports.workload.sequence_length = 4096;
  const double whole = reports.Of({}).step_time_s;
  const double packed = reports.Of({"packed_tokens=256"}).step_time_s;
  EXPECT_LE(packed, whole);
  EXPECT_DOUBLE_EQ(reports.Of({"packed_tokens=4096"}).step_time_s, whole);
}

}  // namespace trials::training_test
