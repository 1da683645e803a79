// The program from the user's perspective: exit codes, what is written and what
// is not, and what becomes of a run that is killed.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process.h"
#include "harness/provenance.h"
#include "tests/fakes/program_test.h"
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
constexpr const char* kRun = "run m.toml --no-report --jobs 2";

class CommandLineTest : public fakes::ProgramTest {
 protected:
  CommandLineTest() { Write("m.toml", kManifest); }

  // Replaces a text of the manifest.
  void Edit(const std::string& from, const std::string& to) const {
    std::string text = Content("m.toml");
    text.replace(text.find(from), from.size(), to);
    Write("m.toml", text);
  }

  // Runs a shell's command line; $0 is the program.
  int Shell(const std::string& script) {
    return Call({"/bin/sh", "-c", script, fakes::ProgramFile().string()});
  }

  // Sends a signal to a run of the experiment once it has this many trials of
  // oppa/1 on record. Its exit code; its output is in out.txt.
  [[nodiscard]] int Stopped(const std::string& words, int signal, int trials,
                            const std::string& results) const {
    Words all = Split(words + " --results " + results);
    all.insert(all.begin(), fakes::ProgramFile().string());
    const int out = ::open(Path("out.txt").c_str(),
                           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const pid_t pid =
        common::StartProcess({.words = common::InFolder(folder_.path(), all),
                              .environment = common::CurrentEnvironment(),
                              .output = out,
                              .errors = out,
                              .own_group = true});
    ::close(out);
    const auto rows = [&] {
      const std::string text = Content(results + "/m/oppa/1/trials.csv");
      return std::count(text.begin(), text.end(), '\n');
    };
    for (int i = 0; i < 60000 && rows() < trials + 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(rows(), trials + 2);
    ::kill(pid, signal);
    return common::WaitFor(pid);
  }

  [[nodiscard]] auto AllRecords(const std::string& results = "results") const {
    return Records(Path(results));
  }
};

TEST_F(CommandLineTest, TheMatrixCountsRunsAndWritesNothing) {
  EXPECT_EQ(Oppa("matrix m.toml --repeats 4 --methods random,xgboost --json"),
            0);
  const auto matrix = nlohmann::json::parse(output_);
  EXPECT_EQ(matrix["runs"].size(), 8U);
  EXPECT_EQ(matrix["runs"][1]["run"], "xgboost/1");
  EXPECT_EQ(matrix["runs"][1]["state"], "missing");
  ASSERT_EQ(Oppa("matrix m.toml --set budget.stop_when=gain<1%"), 0);
  EXPECT_THAT(output_, HasSubstr("steps a trial; stops when gain < 1%\n"));
  EXPECT_FALSE(fs::exists(Path("results")));
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
  Write("table.csv", table);
  Write("m.toml", R"([experiment]
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
  EXPECT_EQ(Oppa("run m.toml"), 0) << errors_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("m: development half: 2 of 3 problems"),
                    HasSubstr("Development half: 2 problems; 1 held-out are")));
  EXPECT_FALSE(fs::exists(Path("results/m/second")));
  const auto before = AllRecords();
  EXPECT_EQ(Oppa("run m.toml --held-out"), 0) << errors_;
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("m: 1 of 3 problems are held out: results on them must "
                      "not be used to choose methods or settings"),
            HasSubstr("held-out half"), HasSubstr("development half")));
  EXPECT_TRUE(fs::exists(Path("results/m/second/random/2/trials.csv")));
  const auto after = AllRecords();
  for (const auto& [path, text] : before) {
    EXPECT_EQ(after.at(path), text) << path;
  }
}

// There is no repository at its location.
TEST_F(CommandLineTest, RecordsNameTheCommitOfTheBuildWhereverTheProgramIs) {
  fs::copy_file(fakes::ProgramFile(), Path("installed"));
  ASSERT_EQ(Call(Split("./installed run m.toml --no-report --methods random "
                       "--repeats 1")),
            0)
      << errors_;
  const auto info = trials::ReadRunInfo(Path("results/m/random/1"));
  EXPECT_EQ(info.commit, harness::BuildCommit().hash);
  EXPECT_EQ(info.dirty, harness::BuildCommit().dirty);
}

