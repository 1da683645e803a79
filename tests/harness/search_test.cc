#include "harness/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "methods/fixed_order.h"
#include "methods/oppa/oppa.h"
#include "tests/fakes/fake_method.h"
#include "tests/fakes/fake_runner.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::search_test {

using fakes::FakeMethod;
using fakes::FakeRunner;
using trials::Outcome;

constexpr std::uint64_t kSeed = 7;

class SearchTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<int> AllCandidates() const {
    std::vector<int> all(space_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // In a folder, with these starts and adopted trials.
  SearchSummary RunIn(const fakes::TemporaryFolder& folder,
                      methods::Method& method, const Budget& budget,
                      const std::vector<methods::Suggestion>& starts = {},
                      int adopted = 0) {
    Journal journal(folder.path());
    VirtualClock clock(runner_);
    std::deque<methods::Suggestion> queue(starts.begin(), starts.end());
    return Search({.space = space_,
                   .budget = budget,
                   .trial_seed = kSeed,
                   .method = method,
                   .clock = clock,
                   .journal = journal,
                   .queue = &queue,
                   .adopted = adopted});
  }
  SearchSummary Run(methods::Method& method, const Budget& budget) {
    return RunIn(folder_, method, budget);
  }

  [[nodiscard]] std::vector<trials::Trial> Records() const {
    return trials::ReadTrials(folder_.path());
  }

  fakes::TemporaryFolder folder_;
  trials::SearchSpace space_ = fakes::SmallSpace(8);
  FakeRunner runner_;
};

TEST_F(SearchTest, NeverPassesTheTimeBudgetAndUsesItUp) {
  for (const double budget_s : {1.0, 7.5, 20.0, 33.3}) {
    fakes::TemporaryFolder folder;
    FakeMethod method(AllCandidates());
    const SearchSummary summary =
        RunIn(folder, method, {.time_s = budget_s, .q_max = 5});
    const auto records = trials::ReadTrials(folder.path());
    double spent_s = 0.0;
    for (const trials::Trial& record : records) {
      spent_s += record.measurement.duration_s;
      EXPECT_NEAR(record.elapsed_s, spent_s, 1e-9);
      EXPECT_LE(record.elapsed_s, budget_s);
    }
    EXPECT_EQ(summary.finish_reason, trials::FinishReason::kTimeBudget);
    EXPECT_EQ(records.back().measurement.outcome, Outcome::kTimedOut);
    EXPECT_NEAR(summary.elapsed_s, budget_s, 1e-9);
  }
}

TEST_F(SearchTest, StartsPrecedeTheMethodAndAreItsHistory) {
  const std::vector<methods::Suggestion> starts = {
      {.candidate = 6, .chosen_by = trials::ChosenBy::kGiven},
      {.candidate = 2, .chosen_by = trials::ChosenBy::kRandom}};
  for (const int trials : {1, 2, 4}) {  // resumes within and after the starts
    FakeMethod method({-1, -1, 5, 0});  // from the third trial on
    (void)RunIn(folder_, method, {.trials = trials, .q_max = 2}, starts);
    EXPECT_EQ(method.history().size(), trials);
  }
  const auto records = Records();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].candidate, 6);
  EXPECT_EQ(records[0].chosen_by, trials::ChosenBy::kGiven);
  EXPECT_EQ(records[1].candidate, 2);
  EXPECT_EQ(records[1].chosen_by, trials::ChosenBy::kRandom);
  EXPECT_EQ(records[2].candidate, 5);
  EXPECT_EQ(records[3].candidate, 0);
}

TEST_F(SearchTest, WhatTheUserWantsNextFollowsTheStartsAndReplays) {
  const auto given = [](int candidate) {
    return methods::Suggestion{.candidate = candidate,
                               .chosen_by = trials::ChosenBy::kGiven};
  };
  const auto run = [&](int trials, std::optional<int> wanted) {
    FakeMethod method({-1, -1, 5, 0});
    Journal journal(folder_.path());
    VirtualClock clock(runner_);
    std::deque queue = {given(6)};
    (void)Search({.space = space_,
                  .budget = {.trials = trials, .q_max = 2},
                  .trial_seed = kSeed,
                  .method = method,
                  .clock = clock,
                  .journal = journal,
                  .stop =
                      [&] {
                        if (wanted) {
                          queue.push_back(given(*std::exchange(wanted, {})));
                        }
                        return false;
                      },
                  .queue = &queue});
  };
  run(2, 3);
  run(4, std::nullopt);  // the method has no suggestion for trial 2
  std::vector<int> candidates;
  for (const trials::Trial& trial : Records()) {
    candidates.push_back(trial.candidate);
  }
  EXPECT_EQ(candidates, (std::vector<int>{6, 3, 5, 0}));
}

