// All-reduce on NVLink against vTrain's published NCCL table: A100, 2 to 8
// GPUs, 4 MB to 1 GB. Skipped without the table.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "common/text.h"
#include "tests/fakes/paths.h"
#include "trials/cluster.h"
#include "trials/data_folder.h"
#include "trials/simulator/collectives.h"
#include "trials/simulator/topology.h"

namespace trials::nccl_table_test {

TEST(PublishedTables, AllReducesTakeAboutAsLongAsMeasured) {
  std::filesystem::path path;
  try {
    path = ResolveTablePath("published/vtrain_nccl_allreduce_lut.csv", ".");
  } catch (const common::InputError&) {
    GTEST_SKIP() << "set OPPA_DATA to the folder of published tables";
  }
  const Cluster cluster = ReadCluster(
      fakes::SourceFolder() / "experiments/clusters/a100-80gb-vtrain.toml");
  const common::CsvTable table = common::CsvTable::Read(path);
  std::vector<double> errors;
  for (const common::CsvTable::Row& row : table.rows()) {
    if (table.Cell(row, "gpu") != "a100") {
      continue;
    }
    Group group(static_cast<std::size_t>(
        common::ParseDouble(table.Cell(row, "ngpus"))));
    std::iota(group.begin(), group.end(), 0);
    const double predicted_s =
        AllReduceTime(RingLink(cluster, std::vector<Group>{group}),
                      common::ParseDouble(table.Cell(row, "bytes")));
    const double measured_s =
        1e-6 * common::ParseDouble(table.Cell(row, "out_of_place_us"));
    errors.push_back(std::abs(predicted_s / measured_s - 1.0));
  }
  ASSERT_EQ(errors.size(), 7U * 256U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.02);
  EXPECT_LT(errors.back(), 0.20);
}

}  // namespace trials::nccl_table_test
