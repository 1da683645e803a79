// The program with Slurm, a fake one that runs tasks at once.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/process.h"
#include "harness/slurm/submission.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::slurm_test {

namespace fs = std::filesystem;
using fakes::Records;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kManifest =
    fakes::SmallManifest(R"("random", "xgboost")", "trials = 8\nq_max = 6\n") +
    R"(
[slurm]
partition = "main"
max_running = 3
)";

class SlurmTest : public testing::Test {
 protected:
  SlurmTest() {
    fs::create_directories(bin_);
    for (const char* name : {"sbatch", "squeue", "scontrol", "scancel"}) {
      fs::create_symlink(fakes::SourceFolder() / "tests/fakes/fake_slurm.py",
                         bin_ / name);
    }
    fakes::WriteFile(manifest_, kManifest);
  }

  int Oppa(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {fakes::ProgramFile().string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.begin() + 2,
                 {manifest_.string(), "--results", results_.string()});
    const common::CommandResult result = common::RunCommand(
        words, {"PATH=" + bin_.string() + ":" + std::getenv("PATH"),
                "HOME=" + folder_.path().string(), "SBATCH_PARTITION=evil",
                "SLURM_ARRAY_TASK_ID=99"});
    output_ = result.output + result.errors;
    return result.exit_code;
  }

  int Submit() { return Oppa({"run", "--dispatch", "slurm", "--no-report"}); }

  int SubmitTrials(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"run", "--dispatch", "slurm",
                                      "--trial-per-job", "--no-report"};
    words.insert(words.end(), more.begin(), more.end());
    return Oppa(words);
  }

  // In the manifest.
  void Replace(const std::string& from, const std::string& to) {
    std::string text = fakes::ReadFile(manifest_);
    text.replace(text.find(from), from.size(), to);
    fakes::WriteFile(manifest_, text);
  }

  // Calls of one of the fake programs, in order.
  [[nodiscard]] std::vector<nlohmann::json> Calls(
      const std::string& name) const {
    std::istringstream lines(fakes::ReadFile(bin_ / "calls.jsonl"));
    std::vector<nlohmann::json> calls;
    for (std::string line; std::getline(lines, line);) {
      auto call = nlohmann::json::parse(line);
      if (call["name"] == name) {
        calls.push_back(std::move(call));
      }
    }
    return calls;
  }

  // What Slurm remembers: this state for every task, or for one of them.
  void SetState(const std::string& state, const std::string& only = "") {
    auto jobs = nlohmann::json::parse(fakes::ReadFile(bin_ / "jobs.json"));
    for (auto& job : jobs) {
      for (auto& [task, value] : job["tasks"].items()) {
        if (only.empty() || task == only) {
          value = state;
        }
      }
    }
    fakes::WriteFile(bin_ / "jobs.json", jobs.dump());
  }

  // Of the whole experiment: each run's state.
  std::map<std::string, std::string> States() {
    fs::remove(results_ / "m/.slurm/queue.txt");  // as if time passed
    EXPECT_EQ(Oppa({"status", "--json"}), 0) << output_;
    std::map<std::string, std::string> states;
    const auto status = nlohmann::json::parse(output_);
    for (const auto& run : status["runs"]) {
      states[run["method"].get<std::string>() + "/" +
             std::to_string(run["repeat"].get<int>())] = run["state"];
    }
    return states;
  }

  fakes::ExperimentFolder folder_;
  fs::path bin_ = folder_.path() / "bin";
  fs::path manifest_ = folder_.path() / "m.toml";
  fs::path results_ = folder_.path() / "results";
  std::string output_;
};

TEST_F(SlurmTest, RecordsAreThoseOfTheLocalPool) {
  ASSERT_EQ(Submit(), 0) << output_;
  const auto by_slurm = Records(results_);
  results_ = folder_.path() / "local";
  ASSERT_EQ(Oppa({"run", "--no-report"}), 0) << output_;
  EXPECT_EQ(by_slurm.size(), 12U);
  EXPECT_EQ(by_slurm, Records(results_));
}

