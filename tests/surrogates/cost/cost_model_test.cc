#include "surrogates/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace surrogates::cost_model_test {

using trials::ParallelConfig;
using trials::SearchSpace;

// The constants of App. D.1 as the paper writes them, one link.
struct Link {
  double alpha, beta, gamma, delta;

  double PerByte() const { return 2.0 * beta + gamma + 3.0 * delta; }
};

struct Constants {
  double t_comp = 3.0;
  Link intra{1e-3, 2e-2, 3e-3, 4e-3};
  Link inter{5e-3, 6e-2, 7e-3, 8e-3};
  double lambda_z = 1.1, m_model = 2.5;
  double m_act_tp = 0.3, o_tp = 4.0, m_act_pp = 0.2;
  double kappa_dp = 0.5, kappa_tp = 0.9, kappa_pp = 0.7;
};

// Eq. 11.
double AllReduce(double d, double n, const Link& link) {
  return 2.0 * (d - 1.0) * link.alpha + (d - 1.0) / d * n * link.PerByte();
}

// Eqs. 10-19, written out as the paper has them; the DP bytes of ZeRO-3 apart.
double PrintedStepTime(const ParallelConfig& c, const ClusterShape& shape,
                       const Constants& k, ComputeTime reading) {
  const double t_comp =
      reading == ComputeTime::kOfBatch ? k.t_comp / c.microbatches : k.t_comp;
  const double comp =
      t_comp / shape.gpus * (c.microbatches + (c.pp - 1.0) / c.model_chunks);
  const double n_dp = k.lambda_z * k.m_model / (c.tp * c.pp);
  double dp = 0.0;
  if (!shape.multi_node()) {
    dp = AllReduce(c.dp, n_dp, k.intra);
  } else if (c.dp > shape.gpus_per_node) {
    const double node = shape.gpus_per_node;
    dp = AllReduce(node, n_dp, k.intra) +
         AllReduce(std::ceil(c.dp / node), n_dp / node, k.inter);
  } else {
    dp = AllReduce(c.dp, n_dp, k.inter);
  }
  const Link& tp_link =
      shape.multi_node() && c.tp > shape.gpus_per_node ? k.inter : k.intra;
  const double tp =
      k.o_tp * c.microbatches * AllReduce(c.tp, k.m_act_tp, tp_link);
  const Link& pp_link = shape.multi_node() ? k.inter : k.intra;
  const double pp = 2.0 * c.microbatches * (c.pp - 1.0) *
                    (pp_link.alpha + k.m_act_pp * pp_link.beta);
  return comp + k.kappa_dp * dp + k.kappa_tp * tp + k.kappa_pp * pp;
}

// The effective coefficients those constants amount to.
std::map<std::string, double> Effective(const Constants& k, bool multi_node) {
  const Link& pp = multi_node ? k.inter : k.intra;
  std::map<std::string, double> c = {
      {"compute", k.t_comp},
      {"DP latency, intra-node", k.kappa_dp * k.intra.alpha},
      {"DP latency, inter-node", k.kappa_dp * k.inter.alpha},
      {"DP volume, intra-node",
       k.kappa_dp * k.lambda_z * k.m_model * k.intra.PerByte()},
      {"DP volume, inter-node",
       k.kappa_dp * k.lambda_z * k.m_model * k.inter.PerByte()},
      {"DP volume ZeRO-3, intra-node", 0.05},
      {"DP volume ZeRO-3, inter-node", 0.05}};
  for (const auto& [name, link] :
       {std::pair{"intra-node", k.intra}, std::pair{"inter-node", k.inter}}) {
    const std::string where = name;
    c["TP latency, " + where] = k.kappa_tp * k.o_tp * link.alpha;
    c["TP volume, " + where] =
        k.kappa_tp * k.o_tp * k.m_act_tp * link.PerByte();
    c["PP transfers, " + where] =
        k.kappa_pp * (pp.alpha + k.m_act_pp * pp.beta);
  }
  return c;
}

SearchSpace Sizes(int gpus) {
  std::vector<ParallelConfig> configs;
  for (int dp = 1; dp <= gpus; ++dp) {
    for (int tp = 1; dp * tp <= gpus; ++tp) {
      if (gpus % (dp * tp) != 0) {
        continue;
      }
      for (const int chunks : {1, 2}) {
        ParallelConfig config{.dp = dp, .tp = tp, .pp = gpus / dp / tp};
        config.microbatches = config.pp == 1 ? 1 : 2 * config.pp;
        config.model_chunks = config.pp == 1 ? 1 : chunks;
        config.zero_stage = config.pp == 1 ? 2 * (chunks - 1) : 0;
        configs.push_back(config);
      }
    }
  }
  std::sort(configs.begin(), configs.end());
  configs.erase(std::unique(configs.begin(), configs.end()), configs.end());
  return SearchSpace(configs);
}

class PrintedCostModel
    : public testing::TestWithParam<std::tuple<ClusterShape, ComputeTime>> {};

