// Searches that a client drives. python/tests has more, with whole searches.

#include "jobs/tune/serve.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "harness/records/lease.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/experiment_folder.h"

namespace jobs::serve_test {

using common::Json;
using testing::AllOf;
using testing::HasSubstr;

class ServeTest : public testing::Test {
 protected:
  // The answers to requests, the first line included.
  std::vector<Json> Answers(const std::string& requests,
                            const std::string& budget = "") {
    fakes::WriteFile(folder_.path() / "m.toml",
                     std::string(fakes::kWorkload) +
                         std::string(fakes::kCluster) +
                         "[backend]\ntype = \"client\"\n[experiment]\nmethods "
                         "= [\"random\"]\n[space]\nrule_sets = "
                         "[\"colossalai\"]\n[budget]\ntrials = 3\nq_max = 2\n" +
                         budget);
    std::istringstream in(requests);
    std::ostringstream out;
    EXPECT_EQ(Serve({.manifest = folder_.path() / "m.toml",
                     .overrides = {.settings = overrides_}},
                    in, out),
              0);
    std::vector<Json> answers;
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(common::ParseJson(line, "answer"));
    }
    return answers;
  }

  fakes::ExperimentFolder folder_;
  std::vector<std::string> overrides_;
};

constexpr const char* kAsk = "{\"op\": \"ask\"}\n";

TEST_F(ServeTest, ATrialThatWasNotToldIsAskedAgain) {
  const Json first = Answers(kAsk)[1];
  const std::vector<Json> answers = Answers(
      std::string(kAsk) +
      R"({"op": "tell", "trial": 1, "outcome": "completed", "step_times_s": [2, 1]}
{"op": "best"}
)");
  EXPECT_EQ(answers[0]["trials"], 0);
  EXPECT_EQ(answers[1]["trial"]["config"], first["trial"]["config"]);
  EXPECT_EQ(answers[3]["trial"]["step_time_s"], 1.0);
  EXPECT_EQ(Answers(kAsk)[1]["trial"]["number"], 2);
}

// The estimate of a trial has the steps of its record, whoever chose it.
TEST_F(ServeTest, ASearchGoesOnAfterATrialThatTheUserChose) {
  overrides_ = {"experiment.methods=[\"oppa\"]", "budget.q_max=4"};
  const std::string told =
      R"({"op": "tell", "trial": 1, "outcome": "completed", "step_times_s": [2, 1, 1.1, 0.9]}
)";
  (void)Answers(
      R"({"op": "enqueue", "config": "dp=4"}
)" + std::string(kAsk) +
      told + kAsk +
      R"({"op": "tell", "trial": 2, "outcome": "completed", "step_times_s": [3, 2, 2.2, 1.8]}
)");
  const std::vector<Json> answers = Answers(kAsk);
  EXPECT_EQ(answers[0].value("error", ""), "");
  EXPECT_EQ(answers[0]["trials"], 2);
  EXPECT_EQ(answers[1]["trial"]["number"], 3);
}

TEST_F(ServeTest, AWrongRequestChangesNothing) {
  const std::string tell = R"({"op": "tell", "trial": 1, "outcome": )";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"no JSON", "JSON"},
      {R"({"op": "aks"})", "did you mean 'ask'"},
      {kAsk, "one trial runs at a time"},
      {R"({"op": "report", "trial": 1, "step_time_s": -1})", "step_time_s"},
      {R"({"op": "report", "trial": 7, "step_time_s": 1})", "trial"},
      {R"({"op": "report", "trial": true, "step_time_s": 1})", "integer"},
      {R"({"op": "report", "trial": 1.5, "step_time_s": 1})", "integer"},
      {R"({"op": "plan", "count": 1e300})", "integer"},
      {R"({"op": "enqueue"})", "enqueue: "},
      {R"({"op": 7})", "op: type must be string"},
      {R"({"op": "report", "trial": 1, "step_time_s": "1"})",
       "step_time_s: type must be number"},
      {tell + R"("fine"})", "outcome"},
      {tell + R"("completed"})", "2 step_times_s, not 0"},
      {tell + R"("completed", "step_times_s": [1, 0]})", "step_time_s"},
      {tell + R"("completed", "step_times_s": [1, 1, 1]})",
       "at most 2 step_times_s, not 3"},
      {tell + R"("failed", "peak_memory_bytes": -1})", "peak_memory_bytes"}};
  std::string requests = kAsk;
  for (const auto& [request, message] : wrong) {
    requests += request + (request.ends_with('\n') ? "" : "\n");
  }
  const std::vector<Json> answers =
      Answers(requests + R"({"op": "trials"})" + "\n");
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_THAT(answers[i + 2].value("error", ""), HasSubstr(wrong[i].second));
  }
  EXPECT_TRUE(answers.back()["trials"].empty());
}

