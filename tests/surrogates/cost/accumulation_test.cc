// How the terms of the prior depend on gradient accumulation.

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "surrogates/cost/term.h"

namespace surrogates::accumulation_test {

using trials::ParallelConfig;

double Term(const std::string& name, const ParallelConfig& config) {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 8};
  const auto terms = PhysicalTimeTerms(shape);
  const auto term =
      std::find_if(terms.begin(), terms.end(),
                   [&](const CostTerm& t) { return t.name == name; });
  return term->feature(config);
}

ParallelConfig Config(int zero_stage, int microbatches) {
  return {.dp = 8, .zero_stage = zero_stage, .microbatches = microbatches};
}

TEST(AccumulationTerms, ZeroTwoAndThreeReduceInEveryMicrobatch) {
  const std::string volume = "DP volume, intra-node";
  for (const int zero_stage : {0, 1}) {
    EXPECT_DOUBLE_EQ(Term(volume, Config(zero_stage, 4)),
                     Term(volume, Config(zero_stage, 1)));
  }
  for (const int zero_stage : {2, 3}) {
    EXPECT_DOUBLE_EQ(Term(volume, Config(zero_stage, 4)),
                     4.0 * Term(volume, Config(zero_stage, 1)));
  }
}

TEST(AccumulationTerms, ZeroThreeGathersInEveryMicrobatch) {
  EXPECT_GT(Term("ZeRO-3 gather", Config(3, 1)), 0.0);
  EXPECT_DOUBLE_EQ(Term("ZeRO-3 gather", Config(3, 4)),
                   4.0 * Term("ZeRO-3 gather", Config(3, 1)));
}

TEST(AccumulationTerms,
     ComputationDoesNotDependOnMicrobatchesWithoutAPipeline) {
  EXPECT_DOUBLE_EQ(Term("compute", Config(1, 8)),
                   Term("compute", Config(1, 1)));
  EXPECT_DOUBLE_EQ(Term("launch", Config(1, 8)),
                   8.0 * Term("launch", Config(1, 1)));
}

}  // namespace surrogates::accumulation_test
