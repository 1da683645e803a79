#include "jobs/plan/robustness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/job_fixture.h"
#include "trials/programs/trial_rendering.h"

namespace jobs::robustness_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using trials::ParallelConfig;

const std::set<std::string> kSharding = {"tp", "pp", "cp", "ep", "zero_stage"};
const std::set<std::string> kOthers = {"grad_checkpoint", "micro_batch_size"};

int ValueOf(const Job& job, const std::string& name,
            const ParallelConfig& config) {
  return trials::ValueOf(trials::BuiltInKnobs().Require(name), config,
                         job.workload.batch_size);
}

std::vector<std::string> Different(const Job& job, const ParallelConfig& one,
                                   const ParallelConfig& other) {
  std::vector<std::string> names;
  for (const auto& set : {kSharding, kOthers}) {
    for (const std::string& name : set) {
      if (ValueOf(job, name, one) != ValueOf(job, name, other)) {
        names.push_back(name);
      }
    }
  }
  return names;
}

// The neighbors of the fastest layout, in plans for two frameworks.
template <typename Check>
void ForEachNeighbor(const Check& check) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    const Planned& plan = PlannedLlama(framework);
    const auto neighbors = NeighborsOf(plan.forecaster, plan.best().config);
    EXPECT_FALSE(neighbors.empty()) << framework;
    for (const Neighbor& neighbor : neighbors) {
      const std::size_t equals = neighbor.step.find('=');
      check(plan, neighbor, neighbor.step.substr(0, equals),
            std::stoi(neighbor.step.substr(equals + 1)));
    }
  }
}

TEST(Neighbors, EachDiffersInTheParameterOfItsStepOnly) {
  ForEachNeighbor([](const Planned& plan, const Neighbor& neighbor,
                     const std::string& name, int value) {
    const Job& job = plan.forecaster.job();
    EXPECT_THAT(Different(job, neighbor.one.config, plan.best().config),
                testing::ElementsAre(name));
    EXPECT_EQ(ValueOf(job, name, neighbor.one.config), value);
  });
}

TEST(Neighbors, NoValueLiesBetweenAStepAndTheBest) {
  ForEachNeighbor([](const Planned& plan, const Neighbor& neighbor,
                     const std::string& name, int value) {
    const Job& job = plan.forecaster.job();
    const int own = ValueOf(job, name, plan.best().config);
    for (const ParallelConfig& config : plan.forecaster.space().configs()) {
      const int other = ValueOf(job, name, config);
      const bool between =
          std::min(own, value) < other && other < std::max(own, value);
      EXPECT_FALSE(between && Different(job, config, plan.best().config) ==
                                  std::vector{name})
          << neighbor.step << ", " << ToString(config);
    }
  });
}

TEST(Neighbors, OnlyALargerSizeOrZeroStageShards) {
  const Planned plan(SmallJob("megatron-lm"));
  const Job& job = plan.forecaster.job();
  std::set<std::string> shards;
  for (const Layout& layout : plan.forecast.layouts) {
    const ParallelConfig& from = layout.best.config;
    for (const Neighbor& neighbor : NeighborsOf(plan.forecaster, from)) {
      const std::size_t equals = neighbor.step.find('=');
      const std::string name = neighbor.step.substr(0, equals);
      const int value = std::stoi(neighbor.step.substr(equals + 1));
      EXPECT_EQ(neighbor.shards,
                value > ValueOf(job, name, from) && kSharding.contains(name))
          << neighbor.step << " of " << ToString(from);
      if (neighbor.shards) {
        shards.insert(name);
      }
    }
  }
  EXPECT_THAT(shards, testing::Contains("zero_stage"));
}

TEST(Neighbors, EachIsTheFastestThatFitsWithItsStep) {
  ForEachNeighbor([](const Planned& plan, const Neighbor& neighbor,
                     const std::string& name, int value) {
    const Job& job = plan.forecaster.job();
    for (const ParallelConfig& config : plan.forecaster.space().configs()) {
      if (ValueOf(job, name, config) == value &&
          Different(job, config, plan.best().config) == std::vector{name}) {
        const auto other = plan.forecaster.BestOf({config});
        if (other && plan.forecaster.Fits(*other)) {
          EXPECT_LE(neighbor.one.step_time_s, other->step_time_s);
          EXPECT_TRUE(plan.forecaster.Fits(neighbor.one)) << neighbor.step;
        }
      }
    }
  });
}

