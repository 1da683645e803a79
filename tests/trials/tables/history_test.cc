#include "trials/tables/history.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/ranges.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/tables/measured_rows.h"

namespace trials::history_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Rule::Context kJob = {{"layers", 16}, {"num_gpus", 8}};

class History : public testing::Test {
 protected:
  std::vector<MeasuredRow> Read(const std::string& name) {
    notes_.clear();
    const common::CsvTable table =
        ReadHistory(folder_.path() / name, kJob, notes_);
    return common::Map(table.rows(), [&](const common::CsvTable::Row& row) {
      return ReadMeasuredRow({table, row}, BuiltInKnobs(), {64.0, 512.0});
    });
  }
  void Write(const std::string& name, const std::string& text) {
    fakes::WriteFile(folder_.path() / name, text);
  }

  fakes::TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

// The columns of the recorder of FlagScale, and one that versions add.
TEST_F(History, OfFlagScaleIsReadWithItsOutOfMemory) {
  Write("h.csv",
        "idx,data_parallel_size,tensor_model_parallel_size,"
        "pipeline_model_parallel_size,expert_model_parallel_size,"
        "context_parallel_size,use_distributed_optimizer,sequence_parallel,"
        "acc_step,micro_batch_size,num_layers_per_virtual_pipeline_stage,"
        "use_recompute,recompute_method,recompute_granularity,"
        "recompute_num_layers,max_mem,performance,error,pruned\n"
        "3,2,2,2,1,1,True,True,8,4,4,True,uniform,full,1,1024.0,1500.0,,False\n"
        "1,8,1,1,1,1,False,,2,4,0,False,,,,OOM,,OOM|torch: out of memory,\n"
        "2,8,1,1,1,1,True,,1,8,,,,,,,,,True\n");
  const auto rows = Read("h.csv");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].config, (ParallelConfig{.dp = 2,
                                            .tp = 2,
                                            .pp = 2,
                                            .zero_stage = 1,
                                            .microbatches = 8,
                                            .model_chunks = 2,
                                            .grad_checkpoint = 1,
                                            .micro_batch_size = 4,
                                            .sp = 2}));
  EXPECT_DOUBLE_EQ(rows[0].step_time_s, 1.5);
  EXPECT_DOUBLE_EQ(rows[0].peak_memory_bytes, 1073741824.0);
  EXPECT_EQ(rows[1].outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(rows[1].config.dp, 8);
  EXPECT_EQ(rows[1].config.model_chunks, 1);
  EXPECT_THAT(notes_,
              ElementsAre(HasSubstr("FlagScale, auto_tuner/history.csv: "
                                    "2 of 3 rows; ")));
  EXPECT_THAT(notes_[0], HasSubstr("performance is step_time_ms"));
}

TEST_F(History, WithAStageThatIsNotWholeIsRefusedWithItsLine) {
  Write("h.csv",
        "data_parallel_size,pipeline_model_parallel_size,max_mem,performance,"
        "num_layers_per_virtual_pipeline_stage\n2,3,1,1,4\n");
  EXPECT_THAT(fakes::ErrorOf([&] { return Read("h.csv"); }),
              HasSubstr("h.csv:2: $layers / ($pp * $model_chunks) is 1.33333"));
}

TEST_F(History, OfOptunaAndRayLosesItsPrefixes) {
  Write("o.csv",
        ",number,value,datetime_start,datetime_complete,duration,params_dp,"
        "params_micro_batch_size,user_attrs_step_time_s,state\n"
        "0,0,1.5,a,b,c,8,4,1.5,COMPLETE\n1,1,,a,b,c,8,8,,FAIL\n"
        "2,2,,a,b,c,8,16,,PRUNED\n");
  auto rows = Read("o.csv");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_DOUBLE_EQ(rows[0].step_time_s, 1.5);
  EXPECT_EQ(rows[0].config.micro_batch_size, 4);
  EXPECT_EQ(rows[1].outcome, Outcome::kFailed);
  Write("r.csv",
        "step_time_s,trial_id,training_iteration,time_total_s,config/tp\n"
        "2.5,a_0,1,60,4\n");
  rows = Read("r.csv");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].step_time_s, 2.5);
  EXPECT_EQ(rows[0].config.tp, 4);
}

TEST_F(History, OfDeepSpeedIsAFolderForEachExperiment) {
  for (const char* name : {"z1", "z2", "failed"}) {
    Write(std::string(name) + "/ds_config.json",
          "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": "
          "{\"stage\": 1}, \"gradient_accumulation_steps\": 2}");
  }
  Write("z1/metrics.json", "{\"throughput\": 128.0, \"latency\": 500.0}");
  Write("z2/metrics.json", "{\"throughput\": 64.0}");
  ASSERT_TRUE(IsHistoryFolder(folder_.path()));
  const auto rows = Read("");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(
      rows[0].config,
      (ParallelConfig{
          .dp = 8, .zero_stage = 1, .microbatches = 2, .micro_batch_size = 4}));
  EXPECT_DOUBLE_EQ(rows[0].step_time_s, 0.5);
}

TEST_F(History, OfThisProgramIsReadAsItIs) {
  Write("t.csv", "dp,step_time_s\n8,1\n");
  EXPECT_EQ(Read("t.csv").size(), 1U);
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_FALSE(IsHistoryFolder(folder_.path()));
}

}  // namespace trials::history_test
