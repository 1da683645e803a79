// Whole searches with a shell script as the training program.

#include "jobs/tune/tune.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "jobs/tune/tune_job.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/program_test.h"
#include "tests/jobs/tune/tune_job_fixture.h"

namespace jobs::tune_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class TuneTest : public fakes::ProgramTest {
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

  // A program that prints the time 0.0M for --accumulate M, all steps at once,
  // and runs `before`.
  void WriteProgram(const std::string& before) {
    Write("train.sh",
          "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case $1 in\n"
          "    --accumulate) m=$2; shift ;;\n    --steps) s=$2; shift ;;\n"
          "  esac\n  shift\ndone\n" +
              before +
              "\nsteps=$(for i in $(seq $s); do\n"
              "  echo \"step $i took 0.0$m$((i % 3 + 1)) peak 100\"\ndone)\n"
              "echo \"$steps\"\n");
  }

  // `tune` or `init` for that program.
  int Start(const std::string& verb, const std::string& options) {
    return Oppa(verb +
                " --framework adapter.toml --model config.json --gpus 1x2 "
                "--memory-gib 8 --batch 16 --seq 64 " +
                options + " -- ./train.sh --micro 1 --accumulate 8");
  }
  int Tune() { return Start("tune", "--trials 4 --steps 6"); }
};

TEST_F(TuneTest, EndsWithACommandLineThatIsFasterThanTheUsers) {
  WriteProgram("");
  EXPECT_EQ(Tune(), 0) << Printed();
  const std::string results = "oppa-results/tune/";
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("preflight"),
            HasSubstr("next: at most 4 trials of 6 steps in 20 minutes, then "
                      "at most 12 runs"),
            ContainsRegex("\n +1/4 +0\\.08[0-9]* s +1\\.00x +0:0[0-9] +yours: "
                          "dp=2 tp=1 pp=1 microbatches=8, "),
            HasSubstr("as fast as yours"), HasSubstr("left"),
            HasSubstr("Result page: " + Path(results + "page.html").string())));
  EXPECT_THAT(
      Content(results + "best.sh"),
      AllOf(HasSubstr("train.sh --micro "), Not(HasSubstr("--accumulate 8")),
            Not(HasSubstr("--steps"))));
  EXPECT_THAT(Content(results + "best.json"), HasSubstr("speed_up"));
  EXPECT_THAT(Content(results + "page.html"), HasSubstr("train.sh --micro "));
  // The same command finds everything measured.
  EXPECT_EQ(Oppa("tune oppa-results/tune.toml"), 0) << Printed();
  EXPECT_THAT(output_,
              AllOf(Not(HasSubstr(" 1/")), HasSubstr("Use this command line"),
                    Not(HasSubstr("measuring"))));
}

// The first start is 30% faster than all others: the preflight.
TEST_F(TuneTest, RunsOfYoursThatDifferAreNoise) {
  WriteProgram("");
  EXPECT_EQ(Tune(), 0) << Printed();
  EXPECT_THAT(output_, Not(HasSubstr("your configuration varied")));
  WriteProgram("");
  const std::string text = Content("train.sh");
  Write("train.sh", "#!/bin/sh\nslow=$(ls noisy | wc -l)\ntouch noisy/$$\n" +
                        text.substr(text.find('\n') + 1,
                                    text.rfind("0.0$m") - text.find('\n') - 1) +
                        "0.1$((slow % 2 * 4 + i % 2)) peak 100\"\ndone)\n"
                        "echo \"$steps\"\n");
  fs::create_directory(Path("noisy"));
  EXPECT_EQ(Start("tune", "--name noisy --trials 4 --steps 6"), 0) << Printed();
  EXPECT_THAT(output_, ContainsRegex("your configuration varied by [0-9]+% in "
                                     "2 runs: gains under that cannot be"));
}

