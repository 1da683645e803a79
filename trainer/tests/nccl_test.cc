// Ranks that are processes, as NCCL needs them, with the stand-in for NCCL of
// this folder and the emulated device.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trainer/tests/tiny.h"

namespace trainer::nccl_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const std::string kGpt2 =
    R"({"model_type": "gpt2", "n_layer": 4, "n_embd": 16, "n_head": 2,
        "n_positions": 16, "vocab_size": 61})";
const std::string kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16,
        "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 61})";
const std::string kMixtral =
    R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 16,
        "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 16, "vocab_size": 61,
        "num_local_experts": 4, "num_experts_per_tok": 2})";

class NcclProcesses : public ::testing::Test {
 protected:
  void SetUp() override { OPPA_SKIP_IF_SANITIZED(); }
  // Trains on `ranks` processes, each of which may take 90 seconds, and on as
  // many threads. Returns the output of each process, with its exit code at the
  // end.
  std::vector<std::string> Run(int ranks, const std::string& model,
                               const std::string& options) {
    const auto program =
        std::filesystem::path(fakes::ProgramFile()).parent_path() /
        "oppa-train";
    const std::string folder =
        (folder_.path() / std::to_string(++runs_)).string();
    fakes::WriteFile(folder + "/config.json", model);
    const std::string job = program.string() +
                            " --model config.json --batch-size 8 "
                            "--sequence-length 8 --steps 2 " +
                            options;
    std::system(("cd " + folder + " && " + job +
                 " --backend emulated --precision float --comm threads "
                 "--report threads.json > threads.out 2>&1; "
                 "for rank in $(seq 0 " +
                 std::to_string(ranks - 1) + "); do ( TMPDIR=. timeout 90 " +
                 job +
                 " --backend emulated --precision float --comm nccl "
                 "--local-ranks 1 --rendezvous ./meet --first-rank $rank "
                 "--report $rank.json; echo exit $? ) > $rank.out 2>&1 & "
                 "done; wait")
                    .c_str());
    std::vector<std::string> outputs;
    for (int rank = 0; rank < ranks; ++rank) {
      outputs.push_back(
          common::ReadFile(folder + "/" + std::to_string(rank) + ".out"));
    }
    return outputs;
  }
  [[nodiscard]] std::vector<double> Losses(const std::string& report) const {
    const auto file = folder_.path() / std::to_string(runs_) / report;
    return common::ParseJson(common::ReadFile(file), report)
        .at("losses")
        .get<std::vector<double>>();
  }

  fakes::TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(NcclProcesses, HaveTheLossesOfThreads) {
  struct Case {
    std::string model, config;
  };
  for (const auto& [model, config] :
       std::vector<Case>{{kLlama, "dp=2,tp=2,sp=2,zero_stage=1"},
                         {kGpt2, "pp=2,microbatches=4,model_chunks=2,dp=2"},
                         {kMixtral, "dp=2,ep=2,zero_stage=3,cp=2"}}) {
    SCOPED_TRACE(config);
    const auto outputs = Run(4, model, "--config " + config);
    EXPECT_THAT(outputs, Each(HasSubstr("exit 0")));
    const auto expected = Losses("threads.json");
    const auto losses = Losses("0.json");
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-5);
    }
  }
}

TEST_F(NcclProcesses, ARankThatHangsEndsWithTheOthers) {
  EXPECT_THAT(Run(2, kGpt2, "--config dp=2 --timeout-s 2 --fault hang:1:1"),
              Each(AllOf(HasSubstr("waited for"), HasSubstr("for 2 s"),
                         HasSubstr("exit 1"))));
}

TEST_F(NcclProcesses, ARankThatDiesOrHasNoMemoryEndsTheOthers) {
  EXPECT_THAT(
      Run(2, kGpt2, "--config dp=2 --fault die:1:1"),
      Each(AllOf(HasSubstr("rank 1: fault in step 1"), HasSubstr("exit 1"))));
  EXPECT_THAT(Run(2, kGpt2, "--config dp=2 --fault memory:1:1"),
              Each(AllOf(HasSubstr("out_of_memory"), HasSubstr("exit 0"))));
}

TEST_F(NcclProcesses, NcclWithoutMemoryIsOutOfMemory) {
  ::setenv("NCCL_STAND_IN_HAS_NO_MEMORY", "1", 1);
  const auto outputs = Run(2, kGpt2, "--config dp=2");
  ::unsetenv("NCCL_STAND_IN_HAS_NO_MEMORY");
  EXPECT_THAT(outputs,
              Each(AllOf(HasSubstr("out_of_memory"), HasSubstr("ncclCommSplit"),
                         HasSubstr("exit 0"))));
}

}  // namespace trainer::nccl_test
