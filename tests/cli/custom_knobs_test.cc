// Knobs of the user's own, from the manifest to the program and the records.

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/program_test.h"
#include "trials/record.h"

namespace cli::custom_knobs_test {

using testing::HasSubstr;

constexpr std::string_view kProgram = R"sh(#!/bin/sh
[ "$1" = "$OPPA_ATTENTION" ] || exit 3
case "$OPPA_TRIAL" in *"\"attention\":\"$1\""*) ;; *) exit 4 ;; esac
case "$OPPA_TRIAL" in *"\"chunk\":$OPPA_CHUNK"[,}]*) ;; *) exit 5 ;; esac
case $1 in flash) t=1.01 ;; sdpa) t=1.02 ;; *) t=1.04 ;; esac
for i in 1 2 3 4 5 6; do echo "oppa {\"step_time_s\": $t$i}"; done
)sh";

class CustomKnobsTest : public fakes::ProgramTest {
 protected:
  int Search(const std::string& trials, const std::string& attention) {
    Write("My Job.toml",
          "[experiment]\nmethods = [\"oppa\"]\n[backend]\ntype = \"command\"\n"
          "program = [\"./train.sh\", \"{attention}\"]\n" +
              std::string(fakes::kWorkload) + std::string(fakes::kCluster) +
              "[space]\ndp = [8]\ndp_bucket_mb = [16]\nzero_stage = [0]\n"
              "[space.custom]\nattention = " +
              attention +
              "\nchunk = {values = [1, 2, 4], scale = \"log\"}\n"
              "[budget]\nq_max = 6\ntrials = " +
              trials + "\n");
    Write("train.sh", kProgram);
    return Oppa(Words{"run", "My Job.toml", "--no-report"});
  }
};

TEST_F(CustomKnobsTest, ReachTheProgramAreLearnedAndResumed) {
  const std::string values = "[\"eager\", \"sdpa\", \"flash\"]";
  ASSERT_EQ(Search("5", values), 0) << Printed();
  ASSERT_EQ(Search("9", values), 0) << Printed();
  const std::string run = "results/My Job/oppa/1";
  const auto trials = trials::ReadTrials(Path(run));
  ASSERT_EQ(trials.size(), 9U);
  for (const trials::Trial& trial : trials) {
    EXPECT_NE(trial.measurement.outcome, trials::Outcome::kFailed)
        << trial.measurement.message;
    ASSERT_EQ(trial.custom.size(), 2U);
    EXPECT_EQ(trial.custom[0].knob, "attention");
  }
  const std::string fits = Content(run + "/fits.csv");
  for (const char* dimension :
       {"attention=eager", "attention=sdpa", "attention=flash", "chunk"}) {
    EXPECT_THAT(fits, HasSubstr(dimension)) << "no length scale";
  }
}

TEST_F(CustomKnobsTest, AnAddedValueIsTakenIfAccepted) {
  ASSERT_EQ(Search("2", "[\"sdpa\", \"flash\"]"), 0) << Printed();
  EXPECT_EQ(Search("3", "[\"sdpa\", \"flash\", \"eager\"]"), 2);
  EXPECT_THAT(errors_,
              HasSubstr("space.custom.attention[2] = \"eager\" is new"));
}

}  // namespace cli::custom_knobs_test
