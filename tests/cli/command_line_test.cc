// The program from the user's perspective: exit codes, what is written and what
// is not, and what becomes of a run that is killed.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/provenance.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace cli::command_line_test {

namespace fs = std::filesystem;
using fakes::Records;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kManifest = fakes::SmallManifest(
    R"("random", "vanilla-bo", "oppa")", "trials = 14\nq_max = 6\n");

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() { fakes::WriteFile(manifest_, kManifest); }

  // Starts the program; its output goes to out.txt.
  pid_t Start(const std::vector<std::string>& arguments) {
    std::vector<std::string> words{program_.string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int out = ::open((folder_.path() / "out.txt").c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC, 0666);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    return pid;
  }

  // Runs the program to its end; its exit code.
  int Oppa(const std::vector<std::string>& arguments) {
    int status = 0;
    ::waitpid(Start(arguments), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Runs a shell's command line: $0 is the program, $1 the manifest, $2 the
  // results.
  int Shell(const std::string& script) {
    const fs::path program = std::exchange(program_, "/bin/sh");
    const int code = Oppa({"-c", script, program.string(), manifest_.string(),
                           results_.string()});
    program_ = program;
    return code;
  }

  // Bad input: exit code 2 and one line that begins with "oppa: ".
  std::string Refusal(const std::vector<std::string>& arguments) {
    EXPECT_EQ(Oppa(arguments), 2);
    const std::string output = Output();
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
    EXPECT_THAT(output, StartsWith("oppa: "));
    return output;
  }

  [[nodiscard]] std::string Output() const {
    return fakes::ReadFile(folder_.path() / "out.txt");
  }

  [[nodiscard]] std::vector<std::string> RunArguments(
      const fs::path& results, const std::string& jobs = "2") const {
    return {"run",         manifest_.string(), "--results", results.string(),
            "--no-report", "--jobs",           jobs};
  }

  // Waits until the run has that many trials on record.
  static bool WaitForTrials(const fs::path& run_folder, std::size_t count) {
    for (int i = 0; i < 60000; ++i) {
      const std::string rows = fakes::ReadFile(run_folder / "trials.csv");
      if (std::count(rows.begin(), rows.end(), '\n') >=
          static_cast<std::ptrdiff_t>(count) + 2) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  fakes::ExperimentFolder folder_;
  fs::path program_ = fakes::ProgramFile();
  fs::path manifest_ = folder_.path() / "m.toml";
  fs::path results_ = folder_.path() / "results";
};

TEST_F(CommandLineTest, HelpIsAsInTheGoldenFile) {
  EXPECT_EQ(Oppa({"--help"}), 0);
  EXPECT_EQ(Output(), fakes::ReadFile(fakes::SourceFolder() / "tests/golden" /
                                      "help.txt"));
}

TEST_F(CommandLineTest, BadInputIsOneLineExitCode2AndNothingWritten) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"repeats = 2", "repeat = 2"},
      {"\"oppa\"", "\"opa\""},
      {"q_max = 6", "q_max = \"6\""},
      {"[space]", "[space]\ndp = [3]"},
      {"qwen2-1.5b", "qwen9"},
      {"[budget]", "[method.oppa]\nq_min = 7\n[budget]"},
      {"repeats = 2", "repeats = 0"},
  };
  for (const auto& [from, to] : changes) {
    std::string text = kManifest;
    text.replace(text.find(from), from.size(), to);
    fakes::WriteFile(manifest_, text);
    for (const char* verb : {"run", "matrix"}) {
      EXPECT_EQ(
          Oppa({verb, manifest_.string(), "--results", results_.string()}), 2)
          << to;
      const std::string output = Output();
      EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
      EXPECT_THAT(output, HasSubstr("m.toml:"));
      EXPECT_FALSE(fs::exists(results_)) << to;
    }
  }
}

TEST_F(CommandLineTest, UnknownFlagsAndVerbsExitWith2) {
  EXPECT_EQ(Oppa({"run"}), 2);
  EXPECT_EQ(Oppa({"runn", manifest_.string()}), 2);
  EXPECT_EQ(Oppa({"run", manifest_.string(), "--job", "2"}), 2);
  EXPECT_EQ(Oppa({"run", manifest_.string(), "--jobs", "0"}), 2);
  EXPECT_EQ(Oppa({"matrix", (folder_.path() / "none.toml").string()}), 2);
}

TEST_F(CommandLineTest, TheMatrixShowsTheStopCondition) {
  ASSERT_EQ(Oppa({"matrix", manifest_.string(), "--results", results_.string(),
                  "--set", "budget.stop_when=gain<1%"}),
            0)
      << Output();
  EXPECT_THAT(Output(), HasSubstr("steps a trial; stops when gain < 1%\n"));
}

TEST_F(CommandLineTest, TheMatrixCountsRunsAndWritesNothing) {
  EXPECT_EQ(Oppa({"matrix", manifest_.string(), "--results", results_.string(),
                  "--repeats", "4", "--methods", "random,xgboost", "--json"}),
            0);
  const auto matrix = nlohmann::json::parse(Output());
  EXPECT_EQ(matrix["runs"].size(), 8U);
  EXPECT_EQ(matrix["runs"][1]["run"], "xgboost/1");
  EXPECT_EQ(matrix["runs"][1]["state"], "missing");
  EXPECT_FALSE(fs::exists(results_));
}

// A replay of three scenarios, the second of which is held out.
TEST_F(CommandLineTest, TheHeldOutHalfRunsOnRequestOnlyAndTheOutputSaysSo) {
  std::string table = "scenario,gpus,dp,tp,pp,status,step_time_s\n";
  for (const char* scenario : {"first", "second", "third"}) {
    for (const char* row :
         {"8,8,1,1,ok,0.5", "8,4,2,1,ok,0.4", "8,2,4,1,oom,"}) {
      table += fmt::format("{},{}\n", scenario, row);
    }
  }
  fakes::WriteFile(folder_.path() / "table.csv", table);
  fakes::WriteFile(manifest_, R"([experiment]
methods = ["random", "vanilla-bo"]
repeats = 2
held_out = "odd"
[backend]
type = "replay"
table = "table.csv"
scenarios = ["first", "second", "third"]
[cluster]
file = "clusters/a5000-8.toml"
[budget]
trials = 3
q_max = 4
)");
  const std::vector<std::string> run = {"run", manifest_.string(), "--results",
                                        results_.string()};
  EXPECT_EQ(Oppa(run), 0) << Output();
  EXPECT_THAT(Output(),
              AllOf(HasSubstr("m: development half: 2 of 3 problems"),
                    HasSubstr("Development half: 2 problems; 1 held-out are")));
  EXPECT_FALSE(fs::exists(results_ / "m/second"));
  const auto before = Records(results_);

  std::vector<std::string> held_out = run;
  held_out.emplace_back("--held-out");
  EXPECT_EQ(Oppa(held_out), 0) << Output();
  EXPECT_THAT(
      Output(),
      AllOf(HasSubstr("m: 1 of 3 problems are held out: results on them must "
                      "not be used to choose methods or settings"),
            HasSubstr("held-out half"), HasSubstr("development half")));
  EXPECT_TRUE(fs::exists(results_ / "m/second/random/2/trials.csv"));
  const auto after = Records(results_);
  for (const auto& [path, text] : before) {
    EXPECT_EQ(after.at(path), text) << path;
  }
}

// There is no repository at its location.
TEST_F(CommandLineTest, RecordsNameTheCommitOfTheBuildWhereverTheProgramIs) {
  program_ = folder_.path() / "installed";
  fs::copy_file(fakes::ProgramFile(), program_);
  std::vector<std::string> words = RunArguments(results_);
  words.insert(words.end(), {"--methods", "random", "--repeats", "1"});
  ASSERT_EQ(Oppa(words), 0) << Output();
  const auto info = trials::ReadRunInfo(results_ / "m/random/1");
  EXPECT_EQ(info.commit, harness::BuildCommit().hash);
  EXPECT_EQ(info.dirty, harness::BuildCommit().dirty);
}

TEST_F(CommandLineTest, RecordsDoNotDependOnTheNumberOfJobs) {
  ASSERT_EQ(Oppa(RunArguments(results_ / "a", "1")), 0) << Output();
  ASSERT_EQ(Oppa(RunArguments(results_ / "b", "2")), 0) << Output();
  const auto records = Records(results_ / "a");
  EXPECT_EQ(records.size(), 3U * 6U);
  EXPECT_EQ(records, Records(results_ / "b"));
}

TEST_F(CommandLineTest, RecordsAfterKillMinus9AreThoseOfAnUndisturbedRun) {
  ASSERT_EQ(Oppa(RunArguments(results_ / "whole")), 0) << Output();
  const auto expected = Records(results_ / "whole");
  int cut_off = 0;
  for (const int trials : {2, 7, 12}) {
    const fs::path results = results_ / std::to_string(trials);
    const pid_t pid = Start(RunArguments(results));
    const fs::path run = results / "m/oppa/1";
    EXPECT_TRUE(WaitForTrials(run, static_cast<std::size_t>(trials)));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    cut_off += trials::ReadTrials(run).size() < 14 ? 1 : 0;
    ASSERT_EQ(Oppa(RunArguments(results)), 0) << Output();
    EXPECT_EQ(Records(results), expected) << trials;
  }
  EXPECT_GE(cut_off, 1) << "no run was cut off: the test shows nothing";
}

TEST_F(CommandLineTest, TerminationIsCleanAndResumable) {
  const pid_t pid = Start(RunArguments(results_));
  EXPECT_TRUE(WaitForTrials(results_ / "m/oppa/1", 2));
  ::kill(pid, SIGTERM);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_THAT(Output(),
              HasSubstr("interrupted; rerun the same command to resume"));
  EXPECT_EQ(Oppa(RunArguments(results_)), 0) << Output();
}

TEST_F(CommandLineTest, ARunThatCannotBeDoneIsReportedAndTheOthersGoOn) {
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  const auto expected = Records(results_);
  const fs::path run = results_ / "m/oppa/2";
  fs::remove(run / "run.json");
  fs::remove(run / "trials.csv");
  fs::create_directory(run / "trials.csv");  // in the way
  fs::remove_all(results_ / "m/random/2");
  EXPECT_EQ(Oppa(RunArguments(results_)), 1);
  EXPECT_THAT(Output(), HasSubstr("trials.csv: is a directory, not a file"));
  EXPECT_THAT(Output(), HasSubstr("oppa/2: failed: exit code 2"));
  EXPECT_THAT(Output(), HasSubstr("1 of 2 runs failed"));
  EXPECT_TRUE(fs::exists(results_ / "m/random/2/run.json"));
  fs::remove_all(run);
  EXPECT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  EXPECT_TRUE(Records(results_) == expected);
}

TEST_F(CommandLineTest, AFinishedRunThatLostAFileIsNoResult) {
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  fs::remove(results_ / "m/oppa/2/trials.csv");
  const std::string lost = "m/oppa/2/trials.csv: missing; the finished run";
  for (const char* verb : {"run", "report", "status"}) {
    EXPECT_EQ(Oppa({verb, manifest_.string(), "--results", results_.string()}),
              1)
        << verb;
    EXPECT_THAT(Output(), HasSubstr(lost)) << verb;
  }
  EXPECT_EQ(Oppa({"check", results_.string()}), 1);
  EXPECT_THAT(Output(), HasSubstr(lost));
  EXPECT_EQ(Oppa({"fits", (results_ / "m/oppa/2").string()}), 2);
  EXPECT_THAT(Output(), HasSubstr(lost));
}

TEST_F(CommandLineTest, AChangedManifestDoesNotMixWithItsOldRecords) {
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  const auto records = Records(results_);
  std::string text = kManifest;
  text.replace(text.find("q_max = 6"), 9, "q_max = 7");
  fakes::WriteFile(manifest_, text);
  EXPECT_EQ(Oppa(RunArguments(results_)), 2);
  EXPECT_THAT(Output(), HasSubstr("made from other input"));
  EXPECT_EQ(Records(results_), records);
}

TEST_F(CommandLineTest, AnExperimentMayGrow) {
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  const auto before = Records(results_);
  auto arguments = RunArguments(results_);
  arguments.insert(arguments.end(), {"--repeats", "3", "--methods", "random"});
  ASSERT_EQ(Oppa(arguments), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("1 of 3 runs to do"));
  const auto after = Records(results_);
  EXPECT_EQ(after.size(), before.size() + 3);
  for (const auto& [path, content] : before) {
    EXPECT_EQ(after.at(path), content) << path;
  }
}

TEST_F(CommandLineTest, StatusTellsHowFarTheRunsAre) {
  ASSERT_EQ(Oppa({"status", manifest_.string(), "--results", results_.string(),
                  "--json"}),
            0);
  EXPECT_EQ(nlohmann::json::parse(Output())["runs_done"], 0);
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  ASSERT_EQ(Oppa({"status", manifest_.string(), "--results", results_.string(),
                  "--json"}),
            0);
  const auto status = nlohmann::json::parse(Output());
  EXPECT_EQ(status["runs_total"], 6);
  EXPECT_EQ(status["runs_done"], 6);
  EXPECT_EQ(status["runs"][0]["trials"], 14);
  EXPECT_EQ(status["runs"][0]["state"], "done");
}

TEST_F(CommandLineTest, RecordsFollowTheUmask) {
  const mode_t before = ::umask(027);
  const int code = Oppa(RunArguments(results_));
  ::umask(before);
  ASSERT_EQ(code, 0) << Output();
  for (const auto& entry : fs::recursive_directory_iterator(results_)) {
    EXPECT_EQ(fs::status(entry).permissions() &
                  (fs::perms::others_all | fs::perms::group_write),
              fs::perms::none)
        << entry.path();
  }
}

TEST_F(CommandLineTest, ResultsAtOrBelowAFileAreBadInput) {
  const fs::path file = folder_.path() / "file";
  fakes::WriteFile(file, "");
  for (const fs::path& results : {file, file / "results"}) {
    EXPECT_THAT(Refusal(RunArguments(results)),
                AllOf(HasSubstr("--results " + results.string()),
                      HasSubstr("is not a folder")));
    EXPECT_THAT(
        Refusal({"status", manifest_.string(), "--results", results.string()}),
        HasSubstr("is not a folder"));
  }
}

TEST_F(CommandLineTest, AReadOnlyManifestAndRecordsAreEnoughForStatus) {
  ASSERT_EQ(Oppa(RunArguments(results_)), 0) << Output();
  const auto records = Records(results_);
  for (const auto& entry : fs::recursive_directory_iterator(results_)) {
    fs::permissions(entry, fs::perms::owner_write, fs::perm_options::remove);
  }
  fs::permissions(manifest_, fs::perms::owner_write, fs::perm_options::remove);
  EXPECT_EQ(
      Oppa({"status", manifest_.string(), "--results", results_.string()}), 0);
  EXPECT_THAT(Output(), HasSubstr("6 of 6 runs done"));
  EXPECT_EQ(Records(results_), records);
}

TEST_F(CommandLineTest, FitsTellsWhatARunHasLearnedAlsoAsJson) {
  const fs::path results = folder_.path() / "results";
  ASSERT_EQ(Oppa(RunArguments(results)), 0) << Output();
  const fs::path runs = results / "m";
  ASSERT_EQ(Oppa({"fits", (runs / "oppa/1").string()}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("TFLOP/s"));
  EXPECT_THAT(Output(), HasSubstr("computation of the batch on one GPU"));
  ASSERT_EQ(Oppa({"fits", (runs / "oppa/1").string(), "--json"}), 0);
  const auto json = nlohmann::json::parse(Output());
  EXPECT_EQ(json["trial"], 14);
  const auto& first = json["surrogates"]["throughput"]["coefficients"][0];
  EXPECT_EQ(first["name"], "compute");
  EXPECT_LT(first["physical"]["low"], first["physical"]["value"]);
  EXPECT_EQ(json["surrogates"]["memory"]["coefficients"][0]["physical"]["unit"],
            "GB");
  // Random trials teach nothing, and a folder may hold no run.
  EXPECT_EQ(Oppa({"fits", (runs / "random/1").string()}), 2);
  EXPECT_THAT(Output(), HasSubstr("no surrogate was fitted"));
  EXPECT_EQ(Oppa({"fits", (runs / "nobody/1").string()}), 2);
  // Without its manifest: the coefficients unchanged, and the reason.
  fs::remove(manifest_);
  ASSERT_EQ(Oppa({"fits", (runs / "oppa/1").string()}), 0);
  EXPECT_THAT(Output(), HasSubstr("no physical units"));
  EXPECT_THAT(Output(), Not(HasSubstr("TFLOP/s")));
}

// "by model" of computation and of memory follows from the model's shape.
TEST_F(CommandLineTest, FitsReadsSizesWithTheSettingsOfTheRun) {
  std::vector<std::string> words = RunArguments(results_);
  words.insert(words.end(),
               {"--set", "workload.model=workloads/llama-3.2-1b.json",
                "--methods", "oppa", "--repeats", "1"});
  ASSERT_EQ(Oppa(words), 0) << Output();
  const std::string run = (results_ / "m/oppa/1").string();
  ASSERT_EQ(Oppa({"fits", run, "--json"}), 0) << Output();
  const std::string with = Output();
  // The same sizes in a manifest without settings.
  std::string text = fakes::ReadFile(manifest_);
  const std::string model = "workloads/qwen2-1.5b.json";
  ASSERT_NE(text.find(model), std::string::npos);
  text.replace(text.find(model), model.size(), "workloads/llama-3.2-1b.json");
  fakes::WriteFile(manifest_, text);
  ASSERT_EQ(Oppa({"fits", run, "--json"}), 0) << Output();
  EXPECT_EQ(with, Output());
  EXPECT_THAT(with, HasSubstr("by_model"));
}

TEST_F(CommandLineTest, SpaceCountsTheCandidatesOfTheSettings) {
  const std::vector<std::string> words = {"space", manifest_.string(),
                                          "--count"};
  ASSERT_EQ(Oppa(words), 0);
  const int all = std::stoi(Output());
  std::vector<std::string> fewer = words;
  fewer.insert(fewer.end(), {"--set", "space.dp=[8]"});
  ASSERT_EQ(Oppa(fewer), 0);
  EXPECT_LT(std::stoi(Output()), all);
}

TEST_F(CommandLineTest, SpaceAndSimulateSpeakCsv) {
  ASSERT_EQ(Oppa({"space", manifest_.string(), "--count"}), 0);
  const int count = std::stoi(Output());
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"space", manifest_.string(), "--csv"},
        {"simulate", manifest_.string(), "--all", "--csv"}}) {
    ASSERT_EQ(Oppa(arguments), 0);
    const std::string rows = Output();
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), count + 1);
  }
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--all"}), 0);
  EXPECT_THAT(Output(), HasSubstr(fmt::format("evaluated {} PCs in", count)));
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--pc", "dp=8"}), 0);
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--pc", "dp=3"}), 2);
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--pc", "ddp=8"}), 2);
  EXPECT_THAT(Output(), HasSubstr("--pc ddp=8"));
}