TEST_F(SlurmTest, TheMatrixIsAsInTheGoldenFileAndWritesNothing) {
  ASSERT_EQ(Oppa({"matrix", "--dispatch", "slurm"}), 0) << output_;
  const auto replace = [this](const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = output_.find(from, at)) != std::string::npos;
         at += to.size()) {
      output_.replace(at, from.size(), to);
    }
  };
  replace(folder_.path().string(), "/FOLDER");
  replace(fs::canonical(fakes::ProgramFile()).string(), "/PROGRAM/oppa");
  replace("--chdir=" + fs::current_path().string(), "--chdir=/HERE");
  EXPECT_EQ(output_, fakes::ReadFile(fakes::SourceFolder() /
                                     "tests/golden/matrix_slurm.txt"));
  EXPECT_FALSE(fs::exists(results_));
  EXPECT_TRUE(Calls("sbatch").empty());
}

TEST_F(SlurmTest, PlanShowsTheJobOfATrialAndWritesNothing) {
  ASSERT_EQ(Oppa({"matrix", "--dispatch", "slurm", "--trial-per-job"}), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("exec \"$1\" run-task"),
                             HasSubstr("--job-name=oppa-m "),
                             HasSubstr(" trial\n"), Not(HasSubstr("--array"))));
  EXPECT_FALSE(fs::exists(results_));
}

TEST_F(SlurmTest, ArraysAreCutAtMaxArraySize) {
  fakes::WriteFile(bin_ / "max-array-size", "3");
  ASSERT_EQ(Submit(), 0) << output_;
  const auto calls = Calls("sbatch");
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_THAT(calls[1]["words"].dump(), HasSubstr("--array=0%3"));
  EXPECT_THAT(calls[2]["words"].dump(), HasSubstr("afterany:100:101"));
  EXPECT_EQ(Records(results_).size(), 12U);
}

TEST_F(SlurmTest, OnlyMissingRunsAreSubmittedAndNoneTwice) {
  ASSERT_EQ(Submit(), 0) << output_;
  fs::remove_all(results_ / "m/random/2");
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  EXPECT_THAT(Calls("sbatch")[2]["words"].dump(), HasSubstr("--array=2%3"));
  EXPECT_EQ(States()["random/2"], "pending");
  ASSERT_EQ(Submit(), 0);
  EXPECT_THAT(output_, HasSubstr("1 runs are in the queue already"));
  EXPECT_EQ(Calls("sbatch").size(), 4U);
}

TEST_F(SlurmTest, ARunThatTheMachineFailedIsDoneAgainElsewhere) {
  fakes::WriteFile(bin_ / "die", "1");
  ASSERT_EQ(Submit(), 0) << output_;
  // The task died in each of its three attempts; the others are done.
  const auto calls = Calls("sbatch");
  ASSERT_EQ(calls.size(), 6U);
  EXPECT_THAT(calls[0]["words"].dump(), Not(HasSubstr("--exclude")));
  EXPECT_THAT(calls[2]["words"].dump(), HasSubstr("--array=1%3"));
  EXPECT_THAT(calls[2]["words"].dump(), HasSubstr("--exclude=n1"));
  EXPECT_EQ(States()["xgboost/1"], "failed");
  EXPECT_THAT(output_, HasSubstr("its node failed"));
  fs::remove(bin_ / "die");
  ASSERT_EQ(Submit(), 0) << output_;
  EXPECT_EQ(States()["xgboost/1"], "done");
}

TEST_F(SlurmTest, WhatWaitsForAvoidedNodesIsSubmittedForAnyNode) {
  fakes::WriteFile(bin_ / "die", "1");
  ASSERT_EQ(Submit(), 0) << output_;
  fs::remove(bin_ / "die");
  // As if the second submission, which avoids n1, still waited.
  SetState("AVOIDING", "1");
  EXPECT_EQ(States()["xgboost/1"], "pending");
  EXPECT_THAT(output_, HasSubstr("n1 is excluded"));
  ASSERT_EQ(Submit(), 0) << output_;
  const auto calls = Calls("sbatch");
  EXPECT_THAT(calls[calls.size() - 2]["words"].dump(),
              Not(HasSubstr("--exclude")));
  EXPECT_EQ(States()["xgboost/1"], "done");
}