TEST_P(PrintedCostModel, IsTheSumOfTheEquations) {
  const auto& [shape, t_comp] = GetParam();
  const SearchSpace space = Sizes(shape.gpus);
  const ParametricMean mean = ThroughputPrior(
      space, shape, CostModelForm::kPrinted, {.t_comp = t_comp});
  const Constants constants;
  const auto effective = Effective(constants, shape.multi_node());
  Eigen::VectorXd log_c(mean.size());
  for (int j = 0; j < mean.size(); ++j) {
    log_c[j] = std::log(effective.at(mean.coefficients[j].name));
  }
  const Eigen::VectorXd throughput = mean.EvaluateAll(log_c);
  for (int i = 0; i < space.size(); ++i) {
    EXPECT_NEAR(1.0 / throughput[i],
                PrintedStepTime(space[i], shape, constants, t_comp), 1e-12)
        << ToString(space[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    OneHostAndSeveral, PrintedCostModel,
    testing::Combine(testing::Values(ClusterShape{8, 8}, ClusterShape{16, 8},
                                     ClusterShape{32, 4}),
                     testing::Values(ComputeTime::kOfBatch,
                                     ComputeTime::kOfMicrobatch)),
    [](const auto& model) {
      return fmt::format("{}Gpus{}", std::get<0>(model.param).gpus,
                         std::get<1>(model.param) == ComputeTime::kOfBatch
                             ? "TimeOfBatch"
                             : "TimeOfMicrobatch");
    });

TEST(ThroughputPrior, LeavesOutTermsThatVanishOnTheSpace) {
  const ParametricMean mean =
      ThroughputPrior(Sizes(8), ClusterShape{8, 8}, CostModelForm::kPrinted);
  for (const auto& coefficient : mean.coefficients) {
    EXPECT_EQ(coefficient.name.find("inter-node"), std::string::npos);
    EXPECT_EQ(coefficient.name.find("ZeRO-3"), std::string::npos);
  }
  EXPECT_EQ(mean.features.cols(), mean.size());
}

// The column of the named term.
Eigen::VectorXd Feature(const ParametricMean& mean, const std::string& name) {
  for (int j = 0; j < mean.size(); ++j) {
    if (mean.coefficients[j].name == name) {
      return mean.features.col(j);
    }
  }
  ADD_FAILURE() << "no term " << name;
  return Eigen::VectorXd::Zero(mean.features.rows());
}

// Ranks of DeepSpeed-Ulysses, alone and as a part of dp.
TEST(PhysicalPriors, SequenceRanksOutsideOfTensorGroupsAreContextRanks) {
  const ClusterShape shape{8, 4};
  const SearchSpace context({{.dp = 8},
                             {.dp = 2, .tp = 2, .zero_stage = 1, .cp = 2},
                             {.dp = 2, .microbatches = 2, .cp = 4}});
  const SearchSpace own({{.dp = 8},
                         {.dp = 2, .tp = 2, .zero_stage = 1, .sp = 2},
                         {.dp = 2, .microbatches = 2, .sp = 4}});
  const SearchSpace in_dp({{.dp = 8},
                           {.dp = 2, .tp = 2, .zero_stage = 1, .cp = 2},
                           {.dp = 8, .microbatches = 2, .sp = 4}});
  constexpr auto kForm = CostModelForm::kPhysical;
  const ParametricMean time = ThroughputPrior(context, shape, kForm);
  const ParametricMean memory = MemoryPrior(context, shape, kForm, 1.1);
  EXPECT_GT(Feature(time, "CP volume")[1], 0.0);
  for (const SearchSpace* space : {&own, &in_dp}) {
    EXPECT_EQ(ThroughputPrior(*space, shape, kForm).features, time.features);
    EXPECT_EQ(MemoryPrior(*space, shape, kForm, 1.1).features, memory.features);
  }
}

TEST(CostModelChoices, WithoutTypicalValuesEveryTermIsATenthOfAStep) {
  const SearchSpace space = Sizes(8);
  const CostModelChoices flat{.typical_values = false};
  for (const ParametricMean& mean :
       {ThroughputPrior(space, {8, 8}, CostModelForm::kPhysical, flat),
        MemoryPrior(space, {8, 8}, CostModelForm::kPhysical, 1.1, flat)}) {
    EXPECT_FALSE(mean.shared_scale);
    for (int j = 0; j < mean.size(); ++j) {
      const auto& coefficient = mean.coefficients[j];
      EXPECT_NEAR(
          std::exp(coefficient.log_center) * mean.features.col(j).maxCoeff(),
          0.1, 1e-12)
          << coefficient.name;
      EXPECT_FALSE(coefficient.absolute);
    }
  }
}

TEST(CentersFor, MovesTheGuessToTheTypicalThroughput) {
  const ParametricMean mean =
      ThroughputPrior(Sizes(8), ClusterShape{8, 8}, CostModelForm::kPrinted);
  const Eigen::VectorXd one = mean.EvaluateAll(CentersFor(mean, 1.0));
  const Eigen::VectorXd three = mean.EvaluateAll(CentersFor(mean, 3.0));
  EXPECT_TRUE(three.isApprox(3.0 * one, 1e-12));
  EXPECT_THROW((void)CentersFor(mean, 0.0), std::invalid_argument);
}

}  // namespace surrogates::cost_model_test