TEST_F(CommandLineTest, ASimulatedStepHasTheErrorBandOfComparableRuns) {
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--pc", "dp=8"}), 0);
  EXPECT_THAT(Output(), AllOf(HasSubstr("\nstep time "),
                              HasSubstr(" s in nine of ten cases ("),
                              HasSubstr("\npeak memory ")));
  // No published row is of this GPU and framework.
  EXPECT_THAT(Output(), HasSubstr("not validated: unseen GPU, new framework"));
}

TEST_F(CommandLineTest, SimulateSaysHowSureItIs) {
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--all"}), 0);
  EXPECT_THAT(Output(), HasSubstr("P(fits)"));
  EXPECT_THAT(Output(), HasSubstr("colossalai: not validated"));
  ASSERT_EQ(Oppa({"simulate", manifest_.string(), "--pc", "dp=8", "--set",
                  "backend.framework=nanotron"}),
            0);
  EXPECT_THAT(Output(),
              HasSubstr("nanotron: compared with published measurements "
                        "(ultrascale)"));
}

TEST_F(CommandLineTest, SimulateFillsInWhatPcLeavesOutFromTheSpace) {
  const std::string qwen =
      (fakes::SourceFolder() / "experiments/qwen-8gpu.toml").string();
  ASSERT_EQ(
      Oppa({"simulate", qwen, "--pc", "dp=4,pp=2,zero_stage=1,microbatches=8"}),
      0);
  EXPECT_THAT(Output(), testing::Not(HasSubstr("is not in the search space")));
  EXPECT_THAT(Output(),
              HasSubstr("note: zero_bucket_mb is not given; using 16"));
}

