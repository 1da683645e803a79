// What is counted without training is what a trial keeps and sends.

#include "trainer/count.h"

#include <random>
#include <string>
#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "tests/fakes/paths.h"
#include "trainer/device_cpu.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::count_test {

TrialResult Counted(const Job& job) {
  return CountMemory(job, *MakeCpuDevice(CpuPrecision::kFloat));
}

std::string Place(const Job& job, int rank) {
  return job.model.name + " " + trials::ToString(job.config) + ", rank " +
         std::to_string(rank);
}

// Of two steps: peaks do not depend on the number of steps.
void ExpectCountIsMeasured(const Job& job) {
  const TrialResult trial = Train(job, CpuPrecision::kFloat);
  ASSERT_EQ(trial.reason, EndReason::kNone) << trial.message;
  const TrialResult counted = Counted(job);
  ASSERT_EQ(counted.ranks.size(), static_cast<std::size_t>(job.config.pp));
  for (const RankResult& rank : trial.ranks) {
    if (job.model.patch_size > 0 && job.config.cp > 1 && rank.rank > 0) {
      continue;  // the first rank has the class tokens
    }
    const std::string place = Place(job, rank.rank);
    const RankResult& stage =
        counted.ranks[Mesh(job.config, rank.rank).pp_index];
    EXPECT_EQ(stage.parameters, rank.parameters) << place;
    EXPECT_EQ(stage.peak_bytes, rank.peak_bytes) << place;
    EXPECT_EQ(stage.region_peak_bytes, rank.region_peak_bytes) << place;
    EXPECT_EQ(stage.at_peak_bytes, rank.at_peak_bytes) << place;
    for (const auto& [group, operations] : rank.traffic) {
      for (const auto& [operation, traffic] : operations) {
        const Traffic one = stage.traffic.at(group).at(operation);
        EXPECT_EQ(2 * one.bytes, traffic.bytes) << place << operation;
        EXPECT_EQ(2 * one.calls, traffic.calls) << place << operation;
      }
    }
  }
}

// Random configurations of a model, a few for each seed.
class CountedMemory
    : public ::testing::TestWithParam<std::tuple<std::string_view, int>> {};

TEST_P(CountedMemory, IsThatOfATrialByRegionToTheLastByte) {
  const auto [type, seed] = GetParam();
  std::mt19937_64 engine(seed);
  for (int i = 0; i < 3; ++i) {
    Job job = TinyJob(type, 2);
    job.bucket_unit_bytes = 1 << 20;
    if (job.model.experts > 0) {  // all: their loads do not depend on the data
      job.model.experts = job.model.experts_per_token = 4;
    }
    job.config = DrawConfig(job, engine);
    ExpectCountIsMeasured(job);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CountedMemory,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Range(11, 21)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

// Larger models, as scripts/measure-trainer measured them.
TEST(Count, IsThatOfTheMeasuredTable) {
  const auto folder = fakes::SourceFolder() / "experiments";
  const auto table = common::CsvTable::Read(folder / "tables/trainer_cpu.csv");
  for (const common::CsvTable::Row& row : table.rows()) {
    SCOPED_TRACE(row.line);
    const auto cell = [&](const std::string& column) {
      return std::string(table.Cell(row, column));
    };
    std::string config = "dp=" + cell("dp");
    for (std::size_t i = 3; table.header()[i] != "status"; ++i) {
      config += "," + table.header()[i] + "=" + row.cells[i];
    }
    Job job;
    job.model =
        trials::ReadModel(folder / "workloads" / (cell("config") + ".json"));
    job.config = trials::ParseParallelConfig(config);
    job.batch_size = std::stoi(cell("global_batch_size"));
    job.sequence_length = std::stoi(cell("sequence_length"));
    std::int64_t peak = 0;
    std::array<std::int64_t, kRegions> regions{};
    for (const RankResult& rank : Counted(job).ranks) {
      peak = std::max(peak, rank.peak_bytes);
      for (int i = 0; i < kRegions; ++i) {
        regions[i] = std::max(regions[i], rank.region_peak_bytes[i]);
      }
    }
    // Loads of experts depend on the data.
    const double tolerance = job.model.experts > 0 ? 0.09 : 0.0;
    EXPECT_NEAR(static_cast<double>(peak) / 1e9,
                std::stod(cell("peak_memory_gb")),
                1e-9 + tolerance * static_cast<double>(peak) / 1e9);
    for (int i = 0; i < kRegions && tolerance == 0.0; ++i) {
      const std::string name(RegionName(static_cast<Region>(i)));
      EXPECT_EQ(std::to_string(regions[i]), cell(name + "_bytes"));
    }
  }
  EXPECT_EQ(table.rows().size(), 92U);
}

// Holes of the allocator included.
TEST(Count, WhatDoesNotFitIsWhatDoesNotFitInATrial) {
  Job job = TinyJob("llama", "dp=1,microbatches=2,zero_stage=3", 2);
  const std::int64_t peak = Counted(job).ranks[0].peak_bytes;
  int fits = 0;
  for (int percent = 80; percent <= 120; percent += 5) {
    job.memory_bytes = peak * percent / 100;
    const TrialResult counted = Counted(job);
    const TrialResult trial = Train(job, CpuPrecision::kFloat);
    EXPECT_EQ(counted.reason, trial.reason) << percent;
    EXPECT_EQ(counted.message, trial.message) << percent;
    fits += counted.reason == EndReason::kNone ? 1 : 0;
  }
  EXPECT_GT(fits, 0);
  job.memory_bytes = 1;  // not even the states fit
  EXPECT_EQ(Counted(job).reason, EndReason::kOutOfMemory);
}

// Needs neither the memory nor the ranks of what it counts.
TEST(Count, IsOfModelsThatNoHostCouldRun) {
  Job job;
  job.model = trials::ReadModel(fakes::SourceFolder() /
                                "experiments/workloads/llama-2-7b.json");
  job.batch_size = 256;
  job.sequence_length = 4096;
  job.config = trials::ParseParallelConfig(
      "dp=8,tp=8,pp=8,zero_stage=1,microbatches=16");
  const TrialResult counted = Counted(job);
  EXPECT_EQ(counted.ranks.size(), 8U);
  EXPECT_GT(counted.ranks[0].peak_bytes, std::int64_t{1} << 33);
}

}  // namespace trainer::testing::count_test
