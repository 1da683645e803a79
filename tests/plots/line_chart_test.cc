#include "plots/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plots {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LineChart Chart() {
  return {
      "chart",
      {{"left", "GPUs", "s", true, false, {{"it's, fast", {8, 16}, {2, 1}}}},
       {"right", "step", "s", false, true, {{"", {1}, {0.5}, 1, true}}}}};
}

TEST(LineChart, DataAreOneRowPerPointWithItsPanelAndLine) {
  EXPECT_EQ(DataCsv(Chart()),
            "panel,line,label,x,y\n"
            "1,1,\"it's, fast\",8,2\n"
            "1,1,\"it's, fast\",16,1\n"
            "2,1,,1,0.5\n");
}

TEST(LineChart, TheScriptDrawsEveryPanelOnItsOwnAxes) {
  const std::string script = Script(Chart(), {"svg"});
  EXPECT_THAT(script,
              AllOf(HasSubstr("multiplot layout 1,2"),
                    HasSubstr("set logscale x\n  unset logscale y"),
                    HasSubstr("unset logscale x\n  set logscale y"),
                    HasSubstr("'it''s, fast'"),
                    HasSubstr("set output 'chart.'.format")));
  EXPECT_THAT(script, Not(HasSubstr("terminal_pdf")));
}

}  // namespace
}  // namespace plots