TEST_F(CommandLineTest, SimulateNamesKnobsOfPcWithoutEffect) {
  ASSERT_EQ(
      Oppa({"simulate", manifest_.string(), "--pc", "dp=8,model_chunks=8"}), 0);
  EXPECT_THAT(Output(),
              HasSubstr("note: model_chunks=8 is ignored: it has an effect "
                        "only if pp > 1"));
}

TEST_F(CommandLineTest, ScaleTakesWholeHostsAndTheirNetwork) {
  const std::vector<std::string> rest = {"--results", results_.string(),
                                         "--gpus"};
  const auto scale = [&](const std::string& gpus) {
    std::vector<std::string> arguments = {"scale", manifest_.string()};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    arguments.push_back(gpus);
    return Oppa(arguments);
  };
  EXPECT_EQ(scale("12"), 2);
  EXPECT_THAT(Output(), HasSubstr("has 8 GPUs per host"));
  EXPECT_EQ(scale("64"), 2);
  EXPECT_THAT(Output(), HasSubstr("no network between hosts"));
  EXPECT_FALSE(fs::exists(results_));
  std::string text = kManifest;
  const std::string cluster = "clusters/a5000-8.toml";
  text.replace(text.find(cluster), cluster.size(), "clusters/h100-efa.toml");
  fakes::WriteFile(manifest_, text);
  ASSERT_EQ(scale("8,64"), 0);
  for (const char* panel : {"scale-step.csv", "scale-cost.csv"}) {
    const std::string data = fakes::ReadFile(results_ / "scale" / "m" / panel);
    EXPECT_THAT(data, HasSubstr("\n64,"));
    EXPECT_EQ(std::count(data.begin(), data.end(), '\n'), 1 + 2);
    const auto rows = std::find(data.begin(), data.end(), '\n');
    EXPECT_EQ(std::count(rows, data.end(), ','), 2 * 2);
  }
}