TEST_F(CommandLineTest, RecordsDoNotDependOnTheNumberOfJobsOrTheOutput) {
  ASSERT_EQ(Oppa("run m.toml --no-report --jobs 1 --results a"), 0) << errors_;
  ASSERT_EQ(Oppa("run m.toml --no-report --jobs 2 --results b"), 0) << errors_;
  const auto records = AllRecords("a");
  EXPECT_EQ(records.size(), 3U * 6U);
  EXPECT_EQ(records, AllRecords("b"));
  // A file that is opened in place of a closed descriptor would receive what
  // the program prints.
  // Nobody can read what it says: not a success.
  EXPECT_EQ(Shell("exec \"$0\" run m.toml --results c --no-report --jobs 1 "
                  "<&- >&- 2>&-"),
            1);
  EXPECT_EQ(records, AllRecords("c"));
}

TEST_F(CommandLineTest, RecordsAfterKillMinus9AreThoseOfAnUndisturbedRun) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  const auto expected = AllRecords();
  int cut_off = 0;
  for (const int trials : {2, 7, 12}) {
    const std::string results = std::to_string(trials);
    (void)Stopped(kRun, SIGKILL, trials, results);
    cut_off += trials::ReadTrials(Path(results + "/m/oppa/1")).size() < 14;
    ASSERT_EQ(Oppa(kRun + (" --results " + results)), 0) << errors_;
    EXPECT_EQ(AllRecords(results), expected) << trials;
  }
  EXPECT_GE(cut_off, 1) << "no run was cut off: the test shows nothing";
}

TEST_F(CommandLineTest, TerminationIsCleanAndResumable) {
  EXPECT_EQ(Stopped(kRun, SIGTERM, 2, "results"), 128 + SIGTERM);
  EXPECT_THAT(Content("out.txt"),
              HasSubstr("interrupted; rerun the same command to resume"));
  EXPECT_EQ(Oppa(kRun), 0) << errors_;
}

TEST_F(CommandLineTest, ARunThatCannotBeDoneIsReportedAndTheOthersGoOn) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  const auto expected = AllRecords();
  const fs::path run = Path("results/m/oppa/2");
  fs::remove(run / "run.json");
  fs::remove(run / "trials.csv");
  fs::create_directory(run / "trials.csv");  // in the way
  fs::remove_all(Path("results/m/random/2"));
  EXPECT_EQ(Oppa(kRun), 1);
  EXPECT_THAT(Printed(),
              AllOf(HasSubstr("trials.csv: is a directory, not a file"),
                    HasSubstr("oppa/2: failed: exit code 2"),
                    HasSubstr("1 of 2 runs failed")));
  EXPECT_TRUE(fs::exists(Path("results/m/random/2/run.json")));
  fs::remove_all(run);
  EXPECT_EQ(Oppa(kRun), 0) << errors_;
  EXPECT_TRUE(AllRecords() == expected);
}

TEST_F(CommandLineTest, AFinishedRunThatLostAFileIsNoResult) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  fs::remove(Path("results/m/oppa/2/trials.csv"));
  for (const std::string words :
       {"run m.toml", "report m.toml", "status m.toml", "check results",
        "fits results/m/oppa/2"}) {
    EXPECT_EQ(Oppa(words), words.starts_with("fits") ? 2 : 1) << words;
    EXPECT_THAT(errors_,
                HasSubstr("m/oppa/2/trials.csv: missing; the finished run"))
        << words;
  }
}