// It trains something else with one microbatch.
TEST_F(TuneTest, SaysThatAConfigurationChangesMoreThanSpeed) {
  for (const bool changes : {false, true}) {
    WriteProgram("");
    const std::string text = Content("train.sh");
    const std::string loss = fmt::format("loss: $((20 - i {})).$((i % 3))",
                                         changes ? "- (m < 8) * 6" : "");
    Write("train.sh", text.substr(0, text.rfind(" peak")) + " " + loss +
                          text.substr(text.rfind(" peak")));
    const std::string name = changes ? "moved" : "same";
    EXPECT_EQ(Start("tune", "--trials 4 --steps 8 --name " + name), 0)
        << Printed();
    const auto best =
        nlohmann::json::parse(Content("oppa-results/" + name + "/best.json"));
    EXPECT_EQ(best["loss"]["moved"], changes) << best["loss"];
    const auto says = HasSubstr("hanges more than speed");
    const std::string page = Content("oppa-results/" + name + "/page.html");
    if (changes) {
      EXPECT_THAT(output_, says);
      EXPECT_THAT(page, says);
    } else {
      EXPECT_THAT(output_, Not(says));
      EXPECT_THAT(page, Not(says));
    }
  }
}

// 20 steps are asked for, and the program has its own number.
TEST_F(TuneTest, SaysThatAProgramEndsByItselfBeforeATrial) {
  Write("train.sh",
        "#!/bin/sh\nfor i in $(seq ${OWN_STEPS:-10}); do echo \"step $i took "
        "0.0$i\"; "
        "done\n");
  const std::string command =
      "tune --model config.json --gpus 1x2 --memory-gib 8 --batch 16 --seq 64 "
      "--step-time took.([0-9.]+) -- ./train.sh --accumulate {microbatches}";
  EXPECT_EQ(Oppa(command), 1) << Printed();
  EXPECT_THAT(output_,
              AllOf(HasSubstr("write {max_steps} where"),
                    HasSubstr("or give --steps 10"), Not(HasSubstr(" 1/"))));
  Write("train.sh", "#!/bin/sh\necho done\n");
  EXPECT_EQ(Oppa(command), 1);
  EXPECT_THAT(output_, HasSubstr("No step time was found in the output: give"));
}

// The first configuration runs out of memory, so that the preflight passes.
TEST_F(TuneTest, SaysAfterTheSearchThatNoOutputHasAStepTime) {
  Write(
      "train.sh",
      "#!/bin/sh\n[ -f first ] || echo \"$*\" > first\n"
      "[ \"$(cat first)\" != \"$*\" ] || { echo CUDA out of memory; exit 1; }\n"
      "echo \"took 0.1\"\n");
  EXPECT_EQ(
      Oppa("tune --model config.json --gpus 1x2 --memory-gib 8 --batch 16 "
           "--seq 64 --trials 4 --minutes 1 --step-time tok.([0-9.]+) -- "
           "./train.sh --accumulate {microbatches}"),
      1);
  EXPECT_THAT(output_, AllOf(HasSubstr("; 1 minute in all"), HasSubstr(" 2/4 "),
                             HasSubstr("\nNo step time was found")));
}

TEST_F(TuneTest, CountsMoneyAndEnergyOfWhichThePriceAndThePowerAreGiven) {
  WriteProgram("");
  EXPECT_EQ(Start("tune", "--price 3.6 --power 500 --trials 2 --steps 4"), 0)
      << Printed();
  EXPECT_THAT(output_, AllOf(HasSubstr(" USD a step, "),
                             HasSubstr(" J a step, "), HasSubstr(" kWh per ")));
  const auto best =
      nlohmann::json::parse(Content("oppa-results/tune/best.json"));
  // 2 GPUs and 1,024 tokens of a step: 0.002 USD and 1000 J a second.
  const double step_s = best["step_time_s"];
  EXPECT_NEAR(best["usd_per_step"], 0.002 * step_s, 1e-9);
  EXPECT_NEAR(best["joule_per_step"], 1000.0 * step_s, 1e-6);
  EXPECT_NEAR(best["kwh_per_billion_tokens"],
              1e9 / 1024 * 1000.0 * step_s / 3.6e6, 1e-3);
}

