// `oppa run` with trials by a program of the user's own.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/process.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace cli::external_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kManifest = R"([experiment]
methods = ["random"]
[backend]
type = "command"
program = ["./train.sh"]
patience_s = 0.2
)" + std::string(fakes::kWorkload) +
                              std::string(fakes::kCluster) + R"([budget]
trials = 6
q_max = 3
)";

// Trial 4 leaves a mark and then hangs, as long as there is a file "hang".
constexpr std::string_view kProgram = R"sh(#!/bin/sh
echo x >>started
if [ -e hang ] && [ "$(wc -l <started)" -ge 4 ]; then
  setsid -f sh -c 'trap "" TERM; while :; do sleep 0.05; done' "$PWD/stray"
  touch hanging
  trap "" TERM
  while :; do sleep 0.05; done
fi
for i in 1 2 3; do echo "oppa {\"step_time_s\": 0.01}"; done
)sh";

class ExternalTest : public testing::Test {
 protected:
  ExternalTest() {
    fakes::WriteFile(folder_.path() / "m.toml", kManifest);
    Write(std::string(kProgram));
  }

  void Write(const std::string& program) {
    fakes::WriteFile(folder_.path() / "train.sh", program);
    fs::permissions(folder_.path() / "train.sh", fs::perms::owner_all);
  }

