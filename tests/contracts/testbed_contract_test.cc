// The contract of every registered backend with a virtual clock. A new one is
// tested by being listed in the registry, and by a problem for it in
// ProblemFor. For a real clock see tests/trials/programs/.

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/manifest/manifest.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::testbed_contract_test {

using trials::Measurement;
using trials::Outcome;
using trials::TrialRequest;

const std::string kSimulator = std::string(fakes::kWorkload) + R"([backend]
type = "simulator"
[space]
rule_sets = ["colossalai"]
dp_bucket_mb = [64]
zero_bucket_mb = [64]
microbatches = [1, 8]
model_chunks = [1]
)";

const std::string kReplay = R"([backend]
type = "replay"
table = "table.csv"
scenarios = "s"
)";

constexpr std::string_view kTable =
    "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,status,"
    "step_time_s,peak_memory_gb\n"
    "s,8,8,1,1,0,1,8,ok,0.5,12\n"
    "s,8,4,2,1,0,1,8,ok,0.75,10\n"
    "s,8,2,1,4,1,1,8,ok,1.5,8\n"
    "s,8,1,1,8,0,1,8,oom,,\n";

const std::string kRest = std::string(fakes::kCluster) + R"([experiment]
methods = ["random"]
[budget]
trials = 5
q_max = 5
)";

class TestbedContract : public testing::TestWithParam<std::string> {
 protected:
  TestbedContract() {
    fakes::WriteFile(folder_.path() / "table.csv", std::string(kTable));
    fakes::WriteFile(folder_.path() / "m.toml", ProblemFor(GetParam()) + kRest);
    const Manifest manifest = ReadManifest(folder_.path() / "m.toml");
    testbed_ = MakeTestbed(manifest.problems.at(0));
  }

  static const std::string& ProblemFor(const std::string& testbed) {
    if (testbed == "simulator") {
      return kSimulator;
    }
    if (testbed == "replay") {
      return kReplay;
    }
    throw std::logic_error("write a problem for the backend " + testbed);
  }

  // The request that runs a candidate in full.
  [[nodiscard]] TrialRequest Full(int candidate) const {
    TrialRequest request;
    request.candidate = (*testbed_.space)[candidate];
    request.max_steps = 8;
    request.seed = 3;
    return request;
  }

  // Candidates that fit, and those that do not.
  [[nodiscard]] std::vector<int> Fitting(bool fits) const {
    std::vector<int> candidates;
    for (int i = 0; i < testbed_.space->size(); ++i) {
      const auto exact = testbed_.runner->ExactThroughput((*testbed_.space)[i]);
      if ((exact.value_or(1.0) > 0.0) == fits) {
        candidates.push_back(i);
      }
    }
    return candidates;
  }

  fakes::ExperimentFolder folder_;
  Testbed testbed_;
};

TEST_P(TestbedContract, KnowsItsProblem) {
  EXPECT_EQ(testbed_.type, GetParam());
  EXPECT_FALSE(testbed_.description.empty());
  EXPECT_EQ(testbed_.machine.gpus(), 8);
  EXPECT_GE(testbed_.machine.gpus_per_node(), 1);
  EXPECT_GT(testbed_.machine.memory_bytes(), 1e9);
  ASSERT_NE(testbed_.exact, nullptr);
  for (const trials::ParallelConfig& config : testbed_.space->configs()) {
    EXPECT_EQ(config.dp * config.tp * config.pp, testbed_.machine.gpus());
  }
  EXPECT_FALSE(Fitting(true).empty());
  EXPECT_FALSE(Fitting(false).empty());
}

TEST_P(TestbedContract, ATrialIsAFunctionOfItsRequest) {
  for (const int i : Fitting(true)) {
    const Measurement a = testbed_.runner->Run(Full(i));
    const Measurement b = testbed_.runner->Run(Full(i));
    ASSERT_EQ(a.outcome, Outcome::kCompleted);
    ASSERT_EQ(a.step_times_s.size(), 8U);
    EXPECT_EQ(a.step_times_s, b.step_times_s);
    EXPECT_EQ(a.duration_s, b.duration_s);
    TrialRequest other = Full(i);
    other.seed = 4;
    EXPECT_NE(testbed_.runner->Run(other).step_times_s, a.step_times_s);
  }
}