TEST_F(CommandLineTest, NoiseDrawsTheSameTrialsEveryTime) {
  std::string first;
  for (const std::string folder : {"a", "b"}) {
    ASSERT_EQ(Oppa({"noise", manifest_.string(), "--trials", "2", "--steps",
                    "20", "--results", (results_ / folder).string()}),
              0);
    std::string data;
    for (const char* name : {"noise-steps", "noise-threshold", "noise-length-1",
                             "noise-length-2"}) {
      data += fakes::ReadFile(results_ / folder / "noise" / "m" /
                              (std::string(name) + ".csv"));
    }
    // Every step, 23 thresholds, and all but the first step of two trials.
    EXPECT_EQ(std::count(data.begin(), data.end(), '\n'), 21 + 24 + 2 * 20);
    EXPECT_TRUE(first.empty() || first == data);
    first = data;
  }
}

TEST_F(CommandLineTest, NamesAnUnknownCommand) {
  EXPECT_THAT(Refusal({"frobnicate"}),
              StartsWith("oppa: unknown command 'frobnicate'"));
  EXPECT_THAT(Refusal({"statu", manifest_.string()}),
              StartsWith("oppa: unknown command 'statu' (did you mean "
                         "'status'?)"));
  EXPECT_THAT(Refusal({"--results", "r", "run"}),
              StartsWith("oppa: unknown option '--results'"));
}

