#include "trials/programs/command_runner.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/custom_knobs.h"
#include "trials/trial.h"

namespace trials::command_runner_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CommandRunnerTest : public testing::Test {
 protected:
  CommandRunnerTest() {
    cluster_.nodes = 2;
    cluster_.gpus_per_node = 4;
    request_.candidate = ParallelConfig{.dp = 2, .tp = 4};
    request_.max_steps = 3;
  }

  // Runs a shell script as a trial.
  Measurement Run(const std::string& script) {
    Write(script);
    CommandRunner runner(Options(), cluster_);
    runner.KeepLogs(folder_.path() / "logs");
    return runner.Run(request_);
  }

  void Write(const std::string& script) {
    const fs::path path = folder_.path() / "train.sh";
    fakes::WriteFile(path, "#!/bin/sh\n" + script);
    fs::permissions(path, fs::perms::owner_all);
  }

  CommandOptions Options() {
    const fs::path manifest = folder_.path() / "m.toml";
    fakes::WriteFile(manifest, "patience_s = " + patience_s_ + "\n" + backend_);
    return ReadCommandOptions(common::TomlTable::ParseFile(manifest));
  }

  [[nodiscard]] std::string Log() const {
    return fakes::ReadFile(folder_.path() / "logs" /
                           (ToString(request_.candidate.config()) + ".log"));
  }

  fakes::TemporaryFolder folder_;
  Cluster cluster_;
  TrialRequest request_;
  std::string backend_ = "program = [\"./train.sh\"]\n";
  std::string patience_s_ = "0.3";
};

const std::string kStep = "echo 'oppa {\"step_time_s\": 0.01}'\n";

TEST_F(CommandRunnerTest, APlanIsRefusedBeforeAProcessStarts) {
  request_.candidate = UniformPlan(request_.candidate.config(), 8);
  EXPECT_THROW((void)Run("touch \"$0.ran\"\n" + kStep), std::logic_error);
  EXPECT_FALSE(fs::exists(folder_.path() / "train.sh.ran"));
}

TEST_F(CommandRunnerTest, ALogIsNeitherWrittenThroughALinkNorToAFifo) {
  const fs::path log = folder_.path() / "logs" /
                       (ToString(request_.candidate.config()) + ".log");
  const fs::path target = folder_.path() / "target";
  fs::create_directories(log.parent_path());
  fakes::WriteFile(target, "kept");
  fs::create_symlink(target, log);
  EXPECT_EQ(Run(kStep + kStep + kStep).outcome, Outcome::kCompleted);
  EXPECT_EQ(fakes::ReadFile(target), "kept");
  fs::remove(log);
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  EXPECT_EQ(Run(kStep + kStep + kStep).outcome, Outcome::kCompleted);
}

TEST_F(CommandRunnerTest, AFolderOfLogsThatIsALinkIsRefused) {
  fs::create_directories(folder_.path() / "elsewhere");
  fs::create_symlink(folder_.path() / "elsewhere", folder_.path() / "logs");
  EXPECT_THROW((void)Run(kStep), common::InputError);
  EXPECT_TRUE(fs::is_empty(folder_.path() / "elsewhere"));
}

// {tp} is a placeholder of words, not in the path of the program.
TEST_F(CommandRunnerTest, AFolderMayBeNamedLikeAPlaceholder) {
  const fs::path folder = folder_.path() / "{tp} {nothing}";
  fs::create_directory(folder);
  fakes::WriteFile(folder / "train.sh", "#!/bin/sh\n" + kStep + kStep + kStep);
  fs::permissions(folder / "train.sh", fs::perms::owner_all);
  fakes::WriteFile(folder / "m.toml", backend_);
  CommandRunner runner(
      ReadCommandOptions(common::TomlTable::ParseFile(folder / "m.toml")),
      cluster_);
  runner.KeepLogs(folder / "logs");
  EXPECT_EQ(runner.Run(request_).outcome, Outcome::kCompleted);
}

TEST_F(CommandRunnerTest, AMessageHasNoSecrets) {
  const std::string message =
      Run("echo 'refused: HF_TOKEN=s3cr3t-value' >&2; exit 1").message;
  EXPECT_THAT(message, HasSubstr("HF_TOKEN=***"));
}

