// Planners on measured tables, and the files that identify their runs.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/registry.h"
#include "planners/astra/astra.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/harness/manifest_checks.h"

namespace harness::described_job_test {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kScenarios =
    "scenario,gpus,global_batch_size,hidden_size,attention_heads,layers,"
    "sequence_length\nvtrain-h1024-mine,4,16,1024,16,16,512\n";

class DescribedJobTest : public testing::Test {
 protected:
  DescribedJobTest() {
    WriteTable("vtrain-h1024-mine");
    fakes::WriteFile(folder_.path() / "t_scenarios.csv", kScenarios);
  }

  void WriteTable(const std::string& scenario) {
    std::string rows =
        "scenario,gpus,dp,tp,pp,micro_batch_size,microbatches,status,"
        "step_time_s\n";
    for (const char* row : {"4,1,1,4,1,ok,1.0", "2,2,1,4,2,ok,2.0",
                            "1,4,1,8,2,ok,4.0", "2,1,2,1,8,ok,3.0"}) {
      rows += fmt::format("{},4,{}\n", scenario, row);
    }
    fakes::WriteFile(folder_.path() / "t.csv", rows);
  }

  Manifest Read(const std::string& methods, const std::string& more = "",
                const std::string& scenario = "vtrain-h1024-mine") {
    fakes::WriteFile(
        path_,
        fmt::format("[experiment]\nmethods = [{}]\n[backend]\n"
                    "type = \"replay\"\ntable = \"t.csv\"\n"
                    "scenarios = \"{}\"\n[cluster]\n"
                    "file = \"clusters/a100-80gb-vtrain.toml\"\n[budget]\n"
                    "trials = 3\nq_max = 4\n{}",
                    methods, scenario, more));
    return ReadManifest(path_, {});
  }

  static std::vector<trials::RunInput> Inputs(const Manifest& manifest) {
    const ProblemSpec& problem = manifest.problems.front();
    return InputsOf(manifest, problem, manifest.methods.front(),
                    MakeTestbed(problem));
  }
  static std::string Error(const Manifest& manifest) {
    return ErrorOf([&] { return CheckManifest(manifest); });
  }

