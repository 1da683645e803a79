#include "trials/programs/trial_pace.h"

#include <gtest/gtest.h>

namespace trials {
namespace {

TEST(TrialPace, AHangIsTwentyOfTheStepsThatWereSeenButNoShortPause) {
  EXPECT_EQ(SilenceLimitOf(600.0, 10.0, {}).seconds, 200.0);
  EXPECT_EQ(SilenceLimitOf(600.0, 0.1, {}).seconds, 60.0);
  EXPECT_EQ(SilenceLimitOf(600.0, 100.0, {}).seconds, 600.0);
  EXPECT_EQ(SilenceLimitOf(30.0, 0.1, {}).seconds, 30.0) << "the user's";
}

TEST(TrialPace, BeforeTheFirstStepOtherTrialsTellHowLongAStartTakes) {
  EXPECT_EQ(SilenceLimitOf(600.0, 0.0, {}).seconds, 600.0);
  EXPECT_EQ(SilenceLimitOf(600.0, 0.0, {.first_step_s = 20.0}).seconds, 200.0);
  EXPECT_EQ(SilenceLimitOf(600.0, 0.0, {.first_step_s = 2.0}).seconds, 60.0);
}

TEST(TrialPace, ATracebackIsFatalSoonOnlyWhereTrialsTrainWithoutOne) {
  EXPECT_EQ(TracebackLimit(0.0, {.first_step_s = 5.0}), 15.0);
  EXPECT_EQ(TracebackLimit(20.0, {.first_step_s = 5.0}), 40.0);
  EXPECT_EQ(TracebackLimit(0.0, {}), 60.0);
  EXPECT_EQ(
      TracebackLimit(0.0, {.first_step_s = 5.0, .prints_tracebacks = true}),
      60.0);
}

}  // namespace
}  // namespace trials
