#include "trials/simulator/stage_balance.h"

#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"

namespace trials::stage_balance_test {

TEST(StageBalance, TheHeadCountsAsTheBlocksItIsWorth) {
  // 16 blocks and a head of four: twenty units, five a stage.
  EXPECT_EQ(BalanceLayers(16, 4.0, 4), (std::vector<int>{5, 5, 5, 1}));
  EXPECT_EQ(BalanceLayers(16, 4.0, 1), std::vector<int>{16});
}

// Without a gate, a block of Gpt has 12 matrices of 2048 x 2048.
TEST(StageBalance, TheHeadIsWorthItsShareOfABlocksWeights) {
  EXPECT_DOUBLE_EQ(BlocksInHead(Gpt()), 51200.0 / (12 * 2048));
  EXPECT_DOUBLE_EQ(BlocksInHead(SmallLlama()),
                   32000.0 / (2 * 1024 + 2 * 512 + 3 * 2816));
}

TEST(StageBalance, NoBlockIsLost) {
  for (const int stages : {1, 2, 3, 4, 6, 8}) {
    const std::vector<int> blocks = BalanceLayers(32, 2.2, stages);
    EXPECT_EQ(std::accumulate(blocks.begin(), blocks.end(), 0), 32) << stages;
  }
}

// The Ultra-Scale Playbook's 1B model fails on 16 stages, its 8B model runs on
// 32.
TEST(StageBalance, AStageThatStaysEmptyIsRefused) {
  EXPECT_THROW((void)BalanceLayers(16, 4.0, 16), std::invalid_argument);
  EXPECT_NO_THROW((void)BalanceLayers(32, 2.207, 32));
}

}  // namespace trials::stage_balance_test
