// The contract of every registered method. A new method is tested by being
// listed in the registry.

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "harness/names.h"
#include "harness/records/journal.h"
#include "harness/registry.h"
#include "harness/search.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/fake_predictions.h"
#include "tests/fakes/fake_runner.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace harness::method_contract_test {

namespace fs = std::filesystem;
using trials::Outcome;
using trials::Trial;

constexpr int kQMax = 6;

class MethodContract : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::unique_ptr<methods::Method> Make(
      const trials::SearchSpace& space, std::uint64_t seed) const {
    methods::Problem problem;
    problem.space = &space;
    problem.machine =
        trials::GpuType{.gpus = 8, .gpus_per_node = 4, .memory_bytes = 16e9};
    problem.workload = &workload_;
    problem.q_max = kQMax;
    problem.threads = threads_;
    problem.predict = fakes::PredictionsOf(space);
    // Aceso's default explores 20,000 plans, which the contract does not need.
    const auto options = common::TomlTable::ParseString(
        GetParam() == "aceso" ? "budget = 200" : "", "m.toml");
    return FindMethod(GetParam())->configure(problem, options).make(seed);
  }

  // Runs the method in a folder, resuming what is there.
  std::vector<Trial> Run(const fs::path& folder,
                         const trials::SearchSpace& space, int trials,
                         std::uint64_t seed = 1,
                         const std::vector<methods::Suggestion>& starts = {}) {
    const auto method = Make(space, seed);
    Journal journal(folder, Lease::kTimeoutSeconds,
                    {.suggestion = in_flight_ > 1});
    for (int i = 0; i < dropped_; ++i) {
      journal.DropLast();
    }
    VirtualClock clock(runner_);
    std::deque<methods::Suggestion> queue(starts.begin(), starts.end());
    (void)Search(
        {.space = space,
         .budget = {.trials = trials, .in_flight = in_flight_, .q_max = kQMax},
         .trial_seed = 5,
         .method = *method,
         .clock = clock,
         .journal = journal,
         .queue = &queue});
    return trials::ReadTrials(folder);
  }

  static std::string Records(const fs::path& folder) {
    return fakes::ReadFile(folder / "trials.csv") +
           fakes::ReadFile(folder / "steps.csv") +
           fakes::ReadFile(folder / "fits.csv");
  }

  int threads_ = 1;
  int in_flight_ = 1;
  int dropped_ = 0;  // of the last trials, before a search resumes
  trials::Workload workload_ = fakes::Decoder{}.Workload();
  fakes::FakeRunner runner_;
  trials::SearchSpace space_ = fakes::SmallSpace(8);
};

TEST_P(MethodContract, NeverRepeatsACandidateAndEndsWithTheSpace) {
  // Search itself refuses a repetition.
  const fakes::TemporaryFolder folder;
  runner_.max_dp = 4;
  const auto records = Run(folder.path(), space_, 999);
  EXPECT_GE(records.size(), 2U);
  EXPECT_LE(records.size(), static_cast<std::size_t>(space_.size()));
  for (const Trial& record : records) {
    EXPECT_NE(record.chosen_by, trials::ChosenBy::kUnspecified);
  }
}

// The starts fail, run and fail again, in more trials than any random start
// has.
TEST_P(MethodContract, ContinuesAfterCommonStartsAndResumesWithThem) {
  std::vector<methods::Suggestion> starts;
  for (int i = 0; i < 11; ++i) {
    starts.push_back({.candidate = (7 * i + 3) % space_.size(),
                      .chosen_by = trials::ChosenBy::kRandom});
  }
  runner_.max_dp = 4;
  const fakes::TemporaryFolder whole;
  const auto records = Run(whole.path(), space_, 14, 1, starts);
  ASSERT_GT(records.size(), starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(records[i].candidate, starts[i].candidate);
  }
  for (const int cut : {4, 11, 12}) {
    const fakes::TemporaryFolder resumed;
    (void)Run(resumed.path(), space_, cut, 1, starts);
    (void)Run(resumed.path(), space_, 14, 1, starts);
    EXPECT_EQ(Records(resumed.path()), Records(whole.path())) << cut;
  }
}

TEST_P(MethodContract, WritesTheSameRecordsOnAnyNumberOfThreads) {
  const fakes::TemporaryFolder one;
  const fakes::TemporaryFolder three;
  (void)Run(one.path(), space_, 12);
  threads_ = 3;
  (void)Run(three.path(), space_, 12);
  EXPECT_EQ(Records(one.path()), Records(three.path()));
}

// A trial in which the model has a single throughput to learn from, or none
// but its prior.
TEST_P(MethodContract, SurvivesASingleCandidateThatFits) {
  const fakes::TemporaryFolder folder;
  runner_.max_dp = 1;
  const auto records = Run(folder.path(), space_, 999);
  EXPECT_GE(std::count_if(records.begin(), records.end(),
                          [](const Trial& record) {
                            return record.measurement.outcome ==
                                   Outcome::kOutOfMemory;
                          }),
            1);
}