TEST_F(SlurmTest, FilesOfSubmissionsFollowTheUmask) {
  const mode_t before = ::umask(077);
  ASSERT_EQ(Submit(), 0) << output_;
  ASSERT_EQ(SubmitTrials({"--repeats", "3", "--methods", "random"}), 0);
  ::umask(before);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(results_ / "m")) {
    // Logs are opened by Slurm, here a fake one.
    EXPECT_EQ(entry.status().permissions() &
                  (fs::perms::group_all | fs::perms::others_all),
              fs::perms::none)
        << entry.path();
    ++files;
  }
  EXPECT_GT(files, 20);
}

TEST_F(SlurmTest, WhatTheRecordSaysCountsWhateverSlurmSays) {
  ASSERT_EQ(Submit(), 0) << output_;
  SetState("NODE_FAIL");
  for (const auto& [run, state] : States()) {
    EXPECT_EQ(state, "done") << run;
  }
  // And the other way round: Slurm is content, the records are gone.
  SetState("COMPLETED");
  fs::remove_all(results_ / "m/random/1");
  EXPECT_NE(States()["random/1"], "done");
}

TEST_F(SlurmTest, JobsThatSlurmHasForgottenAndThatLeftNoWordAreLost) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  fakes::WriteFile(bin_ / "jobs.json", "[]");
  EXPECT_EQ(States()["random/1"], "lost");
  fs::remove(bin_ / "hold");
  ASSERT_EQ(Submit(), 0) << output_;
  EXPECT_EQ(States()["random/1"], "done");
}

TEST_F(SlurmTest, AFailureNamesItsNodeOnce) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  for (const auto& entry : fs::directory_iterator(results_ / "m/.slurm")) {
    if (entry.is_directory()) {
      WriteAttempt(entry.path(), 0, {.node = "n1"});
    }
  }
  SetState("NODE_FAIL");
  EXPECT_EQ(States()["random/1"], "failed");
  EXPECT_THAT(output_, AllOf(HasSubstr("its node failed while it ran on n1;"),
                             HasSubstr("its node failed on n1;")));
}

TEST_F(SlurmTest, AStaleJobIsCancelledAndItsRunSubmittedAgain) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  SetState("HELD", "0");
  EXPECT_EQ(States()["random/1"], "pending");
  EXPECT_THAT(output_, HasSubstr("it will not start by itself"));
  fs::remove(bin_ / "hold");
  ASSERT_EQ(Submit(), 0) << output_;
  EXPECT_THAT(Calls("scancel").back()["words"].dump(), HasSubstr("100_0"));
  EXPECT_EQ(States()["random/1"], "done");
}

TEST_F(SlurmTest, CancelTakesTheLastJobOutFirst) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  ASSERT_EQ(Oppa({"cancel"}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("4 jobs cancelled"));
  const auto calls = Calls("scancel");
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_THAT(calls[0]["words"].dump(), HasSubstr("101"));
  EXPECT_THAT(calls[1]["words"].dump(), HasSubstr("100"));
  EXPECT_EQ(States()["random/1"], "stopped");
  EXPECT_THAT(output_, HasSubstr("cancelled"));
  // Slurm forgets them after some minutes.
  fakes::WriteFile(bin_ / "jobs.json", "[]");
  EXPECT_EQ(States()["random/1"], "stopped");
  EXPECT_THAT(output_, HasSubstr("cancelled"));
}