// Every key of every operation with every value of a wrong type or size.
TEST_F(ServeTest, AWrongValueIsAnsweredByASentenceThatNamesItsKey) {
  const std::vector<std::pair<std::string, std::string>> keys = {
      {R"("op": "report", "trial": 1, )", "step_time_s"},
      {R"("op": "report", "step_time_s": 1, )", "trial"},
      {R"("op": "tell", "outcome": "failed", )", "trial"},
      {R"("op": "tell", "trial": 1, )", "outcome"},
      {R"("op": "tell", "trial": 1, "outcome": "failed", )", "step_times_s"},
      {R"("op": "tell", "trial": 1, "outcome": "failed", )", "message"},
      {R"("op": "tell", "trial": 1, "outcome": "failed", )", "duration_s"},
      {R"("op": "tell", "trial": 1, "outcome": "failed", )", "step_times"},
      {R"("op": "plan", )", "count"},
      {R"("op": "enqueue", )", "config"},
      {R"("op": "best", )", "id"},
      {"", "op"}};
  std::string requests = kAsk;
  std::vector<std::pair<std::string, std::string>> sent;
  for (const auto& [rest, key] : keys) {
    for (const char* value : {"true", "-1e300", "[[1]]", "{\"a\": 1}", "1e999",
                              "[1, \"x\"]", "\"\\ud800\""}) {
      sent.emplace_back(fmt::format("{{{}\"{}\": {}}}", rest, key, value), key);
      requests += sent.back().first + "\n";
    }
  }
  const std::vector<Json> answers =
      Answers(requests + R"({"op": "trials"})" + "\n");
  ASSERT_EQ(answers.size(), sent.size() + 3);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::string error = answers[i + 2].value("error", "");
    const bool parses = error.find("request:") == std::string::npos;
    EXPECT_THAT(error, HasSubstr(parses ? sent[i].second : "request:"))
        << sent[i].first;
    EXPECT_THAT(error, testing::Not(HasSubstr("json.exception")))
        << sent[i].first;
    EXPECT_LT(error.size(), 300U) << sent[i].first;
  }
  EXPECT_TRUE(answers.back()["trials"].empty());
}

TEST_F(ServeTest, ALongLineIsRefusedAndTheNextOneAnswered) {
  const std::string longest = R"({"op": "best", "id": ")" +
                              std::string((16U << 20U) - 24, 'x') + "\"}\n";
  ASSERT_EQ(longest.size(), (16U << 20U) + 1);
  const std::vector<Json> answers =
      Answers(longest + " " + longest + R"({"op": "best", "id": 2})");
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[1]["op"], "best");
  EXPECT_THAT(answers[2].value("error", ""), HasSubstr("16777217 bytes"));
  EXPECT_EQ(answers[3]["id"], 2);
}

TEST_F(ServeTest, ARequestThatIsSentAgainIsDoneOnce) {
  const std::string ask = R"({"op": "ask", "id": 1})"
                          "\n";
  const std::string enqueue = R"({"op": "enqueue", "config": "dp=2,pp=4"})"
                              "\n";
  const std::vector<Json> answers =
      Answers(ask + ask +
              R"({"op": "ask", "id": 2})"
              "\n" +
              enqueue + enqueue +
              R"({"op": "tell", "trial": 1, "outcome": "failed"})"
              "\n" +
              kAsk + enqueue +
              R"({"op": "tell", "trial": 2, "outcome": "failed"})"
              "\n" +
              kAsk);
  EXPECT_EQ(answers[1], answers[2]);
  EXPECT_THAT(answers[3].value("error", ""), HasSubstr("trial 1 is running"));
  EXPECT_EQ(answers[4], answers[5]);
  EXPECT_EQ(answers[7]["trial"]["config"], answers[4]["config"]);
  EXPECT_NE(answers[10]["trial"]["config"], answers[4]["config"]);
}

TEST_F(ServeTest, AnswersRepeatTheIdOfTheirRequest) {
  const std::vector<Json> answers = Answers(R"({"op": "ask", "id": 1}
{"op": "report", "trial": 1, "step_time_s": 1, "id": "two"}
{"op": "tell", "trial": 1, "outcome": "completed", "step_times_s": [2, 1], "id": 3}
{"op": "aks", "id": 4}
{"op": "best"}
)");
  EXPECT_FALSE(answers[0].contains("id"));
  EXPECT_EQ(answers[1]["id"], 1);
  EXPECT_EQ(answers[2]["id"], "two");
  EXPECT_EQ(answers[3]["id"], 3);
  EXPECT_EQ(answers[3]["op"], "tell");
  EXPECT_EQ(answers[4]["id"], 4);
  EXPECT_FALSE(answers[5].contains("id"));
}

