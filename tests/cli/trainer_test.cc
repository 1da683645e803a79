// `oppa run` with trials by oppa-train.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/program_test.h"

namespace cli::trainer_test {

using testing::AllOf;
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

class TrainerTest : public fakes::ProgramTest {
 protected:
  TrainerTest() { Write("m.toml", kManifest); }

  // Runs the manifest with --set for each of the settings.
  int Run(const Words& settings) {
    Words words = {"run", "m.toml", "--no-report"};
    for (const std::string& setting : settings) {
      words.insert(words.end(), {"--set", setting});
    }
    return Oppa(words);
  }

  [[nodiscard]] std::string Trials(const std::string& experiment) const {
    return Content("results/" + experiment + "/random/1/trials.csv");
  }
};

TEST_F(TrainerTest, TrainsOnCpuRanksAndKeepsItsRecordsApart) {
  ASSERT_EQ(Run({"cluster.file=clusters/a5000-8.toml", "cluster.gpus=4"}), 0)
      << Printed();
  ASSERT_EQ(Run({"backend.use=trainer"}), 0) << Printed();
  EXPECT_THAT(Trials("m-trainer"), HasSubstr("completed,2,"));
  EXPECT_THAT(Trials("m-trainer"), Not(HasSubstr("failed")));
  EXPECT_NE(Trials("m"), Trials("m-trainer"));
}

TEST_F(TrainerTest, OutOfMemoryIsAnOutcome) {
  const Words small = {"backend.use=trainer", "cluster.file=small.toml",
                       "experiment.name=small"};
  ASSERT_EQ(Run(small), 2);
  Write("small.toml",
        "nodes = 1\ngpus_per_node = 4\n[gpu]\nname = \"small\"\n"
        "memory_gib = 0.0005\nmemory_bandwidth_gb_per_s = 5\n"
        "half_tflops = 0.05\n[intra]\nname = \"memory\"\n"
        "bandwidth_gb_per_s = 2\nlatency_us = 20\n");
  ASSERT_EQ(Run(small), 1) << Printed();  // no trial completed
  EXPECT_THAT(Trials("small-trainer"), HasSubstr("out_of_memory"));
}

TEST_F(TrainerTest, AnInvalidDeviceIsAnErrorWithItsPlace) {
  EXPECT_EQ(Run({"backend.use=trainer", "backend.trainer.device=tpu"}), 2);
  EXPECT_THAT(errors_, HasSubstr("invalid value 'tpu' for device"));
  EXPECT_FALSE(std::filesystem::exists(Path("results")));
}

class TorchTrainerTest : public TrainerTest {
 protected:
  // An interpreter that runs nothing, and reports the steps of the request.
  TorchTrainerTest() {
    Write("python", "#!/bin/sh\necho \"$@\" $OPPA_MAX_STEPS > " +
                        Path("words").string() +
                        "\nfor i in $(seq $OPPA_MAX_STEPS); do\n"
                        "  echo 'oppa {\"step_time_s\": 0.1}'\ndone\n");
    ::setenv("TORCH_PYTHON", Path("python").c_str(), 1);
  }
  ~TorchTrainerTest() override { ::unsetenv("TORCH_PYTHON"); }
  int RunTorch(Words settings) {
    settings.insert(settings.begin(),
                    {"backend.use=trainer", "backend.trainer.program=torch"});
    return Run(settings);
  }
};

TEST_F(TorchTrainerTest, RunsTheProgramWithTheInterpreterOfTorchPython) {
  ASSERT_EQ(RunTorch({}), 0) << Printed();
  EXPECT_THAT(Trials("m-trainer"), HasSubstr("completed,2,"));
  EXPECT_THAT(Content("words"),
              AllOf(HasSubstr("oppa-train-torch --model "),
                    HasSubstr("--backend=cpu --precision=float --scale=64"),
                    Not(HasSubstr("--memory"))));
}

TEST_F(TorchTrainerTest, OnAGpuAStepThatDoesNotCountIsAheadOfTheOthers) {
  ASSERT_EQ(
      RunTorch({"backend.trainer.device=cuda", "backend.trainer.ranks=one"}), 0)
      << Printed();
  EXPECT_THAT(Content("words"), HasSubstr(" 3\n"));
  EXPECT_THAT(Trials("m-trainer"), HasSubstr("completed,2,"));
}

TEST_F(TorchTrainerTest, AKnobThatPyTorchLacksIsFixedAndOtherValuesAreAnError) {
  EXPECT_EQ(RunTorch({"space.zero_bucket_mb=[1,4]"}), 2);
  EXPECT_THAT(errors_, HasSubstr("oppa-train-torch does not apply the knob "
                                 "'zero_bucket_mb'"));
  ASSERT_EQ(RunTorch({"space.dp=[2]", "space.zero_stage=[2]"}), 0) << Printed();
  EXPECT_THAT(Trials("m-trainer"), HasSubstr(",25,2,24,1,"));
}

TEST_F(TorchTrainerTest, AKnobThatOnlyPyTorchHasIsRefusedForTheOther) {
  const std::string compile = "space.custom.compile=[0,1]";
  ASSERT_EQ(RunTorch({compile}), 0) << Printed();
  EXPECT_EQ(Run({"backend.use=trainer", compile}), 2);
  EXPECT_THAT(errors_, HasSubstr("oppa-train does not apply the knob "
                                 "'compile'"));
}

}  // namespace cli::trainer_test
