#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json.h"
#include "studies/verbs.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace studies::verb_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two scenarios: on one host and on two, the second with a value that no
// configuration has.
constexpr const char* kTable =
    "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,status,"
    "step_time_s,peak_memory_gb\n"
    "ultrascale-3b-8,8,2,4,1,0,4,32,ok,3.5,\n"
    "ultrascale-3b-16,16,2,8,1,1,4,32,ok,7,\n"
    "ultrascale-3b-16,16,16,1,1,0,16,1,oom,,\n";

class ValidateVerb : public ::testing::Test {
 protected:
  // Runs the verb on the table and returns its text.
  std::string Run(bool json) {
    ValidateOptions options{.table = folder_.path() / "table.csv",
                            .json = json,
                            .results = folder_.path() / "results"};
    fakes::WriteFile(options.table, kTable);
    std::ostringstream out;
    std::ostringstream notes;
    EXPECT_EQ(Validate(options, {out, notes}), 0);
    EXPECT_THAT(notes.str(), testing::HasSubstr("assumed: jobs that nothing "
                                                "slowed down"));
    return out.str();
  }

  [[nodiscard]] std::string Written(const std::string& name) const {
    return fakes::ReadFile(folder_.path() / "results/validation/table" / name);
  }

  const fakes::TemporaryFolder folder_;
};

TEST_F(ValidateVerb, JsonHasTheNumbersAndIsWrittenBesideTheFigures) {
  const std::string text = Run(true);
  EXPECT_EQ(text, Written("comparison.json"));
  const common::Json json = common::ParseJson(text, "stdout");
  EXPECT_EQ(json["table"], "table");
  EXPECT_EQ(json["rows"], 3);
  const common::Json& all = json["comparisons"][0];
  EXPECT_EQ(all["scope"], "all");
  EXPECT_EQ(all["half"], "all");
  EXPECT_EQ(all["step_time"]["rows"], 2);
  EXPECT_GT(all["step_time"]["mean"].get<double>(), 0.0);
  EXPECT_TRUE(all["peak_memory"]["mean"].is_null());
  EXPECT_EQ(all["out_of_memory_rows"], 1);
}

TEST_F(ValidateVerb, DataHaveARowPerPointAndAColumnPerGroup) {
  (void)Run(false);
  const std::string csv = Written("step-time.csv");
  EXPECT_THAT(csv, StartsWith("measured,H100-SXM5-80GB: one host,"
                              "H100-SXM5-80GB: several hosts,scenario\n3.5,"));
  EXPECT_THAT(csv, HasSubstr(",,ultrascale-3b-8\n7,,"));
  EXPECT_THAT(csv, testing::EndsWith(",ultrascale-3b-16\n"));
}

TEST_F(ValidateVerb, BothAxesOfAPictureCoverAllPointsAlike) {
  (void)Run(false);
  const std::string script = Written("step-time.gp");
  const auto range = [&](const std::string& axis) {
    const std::size_t begin = script.rfind("set " + axis + "range [");
    EXPECT_NE(begin, std::string::npos);
    return script.substr(begin + 5, script.find('\n', begin) - begin - 5);
  };
  EXPECT_EQ(range("x"), range("y"));
  EXPECT_THAT(script, HasSubstr("set logscale x"));
  EXPECT_THAT(script, HasSubstr("set logscale y"));
  EXPECT_THAT(script, HasSubstr("0.8*x with lines"));
}

}  // namespace studies::verb_test
