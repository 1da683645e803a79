// What a rank keeps is what the simulator counts for it.

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/trainer/tiny.h"
#include "trials/simulator/trainer_memory.h"

namespace trials::trainer::testing {
namespace {

Workload WorkloadOf(const Job& job) {
  return {.name = job.model.name,
          .model = job.model,
          .batch_size = job.batch_size,
          .sequence_length = job.sequence_length,
          .precision = Precision::kFp32};
}

TEST(Memory, OfEachRankIsWhatTheSimulatorCountsByRegion) {
  constexpr int kConfigs = 30;  // of each model
  std::mt19937_64 engine(11);
  for (const std::string_view type : kModels) {
    if (type == "mixtral") {
      continue;  // loads of experts depend on the data
    }
    for (int i = 0; i < kConfigs; ++i) {
      Job job = TinyJob(type, 2);
      job.bucket_unit_bytes = 1 << 20;
      job.config = DrawConfig(job, engine);
      const TrialResult result = Train(job, CpuPrecision::kFloat);
      ASSERT_EQ(result.reason, EndReason::kNone) << result.message;
      for (const RankResult& rank : result.ranks) {
        if (type == "vit" && job.config.cp > 1 && rank.rank > 0) {
          continue;  // the first rank has the class tokens
        }
        const TrainerLedger ledger =
            TrainerMemory(WorkloadOf(job),
                          job.config,
                          Mesh(job.config, rank.rank).pp_index,
                          Framework());
        const std::string place = std::string(type) + " " +
                                  ToString(job.config) + ", rank " +
                                  std::to_string(rank.rank);
        EXPECT_EQ(rank.peak_bytes, ledger.total_peak) << place;
        EXPECT_EQ(rank.region_peak_bytes, ledger.peak) << place;
        EXPECT_EQ(rank.at_peak_bytes, ledger.at_peak) << place;
      }
    }
  }
}

}  // namespace
}  // namespace trials::trainer::testing