  [[nodiscard]] std::vector<std::string> Words(
      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        fakes::ProgramFile().string(),         "run",
        (folder_.path() / "m.toml").string(),  "--results",
        (folder_.path() / "results").string(), "--no-report"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  int Oppa(const std::vector<std::string>& more = {}) {
    return Call(Words(more));
  }

  int Call(const std::vector<std::string>& words, const fs::path& where = {}) {
    const common::CommandResult result =
        common::RunCommand(words, common::CurrentEnvironment(), where);
    output_ = result.output + result.errors;
    return result.exit_code;
  }

  // Starts `oppa run`, waits until a trial hangs, and sends it a signal.
  void StopWhileATrialHangs(int signal) {
    fakes::WriteFile(folder_.path() / "hang", "");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setpgid(0, 0);
      std::vector<std::string> words = Words();
      std::vector<char*> pointers;
      for (std::string& word : words) {
        pointers.push_back(word.data());
      }
      pointers.push_back(nullptr);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    // The trial starts its stray process and says that it hangs; the process
    // has its command line a moment later.
    for (int i = 0;
         i < 3000 && (!fs::exists(folder_.path() / "hanging") || Strays() == 0);
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GT(Strays(), 0);
    ::kill(pid, signal);
    ::waitpid(pid, nullptr, 0);
    for (int i = 0; i < 1000 && Strays() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    fs::remove(folder_.path() / "hang");
  }

  // Processes of trials that are alive.
  [[nodiscard]] int Strays() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string line = common::ReadProcFile(entry.path() / "cmdline");
      count +=
          line.find(folder_.path().string() + "/stray") != std::string::npos
              ? 1
              : 0;
    }
    return count;
  }

  [[nodiscard]] fs::path Run() const {
    return folder_.path() / "results/m/random/1";
  }

  fakes::ExperimentFolder folder_;
  std::string output_;
};

TEST_F(ExternalTest, RunsToItsEndAndKeepsWhatTrialsPrint) {
  ASSERT_EQ(Oppa(), 0) << output_;
  const auto trials = trials::ReadTrials(Run());
  ASSERT_EQ(trials.size(), 6U);
  EXPECT_EQ(trials[0].measurement.outcome, trials::Outcome::kCompleted);
  EXPECT_DOUBLE_EQ(trials[0].throughput.steps_per_s, 100.0);
  EXPECT_EQ(std::distance(fs::directory_iterator(Run() / "trials"), {}), 6);
}

TEST_F(ExternalTest, KilledInATrialItLeavesNoProcessAndGoesOnAfterwards) {
  StopWhileATrialHangs(SIGKILL);
  EXPECT_EQ(Strays(), 0);
  const std::string before = fakes::ReadFile(Run() / "trials.csv");
  EXPECT_EQ(trials::ReadTrials(Run()).size(), 3U);
  ASSERT_EQ(Oppa(), 0) << output_;
  EXPECT_EQ(trials::ReadTrials(Run()).size(), 6U);
  EXPECT_TRUE(fakes::ReadFile(Run() / "trials.csv").starts_with(before));
}

TEST_F(ExternalTest, InterruptedInATrialItLeavesNoProcessAndGoesOnAfterwards) {
  StopWhileATrialHangs(SIGINT);
  EXPECT_EQ(Strays(), 0);
  EXPECT_EQ(trials::ReadTrials(Run()).size(), 3U);
  ASSERT_EQ(Oppa(), 0) << output_;
  EXPECT_EQ(trials::ReadTrials(Run()).size(), 6U);
}

TEST_F(ExternalTest, ASearchWithoutACompletedTrialFailsAndSaysWhy) {
  Write("#!/bin/sh\nexit 3\n");
  EXPECT_EQ(Oppa(), 1);
  EXPECT_THAT(output_,
              HasSubstr("random: no trial completed: 6 failed (exit code 3"));
  EXPECT_EQ(Oppa(), 1) << "though nothing is left to run";
  EXPECT_THAT(output_, HasSubstr("no trial completed"));
}

TEST_F(ExternalTest, ADamagedRowOfAFinishedRunFailsAndIsNamed) {
  ASSERT_EQ(Oppa(), 0) << output_;
  std::string rows = fakes::ReadFile(Run() / "trials.csv");
  rows[rows.find("\n1,") + 1] = '9';
  fakes::WriteFile(Run() / "trials.csv", rows);
  EXPECT_EQ(Oppa(), 1);
  EXPECT_THAT(output_, HasSubstr("trials.csv:3: "));
}

TEST_F(ExternalTest, AnotherScriptIsAnotherInput) {
  ASSERT_EQ(Oppa(), 0) << output_;
  Write(std::string(kProgram) + "# changed\n");
  EXPECT_EQ(Oppa(), 2);
  EXPECT_THAT(output_, HasSubstr("made from other input"));
}

TEST_F(ExternalTest, AManifestInTheWorkingFolderNeedsNoPath) {
  const std::string oppa = fakes::ProgramFile().string();
  EXPECT_EQ(Call({oppa, "space", "m.toml", "--count"}, folder_.path()), 0)
      << output_;
  EXPECT_EQ(Call({oppa, "run", "m.toml", "--no-report"}, folder_.path()), 0)
      << output_;
}

TEST_F(ExternalTest, RunsOneAtATimeUnlessToldOtherwise) {
  ASSERT_EQ(Oppa({"--repeats", "2"}), 0);
  EXPECT_THAT(output_, HasSubstr("2 of 2 runs to do, 1 at a time"));
  ASSERT_EQ(Oppa({"--repeats", "3", "--jobs", "3"}), 0);
  EXPECT_THAT(output_, HasSubstr("1 of 3 runs to do, 3 at a time"));
}

TEST_F(ExternalTest, LogsShowTheOutputOfTheLastTrial) {
  ASSERT_EQ(Oppa(), 0) << output_;
  EXPECT_EQ(Call({fakes::ProgramFile().string(), "logs",
                  (folder_.path() / "m.toml").string(), "random/1", "--results",
                  (folder_.path() / "results").string()}),
            0);
  EXPECT_THAT(output_, HasSubstr(".log:\noppa {\"step_time_s\": 0.01}"));
}

TEST_F(ExternalTest, RunsWhereTheParentIgnoresItsChildren) {
  Write("#!/bin/sh\nexit 3\n");
  std::vector<std::string> words = {
      "python3", "-c",
      "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
      "os.execv(sys.argv[1], sys.argv[1:])"};
  for (const std::string& word : Words()) {
    words.push_back(word);
  }
  ASSERT_EQ(Call(words), 1) << output_;  // no trial completed
  const auto trials = trials::ReadTrials(Run());
  ASSERT_EQ(trials.size(), 6U);
  EXPECT_THAT(trials[0].measurement.message, HasSubstr("exit code 3"));
}

TEST_F(ExternalTest, AProgramInAnUnknownFormatIsOneLineAndNoTrial) {
  Write("echo no first line\n");
  EXPECT_EQ(Oppa(), 1);
  EXPECT_THAT(output_, HasSubstr("Exec format error"));
  EXPECT_TRUE(trials::ReadTrials(Run()).empty());
}

TEST_F(ExternalTest, ADirectoryIsNoManifest) {
  EXPECT_EQ(
      Call({fakes::ProgramFile().string(), "matrix", folder_.path().string()}),
      2);
  EXPECT_THAT(output_, HasSubstr("is a directory"));
}

TEST_F(ExternalTest, SimulateDoesNotRunTheTrainingProgram) {
  Write("#!/bin/sh\ntouch started\n");
  EXPECT_EQ(Call({fakes::ProgramFile().string(), "simulate",
                  (folder_.path() / "m.toml").string(), "--all"}),
            2);
  EXPECT_THAT(output_, HasSubstr("would run every candidate"));
  EXPECT_FALSE(fs::exists(folder_.path() / "started"));
}

TEST_F(ExternalTest, AProgramThatCannotBeStartedIsOneLineAndNoTrial) {
  Write("#!/no/such/interpreter\n");
  EXPECT_EQ(Oppa(), 1);
  EXPECT_THAT(output_, HasSubstr("cannot start"));
  EXPECT_THAT(output_, HasSubstr("No such file"));
  EXPECT_TRUE(trials::ReadTrials(Run()).empty());
}

}  // namespace cli::external_test