TEST_F(SearchTest, StopsWhereTheEstimateIsBelowTheThresholdAndEndsWithTheLast) {
  using Reason = trials::FinishReason;
  const struct {
    std::vector<double> gains;  // after each trial; empty: no estimate
    const char* threshold;
    int trials;
    Reason reason;
  } cases[] = {{{0.2, 0.01, 0.009, 0.5}, "1%", 3, Reason::kStopCondition},
               {{0.3, 0.2, 0.15, 0.1}, "1%", 4, Reason::kTrialBudget},
               {{}, "99%", 4, Reason::kTrialBudget}};
  for (const auto& [gains, threshold, trials, reason] : cases) {
    SCOPED_TRACE(trials + gains.size());
    FakeMethod method(AllCandidates());
    method.gains = gains;
    const SearchSummary summary =
        RunIn(fakes::TemporaryFolder(), method,
              {.trials = 4,
               .q_max = 5,
               .stop_when = StopCondition("gain < " + std::string(threshold))});
    EXPECT_EQ(summary.finish_reason, reason);
    EXPECT_EQ(summary.trials, trials);
    ASSERT_EQ(summary.remaining.has_value(), !gains.empty());
    if (summary.remaining) {
      EXPECT_EQ(summary.remaining->expected_gain, gains[trials - 1]);
    }
  }
}

// As after a crash between the last trial and the end of the run.
TEST_F(SearchTest, AStoppedRunResumesAsStopped) {
  const Budget budget{
      .trials = 8, .q_max = 5, .stop_when = StopCondition("gain < 1%")};
  for (int i = 0; i < 2; ++i) {
    FakeMethod method(AllCandidates());
    method.gains = {0.2, 0.001};
    const SearchSummary summary = Run(method, budget);
    EXPECT_EQ(summary.finish_reason, trials::FinishReason::kStopCondition);
    EXPECT_EQ(summary.replayed, i == 0 ? 0 : 2);
    EXPECT_EQ(Records().size(), 2U);
  }
}

TEST_F(SearchTest, StopsAtTheBudgetOrWhenTheMethodOrTheSpaceHasNoMore) {
  using Reason = trials::FinishReason;
  const struct {
    std::vector<int> candidates;
    int budget, trials;
    Reason reason;
  } cases[] = {{AllCandidates(), 4, 4, Reason::kTrialBudget},
               {{3, 1}, 9, 2, Reason::kMethodDone},
               {AllCandidates(), 999, space_.size(), Reason::kSpaceExhausted}};
  for (const auto& [candidates, budget, trials, reason] : cases) {
    const fakes::TemporaryFolder folder;
    FakeMethod method(candidates);
    const SearchSummary summary =
        RunIn(folder, method, {.trials = budget, .q_max = 2});
    EXPECT_EQ(summary.finish_reason, reason);
    EXPECT_EQ(summary.trials, trials);
  }
}

TEST_F(SearchTest, RefusesACandidateThatWasTriedOrDoesNotExist) {
  for (const std::vector<int>& candidates :
       {std::vector<int>{3, 1, 3}, std::vector<int>{space_.size()}}) {
    const fakes::TemporaryFolder folder;
    FakeMethod method(candidates);
    EXPECT_THROW(RunIn(folder, method, {.trials = 9, .q_max = 2}),
                 std::logic_error);
  }
}

