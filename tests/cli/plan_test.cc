// The command `oppa plan`.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/program_test.h"

namespace cli::plan_test {

using testing::AllOf;
using testing::HasSubstr;

class ForecastCommand : public fakes::ProgramTest {
 protected:
  // Exit code of `oppa plan` for Llama-3-8B with these words in addition.
  int Forecast(const std::string& words, const std::string& gpus = "2x8",
               const std::string& gpu = "h100") {
    return Oppa(
        "plan --model workloads/llama-3-8b.json --batch 256 --seq 8192 "
        "--gpus " +
        gpus + " --gpu " + gpu + (words.empty() ? "" : " ") + words);
  }
};

TEST_F(ForecastCommand, AnswersInOneCommandWithoutAManifest) {
  ASSERT_EQ(Forecast(""), 0) << errors_;
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("16 GPUs (2 nodes of 8), H100-SXM5-80GB"),
            HasSubstr("megatron-core): "), HasSubstr("dp=16 ZeRO-3"),
            HasSubstr("tok/s/GPU"), HasSubstr("MFU"),
            HasSubstr("in nine of ten cases)"), HasSubstr("more: --details")));
  ASSERT_EQ(Forecast("--details"), 0) << errors_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("in nine of ten cases ("),
                    HasSubstr("not offered:"), HasSubstr("out of memory")));
}

TEST_F(ForecastCommand, JsonAndCsvAreParsable) {
  ASSERT_EQ(Forecast("--json --framework fsdp2 --layouts 2"), 0);
  const auto json = nlohmann::json::parse(output_);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["layouts"].size(), 2U);
  const auto& best = json[0]["layouts"][0];
  EXPECT_GT(best["mfu"], 0.2);
  EXPECT_LT(json[0]["bands"]["step_time_s"][0], best["step_time_s"]);
  EXPECT_GT(json[0]["bands"]["peak_memory_bytes"][1],
            best["peak_memory_bytes"]);
  EXPECT_EQ(json[0]["model"], "llama-3-8b");
  EXPECT_EQ(json[0]["batch_size"], 256);
  EXPECT_EQ(json[0]["nodes"], 2);
  EXPECT_EQ(json[0]["gpu"], "H100-SXM5-80GB");
  EXPECT_GE(json[0]["advice"].size(), 3U);
  ASSERT_EQ(Forecast("--csv --framework fsdp2"), 0);
  EXPECT_THAT(output_, testing::StartsWith("framework,layout,"));
  ASSERT_EQ(Forecast("--csv --framework fsdp2 --layouts 2 --headroom 0"), 0);
  EXPECT_EQ(std::ranges::count(output_, '\n'), 3);
  const std::vector<std::string_view> lines = common::Split(output_, '\n');
  const auto names = common::Split(lines[0], ',');
  const auto cells = common::Split(lines[1], ',');
  const auto cell = [&](std::string_view name) {
    return std::stoi(
        std::string(cells[std::ranges::find(names, name) - names.begin()]));
  };
  EXPECT_EQ(cell("dp") * cell("microbatches") * cell("micro_batch_size"), 256);
}

TEST_F(ForecastCommand, SeveralSizesShowEfficiencyAndPrice) {
  ASSERT_EQ(Forecast("--framework fsdp2 --price 2", "8..32"), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("effic."), HasSubstr("cost/B"),
                             HasSubstr("  32 ")));
}

TEST_F(ForecastCommand, APriceShowsWhatAStepCosts) {
  ASSERT_EQ(Forecast("--framework fsdp2 --price 2 --json"), 0);
  const auto json = nlohmann::json::parse(output_)[0];
  const double step_s = json["layouts"][0]["step_time_s"];
  EXPECT_NEAR(json["price_per_step"], 16 * 2 * step_s / 3600, 1e-9);
  ASSERT_EQ(Forecast("--framework fsdp2 --price 2"), 0);
  EXPECT_THAT(output_, HasSubstr("cost: 0.1"));
}

// Where GPUs scale worse, more of them cost more: the limit decides.
TEST_F(ForecastCommand, ALimitOnMoneyGivesTheFastestTrainingWithinIt) {
  const auto within = [this](const std::string& limit) {
    return Forecast(
        "--framework fsdp2 --price 2 --steps 1000 --json "
        "--most-money " +
            limit,
        "8..32");
  };
  ASSERT_EQ(within("1e9"), 0) << errors_;
  const auto all = nlohmann::json::parse(output_);
  const auto cost = [&all](int i) {
    const auto& point = all["fsdp2"][i];
    return 1000 * point["step_time_s"].get<double>() / 3600 * 2 *
           point["gpus"].get<double>();
  };
  ASSERT_LT(cost(0), cost(1));
  ASSERT_LT(cost(1), cost(2));
  EXPECT_EQ(all["within_limit"]["gpus"], 32);
  ASSERT_EQ(within(std::to_string(0.5 * (cost(1) + cost(2)))), 0);
  const auto best = nlohmann::json::parse(output_)["within_limit"];
  EXPECT_EQ(best["gpus"], 16);
  EXPECT_NEAR(best["money"], cost(1), 1e-6 * cost(1));
  EXPECT_EQ(within("1"), 2);
  EXPECT_THAT(errors_, HasSubstr("--most-money 1: no plan trains 1000 steps "
                                 "for that; the cheapest is fsdp2 on 8 GPUs"));
}

