// The program oppa-train: reports, errors, faults and stop requests.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/json.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace trainer::program_test {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr const char* kModel =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 64, "vocab_size": 61})";

std::string Program() {
  return std::filesystem::path(fakes::ProgramFile()).parent_path() /
         "oppa-train";
}

struct Ended {
  int code = -1;
  std::string output;  // both streams
  double seconds = 0.0;
};

class TrainProgram : public ::testing::Test {
 protected:
  TrainProgram() { std::ofstream(folder_.path() / "config.json") << kModel; }
  // Runs the program on the model with these options, in a shell.
  Ended Run(const std::string& options, const std::string& before = "",
            const std::string& size = "--batch-size 8 --sequence-length 16") {
    const auto begin = Clock::now();
    const auto out = folder_.path() / "out.txt";
    const std::string command = before + " " + Program() + " --model " +
                                (folder_.path() / "config.json").string() +
                                " " + size + " " + options + " > " +
                                out.string() + " 2>&1";
    const int status = std::system(command.c_str());
    Ended ended;
    ended.code = WEXITSTATUS(status);
    ended.output = common::ReadFile(out);
    ended.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return ended;
  }
  // A fault of rank 2 of 4 in step 1.
  Ended Fault(const std::string& kind) {
    return Run("--config dp=2,tp=2,pp=1 --timeout-s 1 --fault " + kind +
               ":2:1");
  }

  fakes::TemporaryFolder folder_;
};

constexpr double kSoon = 20.0;  // seconds, on a loaded machine

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(TrainProgram, RefusesIntegersThatAreNone) {
  const std::string few = "--config dp=2,tp=1,pp=1 --steps 1 ";
  for (const std::string option :
       {"--first-rank", "--local-ranks", "--batch-size", "--sequence-length",
        "--steps", "--seed", "--scale", "--memory", "--timeout-s"}) {
    for (const std::string value :
         {"-5", "-2147483648", "99999999999999999999999", "x", "''"}) {
      if (option == "--timeout-s" && value.starts_with('9')) {
        continue;  // a time
      }
      const bool has_size =
          option == "--batch-size" || option == "--sequence-length";
      const Ended ended = Run(few + option + "=" + value, "timeout 20",
                              has_size ? ""
                                       : "--batch-size 8 "
                                         "--sequence-length 16");
      EXPECT_GT(ended.code, 0) << option << value << ended.output;
      EXPECT_LT(ended.code, 124) << option << value << ended.output;
      EXPECT_NE(ended.output.find(option), std::string::npos) << ended.output;
    }
  }
  EXPECT_NE(Run(few + "--first-rank 2147483647").output.find("--first-rank"),
            std::string::npos);
  EXPECT_NE(Run(few + "--local-ranks 1", "SLURM_PROCID=-7")
                .output.find("SLURM_PROCID = '-7'"),
            std::string::npos);
}

TEST_F(TrainProgram, ReportsEveryStepAndThePeak) {
  const Ended ended = Run("--config dp=2,tp=1,pp=1 --steps 3");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(Count(ended.output, "oppa {\"step_time_s\""), 3);
  EXPECT_EQ(Count(ended.output, "oppa {\"peak_memory_bytes\""), 1);
}

TEST_F(TrainProgram, ReadsTheRequestAndWritesReportsToTheFile) {
  const auto reports = folder_.path() / "reports";
  const Ended ended = Run(
      "",
      "OPPA_REPORT=" + reports.string() +
          R"( OPPA_TRIAL='{"max_steps": 2, "seed": 3, "config": {"dp": 2, "tp": 1, "pp": 1, "zero_stage": 2, "sp": 1}}')");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("on 2 ranks"));
  EXPECT_EQ(Count(ended.output, "oppa {"), 0);
  EXPECT_EQ(Count(common::ReadFile(reports), "step_time_s"), 2);
}

TEST_F(TrainProgram, CountsMemoryWithoutTraining) {
  const auto report = folder_.path() / "report.json";
  const std::string config = "--config dp=2,tp=1,pp=2,microbatches=2 ";
  ASSERT_EQ(Run(config + "--steps 1 --report " + report.string()).code, 0);
  const common::Json trial = common::ReadJson(report);
  const Ended ended = Run(config + "--count");
  EXPECT_EQ(ended.code, 0);
  const common::Json counted = common::ParseJson(ended.output, "output");
  ASSERT_EQ(counted.at("ranks").size(), 2U);
  for (const int stage : {0, 1}) {
    EXPECT_EQ(counted.at("ranks")[stage].at("region_peak_bytes"),
              trial.at("ranks")[stage].at("region_peak_bytes"));
  }
}

TEST_F(TrainProgram, RejectsBadInputWithOneLine) {
  for (const auto& [options, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"--config dp=1,tp=3,pp=1",
            "tp must divide the number of attention heads"},
           {"--config dp=1,tq=3", "tq"},
           {"--backend tpu", "tpu"},
           {"--fault now", "invalid value 'now' for --fault"},
           {"--local-ranks 2 --config dp=4,tp=1,pp=1", "--local-ranks"}}) {
    const Ended ended = Run(options);
    EXPECT_EQ(ended.code, 2) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(message));
    EXPECT_EQ(Count(ended.output, "\n"), 1) << ended.output;
  }
}

TEST_F(TrainProgram, ARankThatDiesHangsOrLeavesFailsTheTrial) {
  for (const auto& [kind, message] :
       {std::pair{"die", "rank 2: fault in step 1"},
        std::pair{"hang", "not all ranks entered"},
        std::pair{"leave", "not all ranks entered"}}) {
    const Ended ended = Fault(kind);
    EXPECT_EQ(ended.code, 1) << kind;
    EXPECT_THAT(ended.output, HasSubstr(R"(oppa {"status":"failed")"));
    EXPECT_THAT(ended.output, HasSubstr(message));
    EXPECT_LT(ended.seconds, kSoon);
  }
}

TEST_F(TrainProgram, AnAllocationTooMuchOnOneRankIsOutOfMemory) {
  const Ended ended = Fault("memory");
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr(R"(oppa {"status":"out_of_memory")"));
  EXPECT_THAT(ended.output, HasSubstr("rank 2"));
  EXPECT_EQ(Count(ended.output, "step_time_s"), 1);
}

TEST_F(TrainProgram, StopsInTheMiddleOfAStepWhenTerminated) {
  // A step takes minutes.
  const Ended ended =
      Run("--config dp=2,tp=1,pp=1,microbatches=4096 --steps 10",
          "timeout --preserve-status --signal=TERM 1",
          "--batch-size 65536 --sequence-length 256");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(Count(ended.output, "step_time_s"), 0);
  EXPECT_THAT(ended.output, HasSubstr("stopped by signal 15"));
  EXPECT_LT(ended.seconds, kSoon);
}

}  // namespace trainer::program_test
