// Searches that minimize the money of a step, over several numbers of GPUs.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/registry.h"
#include "harness/run_one.h"
#include "harness/search.h"
#include "harness/testbeds/problem_parts.h"
#include "harness/testbeds/simulated.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/fake_method.h"
#include "tests/fakes/fake_predictions.h"
#include "tests/fakes/fake_runner.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/harness/manifest_checks.h"

namespace harness::money_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using trials::Outcome;

constexpr int kQMax = 6;
constexpr trials::Weight kPrice = {8};

// All configurations of 4 and of 8 GPUs.
trials::SearchSpace TwoSizes() {
  std::vector<trials::ParallelConfig> configs;
  for (const int gpus : {4, 8}) {
    const trials::SearchSpace one = fakes::SmallSpace(gpus);
    configs.insert(configs.end(), one.configs().begin(), one.configs().end());
  }
  return trials::SearchSpace(std::move(configs));
}

// Steps that take the price times as long.
struct PricedRunner final : public trials::TrialRunner {
  fakes::FakeRunner inner;

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override {
    inner.step_times_s = {
        fakes::FakeRunner::StepTime(request.candidate.config()) *
        kPrice(request.candidate.config())};
    return inner.Run(request);
  }
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& /*config*/) const override {
    return std::nullopt;
  }
};

class MoneySearch : public testing::Test {
 protected:
  std::vector<trials::Trial> Run(const std::string& name,
                                 const trials::Weight& weight,
                                 trials::TrialRunner& runner, int trials = 16) {
    methods::Problem problem;
    problem.space = &space_;
    problem.machine = {{.gpus = 8, .gpus_per_node = 4, .memory_bytes = 64e9},
                       {4, 8}};
    problem.weight = weight;
    problem.workload = &workload_;
    problem.q_max = kQMax;
    problem.predict = fakes::PredictionsOf(space_);
    const auto options = common::TomlTable::ParseString(
        std::string_view(name) == "aceso" ? "budget = 200" : "", "m.toml");
    const auto method = FindMethod(name)->configure(problem, options).make(1);
    const fakes::TemporaryFolder folder;
    Journal journal(folder.path());
    VirtualClock clock(runner);
    (void)Search({.space = space_,
                  .budget = {.trials = trials, .q_max = kQMax},
                  .trial_seed = 5,
                  .method = *method,
                  .clock = clock,
                  .journal = journal});
    return trials::ReadTrials(folder.path());
  }

  trials::SearchSpace space_ = TwoSizes();
  trials::Workload workload_ = fakes::Decoder{}.Workload();
};

// These methods have no model of a step but what they learn. The prices are
// powers of two, so that all numbers are exact.
TEST_F(MoneySearch, ChoosesAndStopsAsASearchForTheTimeOfPricedSteps) {
  for (const char* name : {"random", "grid", "evolutionary", "hierarchical",
                           "xgboost", "vanilla-bo", "oppa-no-prior"}) {
    fakes::FakeRunner runner;
    PricedRunner priced;
    const auto money = Run(name, kPrice, runner);
    const auto time = Run(name, {}, priced);
    ASSERT_EQ(money.size(), time.size()) << name;
    for (std::size_t i = 0; i < money.size(); ++i) {
      EXPECT_EQ(money[i].candidate, time[i].candidate) << name << " " << i;
      EXPECT_EQ(money[i].steps, time[i].steps) << name << " " << i;
      EXPECT_EQ(money[i].measurement.outcome, time[i].measurement.outcome);
      // Records have the real throughput.
      EXPECT_EQ(money[i].throughput.steps_per_s,
                time[i].throughput.steps_per_s * kPrice(money[i].config));
    }
  }
}

TEST_F(MoneySearch, TheIncumbentIsTheCheapestTrialInEveryMethod) {
  for (const MethodEntry& entry : Methods()) {
    fakes::FakeRunner runner;
    double best = 0.0;
    double steps_per_s = trials::kUnknown;
    const auto records = Run(entry.name, kPrice, runner);
    ASSERT_FALSE(records.empty()) << entry.name;
    for (const trials::Trial& trial : records) {
      const double value = trial.throughput.steps_per_s / kPrice(trial.config);
      if (trial.measurement.outcome == Outcome::kCompleted && value > best) {
        best = value;
        steps_per_s = trial.throughput.steps_per_s;
      }
      EXPECT_EQ(trial.incumbent_steps_per_s, steps_per_s) << entry.name;
    }
  }
}

