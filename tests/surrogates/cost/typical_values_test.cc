#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/shared_scale.h"
#include "surrogates/cost/term.h"

namespace surrogates::typical_values_test {

TEST(TypicalValues, CoverEveryTermOfThePhysicalModel) {
  std::vector<CostTerm> terms = PhysicalTimeTerms({16, 8});
  for (const CostTerm& term : PhysicalMemoryTerms()) {
    terms.push_back(term);
  }
  for (const CostTerm& term : terms) {
    EXPECT_NE(term.typical.kind, TypicalValue::Kind::kShare) << term.name;
    EXPECT_GT(term.typical.value, 0.0) << term.name;
    EXPECT_GT(term.typical.log_stddev, 0.0) << term.name;
  }
}

double LogCenter(const std::vector<CostTerm>& terms, const std::string& name,
                 double sequences) {
  for (const CostTerm& term : terms) {
    if (term.name == name) {
      return term.typical.LogCenter(sequences, 1.0);
    }
  }
  throw std::out_of_range(name);
}

TEST(TypicalValues, FollowTheBatch) {
  const auto reduce = [](double sequences) {
    return LogCenter(PhysicalTimeTerms({16, 8}), "DP volume, intra-node",
                     sequences);
  };
  EXPECT_NEAR(reduce(64.0) - reduce(128.0), std::log(2.0), 1e-12);
  const auto held = [](double sequences) {
    return LogCenter(PhysicalMemoryTerms(), "activations", sequences);
  };
  EXPECT_NEAR(held(128.0) - held(64.0), std::log(2.0), 1e-12);
}

// Decision 9: M is assumed to be 0.05 to 40 GPUs, and the fastest computation
// to take 1 s up to a factor of e^3.
TEST(TypicalValues, TheSizeOfTheJobIsOpenByTwoDeviations) {
  const trials::SearchSpace space({{.dp = 8}, {.dp = 2, .pp = 4}});
  const ParametricMean memory =
      MemoryPrior(space, {8, 8}, CostModelForm::kPhysical, 1.1);
  ASSERT_TRUE(memory.shared_scale);
  const auto [center, stddev] = *memory.shared_scale;
  EXPECT_NEAR(std::exp(center + 2.0 * stddev), 40.0, 1.0);
  EXPECT_NEAR(std::exp(center - 2.0 * stddev), 0.05, 0.005);
  const ParametricMean time =
      ThroughputPrior(space, {8, 8}, CostModelForm::kPhysical);
  ASSERT_TRUE(time.shared_scale);
  EXPECT_NEAR(time.shared_scale->log_center, std::log(8.0), 1e-12);
  EXPECT_EQ(time.shared_scale->log_stddev, 3.0);
}

// Throughput of `config` over that of the first, at the guesses.
double Ratio(const std::vector<trials::ParallelConfig>& configs) {
  const trials::SearchSpace space(configs);
  const ParametricMean prior =
      ThroughputPrior(space, {64, 8}, CostModelForm::kPhysical);
  const Eigen::VectorXd mean =
      prior.EvaluateAll(CentersAtScale(prior, prior.shared_scale->log_center));
  return mean[1] / mean[0];
}

TEST(TypicalValues, KnowWhatSlowsTrainingDownOnSeveralHosts) {
  const trials::ParallelConfig good{
      .dp = 32, .tp = 2, .microbatches = 2, .micro_batch_size = 4};
  // Tensor parallelism across hosts, a deep pipeline that hardly fills, and
  // one sequence at a time.
  EXPECT_LT(
      Ratio({good,
             {.dp = 4, .tp = 16, .microbatches = 16, .micro_batch_size = 4}}),
      0.7);
  EXPECT_LT(Ratio({good,
                   {.dp = 2,
                    .tp = 2,
                    .pp = 16,
                    .microbatches = 32,
                    .micro_batch_size = 4}}),
            0.8);
  EXPECT_LT(
      Ratio({good,
             {.dp = 32, .tp = 2, .microbatches = 8, .micro_batch_size = 1}}),
      1.0);
}

TEST(TypicalValues, PredictTheMemoryOfAModelOfKnownSize) {
  // 8e9 parameters, 16 bytes each, on 80e9 bytes: M = 1.6. A replica on one
  // GPU does not fit; one over 8 GPUs with ZeRO 1 does.
  const trials::SearchSpace space(
      {{.dp = 8, .microbatches = 32, .micro_batch_size = 1},
       {.dp = 2,
        .tp = 4,
        .zero_stage = 1,
        .microbatches = 128,
        .micro_batch_size = 1}});
  const ParametricMean prior =
      MemoryPrior(space, {8, 8}, CostModelForm::kPhysical, 10.0);
  const Eigen::VectorXd memory =
      prior.EvaluateAll(CentersAtScale(prior, std::log(1.6)));
  EXPECT_GT(memory[0], 1.6);
  EXPECT_LT(memory[1], 0.9);
}

// A job of 6.44e9 parameters, 64 sequences of 2048 tokens, on 80e9 bytes.
TEST(KnownSizes, DecideTheScalesOfBothTargetsAndNothingElse) {
  constexpr double kParameters = 6.44e9;
  const CostModelChoices known{.sizes = {.capacity_bytes = 80e9,
                                         .parameters = kParameters,
                                         .active_parameters = kParameters,
                                         .tokens = 64.0 * 2048.0}};
  const trials::SearchSpace space({{.dp = 8}, {.dp = 2, .pp = 4}});
  constexpr auto kForm = CostModelForm::kPhysical;
  const ParametricMean memory = MemoryPrior(space, {8, 8}, kForm, 1.1, known);
  ASSERT_TRUE(memory.shared_scale);
  // 16 bytes per parameter.
  EXPECT_NEAR(std::exp(memory.shared_scale->log_center), 1.288, 1e-12);
  EXPECT_EQ(memory.shared_scale->log_stddev, 0.2);
  // 6 FLOP per parameter and token at 1e14 FLOP/s, up to a factor of 7.4.
  const ParametricMean time = ThroughputPrior(space, {8, 8}, kForm, known);
  ASSERT_TRUE(time.shared_scale);
  EXPECT_NEAR(std::exp(time.shared_scale->log_center), 50.6462, 1e-3);
  EXPECT_EQ(time.shared_scale->log_stddev, 1.0);
  const ParametricMean unknown = ThroughputPrior(space, {8, 8}, kForm);
  ASSERT_EQ(time.size(), unknown.size());
  for (std::size_t j = 0; j < time.coefficients.size(); ++j) {
    EXPECT_EQ(time.coefficients[j].log_center,
              unknown.coefficients[j].log_center);
  }
}

}  // namespace surrogates::typical_values_test
