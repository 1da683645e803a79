// Bad input: a row per mistake, with the message that names
// the place, the value, the rule and the remedy. Nothing is written.

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/program_test.h"

namespace cli::bad_input_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;
using Edits = std::vector<std::pair<std::string, std::string>>;

// The manifest of all rows before their edits: the simulator, 8 GPUs.
const std::string kManifest =
    fakes::SmallManifest(R"("random")", "trials = 2\nq_max = 3\n");

// A program of one's own instead.
const Edits kCommand = {
    {"\"simulator\"", "\"command\"\nprogram = [\"./train.sh\", \"{dp}\"]"}};

struct Row {
  std::string input;
  Edits edits;
  std::string words = "matrix m.toml";
  std::string message;
  int lines = 1;
  std::map<std::string, std::string> files = {};
};

std::vector<Row> Rows() {
  const Edits replay = {
      {"\"simulator\"", "\"replay\"\ntable = \"t.csv\"\nscenarios = \"s\""},
      {"rule_sets = [\"colossalai\"]\n", ""},
      {"dp_bucket_mb = [16]\nzero_bucket_mb = [16]\n", ""}};
  return {
      {.input = "number beyond doubles",
       .edits = {{"trials = 2", "time_minutes = 1e400"}},
       .message = "m.toml:22:21: Error while parsing floating-point: '1e400'"},
      {.input = "number beyond 64 bits",
       .edits = {{"q_max = 3", "q_max = 99999999999999999999"}},
       .message = "m.toml:23:29: "},
      {.input = "a folder as model",
       .edits = {{"workloads/qwen2-1.5b.json", "workloads"}},
       .message = "is a folder"},
      {.input = "trailing comma in JSON",
       .edits = {{"workloads/qwen2-1.5b.json", "bad.json"}},
       .message = "this is not valid JSON",
       .files = {{"bad.json", "{\"model_type\": \"llama\",}"}}},
      {.input = "text that is not UTF-8",
       .edits = {{"[experiment]", "[experiment]\ntitle = \"\xff\""}},
       .message = "m.toml:2:"},
      {.input = "empty manifest",
       .words = "matrix empty.toml",
       .message = "[experiment]",
       .files = {{"empty.toml", ""}}},
      {.input = "a folder as manifest",
       .words = "matrix workloads",
       .message = "workloads: is a directory, not a file"},
      {.input = "missing manifest",
       .words = "matrix none.toml",
       .message = "none.toml"},
      {.input = "a name with a line break",
       .edits = {{"[experiment]", "[experiment]\nname = \"a\\nb\""}},
       .message = "cannot be a folder name",
       .lines = 2},
      {.input = "replay without its table",
       .edits = replay,
       .message = "t.csv"},
      {.input = "peak memory in MiB",
       .edits = replay,
       .message = "t.csv:3: a peak of 3e+04 GB ran, and RTX A5000 has ",
       .files = {{"t.csv",
                  "scenario,gpus,dp,tp,pp,status,step_time_s,peak_memory_gb\n"
                  "s,8,8,1,1,oom,,\ns,8,4,2,1,ok,1.2,30000\n"}}},
      {.input = "results folder that is a file",
       .words = "run m.toml --results m.toml",
       .message = "is not a folder"},
      {.input = "results folder below /proc",
       .words = "run m.toml --results /proc/x",
       .message = "/proc/x: cannot create the folder: No such file or "
                  "directory; results need a folder in which you can write"},
      {.input = "missing program",
       .edits = kCommand,
       .message = "is not an executable file"},
      {.input = "program that is not executable",
       .edits = kCommand,
       .message = "chmod +x?",
       .files = {{"train.sh", "#!/bin/sh\n"}}},
      {.input = "no jobs",
       .words = "run m.toml --jobs 0",
       .message = "--jobs 0: must be an integer from 1 to 4096"},
      {.input = "fits of a folder of runs",
       .words = "fits workloads",
       .message = "METHOD/REPEAT"},
      {.input = "misspelled command",
       .words = "statu m.toml",
       .message = "oppa: unknown command 'statu' (did you mean 'status'?)"},
      {.input = "option before the command",
       .words = "--results r run",
       .message = "oppa: unknown option '--results'"},
      {.input = "help for a misspelled command",
       .words = "help rum",
       .message = "did you mean 'run'?"},
      {.input = "option of another command",
       .words = "simulate --model config.json --gpus 16 --all",
       .message = "unknown option '--model'"},
      {.input = "jobs that are empty",
       .words = "run m.toml --jobs ",
       .message = "--jobs : must be an integer from 1 to 4096"},
      {.input = "misspelled choice",
       .words = "run m.toml --dispatch slrm",
       .message = "--dispatch slrm: must be local or slurm (did you mean "
                  "'slurm'?)"},
      {.input = "unknown shell",
       .words = "completion fish",
       .message = "bash or zsh"},
      {.input = "nothing to simulate",
       .words = "simulate m.toml",
       .message = "--pc, --plan, --all or --predictions"},
      {.input = "two things to simulate",
       .words = "simulate m.toml --all --pc dp=8",
       .message = "--pc, --plan, --all or --predictions"},
      {.input = "results folder below a file",
       .words = "status m.toml --results m.toml/results",
       .message = "is not a folder"},
      {.input = "misspelled option",
       .words = "run m.toml --job 2",
       .message = "run: unknown option '--job' (did you mean '--jobs'?)"},
      {.input = "option without its value",
       .words = "run m.toml --results",
       .message = "--results needs a value"},
      {.input = "option given twice",
       .words = "run m.toml --jobs 1 --jobs 2",
       .message = "--jobs is given twice"},
      {.input = "missing argument",
       .words = "run",
       .message = "run: FILE is missing"},
      {.input = "superfluous argument",
       .words = "status m.toml n.toml",
       .message = "unexpected argument 'n.toml'"},
      {.input = "a program as manifest",
       .words = "tune train.py",
       .message = "tune: 'train.py' is not a manifest: write `oppa tune "
                  "JOB.toml`, or your command line after --, `oppa tune ... "
                  "-- COMMAND`",
       .files = {{"train.py", "print(1)\n"}}},
      {.input = "command line without --",
       .words = "tune torchrun train.py",
       .message = "tune: unexpected argument 'train.py'; your command line "
                  "comes after --"},
      {.input = "option of a command line without --",
       .words = "tune train.py --lr 3",
       .message = "unknown option '--lr'; your command line comes after --; "
                  "`oppa help tune`"},
      {.input = "own knobs of a simulator",
       .edits = {{"[budget]", "[space.custom]\na = [1, 2]\n[budget]"}},
       .message = "the simulator has no knobs of one's own"},
      {.input = "own knobs of the trainer",
       .edits = {{"\"simulator\"", "\"trainer\""},
                 {"[budget]", "[space.custom]\na = [1, 2]\n[budget]"}},
       .message = "oppa-train does not apply the knob 'a'"},
      {.input = "import of a file that is not there",
       .words = "import m.toml none.csv",
       .message = "none.csv"},
      {.input = "page of a folder without records",
       .words = "page workloads",
       .message = "has no experiment.json"},
  };
}