TEST_F(CommandLineTest, NamesAMisspelledOptionAndNotTheFile) {
  const std::string message =
      Refusal({"run", "--method", "oppa", manifest_.string()});
  EXPECT_THAT(message, HasSubstr("unknown option '--method' (did you mean "
                                 "'--methods'?)"));
  EXPECT_THAT(message, Not(HasSubstr("m.toml")));
  EXPECT_THAT(
      Refusal({"simulate", "--model", "config.json", "--gpus", "16", "--all"}),
      HasSubstr("unknown option '--model'"));
}

TEST_F(CommandLineTest, ARankGetsAllWordsBehindTwoDashes) {
  EXPECT_EQ(
      Oppa({"contain", "--", "/bin/echo", "a", "-x", "--yes", "--", "--help"}),
      0);
  EXPECT_EQ(Output(), "a -x --yes -- --help\n");
}

TEST_F(CommandLineTest, UsageErrorsAreOneLineWithThePrefix) {
  EXPECT_THAT(Refusal({"run"}), HasSubstr("run: FILE is missing"));
  EXPECT_THAT(Refusal({"run", "a.toml", "b.toml"}),
              HasSubstr("unexpected argument 'b.toml'"));
  EXPECT_THAT(Refusal({"run", manifest_.string(), "--jobs"}),
              HasSubstr("--jobs needs a value"));
  EXPECT_THAT(
      Refusal({"run", manifest_.string(), "--jobs", "1", "--jobs", "2"}),
      HasSubstr("--jobs is given twice"));
  EXPECT_THAT(Refusal({"run", manifest_.string(), "--dispatch", "slrm"}),
              HasSubstr("--dispatch slrm: must be local or slurm (did you mean "
                        "'slurm'?)"));
  EXPECT_THAT(Refusal({"simulate", manifest_.string()}),
              HasSubstr("--pc, --plan, --all or --predictions"));
  EXPECT_THAT(
      Refusal({"simulate", manifest_.string(), "--all", "--pc", "dp=8"}),
      HasSubstr("--pc, --plan, --all or --predictions"));
}