TEST_F(SearchTest, IncumbentIsTheBestOfTrialsThatRanAllTheirSteps) {
  FakeMethod method(AllCandidates());
  method.stop_below_steps_per_s = 1.5;  // slower trials are stopped
  runner_.max_dp = 4;                   // the fastest ones do not fit
  runner_.jitter = 0.0;
  (void)Run(method, {.trials = 999, .q_max = 6});
  double best = trials::kUnknown;
  std::set<Outcome> outcomes;
  for (const trials::Trial& record : Records()) {
    outcomes.insert(record.measurement.outcome);
    if (record.measurement.outcome == Outcome::kCompleted) {
      EXPECT_EQ(record.steps, 6);
      best = std::fmax(best, record.throughput.steps_per_s);
    }
    if (record.measurement.outcome == Outcome::kTerminatedEarly) {
      EXPECT_EQ(record.steps, 3);
    }
    EXPECT_EQ(common::ExactText(record.incumbent_steps_per_s),
              common::ExactText(best));
  }
  EXPECT_TRUE(outcomes.contains(Outcome::kCompleted));
  EXPECT_TRUE(outcomes.contains(Outcome::kTerminatedEarly));
  EXPECT_TRUE(outcomes.contains(Outcome::kOutOfMemory));
}

TEST_F(SearchTest, ATrialThatReachesItsLastStepIsCompleteHoweverSlow) {
  for (const int q_max : {2, 3}) {  // q_min of the rule is 3
    const fakes::TemporaryFolder folder;
    FakeMethod method({0});
    method.stop_below_steps_per_s = 1e9;
    (void)RunIn(folder, method, {.trials = 1, .q_max = q_max});
    EXPECT_EQ(trials::ReadTrials(folder.path()).at(0).measurement.outcome,
              Outcome::kCompleted);
  }
}

TEST_F(SearchTest, NoiseDependsOnTheConfigurationAndNotOnItsTurn) {
  FakeMethod method({2, 5});
  (void)Run(method, {.trials = 2, .q_max = 2});
  FakeMethod other({5, 2});
  (void)RunIn(fakes::TemporaryFolder(), other, {.trials = 2, .q_max = 2});
  ASSERT_EQ(runner_.requests.size(), 4U);
  EXPECT_EQ(runner_.requests[0].seed, runner_.requests[3].seed);
  EXPECT_EQ(runner_.requests[1].seed, runner_.requests[2].seed);
  EXPECT_NE(runner_.requests[0].seed, runner_.requests[1].seed);
}

// With the options of the method's own, that differ from the defaults.
TEST_F(SearchTest, RecordsHistoryAndStopRuleHaveTheSameIncumbent) {
  methods::OppaOptions options;
  options.throughput = {.warmup_steps = 0, .outlier_iqr = 0.0};
  options.q_min = 6;  // so that every trial completes
  const methods::Problem problem{
      .space = &space_,
      .machine =
          trials::GpuType{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 1e12},
      .q_max = 6};
  const auto method = methods::MakeOppa(problem, options, 1);
  const SearchSummary summary = Run(*method, {.trials = 6, .q_max = 6});
  const auto records = Records();
  const double best = method->history().best_value();
  EXPECT_EQ(records.back().incumbent_steps_per_s, best);
  EXPECT_EQ(summary.incumbent_steps_per_s, best);
  EXPECT_EQ(method->Suggest()->stop->best_steps_per_s, best);
  for (const trials::Trial& trial : method->history().trials()) {
    EXPECT_EQ(trial.throughput.steps_per_s,
              trials::EstimateThroughput(trial.measurement.step_times_s,
                                         options.throughput)
                  .steps_per_s);
  }
}

TEST_F(SearchTest, RefusesRecordsThatTheMethodWouldNotMake) {
  FakeMethod method({2, 5});
  (void)Run(method, {.trials = 2, .q_max = 2});
  FakeMethod other({2, 6});
  EXPECT_THROW(Run(other, {.trials = 3, .q_max = 2}), common::InputError);
}

TEST_F(SearchTest, ChargesThinkingOnlyWhenAsked) {
  FakeMethod method({2, 5});
  (void)Run(method, {.time_s = 1e6, .trials = 2, .q_max = 2});
  const auto free = Records();
  EXPECT_NEAR(free[1].elapsed_s,
              free[0].measurement.duration_s + free[1].measurement.duration_s,
              1e-12);
  fakes::TemporaryFolder folder;
  FakeMethod same({2, 5});
  (void)RunIn(
      folder, same,
      {.time_s = 1e6, .trials = 2, .q_max = 2, .charge_thinking = true});
  double thought_s = 0.0;
  const auto times = trials::ReadRows<trials::SuggestionTime>(folder.path());
  for (const auto& row : times.records) {
    thought_s += row.wall_s;
  }
  EXPECT_GT(thought_s, 0.0);
  EXPECT_NEAR(trials::ReadTrials(folder.path())[1].elapsed_s,
              free[1].elapsed_s + thought_s, 1e-9);
}

