// Forecasts of random jobs against a simulation of everything.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/ranges.h"
#include "jobs/plan/robustness.h"
#include "tests/jobs/job_fixture.h"
#include "trials/plan.h"

namespace jobs::sweep_test {

using trials::ParallelConfig;

// OPPA_SWEEP=500 for a longer run, OPPA_SWEEP_SEED=1000 for other jobs.
int Number(const char* variable, int otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : std::atoi(given);
}
int Jobs() { return Number("OPPA_SWEEP", 24); }

template <typename T>
T OneOf(const std::vector<T>& values, std::mt19937& engine) {
  return values[engine() % values.size()];
}

// A job whose batch has the factors 3, 5 or 7; "" if its framework refuses it.
Job RandomJob(int seed) {
  std::mt19937 engine(seed);
  const int heads = OneOf<int>({12, 16, 24, 32}, engine);
  const std::string experts =
      OneOf<std::string>({"", "", ",experts=8,experts_per_token=2",
                          ",experts=60,experts_per_token=4"},
                         engine);
  const std::string model = fmt::format(
      "layers={},hidden={},heads={},kv_heads={},ffn={},vocab={}{}",
      OneOf<int>({12, 28, 36, 61}, engine), 128 * heads, heads,
      OneOf<int>({4, heads}, engine), OneOf<int>({1408, 4864, 11008}, engine),
      OneOf<int>({32000, 128256}, engine), experts);
  const int batch = OneOf<int>({3, 5, 7, 9, 15, 21, 35, 45, 63, 105}, engine)
                    << engine() % 6;
  const MachineSize size{OneOf<int>({1, 2, 3, 5, 7, 8}, engine), 8};
  return {MakeWorkload(FindModel(model), batch,
                       OneOf<int>({1024, 2048, 4096, 8192}, engine)),
          WithSize(FindMachine({.gpu = OneOf<std::string>(
                                    {"a100", "h100", "mi300x"}, engine)}),
                   size),
          FindFramework(OneOf<std::string>(
              {"megatron-lm", "torchtitan", "deepspeed", "nanotron",
               "hf-trainer-fsdp", "nemo", "accelerate-fsdp"},
              engine)),
          {}};
}

// A forecast of a few layouts has the first, and those of other kinds.
void ExpectTheFirstOf(const Forecast& all, const Forecast& few,
                      std::size_t most) {
  EXPECT_EQ(few.fitting_layouts, all.fitting_layouts);
  const auto times_s = [](const std::vector<Layout>& layouts) {
    return common::Map(layouts, [](const Layout& layout) {
      return std::pair(layout.best.step_time_s, layout.best.config);
    });
  };
  EXPECT_EQ(times_s(FastestOfKinds(few)), times_s(FastestOfKinds(all)));
  const std::size_t same = std::min(most, all.layouts.size());
  ASSERT_GE(few.layouts.size(), same);
  for (std::size_t i = 0; i < same; ++i) {
    EXPECT_EQ(few.layouts[i].best.config, all.layouts[i].best.config);
  }
}

// The least of a bound must be one, and no shortcut may lose the fastest.
TEST(Sweep, TheFirstLayoutIsTheFastestOfTheWholeEnumeration) {
  int planned = 0;
  const int first = Number("OPPA_SWEEP_SEED", 0);
  for (int seed = first; seed < first + Jobs(); ++seed) {
    const Job job = RandomJob(seed);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::optional<Planned> made;
    try {
      made.emplace(job);
    } catch (const common::InputError&) {
      continue;  // no configuration is valid
    }
    const Forecaster& forecaster = made->forecaster;
    const trials::Simulator simulator(job.workload, job.cluster,
                                      {job.framework.framework});
    double fastest_s = std::numeric_limits<double>::infinity();
    double smallest = fastest_s;
    std::set<std::string> layouts;
    std::int64_t offered = 0;
    for (const ParallelConfig& config : forecaster.space().configs()) {
      trials::StepReport report;
      try {
        report = simulator.Simulate(config);
      } catch (const trials::InvalidPlan&) {
        continue;
      }
      ASSERT_EQ(simulator.PeakMemory(config),
                static_cast<const trials::MemoryReport&>(report))
          << ToString(config);
      ASSERT_LE(simulator.LeastMemory(config), report.peak_memory_bytes)
          << ToString(config);
      ASSERT_LE(simulator.LeastStepTime(config), report.step_time_s)
          << ToString(config);
      smallest = std::min(smallest, report.peak_memory_bytes);
      if (report.peak_memory_bytes <= forecaster.AllowedBytes()) {
        fastest_s = std::min(fastest_s, report.step_time_s);
        layouts.insert(LayoutName(config));
        ++offered;
      }
    }
    const Forecast& forecast = made->forecast;
    EXPECT_EQ(forecast.layouts.size(), layouts.size());
    const auto members = common::Map(forecast.layouts, &Layout::configurations);
    EXPECT_EQ(std::accumulate(members.begin(), members.end(), std::int64_t{0}),
              offered);
    ExpectTheFirstOf(forecast, forecaster.MakeForecast(3), 3);
    if (!layouts.empty()) {
      EXPECT_EQ(made->best().step_time_s, fastest_s);
      ++planned;
    }
    // None if the framework refuses each of them.
    EXPECT_EQ(forecast.smallest ? forecast.smallest->peak_memory_bytes
                                : std::numeric_limits<double>::infinity(),
              smallest);
  }
  EXPECT_GT(planned, Jobs() / 3);
}

// An allocator without a free block releases what is pending, so that a larger
// microbatch may leave more free than one that just fits.
TEST(Sweep, AMicrobatchBetweenTwoThatLeaveTheHeadroomMayNot) {
  const Job job{MakeWorkload(FindModel(Llama8b()), 720, 8192),
                WithSize(FindMachine({.gpu = "a100"}), {8, 8}),
                FindFramework("nanotron"),
                {}};
  const Planned plan(job);
  int fitting = 0;
  for (const ParallelConfig& config : plan.forecaster.space().configs()) {
    try {
      fitting += plan.forecaster.Fits(plan.forecaster.Predict(config)) ? 1 : 0;
    } catch (const trials::InvalidPlan&) {
      continue;  // the framework refuses it
    }
  }
  const auto members =
      common::Map(plan.forecast.layouts, &Layout::configurations);
  EXPECT_EQ(std::accumulate(members.begin(), members.end(), 0), fitting);
}

TEST(Sweep, TheFastestWithinATimeIsThatOfTheForecastOrNothing) {
  const Planned plan(RandomJob(3));
  ASSERT_FALSE(plan.forecast.layouts.empty());
  const double best_s = plan.best().step_time_s;
  const auto found = plan.forecaster.FastestWithin(1.2 * best_s);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step_time_s, best_s);
  EXPECT_FALSE(plan.forecaster.FastestWithin(0.999 * best_s).has_value());
}

