// The sensitivity study from the user's perspective.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"

namespace cli::sensitivity_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kMethods = R"(
[method.first]
base = "oppa"

[method.second]
base = "random"
)";

// The variation swaps the methods, so it turns the claim.
constexpr const char* kStudy = R"([study]
experiments = ["base.toml"]
repeats = 6

[[vary]]
name = "swap"
method.first.base = ["random"]
method.second.base = ["oppa"]

[[claim]]
text = "first beats second"
better = "first"
worse = "second"
)";

class SensitivityVerbTest : public testing::Test {
 protected:
  SensitivityVerbTest() {
    fakes::WriteFile(path("base.toml"),
                     fakes::SmallManifest(R"("first", "second")",
                                          "trials = 12\nq_max = 5\n") +
                         kMethods);
    fakes::WriteFile(path("study.toml"), kStudy);
  }

  [[nodiscard]] fs::path path(const std::string& name) const {
    return folder_.path() / name;
  }

  // Runs the program; its output goes to out.txt. Returns whether it succeeded.
  [[nodiscard]] bool Oppa(const std::string& words) const {
    return std::system(fmt::format("{} {} --results {} > {} 2>&1",
                                   fakes::ProgramFile().string(), words,
                                   path("results").string(),
                                   path("out.txt").string())
                           .c_str()) == 0;
  }

  fakes::ExperimentFolder folder_;
};

TEST_F(SensitivityVerbTest, AClaimThatAVariationFlipsIsReportedAsTurned) {
  (void)Oppa("sensitivity " + path("study.toml").string());
  const auto csv =
      common::CsvTable::Read(path("results/study/sensitivity.csv"));
  ASSERT_EQ(csv.rows().size(), 2U) << fakes::ReadFile(path("out.txt"));
  const auto cell = [&](std::size_t row, const char* column) {
    return std::string(csv.Cell(csv.rows()[row], column));
  };
  EXPECT_EQ(cell(0, "constant"), "default");
  EXPECT_EQ(cell(0, "verdict"), "holds");
  EXPECT_EQ(cell(1, "constant"), "swap");
  EXPECT_EQ(cell(1, "verdict"), "turns");
  EXPECT_EQ(common::ParseDouble(cell(1, "effect_points")),
            -common::ParseDouble(cell(0, "effect_points")));
  EXPECT_THAT(fakes::ReadFile(path("results/study/sensitivity.md")),
              HasSubstr("swap = random, oppa (base)"));
}

TEST_F(SensitivityVerbTest, TheDefaultHasTheRecordsOfTheExperiment) {
  (void)Oppa("sensitivity --repeats 2 " + path("study.toml").string());
  ASSERT_TRUE(Oppa("run --no-report " + path("base.toml").string()));
  const auto records = fakes::Records(path("results/base"));
  EXPECT_FALSE(records.empty());
  EXPECT_EQ(fakes::Records(path("results/study/base/default")), records);
}

TEST_F(SensitivityVerbTest, NoRunEvaluatesTheRecordsThatExist) {
  ASSERT_TRUE(Oppa("sensitivity --no-run " + path("study.toml").string()));
  EXPECT_TRUE(fs::exists(path("results/study/sensitivity.csv")));
  EXPECT_FALSE(fs::exists(path("results/study/base")));
}

}  // namespace cli::sensitivity_test