// Without a machine in [predictions], its own source would be the ground truth.
TEST_F(CommandLineTest, SimulateListsThePredictionsOfAPlanner) {
  fakes::WriteFile(manifest_,
                   kManifest + "[predictions.book]\nplanner = \"textbook\"\n");
  EXPECT_EQ(Oppa({"simulate", manifest_.string(), "--predictions"}), 0);
  EXPECT_THAT(Output(),
              HasSubstr("[predictions.book] predictions: model of textbook;"));
}

TEST_F(CommandLineTest, PredictionsForTheTrainerAreForTheModelThatItScales) {
  const auto summary = [this](const std::string& scale) {
    const fs::path manifest =
        fakes::SourceFolder() / "experiments/tiny-cpu.toml";
    EXPECT_EQ(Oppa({"simulate", manifest.string(), "--predictions", "--set",
                    "backend.scale=" + scale}),
              0);
    const std::string output = Output();
    const std::size_t begin = output.find("predictions: ");
    return output.substr(begin, output.find('\n', begin) - begin);
  };
  EXPECT_THAT(summary("16"), Not(HasSubstr("; 0 of")));
  EXPECT_THAT(summary("1"), HasSubstr("oppa-train; 0 of"));
}

TEST_F(CommandLineTest, ANumberOutOfRangeIsRefusedWithTheRange) {
  for (const std::string jobs : {"0", "-1", "1.5", "two", "99999999999", ""}) {
    EXPECT_THAT(
        Refusal({"run", manifest_.string(), "--jobs", jobs}),
        HasSubstr("--jobs " + jobs + ": must be an integer from 1 to 4096\n"));
  }
  EXPECT_THAT(Refusal({"matrix", manifest_.string(), "--repeats", "0"}),
              HasSubstr("--repeats 0: must be an integer >= 1"));
  EXPECT_THAT(Refusal({"noise", manifest_.string(), "--trials", "21"}),
              HasSubstr("--trials 21: must be an integer from 1 to 20"));
  EXPECT_THAT(Refusal({"scale", manifest_.string(), "--gpus", "8,x"}),
              HasSubstr("--gpus 8,x: must be an integer >= 1"));
}

