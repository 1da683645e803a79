// The ledger of claims, on small records and tables.

#include "studies/claims.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "studies/published_data.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/plots/synthetic_experiment.h"

namespace studies::claims_test {

using testing::AllOf;
using testing::HasSubstr;
using trials::Outcome;

class ClaimsTest : public testing::Test {
 protected:
  // Judges one claim; the rows of claims.csv.
  common::CsvTable Judge(const std::string& claim) {
    fakes::WriteFile(file(),
                     "[[claim]]\nid = \"a\"\nsource = \"S\"\nplace = "
                     "\"Fig. 1\"\ntext = \"c\"\n" +
                         claim);
    const auto outputs = JudgeClaims(file(), results());
    fakes::WriteFile(results() / "claims.csv", ToCsv(outputs.front().table));
    return common::CsvTable::Read(results() / "claims.csv");
  }

  std::string Verdict(const std::string& claim) {
    const common::CsvTable table = Judge(claim);
    return std::string(table.Cell(table.rows().front(), "verdict"));
  }

  // Two methods with these noise-free throughputs, of which the optimum is 2.
  void WriteRuns(const std::vector<double>& ours,
                 const std::vector<double>& rival) {
    const auto folder = results() / "e";
    std::filesystem::create_directories(folder);
    trials::Write(folder,
                  trials::ExperimentInfo{
                      .name = "e",
                      .problems = {""},
                      .methods = {{"oppa", "OPPA"}, {"random", "RANDOM"}},
                      .repeats = static_cast<int>(ours.size())});
    plots_test::WriteProblem(folder, plots_test::SmallProblem());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const int repeat = static_cast<int>(i) + 1;
      plots_test::WriteRun(folder, "", "oppa", repeat,
                           {{Outcome::kCompleted, 60, 5, ours[i], ours[i], 4}});
      plots_test::WriteRun(
          folder, "", "random", repeat,
          {{Outcome::kCompleted, 600, 9, rival[i], rival[i], 1}});
    }
  }

  [[nodiscard]] std::filesystem::path file() const {
    return folder_.path() / "claims.toml";
  }
  [[nodiscard]] std::filesystem::path results() const {
    return folder_.path() / "results";
  }

  static constexpr const char* kBeatsRandom =
      "experiment = \"e\"\nmethods = [\"oppa\"]\nrivals = [\"random\"]\n";
  fakes::TemporaryFolder folder_;
};

TEST_F(ClaimsTest, HoldsForAllOfTheIntervalFailsForNoneAndIsOpenBetween) {
  WriteRuns({1.9, 2.0, 1.8, 1.9, 2.0, 1.9}, {1.0, 1.1, 1.2, 1.0, 1.1, 1.3});
  EXPECT_EQ(Verdict(kBeatsRandom), "holds");
  EXPECT_EQ(Verdict(std::string(kBeatsRandom) + "criterion = \"x > 60\"\n"),
            "does not hold");
  WriteRuns({1.9, 1.0, 1.8, 1.0, 2.0, 1.0}, {1.0, 1.9, 1.2, 1.8, 1.1, 1.9});
  EXPECT_EQ(Verdict(kBeatsRandom), "open");
}

TEST_F(ClaimsTest, FewerThanSixRunsLeaveItOpen) {
  WriteRuns({1.9, 2.0, 1.8, 1.9, 2.0}, {1.0, 1.1, 1.2, 1.0, 1.1});
  EXPECT_EQ(Verdict(kBeatsRandom), "open");
}

TEST_F(ClaimsTest, QuantitiesAreExpressionsOverARunAndItsChoice) {
  WriteRuns({1.9, 2.0, 1.8, 1.9, 2.0, 1.9}, {1.0, 1.1, 1.2, 1.0, 1.1, 1.3});
  const std::string oppa = "experiment = \"e\"\nmethods = [\"oppa\"]\n";
  const common::CsvTable table = Judge(oppa +
                                       "quantity = \"dp == 4 && trials == 1\"\n"
                                       "criterion = \"x == 1\"\n");
  EXPECT_EQ(table.Cell(table.rows().front(), "verdict"), "holds");
  EXPECT_EQ(Verdict(oppa + "quantity = \"minutes_to_95\"\nrivals = "
                           "[\"random\"]\ncriterion = \"x < 0\"\n"),
            "holds");
}