// What takes the same time everywhere is not worth a change; terminal, page and
// best.json say so alike, and other verbs find the records.
TEST_F(TuneTest, KeepsYoursWhereNothingIsFaster) {
  Write(
      "train.sh",
      "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n"
      "  case $1 in --steps) s=$2; shift ;; esac\n  shift\ndone\n"
      "for i in $(seq $s); do echo \"step $i took 0.0$((i % 3 + 3))\"; done\n");
  EXPECT_EQ(Tune(), 0) << Printed();
  EXPECT_THAT(output_,
              AllOf(HasSubstr("Keep yours: no configuration is measurably "
                              "faster:\n\n  ./train.sh --micro 1 "
                              "--accumulate 8\n"),
                    Not(HasSubstr("Use this command line"))));
  const std::string results = "oppa-results/tune/";
  EXPECT_THAT(Content(results + "best.json"),
              HasSubstr("\"config\": \"yours\""));
  EXPECT_THAT(Content(results + "best.sh"),
              HasSubstr("./train.sh --micro 1 --accumulate 8 "));
  EXPECT_THAT(Content(results + "page.html"),
              AllOf(HasSubstr("Keep your configuration"),
                    HasSubstr("Yours, measured again")));
  EXPECT_EQ(Oppa("status oppa-results/tune.toml"), 0);
  EXPECT_THAT(output_, HasSubstr("1 of 1"));
  EXPECT_EQ(Oppa("report oppa-results/tune.toml"), 0) << Printed();
}

// The only configuration that works is the present one.
TEST_F(TuneTest, DoesNotRecommendYoursAsAnother) {
  WriteProgram("if [ $m != 8 ]; then exit 3; fi");
  EXPECT_EQ(Tune(), 0) << Printed();
  EXPECT_THAT(output_, AllOf(HasSubstr("Keep yours"),
                             Not(HasSubstr("Use this command line"))));
}

// On a terminal of `columns`, in that environment.
struct Shown {
  std::string output;
  std::size_t longest = 0;  // line of more than one word
};

TEST_F(TuneTest, FitsATerminalAndIsPlainWhereColorsAreNotWanted) {
  WriteProgram("");
  const auto on_terminal = [this](int columns, const std::string& environment) {
    static int number = 0;
    const std::string tune = fmt::format(
        "stty cols {} rows 40; exec env {} {} tune --name n{} --framework "
        "adapter.toml --model config.json --gpus 1x2 --memory-gib 8 --batch 16 "
        "--seq 64 --trials 4 --steps 6 --finalists 1 -- ./train.sh --micro 1 "
        "--accumulate 8",
        columns, environment, fakes::ProgramFile().string(), ++number);
    EXPECT_EQ(Call({"script", "-qec", tune, "/dev/null"}), 0) << Printed();
    Shown shown{.output = output_};
    std::string text = output_;
    std::ranges::replace(text, '\r', '\n');
    text = std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
    for (const std::string_view line : common::Split(text, '\n')) {
      if (common::Trim(line).find(' ') != std::string_view::npos) {
        shown.longest = std::max(shown.longest, line.size());
      }
    }
    return shown;
  };
  for (const int columns : {80, 120}) {
    const Shown shown = on_terminal(columns, "TERM=xterm");
    EXPECT_LE(shown.longest, columns) << shown.output;
    EXPECT_THAT(shown.output,
                AllOf(HasSubstr("\x1b[32m"), HasSubstr("[#"),
                      HasSubstr("] trial 2/4, "), HasSubstr("stops at 1%")));
  }
  EXPECT_THAT(on_terminal(80, "TERM=xterm NO_COLOR=1").output,
              AllOf(Not(HasSubstr("\x1b")), HasSubstr("[#")));
  EXPECT_THAT(on_terminal(80, "TERM=dumb").output,
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("[#"))));
  EXPECT_EQ(Tune(), 0);
  EXPECT_THAT(output_, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("[#")),
                             Not(HasSubstr("\r"))));
}

// A command line with placeholders is no command line of the user's.
TEST_F(TuneTest, KeepsTheValuesThatStandForPlaceholders) {
  Write("train.sh",
        "#!/bin/sh\nfor i in $(seq 6); do echo \"step $i took 0.0$((i % 3 + "
        "3))\"; "
        "done\n");
  EXPECT_EQ(Oppa("tune --model config.json --gpus 1x2 --memory-gib 8 --batch "
                 "16 --seq 64 --trials 2 --steps 6 --start "
                 "dp=2,microbatches=4 --step-time took.([0-9.]+) -- "
                 "./train.sh --micro {micro_batch_size} --accumulate "
                 "{microbatches}"),
            0)
      << Printed();
  EXPECT_THAT(output_, AllOf(HasSubstr("Keep yours"),
                             HasSubstr("train.sh --micro 2 --accumulate 4\n")));
  EXPECT_THAT(Content("oppa-results/tune/page.html"),
              HasSubstr("--step-time &#39;took.([0-9.]+)&#39; -- "))
      << "quoted for a shell";
}