TEST_F(ServeTest, ASecondOwnerIsToldOfTheFirst) {
  const std::string folder = Answers(kAsk)[0]["folder"];
  const harness::Lease lease(folder + "/random/1");
  const double begin_s = common::SteadySeconds();
  EXPECT_THAT(fakes::ErrorOf([&] { (void)Answers(""); }),
              AllOf(HasSubstr(fmt::format("process {} on", ::getpid())),
                    HasSubstr("in_flight")));
  EXPECT_LT(common::SteadySeconds() - begin_s, 2.5);
}

TEST_F(ServeTest, SeveralTrialsAreAskedBeforeOneIsTold) {
  const auto tell = [](int trial, int step_s) {
    return fmt::format(
        R"({{"op": "tell", "trial": {}, "outcome": "completed", )"
        R"("step_times_s": [9, {}]}})"
        "\n",
        trial, step_s);
  };
  const std::string asks = std::string(kAsk) + kAsk + kAsk;
  const std::vector<Json> answers =
      Answers(asks + tell(3, 1) + tell(2, 3), "in_flight = 2\n");
  EXPECT_EQ(answers[2]["trial"]["number"], 2);
  EXPECT_THAT(answers[3].value("error", ""), HasSubstr("in_flight"));
  EXPECT_EQ(answers[4]["error"], "trial 3 is not running");
  EXPECT_EQ(answers[5]["trial"]["number"], 2);
  EXPECT_EQ(answers[5]["trial"]["step_time_s"], 3.0);
  // The process ended: trial 1 runs again, and trial 3 is the last.
  const std::vector<Json> rest =
      Answers(std::string(kAsk) + kAsk + tell(3, 2) + tell(1, 1) + kAsk +
                  R"({"op": "best"})" + "\n",
              "in_flight = 2\n");
  EXPECT_EQ(rest[1]["trial"], answers[1]["trial"]);
  EXPECT_EQ(rest[2]["trial"]["number"], 3);
  EXPECT_EQ(rest[3]["trial"]["number"], 3);
  EXPECT_EQ(rest[4]["ended"], "trial budget");
  EXPECT_EQ(rest[5]["trial"], nullptr);
  EXPECT_EQ(rest[6]["trial"]["number"], 1);
}

TEST_F(ServeTest, ALongMessageIsCut) {
  const std::vector<Json> answers = Answers(
      std::string(kAsk) +
      R"({"op": "tell", "trial": 1, "outcome": "failed", "message": ")" +
      std::string(100000, 'x') + "\"}\n{\"op\": \"trials\"}\n");
  EXPECT_LT(answers.back().dump().size(), 5000U);
}

std::string Completed(int trial, double step_s) {
  return fmt::format(R"({{"op": "tell", "trial": {}, "outcome": "completed", )"
                     R"("step_times_s": [9, {}]}})"
                     "\n",
                     trial, step_s);
}

TEST_F(ServeTest, GreetsOnceAndAnswersEachAskAndTellOnce) {
  const std::vector<Json> answers =
      Answers(kAsk + Completed(1, 1) + kAsk + Completed(2, 2) + kAsk +
              Completed(3, 3) + kAsk + kAsk + R"({"op": "best"})" + "\n");
  std::string ops;
  for (const Json& answer : answers) {
    ops += answer["op"].get<std::string>() + " ";
  }
  EXPECT_EQ(ops, "hello ask tell ask tell ask tell ask ask best ");
  EXPECT_EQ(answers[0]["candidates"].get<int>() > 3, true);
  EXPECT_EQ(answers[0]["max_steps"], 2);
  EXPECT_EQ(answers[0]["ended"], nullptr);
  for (const int ended : {7, 8}) {
    EXPECT_EQ(answers[ended]["trial"], nullptr);
    EXPECT_EQ(answers[ended]["ended"], "trial budget");
  }
  EXPECT_EQ(answers[9]["trial"]["number"], 1);
  // A finished search greets and answers alike.
  const std::vector<Json> after = Answers(kAsk);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0]["trials"], 3);
  EXPECT_EQ(after[0]["ended"], "trial budget");
  EXPECT_EQ(after[1], answers[7]);
}

TEST_F(ServeTest, NothingIsBestBeforeATrialCompletes) {
  const std::string best = R"({"op": "best"})"
                           "\n";
  const std::vector<Json> answers =
      Answers(best + kAsk +
              R"({"op": "tell", "trial": 1, "outcome": "out_of_memory"})"
              "\n" +
              best + kAsk + Completed(2, 2) + best);
  EXPECT_EQ(answers[1]["trial"], nullptr);
  EXPECT_EQ(answers[4]["trial"], nullptr);
  EXPECT_EQ(answers[7]["trial"]["number"], 2);
  EXPECT_EQ(answers[7]["trial"]["step_times_s"], Json({9.0, 2.0}));
}

