// What single terms of App. D.1 and D.2 say. cost_model_test.cc has Eqs. 10 to
// 18 and their sum.

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/term.h"

namespace surrogates::printed_terms_test {

using trials::ParallelConfig;

constexpr ClusterShape kOneHost{.gpus = 8, .gpus_per_node = 8};
constexpr ClusterShape kSeveralHosts{.gpus = 32, .gpus_per_node = 4};

// The named feature of one configuration.
double Time(const std::string& name, const ClusterShape& shape,
            const ParallelConfig& config) {
  for (const CostTerm& term : PrintedTimeTerms(shape)) {
    if (term.name == name) {
      return term.feature(config);
    }
  }
  ADD_FAILURE() << "no term " << name;
  return 0.0;
}

// The configurations of Table 4 that have a pipeline, on 8, 16 and 32 GPUs.
struct Table4Optimum {
  ClusterShape shape;
  ParallelConfig config;
};
const std::vector<Table4Optimum> kTable4 = {
    {{8, 8}, {.dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8}},
    {{16, 8}, {.pp = 16, .microbatches = 64}},
    {{32, 4}, {.dp = 2, .pp = 16, .zero_stage = 1, .microbatches = 32}}};

// Throughputs of a configuration of Table 4 and of the same one with each
// smaller number of microbatches that fills the pipeline.
Eigen::VectorXd Table4Means(const Table4Optimum& optimum, ComputeTime t_comp,
                            double log_communication) {
  std::vector<ParallelConfig> configs = {optimum.config};
  for (int mb = optimum.config.microbatches / 2; mb >= optimum.config.pp;
       mb /= 2) {
    configs.push_back(optimum.config);
    configs.back().microbatches = mb;
  }
  const ParametricMean mean =
      ThroughputPrior(trials::SearchSpace(configs), optimum.shape,
                      CostModelForm::kPrinted, {.t_comp = t_comp});
  Eigen::VectorXd log_c =
      Eigen::VectorXd::Constant(mean.size(), log_communication);
  log_c[0] = 0.0;  // computation, the first term
  return mean.EvaluateAll(log_c);
}

// No term of the sum shrinks as microbatches multiply if each takes t_comp, so
// whatever the coefficients, Table 4's are the slowest. If the batch takes
// t_comp, they are the fastest where communication is cheap.
TEST(Equation10, OnlyTheTimeOfABatchRanksTableFourFirst) {
  for (const Table4Optimum& optimum : kTable4) {
    for (const double log_communication : {-30.0, -9.0, -3.0, 0.0, 3.0}) {
      const Eigen::VectorXd means =
          Table4Means(optimum, ComputeTime::kOfMicrobatch, log_communication);
      for (Eigen::Index i = 1; i < means.size(); ++i) {
        EXPECT_LT(means[0], means[i]) << log_communication;
      }
    }
    const Eigen::VectorXd means =
        Table4Means(optimum, ComputeTime::kOfBatch, -14.0);
    ASSERT_GE(means.size(), 2);
    for (Eigen::Index i = 1; i < means.size(); ++i) {
      EXPECT_GT(means[0], means[i]);
    }
  }
}

TEST(Equation10, NoPrintedTermShrinksWithMicrobatchesOfTimeTcomp) {
  for (const Table4Optimum& optimum : kTable4) {
    ParallelConfig fewer = optimum.config;
    fewer.microbatches /= 2;
    for (const CostTerm& term :
         PrintedTimeTerms(optimum.shape, ComputeTime::kOfMicrobatch)) {
      EXPECT_GE(term.feature(optimum.config), term.feature(fewer)) << term.name;
    }
  }
}

TEST(Equation12, TheFudgeOfZeroThreeIsProportionalToTheVolumeItScales) {
  for (const ClusterShape& shape : {kOneHost, kSeveralHosts}) {
    for (ParallelConfig config :
         {ParallelConfig{.dp = 8, .tp = 1}, ParallelConfig{.dp = 2, .tp = 2},
          ParallelConfig{.dp = 4, .pp = 2}}) {
      for (const std::string link : {"intra-node", "inter-node"}) {
        config.zero_stage = 2;
        EXPECT_EQ(Time("DP volume ZeRO-3, " + link, shape, config), 0.0);
        config.zero_stage = 3;
        EXPECT_DOUBLE_EQ(Time("DP volume ZeRO-3, " + link, shape, config),
                         Time("DP volume, " + link, shape, config));
      }
    }
  }
}

// Eq. 13: a ring of ceil(dp / G_node) hosts; six ranks are on two.
TEST(Equation13, AHostThatIsNotFullCounts) {
  EXPECT_DOUBLE_EQ(Time("DP latency, inter-node", kSeveralHosts, {.dp = 6}),
                   2.0);
}

// The terms that are not zero for a configuration.
std::set<std::string> Used(const ClusterShape& shape,
                           const ParallelConfig& config) {
  std::set<std::string> used;
  for (const CostTerm& term : PrintedTimeTerms(shape)) {
    if (term.feature(config) != 0.0) {
      used.insert(term.name.substr(0, 2));
    }
  }
  return used;
}

// Eq. 19: kappa_dp, kappa_tp and kappa_pp each scale coefficients of their own,
// so that any of them can be learned without the others.
TEST(Equation19, EveryKindOfParallelismHasItsOwnCoefficients) {
  using Names = std::set<std::string>;
  for (const ClusterShape& shape : {kOneHost, kSeveralHosts}) {
    EXPECT_EQ(Used(shape, {.dp = 8}), (Names{"co", "DP"}));
    EXPECT_EQ(Used(shape, {.tp = 8}), (Names{"co", "TP"}));
    EXPECT_EQ(Used(shape, {.pp = 8, .microbatches = 8}), (Names{"co", "PP"}));
  }
}

// Eq. 21: min(m_1 / (pp tp) + m_2 / (n_gpus mb) + m_3, M_0).
TEST(Equation21, MemoryIsClippedAndStillTellsItsGradient) {
  const trials::SearchSpace space(
      {{.dp = 2, .tp = 2, .pp = 2, .microbatches = 4}});
  ParametricMean mean =
      MemoryPrior(space, kOneHost, CostModelForm::kPrinted, 1.1);
  const Eigen::Vector3d below(std::log(0.8), std::log(1.6), std::log(0.1));
  const Eigen::Vector3d above(std::log(8.0), std::log(1.6), std::log(0.1));
  Eigen::VectorXd value;
  Eigen::MatrixXd gradient;
  mean.Evaluate({0}, below, value, &gradient);
  EXPECT_NEAR(value[0], 0.2 + 0.05 + 0.1, 1e-12);
  EXPECT_NEAR(gradient(0, 0), 0.2, 1e-12);  // by log m_1
  mean.Evaluate({0}, above, value, &gradient);
  EXPECT_DOUBLE_EQ(value[0], 1.1);
  // Configurations that ran out of memory still pull the coefficients, less
  // strongly.
  EXPECT_GT(gradient.row(0).minCoeff(), 0.0);
  EXPECT_NEAR(gradient(0, 0), mean.clip_gradient * 2.0, 1e-12);
  mean.clip_gradient = 0.0;  // as printed: it would not
  mean.Evaluate({0}, above, value, &gradient);
  EXPECT_EQ(gradient.norm(), 0.0);
}

// What a rank sends in a ring all-reduce of N bytes is 2 (D - 1) / D N, of
// which the feature has (D - 1) / D: the coefficient is 2 N over the bandwidth.
TEST(PrintedTerms, AmountsAreTwiceTheGradientsAndOneMessage) {
  const JobSizes sizes{.parameters = 10.0, .bytes_per_value = 2.0};
  std::map<std::string, double> amounts;
  for (const CostTerm& term : PrintedTimeTerms(kSeveralHosts)) {
    if (term.reading.amount != nullptr) {
      amounts[term.name] = term.reading.amount(sizes);
    }
  }
  EXPECT_EQ(amounts,
            (std::map<std::string, double>{{"DP latency, intra-node", 1.0},
                                           {"DP volume, intra-node", 40.0},
                                           {"DP latency, inter-node", 1.0},
                                           {"DP volume, inter-node", 40.0}}));
}

}  // namespace surrogates::printed_terms_test