std::string TextOf(const Planned& plan) {
  return RobustnessText(plan.forecaster, plan.forecast);
}

TEST(RobustnessText, TheWorstStepIsTheSlowestOfThoseThatFit) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    const Planned& plan = PlannedLlama(framework);
    double worst_s = 0.0;
    std::string worst;
    for (const Neighbor& each :
         NeighborsOf(plan.forecaster, plan.best().config)) {
      const bool fits = plan.forecaster.Fits(each.one);
      EXPECT_EQ(fits, !testing::Value(
                          TextOf(plan),
                          testing::ContainsRegex(
                              "too large for the memory: [^\n]*" + each.step)))
          << each.step;
      if (fits && each.one.step_time_s > worst_s) {
        worst_s = each.one.step_time_s;
        worst = each.step;
      }
    }
    EXPECT_THAT(TextOf(plan),
                HasSubstr(fmt::format(
                    "at worst {:.0f}% slower ({})",
                    100.0 * (worst_s / plan.best().step_time_s - 1.0), worst)));
  }
}

TEST(RobustnessText, MoreShardingThatNeedsMoreMemoryIsNoted) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    const Planned& plan = PlannedLlama(framework);
    for (const Neighbor& each :
         NeighborsOf(plan.forecaster, plan.best().config)) {
      const double more =
          each.one.peak_memory_bytes - plan.best().peak_memory_bytes;
      const bool noted =
          TextOf(plan).find(fmt::format("{} by {:.1f} GB", each.step,
                                        more / 1e9)) != std::string::npos;
      EXPECT_EQ(noted,
                each.shards && more > 0.01 * plan.best().peak_memory_bytes);
    }
  }
}

// The job with an unknown at `factor` times its assumed value.
Job Changed(Job job, const std::string& unknown, double factor) {
  if (unknown == "a network card") {
    job.cluster.inter.bandwidth_bytes_per_s *= factor;
  } else if (unknown == "the link in a node") {
    job.cluster.intra.bandwidth_bytes_per_s *= factor;
  } else if (unknown == "matrix products") {
    job.cluster.gpu.power_fraction *= factor;
  } else {
    EXPECT_EQ(unknown, "the busiest expert rank");
    job.framework.framework.experts.expert_imbalance *= factor;
  }
  return job;
}

Job MixtureJob() {
  Job job = LlamaJob("megatron-core");
  job.workload = MakeWorkload(
      FindModel("layers=8,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=8000,"
                "experts=8,experts_per_token=2"),
      128, 2048);
  return job;
}

TEST(TippingPoints, TheChoiceChangesThereAndNotJustBefore) {
  const Planned mixture(MixtureJob());
  int points = 0;
  for (const Planned* plan :
       {&PlannedLlama("megatron-core"), &PlannedLlama("fsdp2"),
        static_cast<const Planned*>(&mixture)}) {
    for (const TippingPoint& point :
         TippingPoints(plan->forecaster, plan->forecast)) {
      // By how much the winner is faster than the first layout.
      const auto gain = [&](double factor) {
        const Forecaster other(
            Changed(plan->forecaster.job(), point.unknown, factor), {});
        return other.Predict(plan->best().config).step_time_s /
               other.Predict(point.winner).step_time_s;
      };
      EXPECT_GT(gain(point.factor), 1.01) << point.unknown;
      EXPECT_LE(gain(point.factor / (point.factor < 1.0 ? 0.9 : 1.1)), 1.01)
          << point.unknown;
      EXPECT_GT(point.factor, 0.25);
      EXPECT_LT(point.factor, 4.0);
      ++points;
    }
  }
  EXPECT_GT(points, 0);
}

