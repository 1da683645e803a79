#include "planners/textbook/textbook.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "planners/textbook/textbook_model.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"
#include "trials/search_space.h"

namespace planners::textbook_test {

using trials::ParallelConfig;

class TextbookMethod : public testing::Test {
 protected:
  TextbookMethod() : space_(Configs()) {
    problem_.space = &space_;
    problem_.machine =
        trials::GpuType{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 12e9};
    problem_.q_max = 10;
    problem_.workload = &workload_;
  }

  static std::vector<ParallelConfig> Configs() {
    return fakes::Grid(
        {{"tp", {1, 2, 4, 8}}, {"pp", {1, 2, 4}}, {"zero_stage", {0, 1}}},
        {.microbatches = 8, .grad_checkpoint = trials::kRecomputeFull}, 8);
  }

  void Observe(methods::Method& method, int candidate,
               double step_time_s) const {
    method.Observe(MakeTrial(candidate, space_[candidate],
                             tests::Completed(step_time_s, 1e9)));
  }

  trials::Workload workload_ = fakes::Decoder{}.Workload();
  trials::SearchSpace space_;
  methods::Problem problem_;
};

TEST_F(TextbookMethod, FirstTrialIsTheCandidateNearestToTheAdvice) {
  const auto method = MakeTextbook(problem_, {}, 1);
  const TextbookModel model(
      workload_,
      {.gpus_per_node = 8, .memory_bytes = problem_.machine.memory_bytes()});
  const ParallelConfig advice = model.Advise(8);
  const ParallelConfig& first = space_[method->Suggest()->candidate];
  EXPECT_EQ(first.tp, advice.tp);
  EXPECT_EQ(first.pp, advice.pp);
  EXPECT_EQ(first.zero_stage, advice.zero_stage);
}

TEST_F(TextbookMethod, TriesThoseThatPassTheFiltersFirstInTheOrderOfTheModel) {
  const TextbookOptions options{.advice = false};
  const auto method = MakeTextbook(problem_, options, 1);
  const TextbookModel model(workload_, {.gpus_per_node = 8,
                                        .memory_bytes = 12e9,
                                        .flops_per_s = 312e12,
                                        .intra_node_bytes_per_s = 300e9,
                                        .inter_node_bytes_per_s = 100e9});
  const auto passes_filters = [&](const ParallelConfig& config) {
    return model.Memory(config).Total() <= 0.9 * 12e9 &&
           model.CommunicationShare(config) <= 0.2;
  };
  const auto passing = std::ranges::count_if(space_.configs(), passes_filters);
  ASSERT_GT(passing, 2);
  ASSERT_LT(passing, space_.size());
  double last_s = 0.0;
  for (int i = 0; i < space_.size(); ++i) {
    const int candidate = method->Suggest()->candidate;
    const bool passes = passes_filters(space_[candidate]);
    EXPECT_EQ(passes, i < passing) << i;
    const double predicted_s = model.Step(space_[candidate]).Total();
    if (passes) {
      EXPECT_GE(predicted_s, last_s);
      last_s = predicted_s;
    }
    Observe(*method, candidate, predicted_s);
  }
  EXPECT_FALSE(method->Suggest().has_value());
}

// Trials have values: throughputs over prices.
TEST_F(TextbookMethod, WithAPriceTriesTheCheapestFirst) {
  std::vector<ParallelConfig> configs = fakes::Grid(
      {{"dp", {1, 2, 4, 8}}, {"tp", {1, 2, 4, 8}}},
      {.microbatches = 8, .grad_checkpoint = trials::kRecomputeFull});
  std::erase_if(configs,
                [](const ParallelConfig& c) { return c.dp * c.tp > 8; });
  space_ = trials::SearchSpace(configs);
  // Everything fits.
  problem_.machine = {{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 1e12},
                      {1, 2, 4, 8}};
  problem_.weight.machine_gpus = 8;
  const TextbookOptions options{.advice = false, .communication_share = 1.0};
  const auto method = MakeTextbook(problem_, options, 1);
  const TextbookModel model(workload_, {.gpus_per_node = 8,
                                        .flops_per_s = 312e12,
                                        .intra_node_bytes_per_s = 300e9,
                                        .inter_node_bytes_per_s = 100e9});
  double last_s = 0.0;
  for (int i = 0; i < space_.size(); ++i) {
    const int candidate = method->Suggest()->candidate;
    const ParallelConfig& config = space_[candidate];
    const double priced_s =
        model.Step(config).Total() * trials::GpusOf(config) / 8.0;
    EXPECT_GE(priced_s, last_s * (1.0 - 1e-9)) << i;
    last_s = priced_s;
    Observe(*method, candidate, model.Step(config).Total());
  }
}

TEST_F(TextbookMethod, TrialsThatShowSlowLinksTurnItFromTensorParallelism) {
  // Everything fits.
  problem_.machine =
      trials::GpuType{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 1e12};
  const TextbookOptions options{.advice = false, .communication_share = 1.0};
  const TextbookModel model(workload_,
                            {.gpus_per_node = 8, .flops_per_s = 312e12});
  const auto tensor_after = [&](double link_factor) {
    const auto method = MakeTextbook(problem_, options, 1);
    for (int i = 0; i < space_.size(); ++i) {
      if (space_[i].pp == 4) {  // tp 1 and 2
        const TextbookStep step = model.Step(space_[i]);
        Observe(*method, i,
                step.compute_s + step.bubble_s +
                    link_factor * step.Communication());
      }
    }
    return space_[method->Suggest()->candidate].tp;
  };
  EXPECT_LT(tensor_after(100.0), tensor_after(0.01));
}

TEST_F(TextbookMethod, EstimatesAreThoseOfTheModelWithTheseSpeeds) {
  problem_.machine =
      trials::GpuType{.gpus = 8, .gpus_per_node = 4, .memory_bytes = 12e9};
  const TextbookModel model(workload_, {.gpus_per_node = 4,
                                        .memory_bytes = 12e9,
                                        .flops_per_s = 100e12,
                                        .intra_node_bytes_per_s = 200e9,
                                        .inter_node_bytes_per_s = 3e9});
  const trials::Predictions estimates =
      EstimatesOf(problem_, {.tflops = 100.0,
                             .intra_node_gb_per_s = 200.0,
                             .inter_node_gb_per_s = 3.0});
  for (int i = 0; i < space_.size(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    EXPECT_DOUBLE_EQ(estimates.step_time_s[k], model.Step(space_[i]).Total());
    EXPECT_DOUBLE_EQ(estimates.peak_memory_bytes[k],
                     model.Memory(space_[i]).Total());
  }
}

TEST_F(TextbookMethod, NeedsAWorkload) {
  problem_.workload = nullptr;
  EXPECT_THAT([&] { (void)MakeTextbook(problem_, {}, 1); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("[workload]")));
}

// Exercise 1: tp and pp of 1 to 8 on 512 GPUs. Enumerated by the search space,
// whose sizes are those that multiply to the GPUs.
TEST(SearchSpace, HasTheSixteenSizesOfTheExercise) {
  trials::Workload workload = fakes::Decoder{}.Workload();
  workload.batch_size = 4096;
  trials::SearchSpaceOptions options;
  options.values = {{"tp", {1, 2, 4, 8}}, {"pp", {1, 2, 4, 8}}};
  const auto space = trials::SearchSpace::Enumerate(workload, 512, options);
  std::set<std::array<int, 3>> sizes;
  for (const ParallelConfig& config : space.configs()) {
    EXPECT_EQ(config.dp * config.tp * config.pp, 512);
    sizes.insert({config.dp, config.tp, config.pp});
  }
  EXPECT_EQ(sizes.size(), 16U);
}

}  // namespace planners::textbook_test