// One method and one repeat: each figure has one panel, and is named alone.
TEST_F(CommandLineTest, WhatEveryVerbLeavesBehindPassesTheCheck) {
  Edit(R"("random", "vanilla-bo", "oppa")", R"("random")");
  Edit("repeats = 2", "repeats = 1");
  Write("n.toml", Content("m.toml"));
  Write("more.csv",
        "dp,tp,pp,zero_stage,zero_bucket_mb,step_time_s\n"
        "8,1,1,1,16,2.5\n");
  fs::create_directory_symlink(fakes::SourceFolder() / "experiments/programs",
                               Path("programs"));
  std::string tune =
      fakes::ReadFile(fakes::SourceFolder() / "experiments/external.toml");
  tune.replace(tune.find("trials = 12"), 11, "trials = 2");
  Write("tune.toml", tune);
  for (const char* words :
       {"run m.toml --results oppa-results",
        "run n.toml --results oppa-results",
        "report m.toml --with n.toml --results oppa-results",
        "noise m.toml --results oppa-results",
        "page m.toml --results oppa-results", "claims --results oppa-results",
        "profiles oppa-results/m --out oppa-results/study-profiles",
        "validate vtrain --results oppa-results",
        "import m.toml more.csv --results oppa-results", "tune tune.toml"}) {
    ASSERT_EQ(Oppa(words), 0) << words << Printed();
    EXPECT_EQ(Oppa("check oppa-results"), 0) << words << Printed();
  }
}

TEST_F(CommandLineTest, AChangedManifestDoesNotMixWithItsOldRecords) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  const auto records = AllRecords();
  Edit("q_max = 6", "q_max = 7");
  EXPECT_EQ(Oppa(kRun), 2);
  EXPECT_THAT(errors_, HasSubstr("made from other input"));
  EXPECT_EQ(AllRecords(), records);
}

TEST_F(CommandLineTest, AnExperimentMayGrow) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  const auto before = AllRecords();
  ASSERT_EQ(Oppa(kRun + std::string(" --repeats 3 --methods random")), 0);
  EXPECT_THAT(output_, HasSubstr("1 of 3 runs to do"));
  const auto after = AllRecords();
  EXPECT_EQ(after.size(), before.size() + 3);
  for (const auto& [path, content] : before) {
    EXPECT_EQ(after.at(path), content) << path;
  }
}

TEST_F(CommandLineTest, StatusTellsHowFarTheRunsAreAndChangesNothing) {
  ASSERT_EQ(Oppa("status m.toml --json"), 0);
  EXPECT_EQ(nlohmann::json::parse(output_)["runs_done"], 0);
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  const auto records = AllRecords();
  for (const auto& entry : fs::recursive_directory_iterator(Path("results"))) {
    fs::permissions(entry, fs::perms::owner_write, fs::perm_options::remove);
  }
  fs::permissions(Path("m.toml"), fs::perms::owner_write,
                  fs::perm_options::remove);
  ASSERT_EQ(Oppa("status m.toml --json"), 0);
  const auto status = nlohmann::json::parse(output_);
  EXPECT_EQ(status["runs_total"], 6);
  EXPECT_EQ(status["runs_done"], 6);
  EXPECT_EQ(status["runs"][0]["trials"], 14);
  EXPECT_EQ(status["runs"][0]["state"], "done");
  EXPECT_EQ(Oppa("status m.toml"), 0);
  EXPECT_THAT(output_, HasSubstr("6 of 6 runs done"));
  EXPECT_EQ(AllRecords(), records);
}

TEST_F(CommandLineTest, RecordsFollowTheUmask) {
  const mode_t before = ::umask(027);
  const int code = Oppa(kRun);
  ::umask(before);
  ASSERT_EQ(code, 0) << errors_;
  for (const auto& entry : fs::recursive_directory_iterator(Path("results"))) {
    EXPECT_EQ(fs::status(entry).permissions() &
                  (fs::perms::others_all | fs::perms::group_write),
              fs::perms::none)
        << entry.path();
  }
}