class InFlightTest : public SearchTest {
 protected:
  // Resumes the search in a folder without its last trials.
  SearchSummary RunWithout(int dropped, methods::Method& method,
                           const Budget& budget) {
    Journal journal(folder_.path(), Lease::kTimeoutSeconds,
                    {.suggestion = budget.in_flight > 1});
    for (int i = 0; i < dropped; ++i) {
      journal.DropLast();
    }
    VirtualClock clock(runner_);
    return Search({.space = space_,
                   .budget = budget,
                   .trial_seed = kSeed,
                   .method = method,
                   .clock = clock,
                   .journal = journal});
  }
};

// Those of the trials with these records, from their ends.
std::vector<double> StartsOf(const std::vector<trials::Trial>& records) {
  std::vector<double> starts(records.size());
  for (const trials::Trial& record : records) {
    starts[*record.suggestion - 1] =
        record.elapsed_s - record.measurement.duration_s;
  }
  return starts;
}

TEST_F(InFlightTest, EachTrialStartsWhenTheFourthBeforeItsTurnEnds) {
  FakeMethod alone(AllCandidates());
  const SearchSummary one =
      RunIn(fakes::TemporaryFolder(), alone, {.trials = 20, .q_max = 5});
  FakeMethod method(AllCandidates());
  const SearchSummary four =
      RunWithout(0, method, {.trials = 20, .in_flight = 4, .q_max = 5});
  EXPECT_LT(four.elapsed_s, 0.35 * one.elapsed_s);
  EXPECT_EQ(runner_.requests.size(), 40U);
  const auto records = Records();
  const std::vector<double> starts = StartsOf(records);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_NEAR(starts[i], i < 4 ? 0.0 : records[i - 4].elapsed_s, 1e-9) << i;
  }
  EXPECT_TRUE(std::ranges::is_sorted(records, {}, &trials::Trial::elapsed_s));
}

TEST_F(InFlightTest, OneInFlightHasNoColumnForTheOrderOfSuggestions) {
  FakeMethod method(AllCandidates());
  (void)RunWithout(0, method, {.trials = 2, .q_max = 2});
  EXPECT_TRUE(common::ReadFile(folder_.path() / "trials.csv")
                  .starts_with(trials::FileOf<trials::Trial>().header));
  FakeMethod again(AllCandidates());
  Journal journal(folder_.path(), Lease::kTimeoutSeconds, {.suggestion = true});
  EXPECT_EQ(Records()[1].suggestion, 2);
}

TEST_F(InFlightTest, ResumesToTheSameBytesAfterEveryTrial) {
  const Budget budget{.time_s = 20.0, .trials = 15, .in_flight = 3, .q_max = 5};
  runner_.max_dp = 4;
  FakeMethod whole(AllCandidates());
  whole.stop_below_steps_per_s = 1.5;
  const int count = RunWithout(0, whole, budget).trials;
  ASSERT_GT(count, 6);
  const auto bytes = [this] {
    return common::ReadFile(folder_.path() / "trials.csv") +
           common::ReadFile(folder_.path() / "steps.csv") +
           common::ReadFile(folder_.path() / "fits.csv");
  };
  const std::string records = bytes();
  for (int dropped = 0; dropped <= count; ++dropped) {
    FakeMethod method(AllCandidates());
    method.stop_below_steps_per_s = 1.5;
    const SearchSummary summary = RunWithout(dropped, method, budget);
    EXPECT_EQ(summary.replayed, count - dropped);
    ASSERT_EQ(bytes(), records) << dropped;
  }
}

TEST_F(InFlightTest, NeverPassesTheTimeBudgetAndUsesItUp) {
  FakeMethod method(AllCandidates());
  const SearchSummary summary =
      RunWithout(0, method, {.time_s = 10.0, .in_flight = 3, .q_max = 5});
  EXPECT_EQ(summary.finish_reason, trials::FinishReason::kTimeBudget);
  EXPECT_NEAR(summary.elapsed_s, 10.0, 1e-9);
  const auto records = Records();
  EXPECT_EQ(std::ranges::count(records, Outcome::kTimedOut,
                               [](const trials::Trial& record) {
                                 return record.measurement.outcome;
                               }),
            3);
}