// Terminal, page and best.json have one result, that of the finals.
TEST_F(TuneTest, FinalsThatReverseTheOrderOfTheSearchDecideEverywhere) {
  // After the preflight and the search of two trials, the winner is slow.
  WriteProgram(
      "n=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) >n\n"
      "if [ $n -ge 3 ] && [ $m != 8 ]; then m=9; fi");
  EXPECT_EQ(Tune(), 0) << Printed();
  const std::string results = "oppa-results/tune/";
  const auto best = nlohmann::json::parse(Content(results + "best.json"));
  EXPECT_EQ(best["config"], "yours") << Printed();
  const auto& speed = best["speed_up"];
  const std::string factor =
      fmt::format("{:.2f}", speed["value"].get<double>());
  const std::string interval =
      fmt::format("[{:.2f}, {:.2f}]", speed["low"].get<double>(),
                  speed["high"].get<double>());
  const auto has_command = HasSubstr("--accumulate 8");
  EXPECT_THAT(output_,
              AllOf(has_command, HasSubstr(factor + " times " + interval +
                                           " as fast as "
                                           "yours")));
  EXPECT_THAT(Content(results + "best.sh"), has_command);
  EXPECT_THAT(Content(results + "page.html"),
              AllOf(has_command, HasSubstr("Keep your configuration"),
                    HasSubstr(factor + "×"), HasSubstr(interval + " over"),
                    HasSubstr("Round 2 (s)")));
}

// Ten times slower as long as a file is there: the machine is busy.
TEST_F(TuneTest, MeasuresAllFinalistsAgainAfterMoreTrials) {
  WriteProgram("");
  const std::string text = Content("train.sh");
  Write("train.sh", text.substr(0, text.rfind("0.0$m")) + "0.$(cat busy)$m" +
                        text.substr(text.rfind("$((i")));
  Write("busy", "1");
  EXPECT_EQ(Start("tune", "--trials 1 --steps 4"), 0) << Printed();
  Write("busy", "0");
  EXPECT_EQ(Start("tune", "--trials 3 --steps 4"), 0) << Printed();
  EXPECT_THAT(output_, AllOf(ContainsRegex(" 0\\.08[0-9]* s .* yours"),
                             Not(HasSubstr(" 0.18"))));
  EXPECT_THAT(Content("oppa-results/tune/finals.json"), Not(HasSubstr("0.18")));
}

TEST_F(TuneTest, RefusesMeasurementsThatWereEdited) {
  WriteProgram("");
  EXPECT_EQ(Tune(), 0) << Printed();
  std::string text = Content("oppa-results/tune/finals.json");
  Write("oppa-results/tune/finals.json",
        text.replace(text.find("0.0"), 3, "9.0"));
  EXPECT_EQ(Oppa("tune oppa-results/tune.toml"), 2) << Printed();
  EXPECT_THAT(errors_, HasSubstr("finals.json: it does not match its check"));
}

// The program of a trial starts another search of the folder.
TEST_F(TuneTest, RunsOneSearchOfAFolderAtATime) {
  WriteProgram("[ -e code ] || { echo > code; " +
               fakes::ProgramFile().string() +
               " tune oppa-results/tune.toml 2> errors; echo $? > code; }");
  EXPECT_EQ(Start("tune", "--trials 2 --steps 4"), 0) << Printed();
  EXPECT_EQ(Content("code"), "1\n");
  EXPECT_THAT(Content("errors"), HasSubstr("is writing these records"));
}

TEST_F(TuneTest, ContinuesWithAProgramThatChanged) {
  WriteProgram("");
  EXPECT_EQ(Tune(), 0) << Printed();
  WriteProgram("echo changed");
  EXPECT_EQ(Tune(), 2);
  EXPECT_THAT(errors_, HasSubstr("--accept-changed"));
  EXPECT_EQ(Oppa("tune --accept-changed oppa-results/tune.toml"), 0)
      << Printed();
}

