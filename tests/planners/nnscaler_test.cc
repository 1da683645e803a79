// nnScaler's constraints and its search, by enumeration of small cases.

#include "planners/nnscaler/nnscaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planners/aceso/conversions.h"
#include "planners/alpa/alpa.h"
#include "planners/operators/analytic_operators.h"
#include "planners/planner.h"
#include "tests/fakes/decoders.h"
#include "tests/planners/profiled_layers.h"

namespace planners::nnscaler_test {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OperatorModel Model(int layers, int gpus, double limit_mb, int batch = 8) {
  return {AnalyticOperators({.largest_tp = 4, .micro_batches = {1, 2, 4}}),
          LinkTable::Uniform(100.0, 12.0, 8),
          {.layers = layers,
           .batch = batch,
           .gpus = gpus,
           .gpus_per_node = gpus,
           .memory_limit_mb = limit_mb}};
}

const PlanConstraints kNone{1.0, 0.0, 1 << 20};

// Forward time of operators on one GPU.
double ForwardUs(const OperatorModel& model, int begin, int end,
                 int micro_batch) {
  double us = 0.0;
  for (int op = begin; op < end; ++op) {
    us += model.Profile(op, micro_batch, {})->forward_us;
  }
  return us;
}

// The least time over all partitions into stages at layers and all numbers of
// GPUs of each that obey the constraints, for pipelines on all GPUs.
class Enumeration {
 public:
  Enumeration(const OperatorModel& model, const PlanConstraints& constraints,
              int micro_batch, bool recompute)
      : model_(model),
        constraints_(constraints),
        micro_batch_(micro_batch),
        recompute_(recompute),
        cuts_(LayersOf(model)) {
    cuts_.front() = 0;
    cuts_.push_back(model.operators());
    plan_.micro_batch = micro_batch;
    Divide(0, model.job().gpus);
  }

  [[nodiscard]] double least_ms() const { return least_ms_; }

 private:
  void Divide(std::size_t cut, int left) {
    if (cut + 1 == cuts_.size()) {
      if (left == 0) {
        Finish();
      }
      return;
    }
    for (std::size_t end = cut + 1; end < cuts_.size(); ++end) {
      for (int each = 1;
           each <= std::min(left, constraints_.most_gpus_of_stage); each *= 2) {
        const double share =
            ForwardUs(model_, cuts_[cut], cuts_[end], micro_batch_) / each /
            (ForwardUs(model_, 0, model_.operators(), micro_batch_) /
             model_.job().gpus);
        const auto choices = IntraOperator(model_, cuts_[cut], cuts_[end],
                                           micro_batch_, each, recompute_);
        if (choices.empty() || !IsBalanced(constraints_, share)) {
          continue;
        }
        plan_.first.push_back(cuts_[cut]);
        plan_.choices.insert(plan_.choices.end(), choices.begin(),
                             choices.end());
        Divide(end, left - each);
        plan_.first.pop_back();
        plan_.choices.resize(plan_.choices.size() - choices.size());
      }
    }
  }

  void Finish() {
    const int microbatches = model_.job().batch / micro_batch_;
    plan_.first.push_back(model_.operators());
    const bool fits =
        model_.Cost(plan_).memory_mb <= model_.job().memory_limit_mb;
    std::vector<double> stage_ms;
    for (int s = 0; s < plan_.stages(); ++s) {
      // Transfers within the host, wherever the stage is.
      StageView view = model_.ViewOf(plan_, s);
      view.input_between_hosts = view.output_between_hosts = false;
      stage_ms.push_back(model_.Cost(view).total_ms());
    }
    plan_.first.pop_back();
    if (fits && static_cast<int>(stage_ms.size()) <=
                    MostStages(constraints_, microbatches, model_.job().gpus)) {
      least_ms_ = std::min(least_ms_, PipelineMs(stage_ms, microbatches));
    }
  }