TEST_F(InFlightTest, StartsNoMoreTrialsThanTheLimit) {
  for (const int limit : {1, 3, 5}) {
    const fakes::TemporaryFolder folder;
    runner_.requests.clear();
    FakeMethod method(AllCandidates());
    EXPECT_EQ(
        RunIn(folder, method, {.trials = limit, .in_flight = 4, .q_max = 2})
            .finish_reason,
        trials::FinishReason::kTrialBudget);
    EXPECT_EQ(runner_.requests.size(), static_cast<std::size_t>(limit));
  }
}

TEST_F(InFlightTest, EndsAfterTheLastTrialOfAMethodThatHasNoMore) {
  FakeMethod method({4, 2, 7});
  const SearchSummary summary =
      RunWithout(0, method, {.trials = 9, .in_flight = 2, .q_max = 2});
  EXPECT_EQ(summary.finish_reason, trials::FinishReason::kMethodDone);
  EXPECT_EQ(summary.trials, 3);
}

// It needs the result of the trial that runs.
struct Waiting final : methods::Method {
  explicit Waiting(int candidates) : Method(candidates) {}
  std::optional<methods::Suggestion> Suggest() override {
    ++calls;
    return history_.running().empty() ? std::optional(methods::Suggestion{
                                            .candidate = history_.size()})
                                      : std::nullopt;
  }
  int calls = 0;
};

TEST_F(InFlightTest, AsksAMethodThatHadNothingAgainAfterTheNextTrial) {
  Waiting method(space_.size());
  const SearchSummary summary =
      RunWithout(0, method, {.trials = 3, .in_flight = 2, .q_max = 2});
  EXPECT_EQ(summary.trials, 3);
  EXPECT_EQ(method.calls, 5);  // the limit precedes the last
}

TEST_F(InFlightTest, StopsWhereTheEstimateHoldsAfterTheLastRunningTrial) {
  FakeMethod method(AllCandidates());
  method.gains = {0.2, 0.2, 0.001, 0.2, 0.001, 0.001};
  const SearchSummary summary =
      RunWithout(0, method,
                 {.trials = 9,
                  .in_flight = 2,
                  .q_max = 5,
                  .stop_when = StopCondition("gain < 1%")});
  EXPECT_EQ(summary.finish_reason, trials::FinishReason::kStopCondition);
  ASSERT_TRUE(summary.remaining);
  EXPECT_EQ(summary.remaining->expected_gain, 0.001);
  EXPECT_EQ(Records().size(), 3U);
}

TEST_F(InFlightTest, RefusesRecordsInAnotherOrder) {
  const Budget budget{.trials = 8, .in_flight = 3, .q_max = 2};
  FakeMethod method(AllCandidates());
  (void)RunWithout(0, method, budget);
  auto records = Records();
  std::swap(records[2].suggestion, records[3].suggestion);
  std::string text = trials::TrialsHeader({.custom = {}, .suggestion = true});
  for (const trials::Trial& record : records) {
    text += ToRow(record) + "\n";
  }
  common::ReplaceFile(folder_.path() / "trials.csv", text);
  FakeMethod same(AllCandidates());
  EXPECT_THROW(RunWithout(0, same, budget), common::InputError);
}

// Ends a trial when `in_flight` of them run, or when it is interrupted.
class MeetingRunner final : public trials::TrialRunner {
 public:
  explicit MeetingRunner(int expected) : expected_(expected) {}