TEST_F(TuneTest, BadInputLeavesTheManifestAsItWas) {
  WriteProgram("");
  EXPECT_EQ(Start("tune", "--trials 2 --steps 4"), 0) << Printed();
  const std::string manifest = Content("oppa-results/tune.toml");
  // Records of a search for another number of steps, and a pattern.
  EXPECT_EQ(Start("tune", "--trials 2 --steps 5"), 2);
  EXPECT_EQ(Start("tune", "--trials 2 --steps 4 --step-time ("), 2);
  EXPECT_EQ(Content("oppa-results/tune.toml"), manifest);
  EXPECT_EQ(Start("tune", "--name new --step-time ("), 2);
  EXPECT_FALSE(fs::exists(Path("oppa-results/new.toml")));
  for (const std::string name :
       {"../evil", "/tmp/evil", ".hidden", "-x", "a/b", "best.sh"}) {
    EXPECT_EQ(Start("tune", "--name=" + name), 2) << name;
    EXPECT_THAT(errors_, HasSubstr("--name")) << name;
  }
  EXPECT_FALSE(fs::exists(Path("evil.toml")));
  // What the user wrote stays, and the command says so.
  Write("oppa-results/tune.toml", manifest + "# mine\n");
  EXPECT_EQ(Start("tune", "--trials 2 --steps 4"), 2);
  EXPECT_THAT(errors_, HasSubstr("tune.toml: it was edited"));
  EXPECT_EQ(Content("oppa-results/tune.toml"), manifest + "# mine\n");
  EXPECT_EQ(Oppa("tune oppa-results/tune.toml"), 0) << Printed();
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
  EXPECT_EQ(Oppa("tune own.toml"), 0) << Printed();
  EXPECT_THAT(output_, HasSubstr("\n  OPPA_TRIAL='{"));
  EXPECT_THAT(Content("oppa-results/own/best.json"),
              HasSubstr("\"micro_batch_size\": 4"));
  (void)Call({"oppa-results/own/best.sh"});
  EXPECT_THAT(output_, AllOf(HasSubstr("\"microbatches\":2"),
                             HasSubstr("\"kernel\":\"it's\"")));
}

TEST_F(TuneTest, StartsFromThePredictionsForAClusterFile) {
  WriteProgram("s=9");  // trains on after the last step of a trial
  EXPECT_EQ(Oppa("tune --cluster clusters/h100-infiniband.toml --gpus 1x2 "
                 "--model config.json --batch 16 --seq 64 --start "
                 "dp=2,microbatches=8 --step-time took.([0-9.]+) --trials 2 "
                 "--steps 6 --finalists 1 -- ./train.sh --steps {max_steps} "
                 "--accumulate {microbatches}"),
            0)
      << Printed();
  // The first trial is the present configuration, and the second one the
  // fastest as predicted, without gradient accumulation.
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("2 x H100"),
            HasSubstr("  yours: dp=2 tp=1 pp=1 microbatches=8"),
            ContainsRegex("\n +2/2 .*  microbatches=1[,\n ]"),
            HasSubstr("train.sh --steps 6 --accumulate 1\n"),
            HasSubstr("It has the 6 steps of a trial: write your own.")));
  EXPECT_THAT(Content("oppa-results/tune/best.sh"),
              AllOf(HasSubstr("# It has the 6 steps of a trial"),
                    HasSubstr("train.sh --steps 6 ")));
  EXPECT_THAT(Content("oppa-results/tune.toml"),
              HasSubstr("methods = [\"oppa-sim\"]"));
}

TEST_F(TuneTest, ShowsTheLastLinesOfAPresentConfigurationThatFails) {
  WriteProgram("echo loading; echo 'KeyError: no data' >&2; exit 3");
  EXPECT_EQ(Tune(), 1);
  EXPECT_THAT(output_,
              AllOf(HasSubstr("does not run"),
                    HasSubstr("    KeyError: no data"), Not(HasSubstr(" 1/"))));
}

TEST_F(TuneTest, StopsAfterThreeTrialsThatFailAlike) {
  // The preflight has two steps.
  WriteProgram("if [ $s != 2 ]; then echo 'no such device' >&2; exit 3; fi");
  EXPECT_EQ(Tune(), 1);
  EXPECT_THAT(output_,
              AllOf(HasSubstr("failed alike"), HasSubstr("    no such device"),
                    HasSubstr(" 3/4 "), Not(HasSubstr(" 4/4 "))));
}