TEST_F(CommandLineTest, PlanOfAManifestNamesTheCommandThatPrintsItsMatrix) {
  EXPECT_THAT(Refusal({"plan", manifest_.string()}),
              HasSubstr("`oppa matrix " + manifest_.string() + "`"));
}

TEST_F(CommandLineTest, TheMatrixHasNoOptionsWithoutEffect) {
  EXPECT_THAT(Refusal({"matrix", manifest_.string(), "--jobs", "2"}),
              HasSubstr("unknown option '--jobs'"));
}

TEST_F(CommandLineTest, HelpAndVersionHaveTheirUsualForms) {
  ASSERT_EQ(Oppa({"--help"}), 0);
  const std::string help = Output();
  for (const char* form : {"-h", "help"}) {
    EXPECT_EQ(Oppa({form}), 0);
    EXPECT_EQ(Output(), help);
  }
  ASSERT_EQ(Oppa({"run", "--help"}), 0);
  const std::string run = Output();
  EXPECT_THAT(run, HasSubstr("--requeue-until-done"));
  EXPECT_EQ(Oppa({"help", "run"}), 0);
  EXPECT_EQ(Output(), run);
  EXPECT_THAT(Refusal({"help", "rum"}), HasSubstr("did you mean 'run'?"));
  EXPECT_EQ(Oppa({}), 2);
  EXPECT_EQ(Output(), help);

  ASSERT_EQ(Oppa({"--version"}), 0);
  const std::string version = Output();
  const std::string first = version.substr(0, version.find('\n'));
  EXPECT_THAT(first, AllOf(StartsWith("oppa "),
                           HasSubstr(harness::BuildCommit().hash)));
  EXPECT_EQ(first.find("modified") != std::string::npos,
            harness::BuildCommit().dirty);
  EXPECT_THAT(version, HasSubstr("\ng++ "));
  EXPECT_EQ(Oppa({"-V"}), 0);
  EXPECT_EQ(Output(), version);
}

TEST_F(CommandLineTest, AFolderAsManifestIsNamedAsOne) {
  EXPECT_THAT(Refusal({"matrix", folder_.path().string()}),
              HasSubstr("is a directory"));
}