  fakes::ExperimentFolder folder_;
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

// The rows of vTrain recompute their layers, which only its facts say.
TEST_F(DescribedJobTest, APlannerEstimatesTheJobThatTheFactsOfATableDescribe) {
  const Manifest manifest =
      Read("\"predicted-order\"", "[predictions]\nplanner = \"astra\"\n");
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const trials::TrainedJob* job = testbed.described();
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->workload.model.layers, 16);
  EXPECT_EQ(job->workload.batch_size, 16);
  EXPECT_EQ(job->workload.sequence_length, 512);
  ASSERT_EQ(job->space.size(), testbed.space->size());
  const methods::Problem described{
      .space = &job->space,
      .machine = trials::GpuType{.gpus = 4, .gpus_per_node = 4},
      .workload = &job->workload};
  const trials::Predictions expected =
      planners::EstimatesOf(described, planners::AstraMethodOptions());
  const trials::Predictions predictions = testbed.predictions("").predict();
  for (int i = 0; i < testbed.space->size(); ++i) {
    trials::ParallelConfig config = (*testbed.space)[i];
    EXPECT_EQ(config.grad_checkpoint, trials::kRecomputeNothing);
    config.grad_checkpoint = trials::kRecomputeFull;
    EXPECT_EQ(job->space[i], config);
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(predictions.step_time_s[at], expected.step_time_s[at]);
  }
}

TEST_F(DescribedJobTest, PlannersRunOnAMeasuredTableAndOnlyTryItsRows) {
  for (const char* planner : {"aceso", "astra", "textbook"}) {
    const Manifest manifest = Read(fmt::format("\"{}\"", planner));
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    const auto method =
        MakeMethod(manifest.methods.front(), ProblemOf(testbed, 4), 1);
    const auto suggestion = method->Suggest();
    ASSERT_TRUE(suggestion.has_value()) << planner;
    EXPECT_LT(suggestion->candidate, testbed.space->size()) << planner;
  }
}

TEST_F(DescribedJobTest, ATableWithoutFactsNeedsAWorkloadForPlannersOnly) {
  WriteTable("mine");
  EXPECT_EQ(Error(Read("\"random\"", "", "mine")), "no error");
  EXPECT_THAT(Error(Read("\"astra\"", "", "mine")),
              HasSubstr("add [workload] to the manifest, or to [predictions] "
                        "the facts of its table"));
  EXPECT_THAT(Error(Read("\"aceso\"", "", "mine")),
              HasSubstr("layers: give a value, or [workload]"));
  EXPECT_THAT(Error(Read("\"aceso\"",
                         "[method.aceso]\nlayers = 4\nbatch = 16\n", "mine")),
              HasSubstr("the sizes of operators are read from [workload]"));
}

TEST_F(DescribedJobTest, RowsThatTrainOtherWorkloadsAreRefusedByLine) {
  fakes::WriteFile(folder_.path() / "t.csv",
                   "scenario,gpus,dp,tp,pp,micro_batch_size,microbatches,"
                   "status,step_time_s,layers\n"
                   "vtrain-h1024-mine,4,4,1,1,4,1,ok,1.0,16\n"
                   "vtrain-h1024-mine,4,2,2,1,4,2,ok,1.0,24\n");
  EXPECT_THAT(Error(Read("\"astra\"")),
              HasSubstr("t.csv:3: this row of vtrain-h1024-mine trains another "
                        "workload than its first row"));
  // For these, the job's sizes are a help that they can do without.
  EXPECT_EQ(Error(Read("\"oppa\"")), "no error");
}

TEST_F(DescribedJobTest,
       RunsOfMethodsThatReadTheJobDependOnTheFactsAndOthersDoNot) {
  const auto facts = testing::Field(&trials::RunInput::name,
                                    HasSubstr("file t_scenarios.csv"));
  const std::string planned =
      "[method.planned]\nplanner = \"astra\"\nthen = \"random\"\n";
  EXPECT_THAT(Inputs(Read("\"astra\"")), Contains(facts));
  EXPECT_THAT(Inputs(Read("\"planned\"", planned)), Contains(facts));
  EXPECT_THAT(Inputs(Read("\"oppa\"")), Contains(facts));
  EXPECT_THAT(Inputs(Read("\"random\"")), Not(Contains(facts)));
  EXPECT_THAT(Inputs(Read("\"vanilla-bo\"")), Not(Contains(facts)));
  EXPECT_THAT(Inputs(Read("\"oppa-paper\"")), Not(Contains(facts)));
  EXPECT_THAT(Inputs(Read("\"planned\"",
                          "[method.planned]\nplanner = \"grid\"\n"
                          "then = \"random\"\n")),
              Not(Contains(facts)));

  const auto before = Inputs(Read("\"astra\""));
  const std::string hash = HashOf(Read("\"astra\""));
  const std::string random = HashOf(Read("\"random\""));
  std::string other = kScenarios;
  other.replace(other.find(",16,512"), 7, ",24,512");
  fakes::WriteFile(folder_.path() / "t_scenarios.csv", other);
  EXPECT_THAT(Changes(before, Inputs(Read("\"astra\""))),
              testing::ElementsAre("file t_scenarios.csv has other content"));
  EXPECT_NE(HashOf(Read("\"astra\"")), hash);
  EXPECT_EQ(HashOf(Read("\"random\"")), random);
}

// The options name a path; what is read from it is the input.
TEST_F(DescribedJobTest, RunsDependOnTheContentOfTheFilesThatOptionsName) {
  const std::filesystem::path table = folder_.path() / "products.csv";
  const auto write = [&](const char* efficiency) {
    fakes::WriteFile(table,
                     fmt::format("gpu,operator,shape,efficiency\nX,matmul,"
                                 "\"m=64, n=64, k=64\",{}\n",
                                 efficiency));
  };
  const std::string options = fmt::format(
      "efficiencies = \"{}\"\nefficiency_gpu = \"X\"\n", table.string());
  for (const std::string& more :
       {"[method.astra]\n" + options,
        fmt::format("[method.astra]\nbase = \"planned\"\nplanner = \"astra\"\n"
                    "[method.astra.planner_options]\n{}",
                    options)}) {
    write("0.5");
    const auto before = Inputs(Read("\"astra\"", more));
    const std::string hash = HashOf(Read("\"astra\"", more));
    EXPECT_EQ(Inputs(Read("\"astra\"", more)), before);
    write("0.6");
    EXPECT_THAT(Changes(before, Inputs(Read("\"astra\"", more))),
                testing::ElementsAre("file products.csv has other content"));
    EXPECT_NE(HashOf(Read("\"astra\"", more)), hash);
  }
}

}  // namespace harness::described_job_test