// With an ssh that starts the command on this machine.
TEST_F(TuneTest, RunsOnTheHostsOfAFileAndEndsATrialOnAllOfThem) {
  Write("ssh",
        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do\n"
        "  [ \"$1\" = -o ] && shift\n  shift\ndone\n"
        "echo $1 >> hosts-used\nshift\necho \"$*\" >> lines\n"
        "exec setsid -w sh -c \"$*\"\n");
  Write("hosts", "node-a slots=1\nme@node-b # the other\n");
  // The second host runs out of memory, and the first one waits for it.
  Write("train.sh",
        "#!/bin/sh\necho \"$3 of $4, $NCCL_DEBUG\" >> ranks\n"
        "if [ $1 = 8 ]; then\n"
        "  [ $3 = 0 ] || until [ -s waits ]; do sleep 0.01; done\n"
        "  [ $3 = 1 ] && { echo 'CUDA out of memory' >&2; exit 3; }\n"
        "  echo $$ > waits; sleep 60\nfi\n"
        "[ $3 = 0 ] || exit 0\n"
        "for i in $(seq $2); do echo \"step $i took 0.$1$((i % 3))\"; done\n");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (Path("").string() + ":" + path).c_str(), 1);
  ::setenv("NCCL_DEBUG", "it's \"here\"", 1);
  ::setenv("SECRET", "word", 1);  // not for the list of processes
  const int code = Oppa(
      "tune --hostfile hosts --gpus 2x1 --memory-gib 8 --model config.json "
      "--batch 16 --seq 64 --trials 4 --steps 4 --finalists 1 --start "
      "dp=2,microbatches=8 --step-time took.([0-9.]+) -- ./train.sh "
      "{micro_batch_size} {max_steps} {node_rank} {master_addr}");
  const int few = Oppa(
      "tune --name few --hostfile hosts --gpus 4x1 --memory-gib 8 --model "
      "config.json --batch 16 --seq 64 --start dp=4 -- ./train.sh "
      "{micro_batch_size}");
  const std::string refused = errors_;
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("SECRET");
  ASSERT_EQ(code, 0) << Content("oppa-results/tune.toml");
  EXPECT_THAT(Content("ranks"), AllOf(HasSubstr("0 of node-a, it's \"here\""),
                                      HasSubstr("1 of node-a, it's")));
  EXPECT_THAT(Content("hosts-used"), HasSubstr("node-a\nme@node-b\n"));
  EXPECT_THAT(Content("lines"), Not(HasSubstr("SECRET")));
  EXPECT_THAT(Content("oppa-results/tune/oppa/1/trials.csv"),
              HasSubstr("out_of_memory"));
  EXPECT_NE(::kill(std::stoi(Content("waits")), 0), 0);  // it has ended
  EXPECT_THAT(Content("oppa-results/tune/best.sh"), HasSubstr("{node_rank}"));
  EXPECT_EQ(few, 2);
  EXPECT_THAT(refused, HasSubstr("the hostfile has 2 of 4 nodes"));
}

// node-b's reason is in MODE.
TEST_F(TuneTest, SaysWhyAHostIsNotReachedAndWhetherARerunHelps) {
  Write("ssh",
        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do\n"
        "  [ \"$1\" = -o ] && shift\n  shift\ndone\n"
        "[ $1 = node-a ] || { echo \"$MODE\" >&2; exit 255; }\n"
        "shift\nexec setsid -w sh -c \"$*\"\n");
  Write("hosts", "node-a\nnode-b\n");
  Write("train.sh", "#!/bin/sh\nsleep 60\n");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (Path("").string() + ":" + path).c_str(), 1);
  const auto tune = [this](const char* reason) {
    ::setenv("MODE", reason, 1);
    return Oppa(
        "tune --hostfile hosts --gpus 2x1 --memory-gib 8 --model config.json "
        "--batch 16 --seq 64 --start dp=2,microbatches=8 --step-time "
        "took.([0-9.]+) -- ./train.sh {micro_batch_size}");
  };
  EXPECT_EQ(tune("Host key verification failed."), 1);
  EXPECT_THAT(errors_,
              HasSubstr("ssh to host node-b: Host key verification failed."));
  EXPECT_EQ(tune("ssh: connect to host node-b port 22: No route to host"), 75);
  EXPECT_THAT(output_, AllOf(HasSubstr("ssh to host node-b: ssh: connect to"),
                             HasSubstr("No route to host\ninterrupted")));
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("MODE");
}

