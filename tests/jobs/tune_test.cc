// Whole searches with a shell script as the training program.

#include "jobs/tune.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process.h"
#include "jobs/tune_job.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace jobs::tune_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    Write("config.json",
          "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 4, "
          "\"n_layer\": 4, \"n_positions\": 64, \"vocab_size\": 256}");
    Write("adapter.toml",
          "settings = [\n"
          "  {flag = \"--micro\", value = \"$micro_batch_size\"},\n"
          "  {flag = \"--accumulate\", value = \"$microbatches\"},\n"
          "  {flag = \"--steps\", text = \"{max_steps}\", trial = true},\n"
          "]\n[space]\nzero_stage = [0]\n[log]\n"
          "step_time_s = 'took ([0-9.]+)'\nmemory_mib = 'peak ([0-9]+)'\n");
  }

  void Write(const std::string& name, const std::string& text) {
    fakes::WriteFile(folder_.path() / name, text);
    fs::permissions(folder_.path() / name, fs::perms::owner_all);
  }
  // A program that prints the time 0.0M for --accumulate M, and runs `before`.
  void WriteProgram(const std::string& before) {
    Write("train.sh",
          "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case $1 in\n"
          "    --accumulate) m=$2; shift ;;\n    --steps) s=$2; shift ;;\n"
          "  esac\n  shift\ndone\n" +
              before +
              "\nfor i in $(seq $s); do\n"
              "  echo \"took 0.0$m$((i % 3 + 1)) peak 100\"\ndone\n");
  }

  common::CommandResult Oppa(const std::vector<std::string>& words) {
    std::vector<std::string> all = {fakes::ProgramFile().string()};
    all.insert(all.end(), words.begin(), words.end());
    return common::RunCommand(all, common::CurrentEnvironment(), folder_.path(),
                              100.0);
  }
  common::CommandResult Tune() {
    return Oppa({"tune",
                 "--framework",
                 "adapter.toml",
                 "--model",
                 "config.json",
                 "--gpus",
                 "1x2",
                 "--memory-gib",
                 "8",
                 "--batch",
                 "16",
                 "--seq",
                 "64",
                 "--trials",
                 "4",
                 "--steps",
                 "6",
                 "--",
                 "./train.sh",
                 "--micro",
                 "1",
                 "--accumulate",
                 "8"});
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(TuneTest, EndsWithACommandLineThatIsFasterThanTheUsers) {
  WriteProgram("");
  const common::CommandResult run = Tune();
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
  EXPECT_THAT(run.output, HasSubstr("preflight"));
  EXPECT_THAT(run.output,
              HasSubstr("trial 1   dp=2,tp=1,pp=1,microbatches=8: 0.08"));
  EXPECT_THAT(run.output, HasSubstr("as fast as yours"));
  EXPECT_THAT(run.output, HasSubstr("left"));
  const fs::path results = folder_.path() / "oppa-results" / "tune";
  const std::string script = fakes::ReadFile(results / "best.sh");
  EXPECT_THAT(script, HasSubstr("train.sh --micro "));
  EXPECT_THAT(script, Not(HasSubstr("--accumulate 8")));
  EXPECT_THAT(script, Not(HasSubstr("--steps")));
  EXPECT_THAT(fakes::ReadFile(results / "best.json"), HasSubstr("speed_up"));
  EXPECT_THAT(run.output,
              HasSubstr("Result page: " + (results / "page.html").string()));
  EXPECT_THAT(fakes::ReadFile(results / "page.html"),
              HasSubstr("train.sh --micro "));
  // The same command finds everything measured, from any folder.
  const common::CommandResult again =
      Oppa({"tune", (folder_.path() / "oppa-results" / "tune.toml").string()});
  EXPECT_EQ(again.exit_code, 0) << again.output << again.errors;
  EXPECT_THAT(again.output, Not(HasSubstr("trial 1 ")));
  EXPECT_THAT(again.output, HasSubstr("Use this command line"));
}

TEST_F(TuneTest, PassesTheConfigurationToAProgramThatReadsItItself) {
  Write("train.sh",
        "#!/bin/sh\nif [ -z \"$OPPA_MAX_STEPS\" ]; then\n"
        "  echo \"read $OPPA_TRIAL\"; exit\nfi\n"
        "case $OPPA_KERNEL in slow) t=8 ;; *) t=2 ;; esac\n"
        "for i in $(seq $OPPA_MAX_STEPS); do\n"
        "  echo \"oppa {\\\"step_time_s\\\": 0.0$t$i}\"\n"
        "done\n");
  Write("own.toml",
        "[experiment]\nmethods = [\"oppa\"]\nstart = [\"dp=2,kernel=slow\"]\n"
        "[backend]\ntype = \"command\"\nprogram = [\"./train.sh\"]\n"
        "[workload]\nmodel = \"config.json\"\nbatch_size = 16\n"
        "sequence_length = 64\n"
        "[cluster]\ngpus_per_node = 2\nmemory_gib = 8\n"
        "[space]\ntp = [1]\npp = [1]\nzero_stage = [0]\n"
        "dp_bucket_mb = [25]\ngrad_checkpoint = [0]\n"
        "microbatches = [2]\n[space.custom]\nkernel = [\"slow\", \"it's\"]\n"
        "[budget]\ntrials = 2\nq_max = 3\n");
  const common::CommandResult run = Oppa({"tune", "own.toml"});
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
  EXPECT_THAT(run.output, HasSubstr("\n  OPPA_TRIAL='{"));
  const fs::path results = folder_.path() / "oppa-results" / "own";
  EXPECT_THAT(fakes::ReadFile(results / "best.json"),
              HasSubstr("\"micro_batch_size\": 4"));
  const common::CommandResult best =
      common::RunCommand({(results / "best.sh").string()},
                         common::CurrentEnvironment(), folder_.path(), 100.0);
  EXPECT_THAT(best.output, HasSubstr("\"microbatches\":2"));
  EXPECT_THAT(best.output, HasSubstr("\"kernel\":\"it's\""));
}

TEST_F(TuneTest, StartsFromThePredictionsForAClusterFile) {
  WriteProgram("s=99");  // trains on after the last step of a trial
  const fs::path cluster =
      fakes::SourceFolder() / "experiments/clusters/h100-infiniband.toml";
  const common::CommandResult run = Oppa({"tune",
                                          "--cluster",
                                          cluster.string(),
                                          "--gpus",
                                          "1x2",
                                          "--model",
                                          "config.json",
                                          "--batch",
                                          "16",
                                          "--seq",
                                          "64",
                                          "--start",
                                          "dp=2,microbatches=8",
                                          "--step-time",
                                          "took ([0-9.]+)",
                                          "--trials",
                                          "2",
                                          "--steps",
                                          "6",
                                          "--finalists",
                                          "1",
                                          "--",
                                          "./train.sh",
                                          "--steps",
                                          "{max_steps}",
                                          "--accumulate",
                                          "{microbatches}"});
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
  EXPECT_THAT(run.output, HasSubstr("2 x H100"));
  // The first trial is the present configuration, and the second one the
  // fastest as predicted, without gradient accumulation.
  EXPECT_THAT(run.output, HasSubstr("trial 1   dp=2,tp=1,pp=1,microbatches=8"));
  EXPECT_THAT(run.output, HasSubstr("trial 2   dp=2,tp=1,pp=1:"));
  EXPECT_THAT(run.output,
              HasSubstr("train.sh --steps '{max_steps}' --accumulate 1\n"));
  EXPECT_THAT(run.output, HasSubstr("Replace {max_steps} by the value"));
  const std::string manifest =
      fakes::ReadFile(folder_.path() / "oppa-results" / "tune.toml");
  EXPECT_THAT(manifest, HasSubstr("methods = [\"oppa-sim\"]"));
}

TEST_F(TuneTest, ShowsTheLastLinesOfAPresentConfigurationThatFails) {
  WriteProgram("echo loading; echo 'KeyError: no data' >&2; exit 3");
  const common::CommandResult run = Tune();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("does not run"));
  EXPECT_THAT(run.output, HasSubstr("    KeyError: no data"));
  EXPECT_THAT(run.output, Not(HasSubstr("trial 1")));
}

