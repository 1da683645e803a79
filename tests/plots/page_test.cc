#include "plots/page.h"

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace plots::page_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using trials::Outcome;
using trials::Trial;

int Count(const std::string& text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class PageTest : public testing::Test {
 protected:
  void WriteRecord(const std::string& name, const std::string& json) const {
    trials::WriteRecord(folder_.path() / name, common::Json::parse(json));
  }
  PageTest() {
    info_.methods = {{"oppa", "OPPA"}};
    info_.name = info_.title = "job <b>";
    info_.problems = {""};
    info_.repeats = 1;
    problem_.description = "model & batch";
    problem_.backend = "command";
    problem_.memory_capacity_bytes = 40e9;
  }

  void Add(Outcome outcome, double steps_per_s,
           const std::string& message = "") {
    Trial trial{.number = static_cast<int>(trials_.size()) + 1};
    trial.config.dp = trial.number;
    trial.measurement.outcome = outcome;
    trial.measurement.message = message;
    trial.measurement.duration_s = 10.0;
    if (steps_per_s > 0.0) {
      trial.throughput = {steps_per_s, 1e-4, 9};
      trial.measurement.peak_memory_bytes = 30e9;
    }
    trial.incumbent_steps_per_s = trials_.empty()
                                      ? trials::kUnknown
                                      : trials_.back().incumbent_steps_per_s;
    if (outcome == Outcome::kCompleted) {
      trial.incumbent_steps_per_s =
          std::fmax(trial.incumbent_steps_per_s, steps_per_s);
    }
    trials_.push_back(trial);
  }

  std::string Html(const PageOptions& options = {}, bool finished = true) {
    const auto run = folder_.path() / "oppa/1";
    std::string rows = trials::FileOf<Trial>().header;
    for (const Trial& trial : trials_) {
      rows += ToRow(trial) + "\n";
    }
    fakes::WriteFile(run / "trials.csv", rows);
    trials::Write(folder_.path(), info_);
    trials::Write(folder_.path(), problem_);
    trials::RunInfo info{.method = "oppa", .repeat = 1};
    info.finished = finished;
    trials::Write(run, info);
    return fakes::ReadFile(WritePage(folder_.path(), options));
  }

  fakes::TemporaryFolder folder_;
  trials::ExperimentInfo info_;
  trials::ProblemInfo problem_;
  std::vector<Trial> trials_;
};

TEST_F(PageTest, HasARowForEachTrialAndASeriesForEachOutcome) {
  Add(Outcome::kCompleted, 1.0);
  Add(Outcome::kTerminatedEarly, 0.5);
  Add(Outcome::kOutOfMemory, 0.0);
  Add(Outcome::kFailed, 0.0);
  Add(Outcome::kTimedOut, 0.0);
  const std::string html = Html();
  EXPECT_EQ(Count(html, "<tr"), 6);
  for (const char* label : {"best so far", "completed", "stopped early",
                            "out of memory", "failed", "timed out"}) {
    EXPECT_EQ(Count(html, fmt::format("<text>{}</text>", label)), 1) << label;
  }
}

TEST_F(PageTest, KeepsItsTablesWithoutGnuplot) {
  Add(Outcome::kCompleted, 1.0);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  const std::string html = Html();
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(html, AllOf(HasSubstr("No figure: "), HasSubstr("gnuplot-nox"),
                          HasSubstr("id=\"trials\""), Not(HasSubstr("<svg"))));
}

TEST_F(PageTest, NamesTheSpeedUpAndTheHeadroom) {
  Add(Outcome::kCompleted, 1.0);
  Add(Outcome::kCompleted, 1.5);
  EXPECT_THAT(Html(),
              AllOf(HasSubstr("1.50×"), HasSubstr("of 40.0 GB, 25% free"),
                    Not(HasSubstr(">nan"))));
}

// Repeated measurements reverse the order of the search: their result counts.
TEST_F(PageTest, HasTheResultOfTheFinals) {
  Add(Outcome::kCompleted, 1.0);
  Add(Outcome::kCompleted, 1.5);
  WriteRecord("best.json",
              R"({"config": "yours", "step_time_s": 0.9, "steps": 57,
                       "tokens_per_s": 12380.4, "speed_up": {"value": 0.95,
                       "low": 0.74, "high": 1.21, "p": 0.66}})");
  EXPECT_THAT(Html(), AllOf(HasSubstr("Keep your configuration"),
                            HasSubstr("12,380 tokens/s"), HasSubstr("0.95×"),
                            HasSubstr("[0.74, 1.21] over yours, p = 0.66"),
                            Not(HasSubstr("Best configuration"))));
}