  trials::Measurement Run(const trials::TrialRequest& request) override {
    for (++running_; running_ < expected_ && !met_;) {
      if (request.interrupted()) {
        --running_;
        throw trials::TrialInterrupted("interrupted");
      }
      std::this_thread::yield();
    }
    met_ = true;
    --running_;
    if (fails) {
      throw std::runtime_error("no GPU");
    }
    return {.outcome = Outcome::kCompleted,
            .step_times_s = {1.0, 1.0},
            .duration_s = 2.0};
  }
  std::optional<double> ExactThroughput(
      const trials::Candidate& /*candidate*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] int running() const { return running_; }

  bool fails = false;

 private:
  int expected_;
  std::atomic<int> running_ = 0;
  std::atomic<bool> met_ = false;
};

class RealClockTest : public SearchTest {
 protected:
  SearchSummary RunBy(MeetingRunner& runner, std::function<bool()> stop = {}) {
    FakeMethod method(AllCandidates());
    Journal journal(folder_.path(), Lease::kTimeoutSeconds,
                    {.suggestion = true});
    RealClock clock(runner);
    return Search({.space = space_,
                   .budget = {.trials = 6, .in_flight = 3, .q_max = 2},
                   .trial_seed = kSeed,
                   .method = method,
                   .clock = clock,
                   .journal = journal,
                   .stop = std::move(stop)});
  }
};

// A real clock, by what trials report.
class ReportedClock final : public Clock {
 public:
  using Clock::Clock;
  void Begin(int place, double start_s, trials::TrialRequest request) override {
    starts_s.emplace_back(place, start_s);
    virtual_.Begin(place, start_s, std::move(request));
  }
  [[nodiscard]] std::pair<int, trials::Measurement> EndNext() override {
    return virtual_.EndNext();
  }

  std::vector<std::pair<int, double>> starts_s;

 private:
  VirtualClock virtual_{runner_};
};

TEST_F(InFlightTest, OnARealClockTrialsInFlightBeginAgainWhenTheSearchResumes) {
  const Budget budget{.trials = 6, .in_flight = 3, .q_max = 2};
  FakeMethod whole(AllCandidates());
  (void)RunWithout(0, whole, budget);
  const std::vector<trials::Trial> before = Records();
  Journal journal(folder_.path(), Lease::kTimeoutSeconds, {.suggestion = true});
  for (int i = 0; i < 3; ++i) {
    journal.DropLast();
  }
  FakeMethod method(AllCandidates());
  ReportedClock clock(runner_);
  (void)Search({.space = space_,
                .budget = budget,
                .trial_seed = kSeed,
                .method = method,
                .clock = clock,
                .journal = journal});
  std::set<int> in_flight;
  for (std::size_t i = 3; i < before.size(); ++i) {
    in_flight.insert(*before[i].suggestion);
  }
  ASSERT_EQ(clock.starts_s.size(), 3U);
  for (const auto& [place, start_s] : clock.starts_s) {
    EXPECT_TRUE(in_flight.contains(place)) << place;
    EXPECT_EQ(start_s, before[2].elapsed_s);
  }
}

TEST_F(RealClockTest, RunsTrialsAtOnce) {
  MeetingRunner runner(3);
  EXPECT_EQ(RunBy(runner).trials, 6);
  for (const trials::Trial& record : Records()) {
    EXPECT_EQ(record.measurement.outcome, Outcome::kCompleted);
  }
}

TEST_F(RealClockTest, AStopInterruptsAllTrials) {
  MeetingRunner runner(4);
  std::atomic<bool> stop = false;
  std::jthread stopping([&] {
    while (runner.running() < 3) {
      std::this_thread::yield();
    }
    stop = true;
  });
  const SearchSummary summary = RunBy(runner, [&] { return stop.load(); });
  EXPECT_EQ(summary.finish_reason, trials::FinishReason::kUnfinished);
  EXPECT_EQ(summary.stop_reason, "interrupted");
  EXPECT_EQ(runner.running(), 0);
  EXPECT_TRUE(Records().empty());
}

TEST_F(RealClockTest, ABrokenSetUpEndsTheSearchAndAllTrials) {
  MeetingRunner runner(3);
  runner.fails = true;
  EXPECT_THROW((void)RunBy(runner), std::runtime_error);
  EXPECT_EQ(runner.running(), 0);
}

trials::Candidate PlanOf(std::string_view text) {
  trials::Plan plan;
  FromText(text, plan);
  return plan;
}

std::vector<trials::Candidate> TwoPlans() {
  return {PlanOf("microbatches=4 / layers=8 dp=8 tp=1"),
          PlanOf("microbatches=4 / layers=3 dp=4 tp=1 / layers=5 dp=2 tp=2")};
}

std::string FilesOf(const std::filesystem::path& folder) {
  std::string all;
  for (const char* name : {"trials.csv", "steps.csv", "plans.csv"}) {
    all += common::ReadFileIfExists(folder / name).value_or("none\n");
  }
  return all;
}

TEST_F(SearchTest, PlansAreTrialsAndCountAsIncumbents) {
  methods::FixedOrder method({.space = &space_}, {0, 1, 2}, TwoPlans());
  EXPECT_EQ(Run(method, {.trials = 3, .q_max = 5}).trials, 3);
  const std::vector<trials::Trial> records = Records();
  ASSERT_EQ(records.size(), 3U);
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(records[at].plan, TwoPlans()[at].Label());
    EXPECT_EQ(CandidateLabel(records[at]), records[at].plan);
    EXPECT_EQ(records[at].candidate, -1);
    EXPECT_EQ(runner_.requests[at].candidate, TwoPlans()[at]);
  }
  EXPECT_EQ(records[1].config.dp, 4);  // of the first stage
  EXPECT_EQ(records[1].config.pp, 2);
  EXPECT_EQ(records[2].plan, "");
  EXPECT_FALSE(runner_.requests[2].candidate.IsPlan());
  EXPECT_EQ(records[2].incumbent_steps_per_s,
            records[0].throughput.steps_per_s);
}

TEST_F(SearchTest, ARunWithPlansResumesToTheSameBytesAfterEveryTrial) {
  const Budget budget{.trials = 5, .q_max = 5};
  const auto make = [this] {
    return methods::FixedOrder({.space = &space_}, {4, 2, 3}, TwoPlans());
  };
  methods::FixedOrder whole = make();
  (void)Run(whole, budget);
  for (int stop_after = 1; stop_after < 5; ++stop_after) {
    fakes::TemporaryFolder folder;
    for (const int trials : {stop_after, 5}) {
      methods::FixedOrder method = make();
      const SearchSummary summary =
          RunIn(folder, method, {.trials = trials, .q_max = 5});
      EXPECT_EQ(summary.replayed, trials == 5 ? stop_after : 0);
    }
    EXPECT_EQ(FilesOf(folder.path()), FilesOf(folder_.path())) << stop_after;
  }
}

TEST_F(InFlightTest, PlansThatRunAreNotSuggestedAgain) {
  methods::FixedOrder method({.space = &space_}, {4, 2, 3}, TwoPlans());
  const SearchSummary summary =
      RunWithout(0, method, {.trials = 9, .in_flight = 4, .q_max = 5});
  EXPECT_EQ(summary.trials, 5);
  EXPECT_EQ(method.history().plans().size(), 2U);
  EXPECT_EQ(method.history().turn_with_plans(), 5);  // none runs
  EXPECT_TRUE(method.history().running().empty());
}

TEST_F(SearchTest, RefusesRecordsOfAnotherPlan) {
  methods::FixedOrder method({.space = &space_}, {0}, TwoPlans());
  (void)Run(method, {.trials = 2, .q_max = 5});
  methods::FixedOrder other(
      {.space = &space_}, {0},
      {TwoPlans().front(), PlanOf("layers=4 dp=4 tp=1 / layers=4 dp=4 tp=1")});
  EXPECT_THROW((void)Run(other, {.trials = 3, .q_max = 5}), common::InputError);
}

TEST_F(SearchTest, AdoptedPlansAreNotTriedAgain) {
  for (const int adopted : {0, 2}) {
    methods::FixedOrder method({.space = &space_}, {4, 2}, TwoPlans());
    (void)RunIn(folder_, method, {.trials = 2 + adopted / 2, .q_max = 5}, {},
                adopted);
  }
  ASSERT_EQ(Records().size(), 3U);
  EXPECT_EQ(Records()[2].candidate, 4);
}

TEST_F(SearchTest, PlansDoNotExhaustTheSpace) {
  std::vector<int> all = AllCandidates();
  methods::FixedOrder method({.space = &space_}, all, TwoPlans());
  const SearchSummary summary = Run(method, {.trials = 999, .q_max = 2});
  EXPECT_EQ(summary.trials, space_.size() + 2);
  EXPECT_EQ(summary.finish_reason, trials::FinishReason::kSpaceExhausted);
}

}  // namespace harness::search_test
