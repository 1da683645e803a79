// Every configuration trains the same model: its losses are those of one rank.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "trainer/tests/tiny.h"

namespace trainer::testing::loss_equality_test {

constexpr int kSteps = 10;

// The largest relative difference of the losses of two trials.
double Difference(const TrialResult& a, const TrialResult& b) {
  if (a.losses.size() != b.losses.size()) {
    return INFINITY;
  }
  double largest = 0.0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(
        largest, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
  }
  return largest;
}

// OPPA_TRAINER_SWEEP configurations in total (`make test-trainer`), or a sample
// that a test run has time for.
int Configurations(int sample) {
  const char* sweep = std::getenv("OPPA_TRAINER_SWEEP");
  return sweep == nullptr ? sample : std::atoi(sweep);
}

void ExpectEqualLosses(CpuPrecision precision, int count, double tolerance) {
  std::mt19937_64 engine(17);
  std::map<std::string, TrialResult> one_rank;
  for (int i = 0; i < count; ++i) {
    const std::string type(kModels[i % std::size(kModels)]);
    Job job = TinyJob(type, kSteps);
    const auto [reference, is_new] = one_rank.try_emplace(type);
    if (is_new) {
      reference->second = Train(job, precision);
      ASSERT_EQ(reference->second.losses.size(), kSteps) << type;
    }
    job.config = DrawConfig(job, engine);
    const TrialResult result = Train(job, precision);
    EXPECT_EQ(result.reason, EndReason::kNone)
        << type << " " << trials::ToString(job.config) << ": "
        << result.message;
    EXPECT_LE(Difference(result, reference->second), tolerance)
        << type << " " << trials::ToString(job.config);
  }
}

TEST(LossEquality, HoldsInDoubleOverTheWholeSpace) {
  ExpectEqualLosses(CpuPrecision::kDouble, Configurations(60), 1e-10);
}

TEST(LossEquality, HoldsInFloatOverTheWholeSpace) {
  ExpectEqualLosses(CpuPrecision::kFloat, Configurations(18), 1e-5);
}

// One kind of parallelism at a time, and those that meet in one place.
struct Kind {
  std::string_view type;
  const char* config;

  friend void PrintTo(const Kind& kind, std::ostream* out) {
    *out << kind.type << " " << kind.config;
  }
};

class KindOfParallelism : public ::testing::TestWithParam<Kind> {};

TEST_P(KindOfParallelism, HasTheLossesOfOneRank) {
  Job job = TinyJob(GetParam().type, 3);
  job.batch_size = 4;
  const TrialResult one = Train(job);
  ASSERT_EQ(one.losses.size(), 3U) << one.message;
  job.config = trials::ParseParallelConfig(GetParam().config);
  const TrialResult result = Train(job);
  EXPECT_EQ(result.reason, EndReason::kNone) << result.message;
  EXPECT_LE(Difference(result, one), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(
    LossEquality, KindOfParallelism,
    ::testing::Values(
        Kind{"gpt2", "dp=4"}, Kind{"gpt2", "tp=2"}, Kind{"gpt2", "tp=2,sp=2"},
        Kind{"gpt2", "cp=2"}, Kind{"gpt2", "pp=2,microbatches=2"},
        Kind{"gpt2", "dp=2,microbatches=2,zero_stage=1,overlap_zero_comm=0"},
        Kind{"gpt2", "dp=2,tp=2,pp=2,zero_stage=2"},
        Kind{"gpt2", "dp=2,pp=2,microbatches=2,zero_stage=2"},
        Kind{"gpt2", "pp=2,microbatches=2,zero_stage=3"},
        Kind{"gpt2", "dp=2,pp=2,zero_stage=1,overlap_zero_comm=0"},
        Kind{"llama", "tp=4"}, Kind{"llama", "tp=2,cp=2,sp=2"},
        Kind{"llama", "cp=4,grad_checkpoint=2"},
        Kind{"llama", "cp=2,grad_checkpoint=1"},
        Kind{"llama", "dp=2,cp=2,zero_stage=1,zero_bucket_mb=1"},
        Kind{"llama", "pp=2,microbatches=4,model_chunks=2,overlap_p2p=1"},
        Kind{"llama", "pp=2,microbatches=2,model_chunks=2,overlap_p2p=0"},
        Kind{"llama", "dp=2,microbatches=2,zero_stage=3,zero_bucket_mb=1"},
        Kind{"qwen2", "tp=2,cp=2"},
        Kind{"qwen2", "dp=2,pp=2,zero_stage=3,overlap_zero_allgather=1"},
        Kind{"qwen2", "tp=4,sp=4,microbatches=2"}, Kind{"bert", "tp=2,sp=2"},
        Kind{"bert", "cp=2,pp=2,microbatches=2"},
        Kind{"bert", "dp=2,tp=2,zero_stage=2,microbatches=2"},
        Kind{"vit", "tp=2,sp=2"}, Kind{"vit", "cp=2"},
        Kind{"vit", "tp=2,microbatches=4"},
        Kind{"vit", "tp=2,sp=2,microbatches=4"},
        Kind{"vit", "dp=2,pp=2,microbatches=2"}, Kind{"mixtral", "dp=2,ep=2"},
        Kind{"mixtral", "tp=2,sp=2"}, Kind{"mixtral", "dp=4,ep=2,zero_stage=2"},
        Kind{"mixtral", "dp=2,tp=2,ep=2,grad_checkpoint=1"},
        Kind{"mixtral", "dp=4,cp=2,ep=2,zero_stage=3"}));

TEST(LossEquality, TrainingReducesTheLoss) {
  for (const std::string_view type : kModels) {
    const TrialResult result = Train(TinyJob(type, 30));
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.02) << type;
  }
}

TEST(LossEquality, RepeatedTrialsHaveEqualLossesAndPeaksToTheLastBit) {
  for (const char* config :
       {"dp=2,tp=2,pp=2,microbatches=4,zero_stage=2,sp=2,ep=2",
        "dp=2,tp=1,pp=4,microbatches=8,zero_stage=3,overlap_zero_allgather=1,"
        "overlap_p2p=0,model_chunks=1"}) {
    const Job job = TinyJob("mixtral", config);
    const TrialResult first = Train(job, CpuPrecision::kFloat);
    const TrialResult second = Train(job, CpuPrecision::kFloat);
    ASSERT_EQ(first.losses.size(), 3U) << first.message;
    EXPECT_EQ(first.losses, second.losses);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_EQ(first.ranks[rank].peak_bytes, second.ranks[rank].peak_bytes);
      EXPECT_EQ(first.ranks[rank].region_peak_bytes,
                second.ranks[rank].region_peak_bytes);
    }
  }
}

}  // namespace trainer::testing::loss_equality_test