TEST_F(ServeTest, WhatIsEnqueuedIsTriedNextAndOnce) {
  const Json layout = Answers("{\"op\": \"plan\", \"count\": 1}\n")[1];
  const std::string label = layout["layouts"][0]["label"];
  const std::string enqueue =
      fmt::format(R"({{"op": "enqueue", "config": "{}"}})"
                  "\n",
                  label);
  const std::vector<Json> answers =
      Answers(enqueue + enqueue + kAsk + Completed(1, 1) + enqueue + kAsk +
              Completed(2, 1) + R"({"op": "trials"})" + "\n");
  EXPECT_EQ(answers[1]["config"], layout["layouts"][0]["config"]);
  EXPECT_EQ(answers[3]["trial"]["label"], label);
  EXPECT_THAT(answers[5].value("error", ""), HasSubstr("was tried as trial 1"));
  EXPECT_NE(answers[6]["trial"]["label"], label);
  EXPECT_EQ(answers[8]["trials"][0]["chosen_by"], "given");
  EXPECT_EQ(answers[8]["trials"][1]["chosen_by"], "random");
}

TEST_F(ServeTest, EnqueuesOnlyWhatIsInTheSpace) {
  EXPECT_THAT(Answers("{\"op\": \"enqueue\", \"config\": \"dp=3\"}\n")[1].value(
                  "error", ""),
              HasSubstr("is not in the search space"));
}

TEST_F(ServeTest, EnqueuesNothingWhereTrialsAreChosenAhead) {
  EXPECT_THAT(Answers("{\"op\": \"enqueue\", \"config\": \"dp=8\"}\n",
                      "in_flight = 2\n")[1]
                  .value("error", ""),
              HasSubstr("enqueue: with in_flight in [budget]"));
}

TEST_F(ServeTest, SaysWhatIsPossibleNow) {
  const std::string report = R"({"op": "report", "trial": 1, "step_time_s": 1})"
                             "\n";
  std::string asks;
  for (int trial = 1; trial <= 3; ++trial) {
    asks += kAsk + Completed(trial, 1);
  }
  const std::vector<Json> answers = Answers(report + asks + report);
  EXPECT_EQ(answers[1]["error"],
            "report: no trial is running; `ask` for one first");
  EXPECT_EQ(answers.back()["error"], "report: the search has ended");
}

TEST_F(ServeTest, StepsThatAreReportedNeedNotBeTold) {
  const std::string report =
      R"({"op": "report", "trial": 1, "step_time_s": 1.5})"
      "\n";
  const std::vector<Json> answers =
      Answers(kAsk + report + report + report +
              R"({"op": "tell", "trial": 1, "outcome": "completed"})"
              "\n");
  EXPECT_EQ(answers[2]["steps"], 1);
  EXPECT_EQ(answers[3]["steps"], 2);
  EXPECT_EQ(answers[4]["steps"], 2) << "a trial has two steps";
  EXPECT_EQ(answers[4]["should_prune"], false);
  EXPECT_EQ(answers[5]["trial"]["step_time_s"], 1.5);
}

// Whatever its steps were.
TEST_F(ServeTest, AFailureThatIsToldIsRecordedAsOneWithItsReason) {
  const auto answers =
      Answers(std::string(kAsk) +
              R"({"op": "report", "trial": 1, "step_time_s": 1e-5})" + "\n" +
              R"({"op": "tell", "trial": 1, "outcome": "out_of_memory", )"
              R"("message": "CUDA"})" +
              "\n" + kAsk +
              R"({"op": "tell", "trial": 2, "outcome": "failed", )"
              R"("peak_memory_bytes": 20, "message": "segfault"})" +
              "\n" + R"({"op": "trials"})" + "\n");
  const Json& trials = answers.back()["trials"];
  ASSERT_EQ(trials.size(), 2u) << answers.back();
  EXPECT_EQ(trials[0]["outcome"], "out_of_memory");
  EXPECT_EQ(trials[1]["outcome"], "failed");
  EXPECT_THAT(trials[1].dump(), HasSubstr("segfault"));
}

TEST_F(ServeTest, DescribesTheSpaceAndThePlan) {
  const std::vector<Json> answers = Answers(R"({"op": "space"})"
                                            "\n"
                                            R"({"op": "plan", "count": 3})"
                                            "\n");
  const Json& values = answers[1]["parameters"]["dp"];
  EXPECT_TRUE(std::ranges::is_sorted(values));
  EXPECT_EQ(values.front(), 1);
  const Json& layouts = answers[2]["layouts"];
  ASSERT_EQ(layouts.size(), 3U);
  double last_s = 0.0;
  for (const Json& layout : layouts) {
    const double step_s = layout["predicted"]["step_time_s"];
    EXPECT_GE(step_s, last_s) << "the fastest come first";
    last_s = step_s;
  }
}

}  // namespace jobs::serve_test
