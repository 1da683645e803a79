#include "harness/slurm/retry_policy.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harness::retry_policy_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = SlurmAttempt::State;

JobEvidence Evidence(const std::string& state, std::optional<State> own = {},
                     const std::string& reason = "") {
  JobEvidence evidence;
  if (!state.empty()) {
    evidence.entry = QueueEntry{state, reason, "n1", ""};
  }
  if (own) {
    evidence.attempt = SlurmAttempt{};
    evidence.attempt->state = *own;
    evidence.attempt->message = "own words";
  }
  evidence.detail = "detail";
  return evidence;
}

JobVerdict Decide(const JobEvidence& evidence, bool requeue = false) {
  SlurmOptions options;
  options.retries = 2;
  options.requeue_until_done = requeue;
  return DecideRetry(options, evidence);
}

// What Slurm and the job report, and what becomes of the job.
struct Case {
  const char* state;
  std::optional<State> own;
  const char* reason;
  JobAction action;
};

TEST(RetryPolicy, RetriesOnOtherNodesOnlyWhatWouldNotFailAgain) {
  const auto retry = JobAction::kRetryOnOtherNodes;
  const auto give_up = JobAction::kGiveUp;
  for (const auto& [state, own, reason, action] : std::vector<Case>{
           {"NODE_FAIL", State::kRunning, "", retry},
           {"PREEMPTED", State::kRunning, "", retry},
           {"FAILED", State::kRunning, "", retry},
           {"COMPLETED", State::kRunning, "", retry},
           {"SOMETHING_NEW", State::kRunning, "", retry},
           {"", State::kRunning, "", retry},
           // A preempted job gets a signal and stops in an orderly way.
           {"PREEMPTED", State::kStopped, "", retry},
           {"PREEMPTED", State::kTimeLimit, "", retry},
           {"PENDING", {}, "launch failed requeued held", retry},
           {"CANCELLED", State::kRefused, "", give_up},
           {"FAILED", State::kRefused, "", give_up},
           {"COMPLETED", State::kStopped, "", give_up},
           {"OUT_OF_MEMORY", State::kRunning, "", give_up},
           {"PENDING", {}, "BadConstraints", give_up}}) {
    EXPECT_EQ(Decide(Evidence(state, own, reason), true).action, action)
        << state << reason;
  }
  EXPECT_EQ(Decide(Evidence("FAILED", State::kRefused)).reason, "own words");
}

TEST(RetryPolicy, GivesUpAfterTheLastRetry) {
  JobEvidence evidence = Evidence("NODE_FAIL");
  evidence.failures = 1;
  EXPECT_EQ(Decide(evidence).action, JobAction::kRetryOnOtherNodes);
  evidence.failures = 2;
  EXPECT_EQ(Decide(evidence).action, JobAction::kGiveUp);
  EXPECT_EQ(Decide(evidence).reason, "detail; tried 3 times");
}

TEST(RetryPolicy, ContinuesAfterATimeLimitIfAskedToAndIfTrialsWereAdded) {
  for (const auto& [state, own] : {std::pair("TIMEOUT", State::kRunning),
                                   std::pair("DEADLINE", State::kRunning),
                                   std::pair("COMPLETED", State::kTimeLimit)}) {
    JobEvidence evidence = Evidence(state, own);
    EXPECT_EQ(Decide(evidence, false).action, JobAction::kGiveUp);
    EXPECT_EQ(Decide(evidence, true).action, JobAction::kGiveUp);
    EXPECT_THAT(Decide(evidence, true).reason, HasSubstr("not one trial"));
    evidence.progressed = true;
    evidence.failures = 9;
    EXPECT_EQ(Decide(evidence, true).action, JobAction::kContinue);
  }
}

TEST(RetryPolicy, RetriesWithoutExclusionsWhereOnlyExcludedNodesAreLeft) {
  JobEvidence evidence = Evidence("PENDING", {}, "ReqNodeNotAvail, n1");
  evidence.excludes_nodes = true;
  EXPECT_EQ(Decide(evidence).action, JobAction::kRetryAnywhere);
}

TEST(RetryPolicy, ExcludesSingleNodesUpToALimit) {
  EXPECT_THAT(ExtendExclusions({"n2"}, "n1"), ElementsAre("n1", "n2"));
  EXPECT_THAT(ExtendExclusions({"n2"}, "n2"), ElementsAre("n2"));
  for (const char* node : {"", "(null)", "n[1-4]", "a b"}) {
    EXPECT_THAT(ExtendExclusions({"n2"}, node), ElementsAre("n2")) << node;
  }
  const std::vector<std::string> many = {"a", "b", "c", "d",
                                         "e", "f", "g", "h"};
  EXPECT_THAT(ExtendExclusions(many, "i"), IsEmpty());
}

TEST(RetryPolicy, SubmitsWithoutExclusionsIfSbatchRefusesThem) {
  std::vector<std::size_t> calls;
  std::string said;
  const Note note = [&said](const std::string& line) { said = line; };
  SubmitExcluding({"n1"}, note,
                  [&calls](const std::vector<std::string>& excluded) {
                    calls.push_back(excluded.size());
                    if (!excluded.empty()) {
                      throw std::runtime_error(
                          "Requested node configuration is not available");
                    }
                  });
  EXPECT_THAT(calls, ElementsAre(1U, 0U));
  EXPECT_THAT(said, HasSubstr("retrying without node exclusions"));
  EXPECT_THROW(SubmitExcluding({}, note,
                               [](const std::vector<std::string>&) {
                                 throw std::runtime_error("no");
                               }),
               std::runtime_error);
}

}  // namespace harness::retry_policy_test