TEST_F(CommandRunnerTest, AMessageIsOneLine) {
  EXPECT_EQ(Run("printf '%s' 'oppa {\"status\": \"failed\", \"message\": "
                "\"a\\nb\"}'\n")
                .message,
            "a b");
}

TEST_F(CommandRunnerTest, MeasuresStepsAndMemory) {
  const Measurement trial =
      Run("echo loading\nsleep 0.1\n" + kStep + kStep +
          "echo 'oppa {\"step_time_s\": 0.02, \"peak_memory_bytes\": 5e9}'\n"
          "echo 'oppa {\"peak_memory_bytes\": 4e9}'\n");
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.01, 0.01, 0.02));
  EXPECT_EQ(trial.peak_memory_bytes, 5e9);
  EXPECT_GT(trial.setup_s, 0.08);
  EXPECT_GE(trial.duration_s, trial.setup_s);
  EXPECT_THAT(Log(), HasSubstr("loading\n"));
}

TEST_F(CommandRunnerTest, TheSetUpEndsWhereTheFirstStepBegins) {
  const Measurement trial =
      Run("sleep 0.2\n" + kStep + "sleep 0.4\n" + kStep + kStep);
  EXPECT_GT(trial.setup_s, 0.15);
  EXPECT_LT(trial.setup_s, trial.duration_s - 0.35);
}

TEST_F(CommandRunnerTest, WarmUpStepsAreRequestedInAdditionAndPartOfTheSetUp) {
  backend_ += "warmup_steps = 2\n";
  const Measurement trial =
      Run("test $OPPA_MAX_STEPS = 5 && sleep 0.2 && " + kStep +
          "echo 'oppa {\"step_time_s\": 0.05}'\n" + kStep + kStep + kStep);
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.01, 0.01, 0.01));
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_GT(trial.setup_s, 0.15);
}

TEST_F(CommandRunnerTest, AProgramMayReportItsPeakWhileItTearsDown) {
  patience_s_ = "60";
  const Measurement trial =
      Run(kStep + kStep + kStep +
          "sleep 0.4\necho 'oppa {\"peak_memory_bytes\": 7e9}'\n");
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_EQ(trial.peak_memory_bytes, 7e9);
}

TEST_F(CommandRunnerTest, FilesOfATrialHaveANameOfTheirOwnThatCanBeOne) {
  Write(kStep + kStep + kStep);
  const auto name_of = [this](const std::string& word) {
    CommandOptions options = Options();
    options.knobs = ReadCustomKnobs(
        common::TomlTable::ParseString(
            "[space.custom]\nword = ['none', '" + word + "']\n", "m.toml")
            .GetTable("space"));
    TrialRequest request = request_;
    request.candidate =
        ParseParallelConfig("dp=2,tp=4,pp=1,word=" + word, options.knobs);
    CommandRunner runner(std::move(options), cluster_);
    const fs::path logs = folder_.path() / "each";
    fs::remove_all(logs);
    runner.KeepLogs(logs);
    EXPECT_EQ(runner.Run(request).outcome, Outcome::kCompleted);
    return fs::directory_iterator(logs)->path().stem().string();
  };
  EXPECT_EQ(name_of("a_b"), "dp=2,tp=4,pp=1,word=a_b");
  EXPECT_THAT(name_of("a b"),
              testing::MatchesRegex("dp=2,tp=4,pp=1,word=a_b-[0-9a-f]+"));
  EXPECT_NE(name_of("a b"), name_of("a/b"));
  EXPECT_EQ(name_of(std::string(300, 'x')).size(), 200U);
}

TEST_F(CommandRunnerTest, TellsTheProgramWhatToTry) {
  backend_ =
      "program = [\"./train.sh\", \"--tp={tp}\", \"{nodes}x{gpus_per_node}\", "
      "\"{{tp}} {\\\"a\\\": 1}\"]\nenvironment = [\"MORE=a b\"]\n";
  ::setenv("OMP_NUM_THREADS", "1", 1);
  (void)Run(
      "echo \"$@\" / $OPPA_DP $OPPA_TP $OPPA_MAX_STEPS / $MORE / "
      "${OMP_NUM_THREADS-none}\necho \"$OPPA_TRIAL\"; pwd\n");
  EXPECT_THAT(Log(),
              HasSubstr("--tp=4 2x4 {tp} {\"a\": 1} / 2 4 3 / a b / none\n"));
  EXPECT_THAT(Log(), HasSubstr(fs::canonical(folder_.path()).string()));
  EXPECT_THAT(Log(), HasSubstr("\"config\":{\"dp\":2,\"tp\":4,\"pp\":1"));
}

