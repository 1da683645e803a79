// The sensitivity study from the user's perspective.

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "tests/fakes/program_test.h"

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

class SensitivityVerbTest : public fakes::ProgramTest {
 protected:
  SensitivityVerbTest() {
    Write("base.toml", fakes::SmallManifest(R"("first", "second")",
                                            "trials = 12\nq_max = 5\n") +
                           kMethods);
    Write("study.toml", kStudy);
  }
};

TEST_F(SensitivityVerbTest, AClaimThatAVariationFlipsIsReportedAsTurned) {
  (void)Oppa("sensitivity study.toml");
  const auto csv =
      common::CsvTable::Read(Path("results/study/sensitivity.csv"));
  ASSERT_EQ(csv.rows().size(), 2U) << Printed();
  const auto cell = [&](std::size_t row, const char* column) {
    return std::string(csv.Cell(csv.rows()[row], column));
  };
  EXPECT_EQ(cell(0, "constant"), "default");
  EXPECT_EQ(cell(0, "verdict"), "holds");
  EXPECT_EQ(cell(1, "constant"), "swap");
  EXPECT_EQ(cell(1, "verdict"), "turns");
  EXPECT_EQ(common::ParseDouble(cell(1, "effect_points")),
            -common::ParseDouble(cell(0, "effect_points")));
  EXPECT_THAT(Content("results/study/sensitivity.md"),
              HasSubstr("swap = random, oppa (base)"));
}

TEST_F(SensitivityVerbTest, TheDefaultHasTheRecordsOfTheExperiment) {
  (void)Oppa("sensitivity --repeats 2 study.toml");
  ASSERT_EQ(Oppa("run --no-report base.toml"), 0) << Printed();
  const auto records = fakes::Records(Path("results/base"));
  EXPECT_FALSE(records.empty());
  EXPECT_EQ(fakes::Records(Path("results/study/base/default")), records);
}

TEST_F(SensitivityVerbTest, AVariationThatChangesNeitherMethodIsNoCase) {
  Write("base.toml", fakes::SmallManifest(R"("first", "second", "third")",
                                          "trials = 3\nq_max = 5\n") +
                         kMethods + "[method.third]\nbase = \"random\"\n");
  std::string claims;
  for (const std::string worse : {"second", "third"}) {
    claims += fmt::format(
        "[[claim]]\ntext = \"{0}\"\nbetter = \"first\"\nworse = \"{0}\"\n",
        worse);
  }
  Write("study.toml",
        "[study]\nexperiments = [\"base.toml\"]\nrepeats = 1\n"
        "[[vary]]\nname = \"draw\"\nmethod.second.draw = [\"cell\"]\n" +
            claims);
  ASSERT_EQ(Oppa("sensitivity study.toml"), 0) << Printed();
  const auto csv =
      common::CsvTable::Read(Path("results/study/sensitivity.csv"));
  std::vector<std::string> cases;
  for (const auto& row : csv.rows()) {
    cases.push_back(fmt::format("{} {}", csv.Cell(row, "claim"),
                                csv.Cell(row, "constant")));
  }
  EXPECT_THAT(cases, testing::ElementsAre("second default", "second draw",
                                          "third default"));
}

TEST_F(SensitivityVerbTest, NoRunEvaluatesTheRecordsThatExist) {
  ASSERT_EQ(Oppa("sensitivity --no-run study.toml"), 0) << Printed();
  EXPECT_TRUE(fs::exists(Path("results/study/sensitivity.csv")));
  EXPECT_FALSE(fs::exists(Path("results/study/base")));
}

}  // namespace cli::sensitivity_test