// With these sizes, the plans of aceso and nnscaler have few GPUs for either.
TEST_F(MoneySearch, MethodsWithModelsPreferFewerGpusForMoney) {
  for (const std::string name :
       {"predicted-order", "textbook", "astra", "amp", "aceso", "nnscaler"}) {
    const auto mean_gpus = [&](const trials::Weight& weight) {
      fakes::FakeRunner runner;
      double sum = 0.0;
      for (const auto& trial : Run(name, weight, runner, 6)) {
        sum += trials::GpusOf(trial.config);
      }
      return sum / 6;
    };
    const double money = mean_gpus(kPrice);
    const double time = mean_gpus({});
    EXPECT_LE(money, time) << name;
    EXPECT_TRUE(money < time || name == "aceso" || name == "nnscaler") << name;
  }
}

class MoneyManifest : public testing::Test {
 protected:
  Manifest Read(const std::string& space,
                const std::string& objective = "money",
                const std::string& cluster = "price_per_gpu_hour = 1.5\n",
                const std::string& methods = R"("random", "oppa")") {
    std::string text = fakes::SmallManifest(methods, "trials = 6\nq_max = 6\n");
    const auto add = [&text](const std::string& after,
                             const std::string& more) {
      text.insert(text.find(after) + after.size(), more);
    };
    add("[experiment]\n", "objective = \"" + objective + "\"\n");
    add("[cluster]\n", cluster);
    add("[space]\n", space);
    fakes::WriteFile(path_, text);
    return ReadManifest(path_);
  }