// The search has 1.50 and 1.40; what was measured again has 1.25 and 0.80.
TEST_F(PageTest, ShowsTheRoundsThatDecidedAndOneSpeedUp) {
  Add(Outcome::kCompleted, 1.0);
  trials_.back().chosen_by = trials::ChosenBy::kGiven;
  Add(Outcome::kCompleted, 1.5);
  Add(Outcome::kCompleted, 1.4);
  const auto label = [this](int i) { return CandidateLabel(trials_[i]); };
  WriteRecord("finals.json", fmt::format(
                                 R"({{"trials": 3, "finalists": [
          {{"config": "{}", "rounds": [[1.25, 1.25], []], "failures": ["out_of_memory"]}},
          {{"config": "{}", "rounds": [[0.75, 0.75], [0.85, 0.85]]}},
          {{"config": "yours", "rounds": [[1.0, 1.0], [1.0, 1.0]]}}]}})",
                                 label(1), label(2)));
  WriteRecord("best.json",
              fmt::format(R"({{"config": "{}", "step_time_s": 0.8, "steps": 4,
                      "tokens_per_s": 10, "speed_up": {{"value": 1.25,
                      "low": 1.2, "high": 1.3, "p": 0.01}}}})",
                          label(2)));
  const std::string html = Html();
  EXPECT_THAT(html, AllOf(HasSubstr("Round 2 (s)"), HasSubstr(">0.7500<"),
                          HasSubstr(">0.8500<"), HasSubstr(">out of memory<"),
                          HasSubstr("1.25×"), Not(HasSubstr("1.50×")),
                          Not(HasSubstr("1.40×")),
                          HasSubstr("<text>best, measured again</text>")));
  EXPECT_EQ(Count(html, "0.80×"), 2) << "in both tables";
  const std::size_t best = html.find(" best\"", html.find("id=\"trials\""));
  EXPECT_THAT(html.substr(best, 20), HasSubstr(">3<"))
      << "the third trial is marked";
}

TEST_F(PageTest, LeavesOutFinalsOfFewerTrials) {
  Add(Outcome::kCompleted, 1.0);
  Add(Outcome::kCompleted, 1.5);
  WriteRecord("finals.json", R"({"trials": 1, "finalists": []})");
  WriteRecord("best.json", R"({"config": "yours"})");
  EXPECT_THAT(Html(), AllOf(HasSubstr("1.50×"), Not(HasSubstr("Measured"))));
}

TEST_F(PageTest, SaysWhyWhereNothingRan) {
  Add(Outcome::kFailed, 0.0, "exit code 3: no module named 'torch'");
  const std::string html = Html();
  EXPECT_THAT(html, AllOf(HasSubstr("No configuration has completed"),
                          HasSubstr("no module named &#39;torch&#39;")));
}

TEST_F(PageTest, EscapesTextOfFiles) {
  Add(Outcome::kCompleted, 1.0, "<script>alert(1)</script>");
  const std::string html = Html({.command = "train \"</pre><img src=x>\""});
  EXPECT_THAT(html,
              AllOf(HasSubstr("job &lt;b&gt;"), HasSubstr("model &amp; batch"),
                    Not(HasSubstr("<script>alert")), Not(HasSubstr("<img"))));
}

TEST_F(PageTest, NamesNoOtherFile) {
  Add(Outcome::kCompleted, 1.0);
  for (const char* reference : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_THAT(Html(), Not(HasSubstr(reference)));
  }
}

TEST_F(PageTest, IsNotWrittenOfARunThatLostARow) {
  Add(Outcome::kCompleted, 2.0);
  Add(Outcome::kCompleted, 1.0);
  (void)Html();
  const auto run = folder_.path() / "oppa/1";
  trials::RunInfo info{.method = "oppa", .repeat = 1};
  info.finished = true;
  info.files = trials::SealFiles(run);
  trials::Write(run, info);
  EXPECT_NO_THROW((void)WritePage(folder_.path(), {}));
  fakes::WriteFile(run / "trials.csv", trials::FileOf<Trial>().header +
                                           ToRow(trials_.back()) + "\n");
  EXPECT_THAT(fakes::ErrorOf([&] { return WritePage(folder_.path(), {}); }),
              HasSubstr("trials.csv"));
}

TEST_F(PageTest, SaysWhichClockTheSearchHad) {
  Add(Outcome::kCompleted, 2.0);
  for (const auto& [backend, clock] :
       {std::pair("command", "on the machine"),
        std::pair("client", "on the machine"),
        std::pair("trainer", "on the machine"),
        std::pair("simulator", "on a virtual clock")}) {
    problem_.backend = backend;
    EXPECT_THAT(Html(), HasSubstr(clock)) << backend;
  }
}

TEST_F(PageTest, ReloadsItselfOnlyWhileTheSearchRuns) {
  Add(Outcome::kCompleted, 1.0);
  EXPECT_THAT(Html({}, false), HasSubstr("<body data-live>"));
  EXPECT_THAT(Html({}, true), Not(HasSubstr("data-live>")));
}

TEST_F(PageTest, WorksBeforeTheFirstTrial) {
  EXPECT_THAT(Html({}, false), HasSubstr("No trial has ended yet"));
}

TEST_F(PageTest, ListsTheMethodsInsteadOfAnUnknownOne) {
  Add(Outcome::kCompleted, 1.0);
  (void)Html();
  EXPECT_THAT(fakes::ErrorOf(
                  [&] { return WritePage(folder_.path(), {.method = "opa"}); }),
              HasSubstr("did you mean 'oppa'?"));
}

TEST(SpeedUp, IsTheRatioWithTheNoiseOfBothMeans) {
  Trial a{.steps = 5};
  a.throughput = {2.0, 0.04, 4};
  Trial b{.steps = 5};
  b.throughput = {1.0, 0.01, 4};
  const common::Estimate speed = SpeedUpOf(a, b);
  EXPECT_DOUBLE_EQ(speed.value, 2.0);
  // Both have a relative variance of 0.01 / 4.
  EXPECT_NEAR(std::log(speed.high / speed.value), 1.959964 * std::sqrt(0.005),
              1e-12);
  EXPECT_NEAR(speed.low * speed.high, 4.0, 1e-12);
}

}  // namespace plots::page_test