// Another user may write to a shared folder of results.
TEST_F(SlurmTest, CancelEndsNoJobOfAnotherNameWhateverTheSubmissionSays) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  auto jobs = nlohmann::json::parse(fakes::ReadFile(bin_ / "jobs.json"));
  jobs.push_back({{"id", 900}, {"name", "mine"}, {"comment", ""}});
  jobs.back()["tasks"]["-1"] = "RUNNING";
  fakes::WriteFile(bin_ / "jobs.json", jobs.dump());
  for (const auto& entry : fs::directory_iterator(results_ / "m/.slurm")) {
    const fs::path file = entry.path() / "submission.json";
    if (fs::exists(file)) {
      auto submission = nlohmann::json::parse(fakes::ReadFile(file));
      submission["finish_job_id"] = 900;
      submission.erase("check");
      fakes::WriteFile(file, submission.dump());
    }
  }
  ASSERT_EQ(Oppa({"cancel"}), 0) << output_;
  jobs = nlohmann::json::parse(fakes::ReadFile(bin_ / "jobs.json"));
  EXPECT_EQ(jobs.back()["tasks"]["-1"], "RUNNING");
  EXPECT_THAT(jobs.front()["tasks"].dump(), HasSubstr("CANCELLED"));
}

TEST_F(SlurmTest, AStopSignalEndsTheWaitForSlurm) {
  fakes::WriteFile(bin_ / "hang", "");
  const auto result = common::RunCommand(
      {"timeout", "-k", "60", "2", fakes::ProgramFile().string(), "run",
       manifest_.string(), "--results", results_.string(), "--dispatch",
       "slurm", "--no-report"},
      {"PATH=" + bin_.string() + ":" + std::getenv("PATH")});
  EXPECT_EQ(result.exit_code, 124) << result.output;  // 137: it was killed
  EXPECT_THAT(result.errors, HasSubstr("sbatch was interrupted"));
}

TEST_F(SlurmTest, ALockThatAReaderHoldsDoesNotStopStatus) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  const common::Descriptor lock(
      ::open((results_ / "m/.slurm/queue.txt.lock").c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_EQ(States()["random/1"], "pending");
}

TEST_F(SlurmTest, SbatchsOwnMessageIsShownAndNothingStaysSubmitted) {
  fakes::WriteFile(bin_ / "max-array-size", "2");
  fakes::WriteFile(bin_ / "sbatch-errors", "\nInvalid account or partition");
  // The first line is empty: the first array is taken.
  EXPECT_EQ(Submit(), 1);
  EXPECT_THAT(output_, HasSubstr("Invalid account or partition"));
  EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
  EXPECT_THAT(Calls("scancel")[0]["words"].dump(), HasSubstr("100"));
}

TEST_F(SlurmTest, AnAnswerThatWasLostDoesNotMakeASecondJob) {
  fakes::WriteFile(bin_ / "hold", "");
  fakes::WriteFile(bin_ / "sbatch-errors",
                   "+Batch job submission failed: Socket timed out");
  ASSERT_EQ(Submit(), 0) << output_;
  EXPECT_EQ(Calls("sbatch").size(), 2U);
  EXPECT_THAT(Calls("sbatch")[1]["words"].dump(), HasSubstr("afterany:100"));
}

TEST_F(SlurmTest, StatusWorksWhileTheControllerIsAwayButNothingIsSubmitted) {
  ASSERT_EQ(Submit(), 0) << output_;
  fs::remove_all(results_ / "m/random/1");
  fakes::WriteFile(bin_ / "squeue-down", "");
  EXPECT_EQ(States()["xgboost/1"], "done");
  EXPECT_EQ(Submit(), 1);
  EXPECT_THAT(output_, HasSubstr("try again when it responds"));
}

TEST_F(SlurmTest, StatusAsksSqueueOnceAndSacctNever) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  const std::size_t before = Calls("squeue").size();
  (void)States();
  EXPECT_EQ(Calls("squeue").size(), before + 1);
}

// Works for root too, who may write anywhere but there.
TEST_F(SlurmTest, StatusWorksOnResultsThatCannotBeWrittenTo) {
  fakes::WriteFile(bin_ / "hold", "");
  ASSERT_EQ(Submit(), 0) << output_;
  const fs::path slurm = results_ / "m/.slurm";
  fs::remove(slurm / "queue.txt");
  fs::remove(slurm / "queue.txt.lock");
  fs::create_directory_symlink("/proc", slurm / "queue.txt.lock");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Oppa({"status", "--all"}), 0) << output_;
    EXPECT_THAT(output_, HasSubstr("pending"));
  }
  EXPECT_FALSE(fs::exists(slurm / "queue.txt"));
}