TEST_F(ForecastCommand, BadInputNamesTheOptionAndTheRemedy) {
  const auto refused = [this](const std::string& words,
                              const std::string& gpus = "2x8",
                              const std::string& gpu = "h100") {
    EXPECT_EQ(Forecast(words, gpus, gpu), 2);
    return errors_;
  };
  EXPECT_THAT(refused("", "2x8", "h10"), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(refused("", "12"), HasSubstr("--gpus 12: 12 GPUs do not fill"));
  EXPECT_THAT(refused("--framework megatronn"),
              HasSubstr("--framework megatronn: "));
  EXPECT_THAT(refused("--precision bf61"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(refused("--why dq=3"), HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(refused("--why ="), HasSubstr("--why"));
  EXPECT_EQ(
      Oppa(Words{"plan", "--model", "workloads/llama-3-8b.json", "--gpus", "8",
                 "--gpu", "h100", "--batch", "8", "--seq", "512", "--why", ""}),
      2);
  EXPECT_THAT(errors_, HasSubstr("--why: it is empty"));
  EXPECT_EQ(Forecast("--precision BF16 --layouts 1"), 0) << errors_;
  EXPECT_THAT(refused("", "2x9", "v100"), HasSubstr("so many GPUs of a node"));
  EXPECT_THAT(refused("--headroom 100"), HasSubstr("percentage < 100"));
  EXPECT_THAT(refused("--framework megatron-lm --calibrate none"),
              HasSubstr("no such CSV file"));
  EXPECT_THAT(refused("--save-calibration c.toml"),
              HasSubstr("it needs --calibrate RESULTS"));
  EXPECT_THAT(refused("--csv", "8..16"), HasSubstr("needs one size"));
  EXPECT_THAT(refused("--most-money 5 --price 2"),
              HasSubstr("--most-money, --steps and --price belong together"));
  EXPECT_THAT(refused("--rule $tpp>1"), HasSubstr("did you mean 'tp'?"));
  EXPECT_THAT(refused("--framework deepspeed --config-file none.json"),
              HasSubstr("--config-file none.json: there is no such file"));
  EXPECT_THAT(refused("--framework megatron-lm --config-file none.toml"),
              HasSubstr("no file of megatron-lm is read for a forecast"));
  const auto model = [this](const std::string& name) {
    EXPECT_EQ(Oppa("plan --model " + name +
                   " --gpus 8 --gpu h100 --batch 8 --seq 512"),
              2);
    return errors_;
  };
  Write("new.json", R"({"model_type": "rwkv", "hidden_size": 768,
      "num_hidden_layers": 24, "vocab_size": 50280})");
  EXPECT_THAT(model("new.json"), HasSubstr("unknown model_type 'rwkv'"));
  EXPECT_THAT(model("new.json --as lama"), HasSubstr("did you mean 'llama'?"));
  EXPECT_THAT(model("workloads/llama-3-8b.json --parameters 7b"),
              HasSubstr("--parameters says 7 billion"));
  EXPECT_THAT(model("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_EQ(Oppa("plan"), 2);
  EXPECT_THAT(errors_, HasSubstr("missing --model --gpus --batch --seq;"));
}

TEST_F(ForecastCommand, AdaptersPrintNoCommandForAnotherModel) {
  const std::string model =
      (fakes::SourceFolder() / "tests/reference/models/olmo-2-7b.json")
          .string();
  EXPECT_EQ(
      Oppa("adapters megatron-lm --pc dp=8 --batch 64 --seq 512 --model " +
           model),
      2);
  EXPECT_THAT(errors_, HasSubstr("no command: it has no flags for a part"));
  EXPECT_EQ(Oppa("adapters deepspeed --pc dp=8 --batch 64 --seq 512 --model " +
                 model),
            0)
      << errors_;
}

TEST_F(ForecastCommand, AModelIsReadAsAnotherTypeOnRequest) {
  Write("new.json", R"({"model_type": "new", "hidden_size": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 2048, "vocab_size": 50304})");
  const std::string rest =
      " --gpus 8 --gpu h100 --batch 64 --seq 512 --framework megatron-lm";
  EXPECT_EQ(Oppa("plan --model new.json --as llama --parameters 162m" + rest),
            0)
      << errors_;
  EXPECT_THAT(output_,
              HasSubstr("note: model_type 'new' is read as llama, as --as"));
  EXPECT_EQ(Oppa("plan --model new.json --as mamba" + rest), 0) << errors_;
  EXPECT_THAT(output_, testing::StartsWith(
                           "a guess: no or few measurements to compare with: "
                           "state-space"));
  EXPECT_THAT(output_, HasSubstr("no command"));
}

}  // namespace cli::plan_test