// Methods whose first trial does not follow from predictions or an order.
class MethodWithChance : public MethodContract {};

TEST_P(MethodWithChance, ListensToItsSeed) {
  std::set<int> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    first.insert(Make(space_, seed)->Suggest()->candidate);
  }
  EXPECT_GT(first.size(), 1U);
}

TEST_P(MethodContract, ResumesAfterEveryTrialAsIfNothingHadHappened) {
  const fakes::TemporaryFolder whole;
  const int count = static_cast<int>(Run(whole.path(), space_, 12).size());
  for (int cut = 0; cut < count; ++cut) {
    const fakes::TemporaryFolder resumed;
    if (cut > 0) {
      (void)Run(resumed.path(), space_, cut);
    }
    (void)Run(resumed.path(), space_, 12);
    ASSERT_EQ(Records(resumed.path()), Records(whole.path())) << cut;
  }
}

// Search itself refuses a repetition.
TEST_P(MethodContract, HasSeveralTrialsInFlightAndResumesWithThem) {
  in_flight_ = 4;
  runner_.max_dp = 4;
  const fakes::TemporaryFolder whole;
  const auto count = static_cast<int>(Run(whole.path(), space_, 12).size());
  EXPECT_GE(count, 2);
  const std::string records = Records(whole.path());
  for (dropped_ = 1; dropped_ <= count; ++dropped_) {
    (void)Run(whole.path(), space_, 12);
    ASSERT_EQ(Records(whole.path()), records) << dropped_;
  }
  dropped_ = 0;
  for (const int max_dp : {4, 0}) {
    runner_.max_dp = max_dp;
    const fakes::TemporaryFolder all;
    EXPECT_GE(Run(all.path(), space_, 999).size(), 2U);
  }
}

TEST_P(MethodContract, SurvivesWhenNothingFits) {
  const fakes::TemporaryFolder folder;
  runner_.max_dp = 0;
  for (const Trial& record : Run(folder.path(), space_, 12)) {
    EXPECT_EQ(record.measurement.outcome, Outcome::kOutOfMemory);
  }
}

TEST_P(MethodContract, SurvivesASpaceOfOneCandidate) {
  const trials::SearchSpace one({space_[0]});
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(Run(folder.path(), one, 12).size(), 1U);
}

TEST_P(MethodContract, SurvivesMeasurementsWithoutNoise) {
  const fakes::TemporaryFolder folder;
  runner_.jitter = 0.0;
  EXPECT_GE(Run(folder.path(), space_, 12).size(), 2U);
}

// What a broken clock of a training program may report, or a table hold.
TEST_P(MethodContract, SurvivesExtremeStepTimes) {
  const std::vector<std::vector<double>> histories = {
      {1e-6},
      {1e6},
      {0.1},
      {1e-6, 1e6},
      {0.1, 0.2, 1e-6, 0.1, 1e6},
      {1e-160, 0.1},
      {0.1, 1e-160, 0.2},
      {1e30},
      {1e160, 0.1},
      {1e-300},
      {1e300, 1e-300, 0.1},
      {5e-324, 1e308}};
  for (const auto& step_times_s : histories) {
    for (const double jitter : {0.0, 0.01}) {
      const fakes::TemporaryFolder folder;
      in_flight_ = jitter > 0.0 ? 3 : 1;
      runner_ = fakes::FakeRunner();
      runner_.step_times_s = step_times_s;
      runner_.jitter = jitter;
      EXPECT_NO_THROW(EXPECT_GE(Run(folder.path(), space_, 12).size(), 1U))
          << testing::PrintToString(step_times_s) << " jitter " << jitter;
    }
  }
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const MethodEntry& method : Methods()) {
    names.push_back(method.name);
  }
  return names;
}

std::vector<std::string> MethodNamesWithChance() {
  const std::set<std::string> without = {
      "predicted-order", "oppa-sim", "grid",     "aceso",  "amp",
      "nnscaler",        "astra",    "textbook", "planned"};
  std::vector<std::string> names = MethodNames();
  std::erase_if(
      names, [&](const std::string& name) { return without.contains(name); });
  return names;
}

// GoogleTest takes letters, digits and '_'.
std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllMethods, MethodContract,
                         testing::ValuesIn(MethodNames()), TestName);
INSTANTIATE_TEST_SUITE_P(Methods, MethodWithChance,
                         testing::ValuesIn(MethodNamesWithChance()), TestName);

TEST(Registry, NamesAreFolderNamesAndComeOnce) {
  std::set<std::string> names;
  std::set<std::string> labels;
  for (const MethodEntry& method : Methods()) {
    EXPECT_TRUE(IsSafeName(method.name)) << method.name;
    EXPECT_TRUE(names.insert(method.name).second) << method.name;
    EXPECT_TRUE(labels.insert(method.label).second) << method.label;
    EXPECT_FALSE(method.description.empty());
  }
}

}  // namespace harness::method_contract_test