TEST_F(TuneTest, RunsTheManifestThatInitWrote) {
  WriteProgram("");
  EXPECT_EQ(Start("init", "--trials 2 --steps 4"), 0) << errors_;
  EXPECT_EQ(Oppa("tune tune.toml"), 0) << Printed();
  EXPECT_TRUE(fs::exists(Path("oppa-results/tune/best.sh")));
  EXPECT_EQ(Oppa("init -- ./train.sh"), 2);
  EXPECT_THAT(errors_, HasSubstr("tune.toml exists"));
}

// The same search in this process.
class ReportedTest : public TuneJobTest {
 protected:
  int Run() {
    return Tune({.manifest = WriteManifest(),
                 .command = "test",
                 .finalists = 1,
                 .write_page = [this](const fs::path& folder) -> fs::path {
                   ++pages_;
                   if (pages_fail_) {
                     throw std::runtime_error("no gnuplot");
                   }
                   return folder / "page.html";
                 },
                 .reporter = shown_});
  }

  int pages_ = 0;
  bool pages_fail_ = false;
};

TEST_F(ReportedTest, ShowsEverythingThroughTheReporter) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  std::size_t at = 0;
  for (const char* part :
       {"4 configurations; results: ", "preflight: your configuration for 2 ",
        "next: at most 3 trials of 6 steps in 20 minutes",
        "predicted by: simulator of this cluster", " 1/3 ", "  <- best\n",
        " 3/3 ", "3 trials; the search ended: ",
        "measuring the best again, round 1 of 3, 2 runs\n", "  yours\n",
        "\nUse this command line:\n\n  ", "\nAlso in ", "Result page: "}) {
    const std::size_t found = printed_.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << printed_;
    at = found;
  }
  EXPECT_THAT(statuses_, testing::Contains("preflight: your configuration for "
                                           "2 steps; step 2/2"));
  EXPECT_EQ(statuses_.back(), "") << "the last status has ended";
  // The same command resumes, and recommends alike.
  const std::string result = printed_.substr(printed_.find("\nUse this"));
  printed_.clear();
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(printed_, AllOf(testing::EndsWith(result), Not(HasSubstr(" 1/")),
                              Not(HasSubstr("measuring"))));
}

TEST_F(ReportedTest, APageThatFailsDoesNotEndTheSearch) {
  pages_fail_ = true;
  EXPECT_EQ(Run(), 0);
  EXPECT_GE(pages_, 3) << "one for each trial";
  EXPECT_THAT(printed_, testing::EndsWith("The result page could not be "
                                          "written: no gnuplot\n"));
}

TEST_F(ReportedTest, SaysThatNoneOfTheBestRanAgain) {
  // The preflight and three trials run, and nothing after them.
  WriteProgram("echo \"step $i took 0.0$1$((i % 3 + 1))\"",
               "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n\n"
               "[ $n -lt 4 ] || exit 3");
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(printed_, HasSubstr("\nNone of the best configurations ran "
                                  "again.\nResult page: "));
  EXPECT_FALSE(fs::exists(Path("oppa-results/tune/best.json")));
}

TEST_F(ReportedTest, NeedsASpaceOfTwoConfigurations) {
  options_.fix = {"microbatches=8"};
  EXPECT_THAT(fakes::ErrorOf([this] { return Run(); }),
              HasSubstr("nothing can vary: the space has one configuration, "
                        "dp=2,tp=1,pp=1,microbatches=8;"));
}

TEST(TuneFolder, DoesNotDependOnTheWorkingDirectory) {
  EXPECT_EQ(TuneFolder("/a/tune.toml", "t"), fs::path("/a/oppa-results/t"));
  EXPECT_EQ(TuneFolder("/a/oppa-results/tune.toml", "t"),
            fs::path("/a/oppa-results/t"));
}

}  // namespace jobs::tune_test