TEST_F(CommandRunnerTest, ReadsALogWithoutTheBuffersOfPython) {
  backend_ += "[log]\nstep_time_s = 'took ([0-9.]+) s'\n";
  const Measurement trial =
      Run("for i in 1 2 3; do sleep 0.1; echo took 0.$PYTHONUNBUFFERED s; "
          "done\n");
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.1, 0.1, 0.1));
}

TEST_F(CommandRunnerTest, LinesOfFourRanksAreOneStepAndATrialSaysSo) {
  backend_ += "[log]\nstep_time_s = 'took ([0-9.]+) s'\n";
  const Measurement trial =
      Run("for i in 1 2 3; do sleep 0.2\nfor rank in 0 1 2 3; do echo took 0.2 "
          "s; done; done\n");
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.2, 0.2, 0.2));
  EXPECT_EQ(trial.message, "4 lines a step, counted once");
}

TEST_F(CommandRunnerTest, ATrialWhoseNumbersAreNotSettledFailsAndSaysWhy) {
  backend_ += "[log]\nstep_time_s = 'took ([0-9.,]+) s'\n";
  const Measurement trial =
      Run("for i in 1 2 3; do sleep 0.3; echo took 1,05$i s; done\n");
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_THAT(trial.message, HasSubstr("'1,051' may be 1051 or 1.051"));
}

TEST_F(CommandRunnerTest, ARuleThatStopsATrialEndsItsProcesses) {
  request_.max_steps = 1000;
  StopBy(StopRule{.q_min = 5, .best_steps_per_s = 1e6}, request_);
  const auto begin = std::chrono::steady_clock::now();
  const Measurement trial = Run("while :; do " + kStep + "sleep 0.02; done\n");
  EXPECT_EQ(trial.outcome, Outcome::kTerminatedEarly);
  EXPECT_EQ(trial.step_times_s.size(), 5U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// As torchrun does; the stacks of a program that hangs stay.
TEST_F(CommandRunnerTest, ALogHasNoTracebackOfAStopThatIsNoFailure) {
  const std::string trap = "trap 'echo Traceback: SIGTERM; exit 1' TERM\n";
  const std::string steps = "while :; do " + kStep + "sleep 0.02; done\n";
  EXPECT_EQ(Run(trap + steps).outcome, Outcome::kCompleted);
  EXPECT_THAT(Log(), testing::EndsWith("oppa: stopped here, after 3 steps\n"));
  StopBy(StopRule{.q_min = 2, .best_steps_per_s = 1e6}, request_);
  EXPECT_EQ(Run(trap + steps).outcome, Outcome::kTerminatedEarly);
  EXPECT_THAT(Log(), testing::EndsWith("oppa: stopped here, after 2 steps\n"));
  request_.time_limit_s = 0.4;
  EXPECT_EQ(Run(trap + "while :; do sleep 0.02; done\n").outcome,
            Outcome::kTimedOut);
  EXPECT_THAT(Log(), HasSubstr("Traceback"));
}

TEST_F(CommandRunnerTest, TheLimitThatEndsATrialIsNamed) {
  request_.time_limit_s = 0.4;
  Measurement trial = Run("trap '' TERM; while :; do sleep 0.05; done\n");
  EXPECT_EQ(trial.outcome, Outcome::kTimedOut);
  EXPECT_LE(trial.duration_s, 0.4);
  EXPECT_EQ(trial.message, "cut off at the time limit");
  request_.time_limit_s = 60.0;
  for (const auto& [setting, message] :
       {std::pair("timeout_s", "cut off after 1 s (backend.timeout_s)"),
        std::pair("silence_s", "hangs: no report for 1 s")}) {
    backend_ =
        std::string("program = [\"./train.sh\"]\n") + setting + " = 1.0\n";
    trial = Run(kStep + "trap '' TERM; sleep 60\n");
    EXPECT_EQ(trial.outcome, Outcome::kTimedOut);
    EXPECT_THAT(trial.message, HasSubstr(message));
  }
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.01));
}

