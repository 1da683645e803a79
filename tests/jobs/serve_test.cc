// Searches that a client drives. python/tests has more, with whole searches.

#include "jobs/serve.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json.h"
#include "tests/fakes/experiment_folder.h"

namespace jobs::serve_test {

using common::Json;
using testing::HasSubstr;

class ServeTest : public testing::Test {
 protected:
  // The answers to requests, the first line included.
  std::vector<Json> Answers(const std::string& requests) {
    fakes::WriteFile(folder_.path() / "m.toml",
                     std::string(fakes::kWorkload) +
                         std::string(fakes::kCluster) +
                         "[backend]\ntype = \"client\"\n[experiment]\nmethods "
                         "= [\"random\"]\n[space]\nrule_sets = "
                         "[\"colossalai\"]\n[budget]\ntrials = 3\nq_max = 2\n");
    std::istringstream in(requests);
    std::ostringstream out;
    EXPECT_EQ(Serve({.manifest = folder_.path() / "m.toml"}, in, out), 0);
    std::vector<Json> answers;
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(common::ParseJson(line, "answer"));
    }
    return answers;
  }

  fakes::ExperimentFolder folder_;
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
      {tell + R"("fine"})", "outcome"},
      {tell + R"("completed"})", "2 step_times_s, not 0"},
      {tell + R"("completed", "step_times_s": [1, 0]})", "step_time_s"},
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

TEST_F(ServeTest, ALongMessageIsCut) {
  const std::vector<Json> answers = Answers(
      std::string(kAsk) +
      R"({"op": "tell", "trial": 1, "outcome": "failed", "message": ")" +
      std::string(100000, 'x') + "\"}\n{\"op\": \"trials\"}\n");
  EXPECT_LT(answers.back().dump().size(), 5000U);
}

}  // namespace jobs::serve_test