  const OperatorModel& model_;
  const PlanConstraints& constraints_;
  int micro_batch_;
  bool recompute_;
  std::vector<int> cuts_;
  OperatorPlan plan_;
  double least_ms_ = kInfinity;
};

// The least time of the search's plans without replicas.
double SearchedMs(const OperatorModel& model,
                  const PlanConstraints& constraints, int micro_batch,
                  bool recompute) {
  double least = kInfinity;
  for (const NnScalerPlan& each : SearchUnderConstraints(model, constraints)) {
    const bool recomputes =
        std::any_of(each.plan.choices.begin(), each.plan.choices.end(),
                    [](const auto& choice) { return choice.recomputed != 0; });
    // Replicas show in the microbatch size, of which a pipeline has its own.
    if (each.plan.micro_batch == micro_batch && recomputes == recompute) {
      least = std::min(least, each.iteration_ms);
    }
  }
  return least;
}

TEST(NnScalerSearch, NoOtherPlanThatTheConstraintsAdmitIsFaster) {
  // A limit under which some plans do not fit.
  for (const double limit_mb : {80'000.0, 6'000.0}) {
    const OperatorModel model = Model(4, 4, limit_mb);
    for (const PlanConstraints& constraints :
         {PlanConstraints(), kNone, PlanConstraints{0.2, 0.8, 2}}) {
      // The microbatch of one sequence belongs to one pipeline only.
      for (const bool recompute : {false, true}) {
        const double least =
            Enumeration(model, constraints, 1, recompute).least_ms();
        const double searched = SearchedMs(model, constraints, 1, recompute);
        if (std::isinf(least)) {
          EXPECT_TRUE(std::isinf(searched));
        } else {
          EXPECT_NEAR(searched / least, 1.0, 1e-12)
              << limit_mb << " " << constraints.most_bubble;
        }
      }
    }
  }
}

TEST(NnScalerSearch, ConstraintsKeepTheFastestPlanHere) {
  const OperatorModel model = Model(12, 8, 80'000.0, 64);
  EXPECT_NEAR(SearchUnderConstraints(model, {})[0].iteration_ms /
                  SearchUnderConstraints(model, kNone)[0].iteration_ms,
              1.0, 1e-12);
}

TEST(NnScalerConstraints, BoundsAreInclusive) {
  const PlanConstraints constraints;
  // A bubble of (s - 1) / (s - 1 + 12) <= 0.4: 9 stages have 8 / 20.
  EXPECT_EQ(MostStages(constraints, 12, 32), 9);
  EXPECT_EQ(MostStages(constraints, 11, 32), 8);
  EXPECT_EQ(MostStages(constraints, 12, 4), 4);
  EXPECT_EQ(MostStages(kNone, 1, 32), 32);
  EXPECT_TRUE(IsBalanced(constraints, 0.5));
  EXPECT_TRUE(IsBalanced(constraints, 2.0));
  EXPECT_FALSE(IsBalanced(constraints, 0.49));
  EXPECT_FALSE(IsBalanced(constraints, 2.01));
  EXPECT_TRUE(IsBalanced(kNone, 1e-9));
}

trials::SearchSpace Space() {
  return trials::SearchSpace(std::vector<trials::ParallelConfig>{
      {.dp = 4, .microbatches = 1},
      {.dp = 4, .microbatches = 1, .grad_checkpoint = 1},
      {.dp = 2, .pp = 2, .microbatches = 4, .grad_checkpoint = 1},
      {.tp = 2, .pp = 2, .microbatches = 8},
      {.pp = 4, .microbatches = 64, .grad_checkpoint = 1}});
}

methods::Problem ProblemOf(const trials::SearchSpace& space,
                           double capacity_gb) {
  static const trials::Workload workload = fakes::Decoder{}.Workload();
  return {.space = &space,
          .machine = trials::GpuType{.gpus = 4,
                                     .gpus_per_node = 4,
                                     .memory_bytes = capacity_gb * 1e9},
          .workload = &workload,
          .q_max = 10};
}

TEST(NnScalerMethod, TheFirstTrialIsNearestToTheFastestPlan) {
  const trials::SearchSpace space = Space();
  for (const double capacity_gb : {24.0, 80.0}) {
    const methods::Problem problem = ProblemOf(space, capacity_gb);
    const OperatorModel model = ModelOfCandidates(problem, NnScalerOptions());
    const MeanSizes fastest =
        SizesOf(SearchUnderConstraints(model, {})[0].plan, model.job().batch);
    const int first =
        TryPlans(problem, NnScalerOptions(), 1)->Suggest()->candidate;
    for (const trials::ParallelConfig& config : space.configs()) {
      EXPECT_LE(Distance(fastest, space[first], false),
                Distance(fastest, config, false));
    }
  }
}

TEST(NnScalerMethod, ACandidateIsEstimatedAsAPipelineOfEqualStages) {
  const trials::SearchSpace space = Space();
  const methods::Problem problem = ProblemOf(space, 80.0);
  const OperatorModel model = ModelOfCandidates(problem, NnScalerOptions());
  const auto cost = model.Cost(*PlanOf(model, space[3]));
  const trials::Predictions estimates = EstimatesOf(problem, NnScalerOptions());
  EXPECT_NEAR(
      estimates.step_time_s[3],
      1e-3 * (8 + 2 - 1) *
          std::max(cost.stages[0].total_ms(), cost.stages[1].total_ms()),
      1e-12);
}

TEST(NnScalerMethod, WhereNothingFitsTheFirstTrialNeedsLittleMemory) {
  const trials::SearchSpace space = Space();
  EXPECT_EQ(TryPlans(ProblemOf(space, 0.5), NnScalerOptions(), 1)
                ->Suggest()
                ->candidate,
            4);
}

TEST(NnScalerMethod, SizesThatNoPipelineHasAreAnError) {
  // One layer has at most the GPUs of one host, and one sequence one replica.
  const trials::SearchSpace space = Space();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.machine =
      trials::GpuType{.gpus = 16, .gpus_per_node = 4, .memory_bytes = 80e9};
  NnScalerOptions options;
  options.layers = options.batch = 1;
  EXPECT_THAT([&] { (void)TryPlans(problem, options, 1); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("no plan for these GPUs")));
}

// Pipelines of small models, worked by hand.

// Four layers, each on one GPU only, and three sequences that nothing can
// divide: every pipeline has four stages of 3 ms, 4 ms with recomputation. A
// stage needs 8 + 1 MB and 5 MB of each microbatch.
OperatorModel Chain(double limit_mb) {
  return ModelOfRows({{kLayer,
                       1,
                       1,
                       0,
                       {.forward_us = 1000.0,
                        .backward_us = 2000.0,
                        .weights_mb = 1.0,
                        .activations_mb = 5.0}}},
                     {.layers = 4,
                      .batch = 3,
                      .gpus = 4,
                      .gpus_per_node = 4,
                      .memory_limit_mb = limit_mb});
}

std::vector<double> TimesOf(const std::vector<NnScalerPlan>& plans) {
  std::vector<double> ms;
  for (const NnScalerPlan& each : plans) {
    ms.push_back(each.iteration_ms);
  }
  return ms;
}

// Four stages with three microbatches have a bubble of 3 / 6.
const PlanConstraints kChain{0.5, 0.5, 8};

TEST(NnScalerPipelines, FitIfTheFirstStageHoldsAllMicrobatchesInFlight) {
  const std::vector<NnScalerPlan> fits =
      SearchUnderConstraints(Chain(9.0 + 4 * 5.0), kChain);
  ASSERT_THAT(TimesOf(fits), ElementsAre(DoubleNear(6 * 3.0, 1e-9),
                                         DoubleNear(6 * 4.0, 1e-9)));
  EXPECT_THAT(fits[0].plan.first, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(fits[0].memory_mb, 29.0, 1e-9);
  EXPECT_TRUE(SearchUnderConstraints(Chain(29.0 - 1e-6), kChain).empty());
  EXPECT_EQ(SearchUnderConstraints(Chain(1.0), kChain, false).size(), 2U);
}

// One layer on two GPUs, which take n = 1, 2 or 4 sequences each: n + 0.1 ms
// forward and twice that backward.
TEST(NnScalerPipelines, HaveAllSizesOfReplicasAndMicrobatches) {
  std::vector<ProfiledOperator> rows;
  for (const int n : {1, 2, 4}) {
    rows.push_back({kLayer,
                    n,
                    1,
                    0,
                    {.forward_us = 1000.0 * n + 100.0,
                     .backward_us = 2.0 * (1000.0 * n + 100.0)}});
  }
  const OperatorModel model = ModelOfRows(
      rows,
      {.batch = 8, .gpus = 2, .gpus_per_node = 2, .memory_limit_mb = 1e6});
  const std::vector<NnScalerPlan> plans = SearchUnderConstraints(model, {});
  std::vector<double> expected;  // two replicas, or data parallelism
  for (const double recomputed : {0.0, 1.0}) {
    for (const int n : {4, 2, 1}) {
      expected.insert(expected.end(), 2,
                      4.0 / n * (3 + recomputed) * (n + 0.1));
    }
  }
  ASSERT_THAT(TimesOf(plans), testing::Pointwise(DoubleNear(1e-9), expected));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const OperatorPlan& plan = plans[i].plan;
    EXPECT_EQ(plan.micro_batch, 8 >> (i / 2 % 3));
    EXPECT_EQ(plan.choices[0].dp_log2, 1);
  }
}

}  // namespace planners::nnscaler_test