TEST_P(TestbedContract, ATrialCostsAtLeastItsSetUpAndItsSteps) {
  for (int i = 0; i < testbed_.space->size(); ++i) {
    const Measurement trial = testbed_.runner->Run(Full(i));
    double least_s = trial.setup_s;
    for (const double step_time_s : trial.step_times_s) {
      EXPECT_GT(step_time_s, 0.0);
      least_s += step_time_s;
    }
    EXPECT_GT(trial.setup_s, 0.0);
    EXPECT_GE(trial.duration_s, least_s * (1.0 - 1e-12));
  }
}

// What methods are told (Problem::runs_plans) is what happens.
TEST_P(TestbedContract, RunsAPlanAsItsConfigurationOrRefusesIt) {
  for (const int i : Fitting(true)) {
    TrialRequest request = Full(i);
    const Measurement of_config = testbed_.runner->Run(request);
    request.candidate = trials::UniformPlan(
        request.candidate.config(),
        testbed_.workload ? testbed_.workload->model.layers : 8);
    SCOPED_TRACE(request.candidate.Label());
    if (!testbed_.runs_plans) {
      EXPECT_THROW((void)testbed_.runner->Run(request), std::logic_error);
      EXPECT_FALSE(testbed_.runner->ExactThroughput(request.candidate));
      continue;
    }
    const Measurement of_plan = testbed_.runner->Run(request);
    EXPECT_EQ(of_plan.step_times_s, of_config.step_times_s);
    EXPECT_EQ(of_plan.peak_memory_bytes, of_config.peak_memory_bytes);
    EXPECT_EQ(testbed_.runner->ExactThroughput(request.candidate),
              testbed_.runner->ExactThroughput((*testbed_.space)[i]));
  }
}

TEST_P(TestbedContract, OutOfMemoryIsAnOutcomeWithoutThroughput) {
  for (const int i : Fitting(false)) {
    const Measurement trial = testbed_.runner->Run(Full(i));
    EXPECT_EQ(trial.outcome, Outcome::kOutOfMemory);
    EXPECT_TRUE(trial.step_times_s.empty());
    EXPECT_FALSE(trial.message.empty());
  }
}

TEST_P(TestbedContract, NeverPassesTheTimeLimit) {
  for (int i = 0; i < testbed_.space->size(); ++i) {
    const double whole_s = testbed_.runner->Run(Full(i)).duration_s;
    for (const double share : {0.01, 0.3, 0.7, 0.99}) {
      TrialRequest request = Full(i);
      request.time_limit_s = share * whole_s;
      const Measurement trial = testbed_.runner->Run(request);
      EXPECT_LE(trial.duration_s, request.time_limit_s);
      EXPECT_LE(trial.step_times_s.size(), 8U);
    }
  }
}

// A stop after the last step is a completed trial.
TEST_P(TestbedContract, EndsATrialWhenOnStepSaysSo) {
  const int candidate = Fitting(true).front();
  const Measurement whole = testbed_.runner->Run(Full(candidate));
  for (const std::size_t most : {3U, 8U}) {
    std::vector<double> seen;
    TrialRequest request = Full(candidate);
    request.on_step = [&](double step_time_s) {
      seen.push_back(step_time_s);
      return seen.size() < most;
    };
    const Measurement trial = testbed_.runner->Run(request);
    EXPECT_EQ(trial.outcome,
              most == 8 ? Outcome::kCompleted : Outcome::kTerminatedEarly);
    EXPECT_EQ(trial.step_times_s, seen);
    EXPECT_EQ(trial.step_times_s.size(), most);
    EXPECT_EQ(trial.duration_s < whole.duration_s, most < 8);
  }
}

TEST_P(TestbedContract, WithoutNoiseEveryStepTakesTheExactTime) {
  for (const int i : Fitting(true)) {
    const Measurement trial = testbed_.exact->Run(Full(i));
    const auto exact = testbed_.runner->ExactThroughput((*testbed_.space)[i]);
    ASSERT_TRUE(exact.has_value());
    for (const double step_time_s : trial.step_times_s) {
      EXPECT_DOUBLE_EQ(step_time_s, 1.0 / *exact);
    }
  }
}

std::vector<std::string> TestbedNames() {
  std::vector<std::string> names;
  for (const TestbedEntry& testbed : TestbedTypes()) {
    if (testbed.simulated) {
      names.push_back(testbed.name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllTestbeds, TestbedContract,
                         testing::ValuesIn(TestbedNames()),
                         [](const auto& test) { return test.param; });

}  // namespace harness::testbed_contract_test