TEST_F(CommandLineTest, FitsTellsWhatARunHasLearnedAlsoAsJson) {
  ASSERT_EQ(Oppa(kRun), 0) << errors_;
  ASSERT_EQ(Oppa("fits results/m/oppa/1"), 0) << errors_;
  EXPECT_THAT(output_, AllOf(HasSubstr("TFLOP/s"),
                             HasSubstr("computation of the batch on one GPU")));
  ASSERT_EQ(Oppa("fits results/m/oppa/1 --json"), 0);
  const auto json = nlohmann::json::parse(output_);
  EXPECT_EQ(json["trial"], 14);
  const auto& first = json["surrogates"]["throughput"]["coefficients"][0];
  EXPECT_EQ(first["name"], "compute");
  EXPECT_LT(first["physical"]["low"], first["physical"]["value"]);
  EXPECT_EQ(json["surrogates"]["memory"]["coefficients"][0]["physical"]["unit"],
            "GB");
  // Random trials teach nothing, and a folder may hold no run.
  EXPECT_EQ(Oppa("fits results/m/random/1"), 2);
  EXPECT_THAT(errors_, HasSubstr("no surrogate was fitted"));
  EXPECT_EQ(Oppa("fits results/m/nobody/1"), 2);
  // Without its manifest: the coefficients unchanged, and the reason.
  fs::remove(Path("m.toml"));
  ASSERT_EQ(Oppa("fits results/m/oppa/1"), 0);
  EXPECT_THAT(Printed(),
              AllOf(HasSubstr("no physical units"), Not(HasSubstr("TFLOP/s"))));
}

// "by model" of computation and of memory follows from the model's shape.
TEST_F(CommandLineTest, FitsReadsSizesWithTheSettingsOfTheRun) {
  ASSERT_EQ(Oppa("run m.toml --no-report --methods oppa --repeats 1 --set "
                 "workload.model=workloads/llama-3.2-1b.json"),
            0)
      << errors_;
  ASSERT_EQ(Oppa("fits results/m/oppa/1 --json"), 0) << errors_;
  const std::string with = output_;
  // The same sizes in a manifest without settings.
  Edit("workloads/qwen2-1.5b.json", "workloads/llama-3.2-1b.json");
  ASSERT_EQ(Oppa("fits results/m/oppa/1 --json"), 0) << errors_;
  EXPECT_EQ(with, output_);
  EXPECT_THAT(with, HasSubstr("by_model"));
}

TEST_F(CommandLineTest, SpaceAndSimulateListTheSameCandidates) {
  ASSERT_EQ(Oppa("space m.toml --count"), 0);
  const int count = std::stoi(output_);
  for (const char* words :
       {"space m.toml --csv", "simulate m.toml --all --csv"}) {
    ASSERT_EQ(Oppa(words), 0);
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), count + 1);
  }
  ASSERT_EQ(Oppa("simulate m.toml --all"), 0);
  EXPECT_THAT(output_, HasSubstr(fmt::format("evaluated {} PCs in", count)));
  ASSERT_EQ(Oppa("space m.toml --count --set space.dp=[8]"), 0);
  EXPECT_LT(std::stoi(output_), count);
}

TEST_F(CommandLineTest, SimulateSaysHowSureItIs) {
  ASSERT_EQ(Oppa("simulate m.toml --pc dp=8"), 0);
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("\nstep time "), HasSubstr(" s in nine of ten cases ("),
            HasSubstr("\npeak memory "), HasSubstr(": ordinary code)")));
  ASSERT_EQ(Oppa("simulate m.toml --all"), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("P(fits)"),
                             HasSubstr("colossalai: not validated")));
  ASSERT_EQ(Oppa("simulate m.toml --pc dp=8 --set backend.framework=nanotron"),
            0);
  EXPECT_THAT(output_, HasSubstr("nanotron: compared with published "
                                 "measurements (ultrascale)"));
}

TEST_F(CommandLineTest, SimulateCompletesAConfigurationAndNotesWhatItIgnores) {
  const std::string qwen =
      (fakes::SourceFolder() / "experiments/qwen-8gpu.toml").string();
  ASSERT_EQ(
      Oppa("simulate " + qwen + " --pc dp=4,pp=2,zero_stage=1,microbatches=8"),
      0);
  EXPECT_THAT(Printed(),
              AllOf(HasSubstr("note: zero_bucket_mb is not given; using 16"),
                    Not(HasSubstr("is not in the search space"))));
  ASSERT_EQ(Oppa("simulate m.toml --pc dp=8,model_chunks=8"), 0);
  EXPECT_THAT(Printed(), HasSubstr("note: model_chunks=8 is ignored: it has an "
                                   "effect only if pp > 1"));
}