TEST_F(ClaimsTest, OfSeveralRivalsTheWorstVerdictCounts) {
  WriteRuns({1.9, 2.0, 1.8, 1.9, 2.0, 1.9}, {1.0, 1.1, 1.2, 1.0, 1.1, 1.3});
  const common::CsvTable table = Judge(
      "experiment = \"e\"\nmethods = [\"oppa\"]\n"
      "rivals = [\"random\", \"+-other\"]\n");
  EXPECT_EQ(table.Cell(table.rows().front(), "rival"), "oppa-other");
  EXPECT_EQ(table.Cell(table.rows().front(), "verdict"), "no records");
}

TEST_F(ClaimsTest, RowsOfATableAreSelectedByTheirCells) {
  fakes::WriteFile(results() / "study/t.csv",
                   "problem,ours (s),grid (s)\na,1,2\nb,3,2\nc,1,\n");
  const std::string table =
      "table = \"study/t.csv\"\ncriterion = \"x == 1\"\n"
      "quantity = \"ours_s <= grid_s\"\n";
  EXPECT_EQ(Verdict(table), "does not hold");
  EXPECT_EQ(Verdict(table + "rows = { problem = [\"a\", \"c\"] }\n"), "holds");
}

TEST_F(ClaimsTest, MissingEvidenceIsAVerdict) {
  EXPECT_EQ(Verdict(kBeatsRandom), "no records");
  EXPECT_EQ(Verdict("table = \"none.csv\"\n"), "no records");
  EXPECT_EQ(Verdict("tests = [\"A.B\"]\n"), "no records");
  EXPECT_EQ(Verdict("untestable = \"needs a GPU\"\n"), "cannot be tested here");
}

TEST_F(ClaimsTest, AFailedTestFailsTheClaim) {
  fakes::WriteFile(results() / "claims/tests.csv",
                   "test,passed\nA.B,1\nA.C,0\n");
  EXPECT_EQ(Verdict("tests = [\"A.B\"]\n"), "holds");
  EXPECT_EQ(Verdict("tests = [\"A.B\", \"A.C\"]\n"), "does not hold");
}

TEST_F(ClaimsTest, MistakesNameTheirPlaceAndWhatIsKnown) {
  WriteRuns({1, 1}, {1, 1});
  const auto error = [&](const std::string& claim) {
    return fakes::ErrorOf([&] { (void)Judge(claim); });
  };
  EXPECT_THAT(
      error(std::string(kBeatsRandom) + "quantity = \"shar\"\n"),
      AllOf(HasSubstr("claims.toml:1"), HasSubstr("unknown value 'shar'"),
            HasSubstr("did you mean 'share'?")));
  EXPECT_THAT(error("paper = \"1\"\n"),
              HasSubstr("needs one of experiment, table, tests"));
  EXPECT_THAT(error("experimnt = \"e\"\nuntestable = \"x\"\n"),
              HasSubstr("did you mean 'experiment'?"));
}

TEST_F(ClaimsTest, TheShippedLedgerCanBeReadWithoutRecords) {
  const auto outputs = JudgeClaims(
      fakes::SourceFolder() / "experiments/studies/claims.toml", results());
  EXPECT_GT(outputs.front().table.rows.size(), 60U);
}

TEST(PublishedData, TablesThatComeWithTheProjectHaveTheirCheckValues) {
  const PublishedData data = FindPublishedData();
  EXPECT_FALSE(data.any_differs) << ToText(data.table);
  EXPECT_THAT(ToCsv(data.table), AllOf(HasSubstr("measured/vtrain.csv"),
                                       HasSubstr("planners-vtrain")));
}

}  // namespace studies::claims_test