TEST(TippingPoints, TheValueIsBetweenTheLastThatStaysAndTheFirstThatChanges) {
  int links = 0;
  for (const char* framework : {"megatron-core", "fsdp2"}) {
    const Planned& plan = PlannedLlama(framework);
    for (const TippingPoint& point :
         TippingPoints(plan.forecaster, plan.forecast)) {
      if (point.unknown == "a network card" ||
          point.unknown == "the link in a node") {
        const trials::Cluster& cluster = plan.forecaster.job().cluster;
        const double assumed =
            (point.unknown == "a network card" ? cluster.inter : cluster.intra)
                .bandwidth_bytes_per_s;
        const double step = point.factor < 1.0 ? 0.9 : 1.1;
        const double last = point.factor / step;
        EXPECT_NEAR(std::stod(point.value),
                    assumed * std::sqrt(last * point.factor) / 1e9,
                    0.006 * assumed / 1e9 * point.factor);
        EXPECT_THAT(point.value, HasSubstr(" GB/s"));
        ++links;
      }
    }
  }
  EXPECT_GT(links, 0);
}

TEST(TippingPoints, WhatTheMachineOrModelLacksIsNoUnknown) {
  const auto unknowns = [](const Job& job) {
    const Planned plan(job);
    std::set<std::string> names;
    for (const TippingPoint& point :
         TippingPoints(plan.forecaster, plan.forecast)) {
      names.insert(point.unknown);
    }
    return names;
  };
  EXPECT_THAT(unknowns(SmallJob()),
              AllOf(Not(testing::Contains("a network card")),
                    Not(testing::Contains("the busiest expert rank"))));
  EXPECT_THAT(unknowns(SmallJob("torchtitan", 1)),
              Not(testing::Contains("the link in a node")));
}

TEST(TippingPoints, NoRankOfExpertsIsBusierThanTheBusiest) {
  const Planned plan(MixtureJob());
  for (const TippingPoint& point :
       TippingPoints(plan.forecaster, plan.forecast)) {
    if (point.unknown == "the busiest expert rank") {
      EXPECT_GE(std::stod(point.value), 1.0);
    }
  }
}

// It names the link if and only if a link 3.7 times as fast makes another
// layout more than 1% faster.
TEST(RobustnessText, TheUnknownThatChangesTheChoiceDoesSoWhereItSays) {
  const Planned& plan = PlannedLlama("megatron-core");
  const Planned other(
      Changed(LlamaJob("megatron-core"), "the link in a node", 3.7));
  const bool changes =
      other.forecaster.Predict(plan.best().config).step_time_s >
      1.01 * other.best().step_time_s;
  EXPECT_EQ(TextOf(plan).find("the link in a node above") != std::string::npos,
            changes)
      << TextOf(plan);
}

TEST(RobustnessText, HasEveryTippingPointOrSaysThatTheChoiceStays) {
  for (const char* framework : {"fsdp2", "megatron-core", "deepspeed"}) {
    const Planned& plan = PlannedLlama(framework);
    const auto points = TippingPoints(plan.forecaster, plan.forecast);
    EXPECT_EQ(TextOf(plan).find("the choice stays") != std::string::npos,
              points.empty());
    for (const TippingPoint& point : points) {
      EXPECT_THAT(TextOf(plan), HasSubstr(fmt::format(
                                    "{} {} {}: {}", point.unknown,
                                    point.factor < 1.0 ? "below" : "above",
                                    point.value, LayoutName(point.winner))));
    }
  }
}

TEST(RobustnessText, SaysWhatTrainingChangesBesidesItsSpeed) {
  const auto changes = [](const Job& job) {
    const std::string text = TextOf(Planned(job));
    return text.substr(text.find("besides speed"));
  };
  Job job = SmallJob("megatron-lm");
  job.workload.precision = trials::Precision::kFp32;
  EXPECT_EQ(changes(job),
            "besides speed it changes: only the order of sums; the batch stays "
            "64 sequences\n");
  job.workload.precision = trials::Precision::kFp8;
  EXPECT_THAT(changes(job), HasSubstr("matrix products in 8 bits, "));
  job.workload.precision = trials::Precision::kBf16;
  EXPECT_THAT(changes(job), Not(HasSubstr("8 bits")));
  EXPECT_THAT(changes(job), Not(HasSubstr("dropout")));
  job.workload.model.dropout = true;
  job.workload.model.max_positions = 2048;  // of a model that has learned them
  EXPECT_THAT(changes(job), HasSubstr("the random numbers of dropout, "));
}

}  // namespace jobs::robustness_test