TEST_F(CommandRunnerTest, OutOfMemoryIsSeenInTheReportAndInTheOutput) {
  Measurement trial = Run(
      "echo 'oppa {\"status\": \"out_of_memory\", \"message\": \"17 GB\"}'");
  EXPECT_EQ(trial.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(trial.message, "17 GB");
  trial = Run(kStep +
              "echo 'RuntimeError: CUDA out of memory. Tried' >&2\nexit 1\n");
  EXPECT_EQ(trial.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(trial.message, "RuntimeError: CUDA out of memory. Tried");
}

TEST_F(CommandRunnerTest, ALossThatIsNotFiniteEndsATrialThatHasNoSpeed) {
  const Measurement trial = Run(kStep + "echo \"{'loss': nan}\"\nsleep 0.5\n" +
                                kStep + kStep + "sleep 60\n");
  EXPECT_EQ(trial.outcome, Outcome::kDiverged);
  EXPECT_EQ(trial.message, "the loss is not finite: {'loss': nan}");
  EXPECT_EQ(Run(kStep + "printf \"{'loss': nan}\"\nexit 1\n").outcome,
            Outcome::kDiverged)
      << "the program ends by itself";
  EXPECT_EQ(Run("echo 'oppa {\"status\": \"diverged\"}'").outcome,
            Outcome::kDiverged);
  EXPECT_FALSE(MakeTrial(0, ParallelConfig{}, trial).HasThroughput());
}

TEST_F(CommandRunnerTest, ReportsSayTheLossAndSkippedSteps) {
  const std::string step = "echo 'oppa {\"step_time_s\": 0.01, ";
  for (const std::string text : {"\"loss\": NaN}'", "\"loss\": null}'"}) {
    const Measurement trial = Run(step + text + "\nsleep 60\n");
    EXPECT_EQ(trial.outcome, Outcome::kDiverged);
    EXPECT_THAT(trial.message, HasSubstr("not finite: oppa {\"step"));
  }
  const std::string good = step + "\"loss\": 2.3}'\n";
  const std::string skipped = step + "\"loss\": 2.3, \"skipped\": true}'\n";
  EXPECT_EQ(Run(skipped + skipped + skipped).outcome, Outcome::kDiverged);
  EXPECT_EQ(Run(skipped + skipped + good).outcome, Outcome::kCompleted);
}

TEST_F(CommandRunnerTest, CrashesAreData) {
  Measurement trial = Run(kStep + "echo no good >&2\nexit 3\n");
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_EQ(trial.message, "exit code 3 after 1 of 3 steps: no good");
  trial = Run("kill -SEGV $$\n");
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_THAT(trial.message, HasSubstr("killed by signal 11"));
  trial = Run(kStep);
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_THAT(trial.message, HasSubstr("exit code 0 after 1 of 3 steps"));
}

TEST_F(CommandRunnerTest, AReportThatCannotBeReadEndsTheTrial) {
  const Measurement trial =
      Run("echo 'oppa {\"step_time_s\": \"fast\"}'\nsleep 60\n");
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_THAT(trial.message, HasSubstr("must be a number > 0"));
}

TEST_F(CommandRunnerTest, ABrokenReportFailsATrialOnlyWhereStepsAreMissing) {
  const std::string broken = "echo 'oppa {\"step_time_s\": 0.0epoch'\n";
  EXPECT_EQ(Run(broken + kStep + kStep + kStep).outcome, Outcome::kCompleted);
  const Measurement trial = Run(kStep + broken + kStep);
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
  EXPECT_THAT(trial.message,
              HasSubstr("exit code 0 after 2 of 3 steps; skipped a broken "
                        "report '{\"step_time_s\": 0.0epoch'"));
}

TEST_F(CommandRunnerTest, ReadsTheFileThatOppaReportNames) {
  const std::string step =
      "echo 'oppa {\"step_time_s\": 0.02}' >>\"$OPPA_REPORT\"\n";
  const Measurement trial = Run(step + kStep + "sleep 0.3\n" + step);
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_THAT(trial.step_times_s,
              testing::UnorderedElementsAre(0.02, 0.01, 0.02));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() / "logs"), {}),
            1);
}

