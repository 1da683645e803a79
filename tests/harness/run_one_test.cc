#include "harness/run_one.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "common/error.h"

namespace harness::run_one_test {

class SuggestionThreadsTest : public testing::Test {
 protected:
  SuggestionThreadsTest() { Clear(); }
  ~SuggestionThreadsTest() override { Clear(); }

  static void Clear() {
    ::unsetenv("OPPA_THREADS");
    ::unsetenv("SLURM_CPUS_PER_TASK");
  }
};

TEST_F(SuggestionThreadsTest, IsOneUnlessSomebodySaysMore) {
  EXPECT_EQ(SuggestionThreads(), 1);
  ::setenv("SLURM_CPUS_PER_TASK", "8", 1);
  EXPECT_EQ(SuggestionThreads(), 8);
  ::setenv("OPPA_THREADS", "2", 1);
  EXPECT_EQ(SuggestionThreads(), 2);
}

TEST_F(SuggestionThreadsTest, RefusesWhatIsNoNumberOfThreads) {
  for (const char* value : {"0", "-1", "two", "2x", "4000"}) {
    ::setenv("OPPA_THREADS", value, 1);
    EXPECT_THROW((void)SuggestionThreads(), common::InputError) << value;
  }
}

}  // namespace harness::run_one_test
