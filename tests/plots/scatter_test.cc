#include "plots/scatter.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace plots {
namespace {

using ::testing::HasSubstr;

Scatter Two() {
  return {
      "step-time",
      "It's a table",
      "step time (s)",
      {{"A100: one host", "a,b", 1.0, 2.0}, {"H100: one host", "c", 4.0, 0.5}}};
}

TEST(Scatter, DataHasARowPerPoint) {
  EXPECT_EQ(DataCsv(Two()),
            "group,label,measured,predicted\n"
            "A100: one host,\"a,b\",1,2\n"
            "H100: one host,c,4,0.5\n");
}

TEST(Scatter, BothAxesCoverAllPointsAlike) {
  const std::string script = Script(Two(), {"svg"});
  EXPECT_THAT(script, HasSubstr("set xrange [0.4:5]"));
  EXPECT_THAT(script, HasSubstr("set yrange [0.4:5]"));
  EXPECT_THAT(script, HasSubstr("set logscale xy"));
  EXPECT_THAT(script, HasSubstr("'It''s a table'"));
}

TEST(Scatter, AFigureWithoutPointsIsNotWritten) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "scatter_test";
  EXPECT_EQ(WriteScatters(folder, {{"empty", "", "", {}}}), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "empty.csv"));
}

TEST(Scatter, AFolderThatCannotBeWrittenIsNamedWithTheRemedy) {
  try {
    (void)WriteScatters("/proc/none", {Two()});
    FAIL() << "/proc/none was written";
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("/proc/none/step-time.csv"));
    EXPECT_THAT(e.what(), HasSubstr("choose another folder (--results)"));
  }
}

}  // namespace
}  // namespace plots