TEST_F(CommandLineTest, OutputThatCannotBeWrittenIsNoSuccess) {
  for (const char* verb : {"space", "matrix", "methods"}) {
    const std::string file = std::string(verb) == "methods" ? "" : " \"$1\"";
    EXPECT_EQ(Shell(fmt::format("\"$0\" {}{} > /dev/full", verb, file)), 1);
    EXPECT_THAT(Output(), AllOf(StartsWith("oppa: "),
                                HasSubstr("No space left on device")));
  }
}

TEST_F(CommandLineTest, AReaderThatLeavesEndsTheProgramSilently) {
  EXPECT_EQ(Shell("{ \"$0\" space \"$1\" --csv; echo \"code $?\" >&2; } | :"),
            0);
  EXPECT_EQ(Output(), fmt::format("code {}\n", 128 + SIGPIPE));
}

// A file that is opened in its place would receive what the program prints.
TEST_F(CommandLineTest, AClosedOutputDoesNotReachTheRecords) {
  ASSERT_EQ(Oppa(RunArguments(results_ / "a", "1")), 0) << Output();
  EXPECT_EQ(Shell("exec \"$0\" run \"$1\" --results \"$2/b\" --no-report "
                  "--jobs 1 <&- >&- 2>&-"),
            0);
  EXPECT_EQ(Records(results_ / "a"), Records(results_ / "b"));
}

TEST_F(CommandLineTest, ARunEndsWhereTheParentIgnoresSigchld) {
  EXPECT_EQ(
      Shell("exec timeout 60 bash -c 'trap \"\" CHLD; exec \"$0\" run \"$1\" "
            "--results \"$2\" --no-report --repeats 1 --methods random' "
            "\"$0\" \"$1\" \"$2\""),
      0)
      << Output();
}

TEST_F(CommandLineTest, PathsNeedNotBeUtf8) {
  manifest_ = folder_.path() / "\xe9.toml";
  std::string text = kManifest;
  text.replace(0, 12, "[experiment]\nname = \"m\"");
  fakes::WriteFile(manifest_, text);
  results_ /= "r\xe9sultats";
  auto words = RunArguments(results_, "1");
  words.insert(words.end(), {"--methods", "random", "--repeats", "1"});
  ASSERT_EQ(Oppa(words), 0) << Output();
  EXPECT_EQ(Records(results_).size(), 3U);
  EXPECT_EQ(Oppa({"status", manifest_.string(), "--results", results_.string(),
                  "--json"}),
            0);
  EXPECT_EQ(
      Oppa({"report", manifest_.string(), "--results", results_.string()}), 0)
      << Output();
}

TEST_F(CommandLineTest, TheManPageDocumentsEveryCommand) {
  ASSERT_EQ(Oppa({"man"}), 0);
  const std::string page = Output();
  EXPECT_THAT(page, StartsWith(".TH OPPA 1"));
  for (const char* verb : {"plan", "matrix", "run", "status", "report", "logs",
                           "cancel", "space", "simulate", "fits", "noise",
                           "scale", "validate", "methods", "completion"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("oppa {}\\fR", verb)));
  }
  EXPECT_THAT(page, Not(HasSubstr("run\\-one")));
}

// The words that bash offers after what was typed.
TEST_F(CommandLineTest, BashCompletesCommandsOptionsAndValues) {
  const auto completed = [this](const std::string& typed) {
    EXPECT_EQ(Shell("exec bash -c 'eval \"$(\"$0\" completion bash)\"; "
                    "COMP_WORDS=(" +
                    typed +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _oppa; "
                    "echo \"${COMPREPLY[@]}\"' \"$0\""),
              0);
    return Output();
  };
  EXPECT_EQ(completed("oppa sta"), "status\n");
  EXPECT_EQ(completed("oppa run --no"), "--no-report\n");
  EXPECT_EQ(completed("oppa run --dispatch sl"), "slurm\n");
  EXPECT_EQ(completed("oppa help stat"), "status\n");
  EXPECT_EQ(completed("oppa completion z"), "zsh\n");
  EXPECT_EQ(completed("oppa run \"\""), "\n");  // a file: bash's own words
}

TEST_F(CommandLineTest, ZshCompletionListsCommandsAndOptions) {
  ASSERT_EQ(Oppa({"completion", "zsh"}), 0);
  EXPECT_THAT(Output(),
              AllOf(StartsWith("#compdef oppa\n"),
                    HasSubstr("'status:show the progress of each run'"),
                    HasSubstr("'--dispatch[")));
  EXPECT_THAT(Refusal({"completion", "fish"}), HasSubstr("bash or zsh"));
}

}  // namespace cli::command_line_test