TEST_F(CommandLineTest, NoiseDrawsTheSameTrialsEveryTime) {
  std::string first;
  for (const std::string results : {"a", "b"}) {
    ASSERT_EQ(Oppa("noise m.toml --trials 2 --steps 20 --results " + results),
              0);
    std::string data;
    for (const char* name : {"steps", "threshold", "length-1", "length-2"}) {
      data += Content(
          fmt::format("{}/noise/m/figures/noise-{}.csv", results, name));
    }
    // Every step, 23 thresholds, and all but the first step of two trials.
    EXPECT_EQ(std::count(data.begin(), data.end(), '\n'), 21 + 24 + 2 * 20);
    EXPECT_TRUE(first.empty() || first == data);
    first = data;
  }
}

TEST_F(CommandLineTest, ARankGetsAllWordsBehindTwoDashes) {
  EXPECT_EQ(Oppa("contain -- /bin/echo a -x --yes -- --help"), 0);
  EXPECT_EQ(output_, "a -x --yes -- --help\n");
}

// Without a machine in [predictions], its own source would be the ground truth.
TEST_F(CommandLineTest, SimulateListsThePredictionsOfAPlanner) {
  Write("m.toml", kManifest + "[predictions.book]\nplanner = \"textbook\"\n");
  EXPECT_EQ(Oppa("simulate m.toml --predictions"), 0);
  EXPECT_THAT(output_,
              HasSubstr("[predictions.book] predictions: model of textbook;"));
}

TEST_F(CommandLineTest, PredictionsForTheTrainerAreForTheModelThatItScales) {
  const std::string simulate =
      "simulate " +
      (fakes::SourceFolder() / "experiments/tiny-cpu.toml").string() +
      " --predictions --set backend.scale=";
  EXPECT_EQ(Oppa(simulate + "16"), 0);
  EXPECT_THAT(output_, Not(HasSubstr("oppa-train; 0 of")));
  EXPECT_EQ(Oppa(simulate + "1"), 0);
  EXPECT_THAT(output_, HasSubstr("oppa-train; 0 of"));
}

TEST_F(CommandLineTest, HelpAndVersionHaveTheirUsualForms) {
  ASSERT_EQ(Oppa("--help"), 0);
  const std::string help = output_;
  EXPECT_EQ(help, fakes::ReadFile(fakes::SourceFolder() / "tests/golden" /
                                  "help.txt"));
  for (const char* form : {"-h", "help"}) {
    EXPECT_EQ(Oppa(form), 0);
    EXPECT_EQ(output_, help);
  }
  EXPECT_EQ(Oppa(Words()), 2);
  EXPECT_EQ(errors_, help);
  ASSERT_EQ(Oppa("run --help"), 0);
  const std::string run = output_;
  EXPECT_THAT(run, HasSubstr("--requeue-until-done"));
  EXPECT_EQ(Oppa("help run"), 0);
  EXPECT_EQ(output_, run);

  ASSERT_EQ(Oppa("--version"), 0);
  const std::string version = output_;
  const std::string first = version.substr(0, version.find('\n'));
  EXPECT_THAT(first, AllOf(StartsWith("oppa "),
                           HasSubstr(harness::BuildCommit().hash)));
  EXPECT_EQ(first.find("modified") != std::string::npos,
            harness::BuildCommit().dirty);
  EXPECT_THAT(version, HasSubstr("\ng++ "));
  EXPECT_EQ(Oppa("-V"), 0);
  EXPECT_EQ(output_, version);
}

TEST_F(CommandLineTest, OutputThatCannotBeWrittenIsNoSuccess) {
  for (const char* words : {"space m.toml", "matrix m.toml", "methods"}) {
    EXPECT_EQ(Shell(fmt::format("\"$0\" {} > /dev/full", words)), 1);
    EXPECT_THAT(errors_, AllOf(StartsWith("oppa: "),
                               HasSubstr("No space left on device")));
    EXPECT_EQ(Shell(fmt::format("\"$0\" {} >&-", words)), 1);
    EXPECT_THAT(errors_, HasSubstr("cannot write the output"));
  }
}

TEST_F(CommandLineTest, AReaderThatLeavesEndsTheProgramSilently) {
  EXPECT_EQ(Shell("{ \"$0\" space m.toml --csv; echo \"code $?\" >&2; } | :"),
            0);
  EXPECT_EQ(Printed(), fmt::format("code {}\n", 128 + SIGPIPE));
}