class BadInput : public fakes::ProgramTest,
                 public testing::WithParamInterface<Row> {
 protected:
  void WriteInput(const Row& row) {
    std::string manifest = kManifest;
    for (const auto& [from, to] : row.edits) {
      const std::size_t at = manifest.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      manifest.replace(at, from.size(), to);
    }
    Write("m.toml", manifest);
    for (const auto& [name, text] : row.files) {
      fakes::WriteFile(Path(name), text);
    }
  }
};

TEST_P(BadInput, IsOneLineWithTheRuleAndNothingIsWritten) {
  const Row& row = GetParam();
  WriteInput(row);
  EXPECT_EQ(Oppa(row.words), 2) << Printed();
  EXPECT_THAT(errors_, StartsWith("oppa: "));
  EXPECT_EQ(std::ranges::count(errors_, '\n'), row.lines) << errors_;
  EXPECT_THAT(errors_, HasSubstr(row.message));
  EXPECT_FALSE(fs::exists(Path("results")));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BadInput, testing::ValuesIn(Rows()), [](const auto& row) {
      std::string name = row.param.input;
      for (char& c : name) {
        c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      }
      return name;
    });

// Input that was refused or ended in a misleading way.
using GoodInput = BadInput;

TEST_F(GoodInput, CarriageReturnsByteOrderMarksCapitalsAndSpacesWork) {
  WriteInput({});
  std::string text = "\xef\xbb\xbf" + kManifest;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;
       at += 2) {
    text.replace(at, 1, "\r\n");
  }
  Write("My Job.toml", text);
  EXPECT_EQ(Oppa(Words{"run", "My Job.toml", "--no-report"}), 0) << errors_;
  EXPECT_TRUE(fs::exists(Path("results/My Job/random/1/run.json")));
}

TEST_F(GoodInput, OtherTimeoutsContinueASearchOfAProgram) {
  WriteInput({.edits = kCommand});
  Write("train.sh",
        "#!/bin/sh\nfor i in 1 2 3; do\n"
        "echo \"oppa {\\\"step_time_s\\\": 1.01}\"; done\n");
  const std::string run = "run m.toml --no-report --repeats 1";
  ASSERT_EQ(Oppa(run), 0);
  EXPECT_EQ(Oppa(run + " --set backend.timeout_s=90 --set budget.trials=3"), 0)
      << errors_;
  // A comment in the program is a change, and named.
  Write("train.sh", "#!/bin/sh\n# new\nexit 3\n");
  EXPECT_EQ(Oppa(run), 2);
  EXPECT_THAT(errors_, HasSubstr("file train.sh has other content"));
}

}  // namespace cli::bad_input_test
