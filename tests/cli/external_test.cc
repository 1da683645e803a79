// `oppa run` with trials by a program of the user's own.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/process.h"
#include "tests/fakes/program_test.h"
#include "trials/record.h"

namespace cli::external_test {

namespace fs = std::filesystem;
using testing::AllOf;
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
for i in 1 2 3; do echo "oppa {\"step_time_s\": 1.01}"; done
)sh";

class ExternalTest : public fakes::ProgramTest {
 protected:
  ExternalTest() {
    Write("m.toml", kManifest);
    Write("train.sh", kProgram);
  }

  int Run(const std::string& more = "") {
    return Oppa("run m.toml --no-report" + more);
  }

  // Starts `oppa run`, waits until a trial hangs, and sends it a signal.
  void StopWhileATrialHangs(int signal) {
    Write("hang", "");
    const pid_t pid = common::StartProcess(
        {.words = common::InFolder(
             folder_.path(),
             {fakes::ProgramFile().string(), "run", "m.toml", "--no-report"}),
         .environment = common::CurrentEnvironment(),
         .own_group = true});
    // The trial starts its stray process and says that it hangs; the process
    // has its command line a moment later.
    for (int i = 0; i < 3000 && (!fs::exists(Path("hanging")) || Strays() == 0);
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GT(Strays(), 0);
    ::kill(pid, signal);
    (void)common::WaitFor(pid);
    for (int i = 0; i < 1000 && Strays() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    fs::remove(Path("hang"));
  }

  // Processes of trials that are alive.
  [[nodiscard]] int Strays() const {
    const auto& entries = fs::directory_iterator("/proc");
    return static_cast<int>(
        std::count_if(begin(entries), end(entries), [this](const auto& entry) {
          return common::ReadProcFile(entry.path() / "cmdline")
                     .find(Path("stray").string()) != std::string::npos;
        }));
  }

  [[nodiscard]] std::vector<trials::Trial> Trials() const {
    return trials::ReadTrials(Path("results/m/random/1"));
  }
};

TEST_F(ExternalTest, RunsToItsEndAndKeepsWhatTrialsPrint) {
  ASSERT_EQ(Run(), 0) << Printed();
  const auto trials = Trials();
  ASSERT_EQ(trials.size(), 6U);
  EXPECT_EQ(trials[0].measurement.outcome, trials::Outcome::kCompleted);
  EXPECT_DOUBLE_EQ(trials[0].throughput.steps_per_s, 1.0 / 1.01);
  EXPECT_EQ(std::distance(
                fs::directory_iterator(Path("results/m/random/1/trials")), {}),
            6);
  EXPECT_EQ(Oppa("logs m.toml random/1"), 0);
  EXPECT_THAT(output_, HasSubstr(".log:\noppa {\"step_time_s\": 1.01}"));
}

TEST_F(ExternalTest, StoppedInATrialItLeavesNoProcessAndGoesOnAfterwards) {
  for (const int signal : {SIGKILL, SIGINT}) {
    fs::remove_all(Path("results"));
    fs::remove(Path("started"));
    fs::remove(Path("hanging"));
    StopWhileATrialHangs(signal);
    EXPECT_EQ(Strays(), 0);
    EXPECT_EQ(Trials().size(), 3U);
    const std::string rows = "results/m/random/1/trials.csv";
    const std::string before = Content(rows);
    ASSERT_EQ(Run(), 0) << Printed();
    EXPECT_EQ(Trials().size(), 6U);
    EXPECT_TRUE(Content(rows).starts_with(before));
  }
}

TEST_F(ExternalTest, ASearchWithoutACompletedTrialFailsAndSaysWhy) {
  Write("train.sh", "#!/bin/sh\necho no such device >&2\nexit 3\n");
  const std::string message =
      "random: no trial completed: 6 failed (exit code 3";
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(errors_, AllOf(HasSubstr(message), HasSubstr("no such device")));
  EXPECT_EQ(Run(), 1) << "though nothing is left to run";
  EXPECT_THAT(errors_, HasSubstr(message));
}

TEST_F(ExternalTest, SaysWhichParametersTheProgramDoesNotGet) {
  std::string manifest = kManifest;
  Write("m.toml", manifest.replace(manifest.find("train.sh") + 8, 1,
                                   "\", \"{tp}\", \"{pp}\""));
  ASSERT_EQ(Run(), 0) << Printed();
  EXPECT_THAT(errors_, HasSubstr("are the same for configurations that "
                                 "differ in dp_bucket_mb, "));
}

TEST_F(ExternalTest, RunsOneAtATimeUnlessToldOtherwise) {
  ASSERT_EQ(Run(" --repeats 2"), 0);
  EXPECT_THAT(output_, HasSubstr("2 of 2 runs to do, 1 at a time"));
  ASSERT_EQ(Run(" --repeats 3 --jobs 3"), 0);
  EXPECT_THAT(output_, HasSubstr("1 of 3 runs to do, 3 at a time"));
}

TEST_F(ExternalTest, RunsWhereTheParentIgnoresItsChildren) {
  Write("train.sh", "#!/bin/sh\nexit 3\n");
  EXPECT_EQ(
      Call({"python3", "-c",
            "import os, signal, sys\n"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "os.execv(sys.argv[1], sys.argv[1:])",
            fakes::ProgramFile().string(), "run", "m.toml", "--no-report"}),
      1);  // no trial completed
  ASSERT_EQ(Trials().size(), 6U) << Printed();
  EXPECT_THAT(Trials()[0].measurement.message, HasSubstr("exit code 3"));
}

TEST_F(ExternalTest, AProgramThatCannotBeStartedIsOneLineAndNoTrial) {
  for (const auto& [text, reason] :
       {std::pair("echo no first line\n", "Exec format error"),
        {"#!/no/such/interpreter\n", "No such file"}}) {
    fs::remove_all(Path("results"));
    Write("train.sh", text);
    EXPECT_EQ(Run(), 1);
    EXPECT_THAT(Printed(), AllOf(HasSubstr("cannot start"), HasSubstr(reason)));
    EXPECT_TRUE(Trials().empty());
  }
}

TEST_F(ExternalTest, SimulateDoesNotRunTheTrainingProgram) {
  Write("train.sh", "#!/bin/sh\ntouch started\n");
  EXPECT_EQ(Oppa("simulate m.toml --all"), 2);
  EXPECT_THAT(errors_, HasSubstr("would run every candidate"));
  EXPECT_FALSE(fs::exists(Path("started")));
}

}  // namespace cli::external_test