TEST_F(SlurmTest, TrialPerJobGivesTheRecordsOfTheLocalPool) {
  ASSERT_EQ(SubmitTrials({"--repeats", "1"}), 0) << output_;
  const auto by_trials = Records(results_);
  // 2 runs of 8 trials, each a job without an array.
  EXPECT_EQ(Calls("sbatch").size(), 16U);
  EXPECT_THAT(Calls("sbatch")[0]["words"].dump(),
              AllOf(HasSubstr("--partition=main"), Not(HasSubstr("--array"))));
  results_ = folder_.path() / "local";
  ASSERT_EQ(Oppa({"run", "--no-report", "--repeats", "1"}), 0) << output_;
  EXPECT_EQ(by_trials, Records(results_));
}

TEST_F(SlurmTest, TrialPerJobSubmitsAgainWhatTheMachineFailed) {
  Replace("max_running = 3", "retries = 1");
  fakes::WriteFile(bin_ / "die", "-1");
  ASSERT_EQ(SubmitTrials({"--methods", "random", "--repeats", "1"}), 1);
  EXPECT_THAT(output_, HasSubstr("its node failed; tried 2 times"));
  EXPECT_EQ(Calls("sbatch").size(), 2U);
  EXPECT_THAT(Calls("sbatch")[1]["words"].dump(), HasSubstr("--exclude=n1"));
  fs::remove(bin_ / "die");
  ASSERT_EQ(SubmitTrials({"--methods", "random", "--repeats", "1"}), 0)
      << output_;
}

TEST_F(SlurmTest, TrialPerJobWaitsForTheJobOfAnEarlierStart) {
  // Thinking takes a time that differs, and so does the time that is left.
  for (const char* charged : {"false", "true"}) {
    const std::vector<std::string> options = {
        "--methods", "random",
        "--repeats", "1",
        "--set",     std::string("budget.charge_thinking=") + charged};
    results_ = folder_.path() / charged;
    ASSERT_EQ(SubmitTrials(options), 0) << output_;
    const fs::path run = results_ / "m/random/1";
    const std::string steps = fakes::ReadFile(run / "steps.csv");
    const std::size_t submitted = Calls("sbatch").size();
    // As after kill -9 before any result was recorded.
    for (const char* name :
         {"run.json", "trials.csv", "steps.csv", "fits.csv", "thinking.csv"}) {
      fs::remove(run / name);
    }
    ASSERT_EQ(SubmitTrials(options), 0) << output_;
    EXPECT_EQ(Calls("sbatch").size(), submitted);
    EXPECT_EQ(fakes::ReadFile(run / "steps.csv"), steps);
  }
}

TEST_F(SlurmTest, TrialPerJobIsForSlurm) {
  EXPECT_EQ(Oppa({"run", "--trial-per-job"}), 2);
  EXPECT_THAT(output_, HasSubstr("needs --dispatch slurm"));
}

TEST_F(SlurmTest, LogsShowTheLastOutputOfARun) {
  ASSERT_EQ(Submit(), 0) << output_;
  for (const auto& entry : fs::recursive_directory_iterator(results_)) {
    if (entry.path().filename() == "0-1.txt") {
      fakes::WriteFile(entry.path(), "what it wrote\n");
    }
  }
  EXPECT_EQ(Oppa({"logs", "xgboost/1"}), 0);
  EXPECT_THAT(output_, HasSubstr("what it wrote"));
  EXPECT_EQ(Oppa({"logs", "../../random/1"}), 2);
  EXPECT_EQ(Oppa({"logs", "xgbost/1"}), 2);
  EXPECT_THAT(output_, HasSubstr("did you mean 'xgboost/1'?"));
}

TEST_F(SlurmTest, ABadSlurmTableIsRefusedBeforeAnythingIsWritten) {
  Replace("max_running = 3", "options = [\"--wrap=x\"]");
  EXPECT_EQ(Submit(), 2);
  EXPECT_THAT(output_, HasSubstr("m.toml:"));
  EXPECT_FALSE(fs::exists(results_));
}

}  // namespace harness::slurm_test
