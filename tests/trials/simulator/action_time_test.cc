#include "trials/simulator/action_time.h"

#include <set>

#include <gtest/gtest.h>

#include "trials/simulator/framework.h"

namespace trials::action_time_test {

TEST(DispatchOverhead, IsTheExcessOfTheCpuOrThatOfANorm) {
  Framework framework;
  framework.dispatch.dispatch_norm = 0.0;
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 2.0), 0.0);
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 5.0), 2.0);
  framework.dispatch.dispatch_norm = 1.0;  // one after the other
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 2.0), 2.0);
  framework.dispatch.dispatch_norm = 2.0;  // 3, 4, 5
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 4.0), 2.0);
  EXPECT_EQ(DispatchOverhead(framework, 0.0, 4.0), 4.0);
  EXPECT_EQ(DispatchOverhead(framework, 4.0, 0.0), 0.0);
  framework.dispatch.dispatch_norm = 200.0;  // almost the maximum
  EXPECT_NEAR(DispatchOverhead(framework, 3.0, 5.0), 2.0, 1e-9);
}

// Brute force over the hosts of three experts.
TEST(HostsOfToken, IsTheMeanOverAllChoices) {
  Model model;
  model.experts_per_token = 3;
  const auto mean = [](int hosts) {
    double sum = 0.0;
    for (int a = 0; a < hosts; ++a) {
      for (int b = 0; b < hosts; ++b) {
        for (int c = 0; c < hosts; ++c) {
          sum += static_cast<double>(std::set<int>{a, b, c}.size());
        }
      }
    }
    return sum / (hosts * hosts * hosts);
  };
  EXPECT_NEAR(HostsOfToken(model, 4), mean(4), 1e-12);
  // DeepSeek-V3: four of eight groups.
  model.expert_groups = 8;
  model.groups_per_token = 4;
  EXPECT_NEAR(HostsOfToken(model, 8), mean(4), 1e-12);
  EXPECT_NEAR(HostsOfToken(model, 2), 1.0, 1e-12);
}

}  // namespace trials::action_time_test