TEST_F(TuneTest, StopsAfterThreeTrialsThatFailAlike) {
  // The preflight has two steps.
  WriteProgram("if [ $s != 2 ]; then echo 'no such device' >&2; exit 3; fi");
  const common::CommandResult run = Tune();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("failed alike"));
  EXPECT_THAT(run.output, HasSubstr("    no such device"));
  EXPECT_THAT(run.output, HasSubstr("trial 3"));
  EXPECT_THAT(run.output, Not(HasSubstr("trial 4")));
}

TEST_F(TuneTest, RunsTheManifestThatInitWrote) {
  WriteProgram("");
  const common::CommandResult init = Oppa({"init",
                                           "--framework",
                                           "adapter.toml",
                                           "--model",
                                           "config.json",
                                           "--gpus",
                                           "1x2",
                                           "--memory-gib",
                                           "8",
                                           "--batch",
                                           "16",
                                           "--seq",
                                           "64",
                                           "--trials",
                                           "2",
                                           "--steps",
                                           "4",
                                           "--",
                                           "./train.sh",
                                           "--micro",
                                           "1",
                                           "--accumulate",
                                           "8"});
  EXPECT_EQ(init.exit_code, 0) << init.errors;
  const common::CommandResult run = Oppa({"tune", "tune.toml"});
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
  EXPECT_TRUE(fs::exists(folder_.path() / "oppa-results" / "tune" / "best.sh"));
  EXPECT_EQ(Oppa({"init", "--", "./train.sh"}).exit_code, 2);
}

TEST(TuneFolder, DoesNotDependOnTheWorkingDirectory) {
  EXPECT_EQ(TuneFolder("/a/tune.toml", "t"), fs::path("/a/oppa-results/t"));
  EXPECT_EQ(TuneFolder("/a/oppa-results/tune.toml", "t"),
            fs::path("/a/oppa-results/t"));
}

}  // namespace jobs::tune_test