  std::string Error(const std::string& space,
                    const std::string& objective = "money",
                    const std::string& cluster = "price_per_gpu_hour = 1\n") {
    const std::string message =
        ErrorOf([&] { return CheckManifest(Read(space, objective, cluster)); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const std::size_t place = message.find("m.toml");
    return message.substr(place == std::string::npos ? 0 : place);
  }

  fakes::ExperimentFolder folder_;
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

TEST_F(MoneyManifest, MistakesHaveAPlaceAndARemedy) {
  EXPECT_EQ(Error("gpus = [2, 4, 8]\n"), "no error");
  EXPECT_THAT(Error("gpus = [4, 16]\n"),
              AllOf(StartsWith("m.toml:19:"), HasSubstr("more than the 8")));
  EXPECT_THAT(Error("gpus = [0]\n"),
              AllOf(StartsWith("m.toml:19:"), HasSubstr("at least 1")));
  EXPECT_THAT(
      Error("", "speed"),
      AllOf(StartsWith("m.toml:2:"),
            HasSubstr("unknown objective 'speed'; known: time, money")));
  EXPECT_THAT(Error("", "money", ""), HasSubstr("add price_per_gpu_hour"));
  EXPECT_THAT(Error("", "money", "price_per_gpu_hour = 0\n"),
              StartsWith("m.toml:15:"));
  EXPECT_EQ(Error("", "time", ""), "no error");
}

TEST_F(MoneyManifest, HostsOfAPartAreFull) {
  const auto with = [&](const std::string& gpus) {
    (void)Read(gpus, "money", "gpus = 32\nprice_per_gpu_hour = 2.5\n");
    std::string text = fakes::ReadFile(path_);
    text.replace(text.find("a5000-8"), 7, "a100-40gb-roce");
    fakes::WriteFile(path_, text);
    return MakeTestbed(ReadManifest(path_).problems.front());
  };
  const Testbed testbed = with("gpus = [4, 16]\n");
  EXPECT_EQ(testbed.valuation.price_per_gpu_hour, 2.5);
  EXPECT_EQ(testbed.machine.gpus(), 32);
  EXPECT_THAT(ErrorOf([&] { return with("gpus = [8, 12]\n"); }),
              HasSubstr("12 GPUs do not fill hosts"));
}

TEST(ReadClusterOrSizes, KeepsThePriceHoweverTheGpuIsDescribed) {
  for (const std::string gpu : {"gpu = \"a100-sxm-40gb\"\n",
                                "memory_gib = 40\n", "like = \"a5000-8\"\n"}) {
    const trials::Cluster cluster =
        ReadClusterOrSizes(common::TomlTable::ParseString(
            "gpus_per_node = 4\nprice_per_gpu_hour = 1.5\n" + gpu, "m.toml"));
    EXPECT_EQ(cluster.gpu.price_per_hour, 1.5) << gpu;
    EXPECT_GT(cluster.gpu.memory_bytes, 20e9) << gpu;
  }
}

TEST_F(MoneyManifest, APartIsSimulatedLikeAClusterOfItsSize) {
  const Testbed whole =
      MakeTestbed(Read("gpus = [2, 4, 8]\n").problems.front());
  for (const int gpus : {2, 4, 8}) {
    const Testbed part = MakeTestbed(
        Read("gpus = [" + std::to_string(gpus) + "]\n").problems.front());
    EXPECT_EQ(part.machine.gpus(), gpus);
    for (const trials::ParallelConfig& config : part.space->configs()) {
      ASSERT_TRUE(whole.space->Find(config));
      ASSERT_EQ(whole.exact->ExactThroughput(config),
                part.exact->ExactThroughput(config));
      ASSERT_EQ(whole.model->Expect(config).peak_memory_bytes,
                part.model->Expect(config).peak_memory_bytes);
    }
  }
}

TEST_F(MoneyManifest, TheOptimumIsTheCheapestAndTheFrontThatOfAllCandidates) {
  const Manifest manifest = Read("gpus = [2, 4, 8]\n");
  const fakes::TemporaryFolder results;
  WriteExperiment({manifest, results.path()});
  const trials::ProblemInfo info = trials::ReadProblemInfo(results.path());
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  double least = 1e300;
  std::map<int, double> fastest;  // by number of GPUs
  for (const trials::ParallelConfig& config : testbed.space->configs()) {
    const double steps_per_s = *testbed.exact->ExactThroughput(config);
    const int gpus = trials::GpusOf(config);
    fastest[gpus] = std::max(fastest[gpus], steps_per_s);
    least = steps_per_s > 0.0 ? std::min(least, gpus / steps_per_s) : least;
  }
  ASSERT_TRUE(info.trade_off);
  EXPECT_DOUBLE_EQ(info.trade_off->optimum_gpus / info.optimum_steps_per_s,
                   least);
  ASSERT_FALSE(info.trade_off->pareto.empty());
  EXPECT_DOUBLE_EQ(info.trade_off->pareto.back().gpus /
                       info.trade_off->pareto.back().steps_per_s,
                   least);
  for (const trials::ParetoPoint& point : info.trade_off->pareto) {
    EXPECT_EQ(point.steps_per_s, fastest[point.gpus]);
  }
}

TEST_F(MoneyManifest, AResumedRunHasTheSameRecords) {
  const fakes::TemporaryFolder whole;
  const fakes::TemporaryFolder parts;
  const Manifest manifest = Read("gpus = [2, 4, 8]\n");
  Manifest shorter = manifest;
  shorter.budget.trials = 3;
  for (const RunSpec& run : RunMatrix(manifest)) {
    EXPECT_TRUE(RunOne({manifest, whole.path()}, run, {}));
  }
  for (const Manifest* part : {&std::as_const(shorter), &manifest}) {
    for (const RunSpec& run : RunMatrix(*part)) {
      EXPECT_TRUE(RunOne({*part, parts.path()}, run, {}));
    }
  }
  EXPECT_EQ(fakes::Records(parts.path()), fakes::Records(whole.path()));
}

TEST_F(MoneyManifest, TheObjectiveIsAnInputOfTheRun) {
  EXPECT_NE(HashOf(Read("gpus = [4, 8]\n", "money")),
            HashOf(Read("gpus = [4, 8]\n", "time")));
}

}  // namespace harness::money_test