TEST_F(CommandRunnerTest, TheShippedPythonModuleReports) {
  const auto programs = fakes::SourceFolder() / "experiments/programs";
  const Measurement trial =
      Run("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" + programs.string() +
          "' exec python3 -c 'import oppa_report as o\n"
          "for _ in range(o.trial()[\"max_steps\"]):\n"
          "  print(end=\"oppa\", flush=True)\n"
          "  o.report(step_time_s=0.5)'\n");
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.5, 0.5, 0.5));
}

TEST_F(CommandRunnerTest, LogsHaveTheUsersUmask) {
  const mode_t before = ::umask(077);
  (void)Run("echo x\n");
  ::umask(before);
  struct stat found {};
  const fs::path log = folder_.path() / "logs" /
                       (ToString(request_.candidate.config()) + ".log");
  ASSERT_EQ(::stat(log.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(CommandRunnerTest, AnUnwritableLogIsNoReasonToLoseATrial) {
  Write(kStep + kStep + kStep);
  CommandRunner runner(Options(), cluster_);
  runner.KeepLogs("/proc/nowhere");
  EXPECT_EQ(runner.Run(request_).outcome, Outcome::kCompleted);
}

TEST_F(CommandRunnerTest, AnInterruptedTrialIsNoMeasurement) {
  request_.interrupted = [] { return true; };
  EXPECT_THROW((void)Run("sleep 60\n"), TrialInterrupted);
}

TEST_F(CommandRunnerTest, AProgramThatIsNotThereIsNoTrial) {
  backend_ = "program = [\"oppa-no-such-program\"]\n";
  try {
    (void)Run("");
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(
        e.what(),
        "cannot start oppa-no-such-program: No such file or directory");
  }
  backend_ = "program = [\"./missing.sh\"]\n";
  EXPECT_THROW((void)Options(), common::InputError);
}

TEST_F(CommandRunnerTest, RanksAreStartedWithSrunInAnAllocationOnly) {
  Write("");
  backend_ += "ranks = \"per-gpu\"\n";
  ::unsetenv("SLURM_JOB_ID");
  CommandRunner runner(Options(), cluster_);
  EXPECT_THROW((void)runner.Run(request_), common::InputError);
}

TEST_F(CommandRunnerTest, ReadsTheLogOfAFrameworkOnBothOutputs) {
  backend_ += "framework = \"megatron-lm\"\nlauncher = \"as-is\"\n";
  const Measurement trial = Run(
      "echo $@\n"
      "echo 'iteration  1/3 | elapsed time per iteration (ms): 500.0 |' >&2\n"
      "echo 'memory (MB) | max allocated: 100.0'\n"
      "echo 'iteration  2/3 | elapsed time per iteration (ms): 20.5 |' >&2\n"
      "echo 'iteration  3/3 | elapsed time per iteration (ms): 20.0 |' >&2\n");
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_THAT(trial.step_times_s, ElementsAre(0.5, 0.0205, 0.02));
  EXPECT_EQ(trial.peak_memory_bytes, 100.0 * 1048576);
  EXPECT_THAT(Log(), HasSubstr("--tensor-model-parallel-size 4"));
  EXPECT_THAT(Log(), HasSubstr("--train-iters 3"));
}

TEST_F(CommandRunnerTest, RunsTheJobAsGivenWithWhatTrialsNeed) {
  backend_ =
      "program = [\"./train.sh\", \"--tensor-model-parallel-size\", "
      "\"8\"]\nframework = \"megatron-lm\"\n";
  Write("echo $@\n");
  CommandRunner runner(Options(), cluster_);
  runner.KeepLogs(folder_.path() / "logs");
  runner.RunAsGiven(true);
  EXPECT_EQ(runner.Run(request_).outcome, Outcome::kFailed);
  EXPECT_THAT(Log(), HasSubstr("--tensor-model-parallel-size 8 --train-iters"));
}

TEST_F(CommandRunnerTest, NamesAnUnknownLauncherAndFramework) {
  backend_ += "launcher = \"torchrum\"\n";
  Write("");
  EXPECT_THROW((void)Options(), common::InputError);
  backend_ = "program = [\"./train.sh\"]\nframework = \"megatrom\"\n";
  EXPECT_THROW((void)Options(), common::InputError);
}

}  // namespace trials::command_runner_test