// 1000 = 8 * 125 sequences do not go with 56 GPUs, 1008 = 18 * 56 do.
TEST(Sweep, ABatchThatMoreSizesDivideIsNamedWithItsGain) {
  Job job{MakeWorkload(FindModel(kSmallModel), 1000, 2048),
          WithSize(FindMachine({.gpu = "h100"}), {7, 8}),
          FindFramework("megatron-lm"),
          {}};
  const Planned plan(job);
  const auto better = BetterBatch(plan.forecaster, plan.forecast);
  ASSERT_TRUE(better.has_value());
  EXPECT_GT(better->gain, 1.03);
  EXPECT_NEAR(better->batch_size, 1000, 20);
  job.workload.batch_size = better->batch_size;
  const Planned changed(job);
  EXPECT_NEAR(
      changed.best().tokens_per_s_per_gpu / plan.best().tokens_per_s_per_gpu,
      better->gain, 1e-9);
  job.workload.batch_size = 1024;
  job.cluster = WithSize(FindMachine({.gpu = "h100"}), {8, 8});
  const Planned power(job);
  EXPECT_FALSE(BetterBatch(power.forecaster, power.forecast).has_value());
}

TEST(Sweep, ABatchWithoutAValidConfigurationIsNotNamed) {
  Job job{MakeWorkload(FindModel(kSmallModel), 1000, 2048),
          WithSize(FindMachine({.gpu = "h100"}), {1, 8}),
          FindFramework("megatron-lm"),
          {}};
  job.rules = {"$micro_batch_size != 125"};
  const Planned plan(job);
  ASSERT_FALSE(plan.forecast.layouts.empty());
  EXPECT_FALSE(BetterBatch(plan.forecaster, plan.forecast).has_value());
}

TEST(Sweep, EveryDivisorOfARanksBatchIsACandidate) {
  for (const int batch : {48, 60, 105, 210}) {
    Job job = SmallJob("torchtitan", 1);
    job.workload.batch_size = batch;
    std::set<int> sizes;
    const trials::SearchSpace space = JobSpace(job);
    for (const ParallelConfig& config : space.configs()) {
      sizes.insert(batch / (config.dp * config.microbatches));
    }
    const std::vector<int> divisors = DivisorsUpTo(batch, batch);
    EXPECT_EQ(sizes, std::set<int>(divisors.begin(), divisors.end()));
  }
}

// The case of a public report: 240 sequences on 8 GPUs, 30 on each.
TEST(Sweep, AMicrobatchThatIsNoPowerOfTwoIsFound) {
  const Job job{MakeWorkload(FindModel((fakes::SourceFolder() /
                                        "experiments/workloads/gpt2.json")
                                           .string()),
                             240, 1024),
                WithSize(FindMachine({.gpu = "a100"}), {1, 8}),
                FindFramework("megatron-lm"),
                {}};
  EXPECT_LE(Planned(job).best().step_time_s, 0.214);
}

TEST(Kinds, AreListedOnceByTheirFastestLayout) {
  const Forecast& forecast = PlannedLlama("megatron-core").forecast;
  const std::vector<Layout> kinds = FastestOfKinds(forecast);
  ASSERT_GT(kinds.size(), 3U);
  EXPECT_LT(kinds.size(), forecast.layouts.size());
  EXPECT_EQ(kinds.front().best.step_time_s,
            forecast.layouts.front().best.step_time_s);
  std::set<std::pair<bool, bool>> of_first;
  for (const Layout& layout : kinds) {
    const ParallelConfig& one = layout.best.config;
    const ParallelConfig& first = kinds.front().best.config;
    if (one.zero_stage == first.zero_stage && (one.tp > 1) == (first.tp > 1) &&
        (one.pp > 1) == (first.pp > 1) && (one.dp > 1) == (first.dp > 1) &&
        (one.ep > 1) == (first.ep > 1) &&
        one.grad_checkpoint == first.grad_checkpoint) {
      EXPECT_TRUE(of_first.emplace(one.cp > 1, true).second)
          << "variants of the first: " << LayoutName(one);
    }
  }
}

}  // namespace jobs::sweep_test
