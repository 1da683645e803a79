#include "studies/validation/trainer_regions.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/paths.h"

namespace studies::trainer_regions_test {

MeasuredTable Table() {
  return ReadAnyTable(
      fakes::SourceFolder() / "experiments/tables/trainer_cpu.csv", {});
}

TEST(TrainerRegions, SimulatedPeaksAreWithinFivePercentOfMeasuredOnes) {
  constexpr double kMostError = 0.05;
  constexpr std::size_t kLeastRows = 50;
  const MeasuredTable table = Table();
  const std::vector<TrainerPeaks> rows = CompareTrainerPeaks(table);
  ASSERT_GE(rows.size(), kLeastRows);
  std::set<std::string> models;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const trials::Model& model = table.rows[r].workload.model;
    models.insert(model.name);
    for (std::size_t i = 0; i < kTrainerPeaks; ++i) {
      const std::string name = TrainerPeakName(i);
      if (model.experts > 0 &&
          (name == "workspace" || name == "communication")) {
        continue;  // depend on the tokens of the busiest expert, hence on data
      }
      EXPECT_LE(PeakError(rows[r], i), kMostError)
          << name << " of " << table.rows[r].scenario << " "
          << ToString(table.rows[r].config) << ": "
          << rows[r].simulated_bytes[i] << " simulated, "
          << rows[r].measured_bytes[i] << " measured";
    }
  }
  EXPECT_EQ(models.size(), 5U);
}

TEST(TrainerRegions, TheRowsOfATableUseAllWaysToSaveMemory) {
  std::set<int> stages, recomputations, ranks;
  for (const MeasuredRow& row : Table().rows) {
    stages.insert(row.config.zero_stage);
    recomputations.insert(row.config.grad_checkpoint);
    ranks.insert(row.config.dp * row.config.tp * row.config.pp * row.config.cp);
  }
  EXPECT_THAT(stages, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(recomputations, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(ranks, testing::ElementsAre(2, 4, 8));
}

TEST(TrainerRegions, ARegionThatIsOnlySimulatedIsAnError) {
  EXPECT_DOUBLE_EQ(PeakError({{1.0}, {0.0}}, 0), 1.0);
  EXPECT_DOUBLE_EQ(PeakError({{0.0}, {0.0}}, 0), 0.0);
  EXPECT_DOUBLE_EQ(PeakError({{3.0}, {2.0}}, 0), 0.5);
}

}  // namespace studies::trainer_regions_test