// With ESC and CSI of C1, and the same in the logs of runs.
TEST_F(CommandLineTest, TextOfOthersDoesNotControlTheTerminal) {
  Edit("[experiment]\n", "[experiment]\ntitle = \"a\\u001b[2Jb\\u009b31mc\"\n");
  EXPECT_EQ(Oppa("run m.toml --jobs 2"), 0) << errors_;
  EXPECT_THAT(output_, HasSubstr("a?[2Jb?31mc"));
  Write("results/m/oppa/1/log.txt", "x\x1b]0;evil\x07y");
  EXPECT_EQ(Oppa("logs m.toml oppa/1"), 0) << errors_;
  EXPECT_THAT(output_, HasSubstr("x?]0;evil?y"));
}

TEST_F(CommandLineTest, PathsNeedNotBeUtf8) {
  const std::string manifest = "\xe9.toml";
  std::string text = kManifest;
  Write(manifest, text.replace(0, 12, "[experiment]\nname = \"m\""));
  const std::string rest = " " + manifest + " --results r\xe9sultats";
  ASSERT_EQ(Oppa("run" + rest + " --no-report --methods random --repeats 1"), 0)
      << errors_;
  EXPECT_EQ(AllRecords("r\xe9sultats").size(), 3U);
  EXPECT_EQ(Oppa("status" + rest + " --json"), 0);
  EXPECT_EQ(Oppa("report" + rest), 0) << errors_;
}

TEST_F(CommandLineTest, TheManPageDocumentsEveryCommand) {
  ASSERT_EQ(Oppa("man"), 0);
  EXPECT_THAT(output_,
              AllOf(StartsWith(".TH OPPA 1"), Not(HasSubstr("run\\-one"))));
  for (const char* verb :
       {"plan", "matrix", "run", "status", "report", "logs", "cancel", "space",
        "simulate", "fits", "noise", "validate", "methods", "completion"}) {
    EXPECT_THAT(output_, HasSubstr(fmt::format("oppa {}\\fR", verb)));
  }
}

TEST_F(CommandLineTest, CompletesCommandsOptionsAndValuesWithTheirMeaning) {
  const auto completions = [this](const std::string& typed) {
    EXPECT_EQ(Oppa("complete -- " + typed), 0);
    return output_;
  };
  EXPECT_THAT(completions("sta"),
              AllOf(HasSubstr("status:show the progress of each run\n"),
                    Not(HasSubstr("run-one"))));
  EXPECT_THAT(completions("run --"),
              AllOf(HasSubstr("--no-report:write no tables and figures\n"),
                    HasSubstr("--help:"), Not(HasSubstr("--pc"))));
  EXPECT_THAT(completions("run --dispatch "),
              AllOf(StartsWith("local:"), HasSubstr("\nslurm:")));
  EXPECT_THAT(completions("help "), HasSubstr("\nstatus:"));
  EXPECT_EQ(completions("run "), "") << "a file: the shell's own words";
  EXPECT_EQ(completions("none --"), "");
}

// The words that bash offers after what was typed.
TEST_F(CommandLineTest, BashAsksTheProgramForCompletions) {
  const auto completed = [this](const std::string& typed) {
    EXPECT_EQ(Shell("exec bash -c 'eval \"$(\"$0\" completion bash)\"; "
                    "COMP_WORDS=(\"$0\" " +
                    typed +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _oppa; "
                    "echo \"${COMPREPLY[@]}\"' \"$0\""),
              0);
    return output_;
  };
  EXPECT_EQ(completed("sta"), "status\n");
  EXPECT_EQ(completed("run --no"), "--no-report\n");
  EXPECT_EQ(completed("run --dispatch sl"), "slurm\n");
  EXPECT_EQ(completed("run \"\""), "\n");  // a file: bash's own words
  ASSERT_EQ(Oppa("completion zsh"), 0);
  EXPECT_THAT(output_, StartsWith("#compdef oppa\n"));
}

}  // namespace cli::command_line_test
