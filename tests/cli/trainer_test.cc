// `oppa run` with trials by oppa-train.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/process.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"

namespace cli::trainer_test {

using testing::HasSubstr;
using testing::Not;

const std::string kManifest = R"([experiment]
methods = ["random"]
[backend]
type = "simulator"
[backend.trainer]
device = "cpu"
scale = 64
[workload]
model = "workloads/gpt2.json"
batch_size = 8
sequence_length = 512
[cluster]
file = "clusters/cpu-4.toml"
[space]
rules = ['$pp > 2']
[budget]
trials = 2
q_max = 2
)";

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() { fakes::WriteFile(folder_.path() / "m.toml", kManifest); }

  // Runs the manifest with --set for each of the settings.
  int Run(const std::vector<std::string>& settings) {
    std::vector<std::string> words = {
        fakes::ProgramFile().string(),         "run",
        (folder_.path() / "m.toml").string(),  "--results",
        (folder_.path() / "results").string(), "--no-report"};
    for (const std::string& setting : settings) {
      words.insert(words.end(), {"--set", setting});
    }
    const common::CommandResult result =
        common::RunCommand(words, common::CurrentEnvironment(), {});
    output_ = result.output + result.errors;
    return result.exit_code;
  }

  [[nodiscard]] std::string Trials(const std::string& experiment) const {
    return common::ReadFile(folder_.path() / "results" / experiment /
                            "random/1/trials.csv");
  }

  fakes::ExperimentFolder folder_;
  std::string output_;
};

TEST_F(TrainerTest, TrainsOnCpuRanksAndKeepsItsRecordsApart) {
  ASSERT_EQ(Run({"cluster.file=clusters/a5000-8.toml", "cluster.gpus=4"}), 0)
      << output_;
  ASSERT_EQ(Run({"backend.use=trainer"}), 0) << output_;
  EXPECT_THAT(Trials("m-trainer"), HasSubstr("completed,2,"));
  EXPECT_THAT(Trials("m-trainer"), Not(HasSubstr("failed")));
  EXPECT_NE(Trials("m"), Trials("m-trainer"));
}

TEST_F(TrainerTest, OutOfMemoryIsAnOutcome) {
  ASSERT_EQ(Run({"backend.use=trainer", "cluster.file=small.toml",
                 "experiment.name=small"}),
            2);
  fakes::WriteFile(folder_.path() / "small.toml",
                   "nodes = 1\ngpus_per_node = 4\n[gpu]\nname = \"small\"\n"
                   "memory_gib = 0.0005\nmemory_bandwidth_gb_per_s = 5\n"
                   "half_tflops = 0.05\n[intra]\nname = \"memory\"\n"
                   "bandwidth_gb_per_s = 2\nlatency_us = 20\n");
  ASSERT_EQ(Run({"backend.use=trainer", "cluster.file=small.toml",
                 "experiment.name=small"}),
            1)  // no trial completed
      << output_;
  EXPECT_THAT(Trials("small-trainer"), HasSubstr("out_of_memory"));
}

TEST_F(TrainerTest, AnInvalidDeviceIsAnErrorWithItsPlace) {
  EXPECT_EQ(Run({"backend.use=trainer", "backend.trainer.device=tpu"}), 2);
  EXPECT_THAT(output_, HasSubstr("invalid value 'tpu' for device"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "results"));
}

}  // namespace cli::trainer_test
