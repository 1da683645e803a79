// The command `oppa plan`.

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace cli::plan_test {

using testing::AllOf;
using testing::HasSubstr;

class ForecastCommand : public testing::Test {
 protected:
  // Exit code of `oppa plan` for Llama-3-8B with these words in addition.
  int Forecast(std::vector<std::string> words, const std::string& gpus = "2x8",
               const std::string& gpu = "h100") {
    const std::string model =
        (fakes::SourceFolder() / "experiments/workloads/llama-3-8b.json")
            .string();
    words.insert(words.begin(), {fakes::ProgramFile().string(), "plan",
                                 "--model", model, "--gpus", gpus, "--gpu", gpu,
                                 "--batch", "256", "--seq", "8192"});
    return Run(words);
  }
  int Run(const std::vector<std::string>& words) {
    std::string command;
    for (const std::string& word : words) {
      command += "'" + word + "' ";
    }
    const std::string file = (folder_.path() / "output").string();
    const int status = std::system((command + "> " + file + " 2>&1").c_str());
    output_ = fakes::ReadFile(file);
    return WEXITSTATUS(status);
  }
  fakes::TemporaryFolder folder_;
  std::string output_;
};

TEST_F(ForecastCommand, AnswersInOneCommandWithoutAManifest) {
  ASSERT_EQ(Forecast({}), 0) << output_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("16 GPUs (2 nodes of 8), H100-SXM5-80GB"),
                    HasSubstr("megatron-core: "), HasSubstr("dp=16 ZeRO-3"),
                    HasSubstr("tok/s/GPU"), HasSubstr("MFU"),
                    HasSubstr("in nine of ten cases ("),
                    HasSubstr("not offered:"), HasSubstr("out of memory")));
}

TEST_F(ForecastCommand, JsonAndCsvAreParsable) {
  ASSERT_EQ(Forecast({"--json", "--framework", "fsdp2", "--layouts", "2"}), 0);
  const auto json = nlohmann::json::parse(output_);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["layouts"].size(), 2U);
  EXPECT_GT(json[0]["layouts"][0]["mfu"], 0.2);
  ASSERT_EQ(Forecast({"--csv", "--framework", "fsdp2"}), 0);
  EXPECT_THAT(output_, testing::StartsWith("framework,layout,"));
}

TEST_F(ForecastCommand, SeveralSizesShowEfficiencyAndPrice) {
  ASSERT_EQ(Forecast({"--framework", "fsdp2", "--price", "2"}, "8..32"), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("effic."), HasSubstr("cost/B"),
                             HasSubstr("  32 ")));
}

TEST_F(ForecastCommand, BadInputNamesTheOptionAndTheRemedy) {
  const auto refused = [this](const std::vector<std::string>& words,
                              const std::string& gpus = "2x8",
                              const std::string& gpu = "h100") {
    EXPECT_EQ(Forecast(words, gpus, gpu), 2);
    return output_;
  };
  EXPECT_THAT(refused({}, "2x8", "h10"), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(refused({}, "12"), HasSubstr("--gpus 12: 12 GPUs do not fill"));
  EXPECT_THAT(refused({"--framework", "megatronn"}),
              HasSubstr("--framework megatronn: "));
  EXPECT_THAT(refused({"--precision", "bf61"}),
              HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(refused({"--why", "dq=3"}), HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(refused({"--headroom", "100"}), HasSubstr("percentage < 100"));
  EXPECT_THAT(refused({"--calibrate", "none"}), HasSubstr("no such CSV file"));
  EXPECT_THAT(refused({"--csv"}, "8..16"), HasSubstr("needs one size"));
  EXPECT_THAT(refused({"--rule", "$tpp > 1"}), HasSubstr("did you mean 'tp'?"));
  EXPECT_EQ(Run({fakes::ProgramFile().string(), "plan"}), 2);
  EXPECT_THAT(output_, HasSubstr("--model, --gpus, --batch and --seq"));
}

}  // namespace cli::plan_test
