#include "harness/clock.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "trials/trial_runner.h"

namespace harness::clock_test {

// Each trial takes as long as its limit.
class LimitRunner final : public trials::TrialRunner {
 public:
  trials::Measurement Run(const trials::TrialRequest& request) override {
    return {.duration_s = request.time_limit_s};
  }
  std::optional<double> ExactThroughput(
      const trials::Candidate& /*candidate*/) const override {
    return std::nullopt;
  }
};

TEST(VirtualClock, EndsTrialsByTheirTimesAndEqualOnesAsTheyBegan) {
  LimitRunner runner;
  VirtualClock clock(runner);
  const auto begin = [&](int place, double start_s, double duration_s) {
    clock.Begin(place, start_s, {.time_limit_s = duration_s});
  };
  begin(1, 0.0, 9.0);
  begin(2, 0.0, 3.0);
  begin(3, 1.0, 2.0);
  EXPECT_EQ(clock.EndNext().first, 2);
  begin(4, 3.0, 5.0);
  std::vector<int> places;
  for (int i = 0; i < 3; ++i) {
    places.push_back(clock.EndNext().first);
  }
  EXPECT_EQ(places, (std::vector<int>{3, 4, 1}));
}

TEST(Clock, OnlyAVirtualTrialKeepsItsStartWhenTheSearchResumes) {
  LimitRunner runner;
  EXPECT_EQ(VirtualClock(runner).StartOf(2.0, 7.0), 2.0);
  EXPECT_EQ(RealClock(runner).StartOf(2.0, 7.0), 7.0);
}

}  // namespace harness::clock_test
