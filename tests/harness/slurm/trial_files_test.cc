#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/json.h"
#include "harness/slurm/trial_jobs.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::trial_files_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Gives every field of a struct a value that is not its default. Numbers differ
// from field to field, unless `number` is infinite: then they are that.
class Filler {
 public:
  explicit Filler(double number) : number_(number) {}

  template <typename T>
  void Fill(T& value) {
    if constexpr (common::HasFields<T>) {
      VisitFields(value, [this](const char*, auto& field) { Fill(field); });
    } else if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_arithmetic_v<T>) {
      ++count_;
      value = std::is_floating_point_v<T> ? static_cast<T>(number_ * count_)
                                          : static_cast<T>(100 + count_);
    } else if constexpr (requires { value.has_value(); }) {
      Fill(value.emplace());
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      value = {number_, 0.1, number_ / 3.0};
    } else if constexpr (std::is_same_v<T, trials::LossCurve>) {
      value = {{1, 0.2}, {3, 0.1}};  // always finite
    } else if constexpr (std::is_same_v<T, trials::Outcome>) {
      value = trials::Outcome::kTimedOut;
    } else if constexpr (std::is_same_v<T, trials::ParallelConfig>) {
      value = {.dp = 2, .tp = 4, .zero_stage = 1};
    } else if constexpr (std::is_same_v<T, trials::Plan>) {
      FromText("microbatches=4 / layers=3 dp=2 tp=1 / layers=5 dp=1 tp=2",
               value);
    } else {
      value = "some \"text\"\nof a field";
    }
  }

 private:
  double number_;
  int count_ = 0;
};

template <typename T>
std::size_t CountFields(const T& value) {
  std::size_t count = 0;
  VisitFields(value, [&count](const char*, const auto&) { ++count; });
  return count;
}

TEST(TrialFiles, EveryMemberIsInTheFieldList) {
  // A member more or less does not compile: correct its list and this number.
  [[maybe_unused]] const auto& [q_min, best, tau, confidence, throughput,
                                of_best] = trials::StopRule();
  EXPECT_EQ(CountFields(trials::StopRule()), 6U);
  [[maybe_unused]] const auto& [warmup, iqr, of_mean] =
      trials::ThroughputOptions();
  EXPECT_EQ(CountFields(trials::ThroughputOptions()), 3U);
  [[maybe_unused]] const auto& [outcome, steps, peak, setup, duration, message,
                                losses] = trials::Measurement();
  EXPECT_EQ(CountFields(trials::Measurement()), 7U);
  // Functions do not travel.
  [[maybe_unused]] const auto& [candidate, max_steps, seed, limit, on_step,
                                rule, remaining, interrupted] =
      trials::TrialRequest();
  EXPECT_EQ(CountFields(trials::TrialRequest()), 7U - 2U);
}

class TrialFilesTest : public testing::TestWithParam<double> {
 protected:
  fakes::TemporaryFolder folder_;
};

TEST_P(TrialFilesTest, EveryFieldOfARequestReachesTheJob) {
  TrialTask task{.manifest = "/some/where.toml",
                 .settings = {"backend.failure_s=5", "noise.factor=2"},
                 .problem = "a problem",
                 .time_minutes = 7};
  Filler(GetParam()).Fill(task.request);
  WriteTrialTask(folder_.path(), task);
  const TrialTask read = ReadTrialTask(folder_.path());
  EXPECT_EQ(common::JsonFileText(read), common::JsonFileText(task));
  EXPECT_TRUE(read.request.on_step);  // from the stop rule
}

TEST_P(TrialFilesTest, EveryFieldOfAMeasurementReachesTheSearch) {
  TrialResult result;
  Filler(GetParam()).Fill(result.measurement);
  WriteTrialResult(folder_.path(), 7, result);
  const auto read = ReadTrialResult(folder_.path(), 7);
  ASSERT_TRUE(read);
  EXPECT_EQ(common::JsonFileText(*read), common::JsonFileText(result));
}

INSTANTIATE_TEST_SUITE_P(Numbers, TrialFilesTest,
                         testing::Values(1.0 / 7.0, kInfinity, -kInfinity),
                         [](const auto& number) -> std::string {
                           return number.param > 1   ? "Infinity"
                                  : number.param > 0 ? "Fraction"
                                                     : "MinusInfinity";
                         });

TEST(TrialFiles, ARequestWithoutAStopRuleStaysWithoutOne) {
  const fakes::TemporaryFolder folder;
  WriteTrialTask(folder.path(), {});
  EXPECT_FALSE(ReadTrialTask(folder.path()).request.stop_rule);
  EXPECT_FALSE(ReadTrialTask(folder.path()).request.on_step);
  EXPECT_EQ(ReadTrialTask(folder.path()).request.time_limit_s, kInfinity);
}

TEST(TrialFiles, AResultStaysWhenAnotherAttemptOfTheJobComesLater) {
  const fakes::TemporaryFolder folder;
  WriteTrialResult(folder.path(), 7, {.refusal = "first"});
  WriteTrialResult(folder.path(), 7, {.refusal = "second"});
  EXPECT_EQ(ReadTrialResult(folder.path(), 7)->refusal, "first");
}

TEST(TrialFiles, TheLateResultOfACancelledJobIsNotThatOfItsSuccessor) {
  const fakes::TemporaryFolder folder;
  WriteTrialResult(folder.path(), 7, {.refusal = "cancelled"});
  EXPECT_FALSE(ReadTrialResult(folder.path(), 8));
}

TEST(TrialFiles, AFileThatIsCutOffIsNamed) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "trial.json", "{\"manifest\": ");
  try {
    (void)ReadTrialTask(folder.path());
    FAIL() << "read";
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("trial.json"));
  }
}

}  // namespace harness::trial_files_test
