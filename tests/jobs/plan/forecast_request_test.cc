#include "jobs/plan/forecast_request.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "jobs/plan/forecast_text.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::forecast_request_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The request of SmallJob.
ForecastRequest Small(const std::string& framework = "torchtitan") {
  ForecastRequest request;
  request.model = kSmallModel;
  request.gpus = "4";
  request.machine.gpu = "h100";
  request.batch_size = 64;
  request.sequence_length = 2048;
  request.frameworks = {framework};
  return request;
}

common::Json JsonOf(ForecastRequest request) {
  request.format = OutputFormat::kJson;
  return common::ParseJson(RunPlan(request).text, "plan");
}

TEST(RunPlan, AnswersWithTheForecastOfTheJob) {
  const Planned plan(SmallJob());
  const common::Json json = JsonOf(Small());
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["layouts"][0]["config"], ToString(plan.best().config));
  EXPECT_EQ(json[0]["candidates"], plan.forecast.candidates);
  ForecastRequest request = Small();
  request.details = true;
  EXPECT_EQ(
      RunPlan(request).text,
      JobText(plan.forecaster.job()) + "\n" +
          ForecastText(plan.forecaster, plan.forecast, {.details = true}));
}

// An option without an effect would be an answer to another question.
TEST(RunPlan, RefusesOptionsThatWouldNotCount) {
  const auto error = [](void (*set)(ForecastRequest&)) {
    ForecastRequest request = Small();
    set(request);
    return fakes::ErrorOf([&] { return RunPlan(request).text; });
  };
  EXPECT_THAT(
      error([](auto& one) {
        one.training_assumptions.grams_co2_per_kwh = 400;
        one.training_assumptions.restart_minutes = 1;
      }),
      HasSubstr("--co2, --restart-minutes can only be used with --tokens"));
  EXPECT_THAT(error([](auto& one) { one.step_time = "took (.*)"; }),
              HasSubstr("--log"));
  EXPECT_THAT(error([](auto& one) { one.accept_foreign = true; }),
              HasSubstr("--calibrate or --calibration"));
  EXPECT_THAT(error([](auto& one) {
                one.training_assumptions.tokens = 1e12;
                one.why = "dp=4";
              }),
              HasSubstr("--tokens and --why are several questions"));
  EXPECT_THAT(error([](auto& one) {
                one.training_assumptions.tokens = 1e12;
                one.write.path = "folder";
                one.trace = "trace.json";
              }),
              HasSubstr("--write, --trace cannot be combined with --tokens"));
  EXPECT_THAT(error([](auto& one) {
                one.compare = {"dp=4"};
                one.html = "page.html";
              }),
              HasSubstr("--html cannot be combined with --compare"));
}

TEST(RunPlan, RefusesConstantsThatBeatThePeakRateOfTheGpus) {
  ForecastRequest request = Small();
  request.constants = {"gemm_speed=20"};
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("% of the peak rate of 4 H100"));
}

TEST(RunPlan, SaysWhatOfAHighUtilizationTheMaskHides) {
  ForecastRequest request = Small();
  EXPECT_THAT(RunPlan(request).text, Not(HasSubstr("mask hides")));
  request.batch_size = 4;
  request.sequence_length = 65536;
  EXPECT_THAT(RunPlan(request).text, HasSubstr("mask hides"));
}

TEST(RunPlan, SaysHowOftenJobsOnSuchAClusterWereMuchSlower) {
  ForecastRequest request = Small("nanotron");
  request.machine.gpu.clear();
  request.machine.cluster = "h100-efa";
  request.gpus = "2x8";
  EXPECT_THAT(RunPlan(request).text, HasSubstr("29% of 613 jobs"));
  request.gpus = "1x8";
  EXPECT_THAT(RunPlan(request).text, testing::Not(HasSubstr("613 jobs")));
}

// A plan with such a file, or why there is none.
std::string WithFile(const std::string& text, const std::string& precision = "",
                     const std::string& training = "",
                     const std::string& framework = "deepspeed") {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small(framework);
  request.model = Llama8b();
  request.machine.gpu = "b300";
  request.config_file = folder.path() / "mine.json";
  fakes::WriteFile(request.config_file, text);
  request.precision = precision;
  if (!training.empty()) {
    request.training = {training};
  }
  std::string answer;
  const std::string error =
      fakes::ErrorOf([&] { answer = RunPlan(request).text; });
  return answer + error;
}

TEST(ConfigFile, DeepSpeedTrainsInFp32UnlessItsFileSaysOtherwise) {
  EXPECT_THAT(WithFile("{}"), HasSubstr("2048 tokens, fp32"));
  EXPECT_THAT(WithFile(R"({"bf16": {"enabled": false}})"),
              HasSubstr("2048 tokens, fp32"));
  EXPECT_THAT(WithFile(R"({"fp16": {"enabled": true}})"),
              HasSubstr("2048 tokens, fp16"));
  EXPECT_THAT(WithFile(R"({"bf16": {"enabled": "auto"}})"),
              HasSubstr("2048 tokens, bf16"));
}

TEST(ConfigFile, WhatContradictsItIsNamed) {
  const std::string bf16 = R"({"bf16": {"enabled": true},
      "data_types": {"grad_accum_dtype": "bf16"},
      "optimizer": {"type": "Adam"}})";
  EXPECT_THAT(WithFile("{}", "bf16"),
              HasSubstr("mine.json: it trains with precision=fp32, and the "
                        "options say precision=bf16"));
  EXPECT_THAT(WithFile(bf16, "fp16"), HasSubstr("precision=bf16"));
  EXPECT_THAT(WithFile(bf16, "", "optimizer=sgd"), HasSubstr("optimizer=sgd"));
  EXPECT_THAT(WithFile(bf16, "", "fp32_gradients=true"),
              HasSubstr("it trains with fp32_gradients=false"));
  EXPECT_THAT(WithFile(R"({"train_batch_size": 128})"),
              HasSubstr("mine.json: train_batch_size = 128: the command sets "
                        "64"));
  EXPECT_THAT(WithFile(R"({"zero_optimization": {"stage": 0,
                  "offload_optimizer": {"device": "cpu"}}})"),
              HasSubstr("zero_optimization.stage = 0: the command sets"));
  EXPECT_THAT(WithFile("{"), HasSubstr("mine.json"));
  EXPECT_THAT(WithFile(R"({"bf16": true})"), HasSubstr("mine.json"));
}

TEST(ConfigFile, TheCommandKeepsItsOtherKeys) {
  const std::string text = WithFile(R"({"bf16": {"enabled": true},
      "gradient_clipping": 0.5, "optimizer": {"type": "Adam"},
      "zero_optimization": {"offload_optimizer": {"device": "nvme",
                                                  "nvme_path": "/drive"}}})");
  for (const char* kept : {R"("gradient_clipping": 0.5)", R"("device": "nvme")",
                           R"("nvme_path": "/drive")", R"("type": "Adam")"}) {
    EXPECT_THAT(text, HasSubstr(kept));
  }
  EXPECT_THAT(WithFile(R"({"zero_optimization": {"cpu_offload": true}})"),
              testing::Not(HasSubstr("\"offload_optimizer\"")));
}

TEST(ConfigFile, EveryFormatOfAFrameworkIsRead) {
  EXPECT_THAT(WithFile("mixed_precision: fp16\nfsdp_config:\n"
                       "  fsdp_offload_params: true\n  fsdp_new_key: 1\n",
                       "", "", "accelerate-fsdp"),
              AllOf(HasSubstr("2048 tokens, fp16"),
                    HasSubstr("optimizer and parameters on the host"),
                    HasSubstr("fsdp_config.fsdp_new_key = 1: not understood")));
  EXPECT_THAT(
      WithFile("[training]\nmixed_precision_param = \"float32\"\n"
               "[model]\nconverters = [\"float8\"]\n",
               "", "", "torchtitan"),
      AllOf(HasSubstr("2048 tokens, fp32"), HasSubstr("model.converters")));
  EXPECT_THAT(WithFile("model:\n  dtype: float32\n", "", "", "nanotron"),
              HasSubstr("2048 tokens, fp32"));
  EXPECT_THAT(
      WithFile(R"({"offload_params": true})", "", "", "hf-trainer-fsdp"),
      HasSubstr("optimizer and parameters on the host"));
  EXPECT_THAT(WithFile("{}", "", "", "megatron-lm"),
              HasSubstr("no file of megatron-lm is read"));
}

TEST(RunPlan, GradientsThatAreSummedInFp32AnywayChangeNothing) {
  for (const char* framework : {"megatron-lm", "torchtitan"}) {
    ForecastRequest request = Small(framework);
    const std::string usual = RunPlan(request).text;
    request.training = {"fp32_gradients=true"};
    EXPECT_EQ(RunPlan(request).text, usual);
  }
  ForecastRequest request = Small("megatron-lm");
  request.precision = "fp16";
  request.training = {"fp32_gradients=true"};
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("--accumulate-allreduce-grads-in-fp32"));
  request = Small("deepspeed");
  request.model = Llama8b();
  request.machine.gpu = "b300";
  request.training = {"fp32_gradients=true"};
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("\"grad_accum_dtype\": \"fp32\""));
}

TEST(RunPlan, OnlyQuantizedWeightsLeaveSomethingToUpcast) {
  ForecastRequest request = Small();
  request.training = {"upcast=true"};
  EXPECT_THAT(fakes::ErrorOf([&] { (void)RunPlan(request); }),
              HasSubstr("give frozen_bits=4 or 8"));
  request.training = {"upcast=true", "frozen_bits=4", "lora_rank=8"};
  EXPECT_THAT(RunPlan(request).text, HasSubstr("in 4 bits, the rest in 32"));
}

TEST(RunPlan, WithoutAFrameworkItPlansForTwo) {
  ForecastRequest request = Small();
  request.frameworks.clear();
  const common::Json json = JsonOf(request);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["adapter"], "megatron-lm");
  EXPECT_EQ(json[1]["adapter"], "torchtitan");
  EXPECT_EQ(json[1], JsonOf(Small())[0]) << "each as if it were alone";
}

TEST(RunPlan, ACsvHasOneHeaderAndTheLayoutsOfEachFramework) {
  ForecastRequest request = Small();
  request.frameworks = {"megatron-lm", "torchtitan"};
  request.format = OutputFormat::kCsv;
  request.layouts = 2;
  const std::string csv = RunPlan(request).text;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 2);
  EXPECT_THAT(csv, AllOf(testing::StartsWith("framework,layout,"),
                         HasSubstr("\nmegatron-core,"), HasSubstr("\nfsdp2,")));
}

TEST(RunPlan, OptionsThatDoNotGoTogetherAreRefusedByName) {
  using Change = std::function<void(ForecastRequest&)>;
  struct Case {
    const char* message;
    Change change;
  };
  const std::vector<Case> cases = {
      {"--precision int4: unknown precision",
       [](auto& of) { of.precision = "int4"; }},
      {"--headroom 100: must be a percentage",
       [](auto& of) { of.headroom_percent = 100.0; }},
      {"--why: it is empty", [](auto& of) { of.why = ""; }},
      {"--most-money, --steps and --price", [](auto& of) { of.steps = 5.0; }},
      {"--most-money, --steps and --price",
       [](auto& of) { of.most_money = of.steps = 5.0; }},
      {"--calibration and --calibrate exclude",
       [](auto& of) { of.calibrate = of.calibration = "a"; }},
      {"--save-calibration a: it needs --calibrate",
       [](auto& of) { of.save_calibration = "a"; }},
      {"--save-calibration a: it needs --calibrate",
       [](auto& of) {
         of.save_calibration = of.calibrate = "a";
         of.gpus = "2..4";
       }},
      {"--log needs one --framework",
       [](auto& of) {
         of.logs = {"a"};
         of.frameworks.emplace_back("megatron-lm");
       }},
      {"--slurm, --k8s and --force belong",
       [](auto& of) { of.write.slurm = true; }},
      {"--slurm, --k8s and --force belong",
       [](auto& of) { of.write.force = true; }},
      {"--config is the configuration of a run",
       [](auto& of) { of.config = "dp=4"; }},
      {"--why needs one size of the machine, not 2..4",
       [](auto& of) {
         of.gpus = "2..4";
         of.why = "dp=4";
       }},
      {"--write needs one size of the machine, not 2..4",
       [](auto& of) {
         of.gpus = "2..4";
         of.write.path = "a";
       }},
      {"--csv needs one size of the machine, not 4 with --most-money",
       [](auto& of) {
         of.format = OutputFormat::kCsv;
         of.most_money = of.steps = of.valuation.price_per_gpu_hour = 1.0;
       }},
      {"--rule", [](auto& of) { of.rules = {"$no_such > 1"}; }},
      {"--constant", [](auto& of) { of.constants = {"no_such=1"}; }},
      {"--constant",
       [](auto& of) {
         of.constants = {"gemm_speed=2", "gemm_speed=3"};
       }},
      {"the precision is fp32 or bf16, leave one of them out",
       [](auto& of) {
         of.training = {"precision=fp32"};
         of.precision = "bf16";
       }},
      {"--calibrate none: there is no such",
       [](auto& of) { of.calibrate = "none"; }},
  };
  for (const auto& [message, change] : cases) {
    ForecastRequest request = Small();
    change(request);
    EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
                HasSubstr(message));
  }
}

TEST(RunPlan, AJobWithoutAValidConfigurationIsAnErrorOnlyIfItIsAlone) {
  ForecastRequest request = Small("deepspeed");
  request.batch_size = 63;  // on 4 GPUs by data parallelism only
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              AllOf(testing::StartsWith("deepspeed (deepspeed): none of the"),
                    HasSubstr("what makes one possible: --batch 64")));
  request.frameworks = {"deepspeed", "torchtitan"};
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("\ndeepspeed (deepspeed): none of"));
  const common::Json json = JsonOf(request);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_THAT(json[0]["problem"].get<std::string>(), HasSubstr("none of the"));
  EXPECT_FALSE(json[1].contains("problem"));
}

TEST(RunPlan, AnAnswerTakesThePlaceOfThePlan) {
  ForecastRequest request = Small();
  request.why = "dp=4";
  EXPECT_THAT(RunPlan(request).text,
              AllOf(HasSubstr("\nfsdp2: dp=4,"), Not(HasSubstr("tok/s/GPU"))));
  const common::Json json = JsonOf(request);
  EXPECT_EQ(json[0]["framework"], "fsdp2");
  EXPECT_THAT(json[0]["text"].get<std::string>(),
              testing::StartsWith("fsdp2: dp=4,"));
  EXPECT_FALSE(json[0].contains("layouts"));
}

TEST(RunPlan, ARuleOfTheUserRemovesItsConfigurationsFromThePlan) {
  ForecastRequest request = Small("megatron-lm");
  request.layouts = 100;
  const auto has_tensor = [&] {
    const common::Json layouts = JsonOf(request)[0]["layouts"];
    return std::ranges::any_of(layouts, [](const common::Json& layout) {
      return layout["layout"].get<std::string>().find("tp=") !=
             std::string::npos;
    });
  };
  EXPECT_TRUE(has_tensor());
  request.rules = {"$tp > 1"};
  EXPECT_FALSE(has_tensor());
}

TEST(RunPlan, APriceAddsTheCostOfAStep) {
  ForecastRequest request = Small();
  EXPECT_FALSE(JsonOf(request)[0].contains("price_per_step"));
  request.valuation.price_per_gpu_hour = 3.0;
  const common::Json json = JsonOf(request)[0];
  const double step_s = json["layouts"][0]["step_time_s"];
  EXPECT_NEAR(json["price_per_step"], step_s / 3600.0 * 4 * 3.0, 1e-12);
  // A step has 64 x 2048 tokens.
  EXPECT_NEAR(json["price_per_billion_tokens"],
              step_s / 3600.0 * 4 * 3.0 * 1e9 / (64.0 * 2048.0), 1e-6);
  EXPECT_THAT(RunPlan(request).text, HasSubstr(", at 3 per GPU hour\n"));
}

TEST(RunPlan, ALargerSizeIsAsEfficientAsItsThroughputPerGpuSays) {
  ForecastRequest request = Small();
  request.gpus = "2..8";
  const common::Json points = JsonOf(request)["torchtitan"];
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0]["efficiency"], 1.0);
  for (const common::Json& point : points) {
    const double gpus = point["gpus"];
    EXPECT_NEAR(point["efficiency"],
                point["tokens_per_s"].get<double>() / gpus /
                    (points[0]["tokens_per_s"].get<double>() / 2.0),
                1e-9);
    EXPECT_NEAR(point["tokens_per_s"],
                64.0 * 2048.0 / point["step_time_s"].get<double>(), 1e-3);
    EXPECT_NEAR(point["hours_per_billion_tokens"],
                1e9 / point["tokens_per_s"].get<double>() / 3600.0, 1e-9);
  }
  request.gpus = "4";
  EXPECT_EQ(points[1]["config"], JsonOf(request)[0]["layouts"][0]["config"]);
}

TEST(RunPlan, EverySizeSaysWhatIsAGuess) {
  for (const auto& [gpu, is_guess] :
       {std::pair("h100", false), std::pair("mi300x", true)}) {
    ForecastRequest request = Small();
    request.machine.gpu = gpu;
    const common::Json one = JsonOf(request)[0]["guess"];
    request.gpus = "2..4";
    const common::Json answer = JsonOf(request);
    for (const common::Json& point : answer["torchtitan"]) {
      EXPECT_EQ(point["guess"], one);
      EXPECT_EQ(point["guess"].empty(), !is_guess) << gpu;
    }
  }
}

TEST(RunPlan, ASizeWithoutALayoutSaysWhy) {
  ForecastRequest request = Small("deepspeed");
  request.gpus = "2,3x1,4";
  request.machine.inter_gb_per_s = 10.0;
  const common::Json points = JsonOf(request)["deepspeed"];
  EXPECT_THAT(points[1]["problem"].get<std::string>(), HasSubstr("is valid"));
  EXPECT_TRUE(points[2].contains("config"));
  request.headroom_percent = 99.0;
  EXPECT_THAT(JsonOf(request)["deepspeed"][0]["problem"].get<std::string>(),
              testing::ContainsRegex("does not fit: [0-9.]+ GB at least"));
}

TEST(RunPlan, ALimitOnMoneyFindsTheFastestTrainingWithinIt) {
  ForecastRequest request = Small();
  request.gpus = "1..8";
  request.steps = 10000.0;
  request.valuation.price_per_gpu_hour = 2.0;
  const auto within = [&](double most_money) {
    request.most_money = most_money;
    return JsonOf(request)["within_limit"];
  };
  const common::Json points = [&] {
    ForecastRequest unlimited = request;
    unlimited.steps = 0.0;
    return JsonOf(unlimited)["torchtitan"];
  }();
  const auto money_of = [](const common::Json& point) {
    return point["step_time_s"].get<double>() * 1e4 / 3600.0 *
           point["gpus"].get<double>() * 2.0;
  };
  const auto& fastest = *std::ranges::min_element(
      points, {},
      [](const auto& of) { return of["step_time_s"].template get<double>(); });
  const auto& cheapest = *std::ranges::min_element(points, {}, money_of);
  EXPECT_EQ(within(1e9)["gpus"], fastest["gpus"]);
  const common::Json least = within(money_of(cheapest) * (1.0 + 1e-9));
  EXPECT_EQ(least["gpus"], cheapest["gpus"]);
  EXPECT_NEAR(least["money"], money_of(cheapest), 1e-6);
  EXPECT_NEAR(least["hours"],
              cheapest["step_time_s"].get<double>() * 1e4 / 3600.0, 1e-9);
  EXPECT_THAT(
      fakes::ErrorOf([&] { return within(money_of(cheapest) * 0.99); }),
      AllOf(HasSubstr("no plan trains 10000 steps for that; the cheapest is "),
            HasSubstr(fmt::format("on {} GPUs", cheapest["gpus"].get<int>()))));
}

TEST(RunPlan, ASavedCalibrationMakesTheForecastOfItsMeasurements) {
  const fakes::TemporaryFolder folder;
  const auto measured = folder.path() / "measured.csv";
  fakes::WriteFile(measured,
                   "dp,mbs,mb,zero_stage,step_time_s,peak_memory_gb\n"
                   "4,1,16,3,0.4,30\n4,2,8,3,0.38,40\n");
  ForecastRequest request = Small();
  const std::string plain = RunPlan(request).text;
  request.calibrate = measured;
  request.save_calibration = folder.path() / "saved.toml";
  const std::string calibrated = RunPlan(request).text;
  EXPECT_THAT(calibrated, HasSubstr("calibrated on 2 measured step times"));
  EXPECT_NE(calibrated, plain);
  request.calibration = request.save_calibration;
  request.calibrate.clear();
  request.save_calibration.clear();
  EXPECT_EQ(RunPlan(request).text, calibrated);
}

// Tables of the job with all times scaled: by another model, a wrong unit, ...
TEST(RunPlan, ACalibrationOfAnotherJobIsRefusedWithItsFactor) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small();
  request.calibrate = folder.path() / "measured.csv";
  const double step_s =
      Forecaster(SmallJob(), {})
          .Predict({.dp = 4, .zero_stage = 3, .microbatches = 16})
          .step_time_s;
  const auto error = [&](double factor) {
    fakes::WriteFile(request.calibrate,
                     fmt::format("dp,mbs,mb,zero_stage,step_time_s\n"
                                 "4,1,16,3,{0}\n4,1,16,3,{0}\n",
                                 factor * step_s));
    return fakes::ErrorOf([&] { return RunPlan(request).text; });
  };
  EXPECT_EQ(error(1.0), "no error");
  EXPECT_EQ(error(1.9), "no error") << "a slow job is the user's own";
  EXPECT_THAT(error(4.6),
              AllOf(HasSubstr("--calibrate "), HasSubstr("4.6 "),
                    HasSubstr("slow job"), HasSubstr("--accept-foreign")));
  EXPECT_THAT(error(1000.0), HasSubstr("another unit"));
  fakes::WriteFile(request.calibrate,
                   fmt::format("dp,tp,mbs,mb,zero_stage,step_time_s\n"
                               "4,1,1,16,3,{}\n2,2,1,32,0,{}\n",
                               4.6 * step_s, 50.0 * step_s));
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("--accept-foreign"))
      << "rows that disagree are scatter, and still too slow";
  EXPECT_THAT(error(0.55),
              AllOf(HasSubstr("0.55"), Not(HasSubstr("slow job"))));
  EXPECT_THAT(error(0.01), HasSubstr("at the peak rate of 4"));
  request.accept_foreign = true;
  request.save_calibration = folder.path() / "saved.toml";
  EXPECT_EQ(error(4.6), "no error");
  request.calibration = request.save_calibration;
  request.calibrate.clear();
  request.save_calibration.clear();
  EXPECT_NE(RunPlan(request).text, "");
  request.accept_foreign = false;
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              AllOf(HasSubstr("--calibration "), HasSubstr("4.6 times")));
}

// One impossible row among others says nothing of them.
TEST(RunPlan, RowsFasterThanThePeakRateAreLeftOutWithANote) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small();
  request.calibrate = folder.path() / "measured.csv";
  const double step_s =
      Forecaster(SmallJob(), {})
          .Predict({.dp = 4, .zero_stage = 3, .microbatches = 16})
          .step_time_s;
  fakes::WriteFile(request.calibrate,
                   fmt::format("dp,mbs,mb,zero_stage,step_time_s\n"
                               "4,1,16,3,{}\n4,2,8,3,{}\n",
                               step_s, step_s / 100.0));
  const std::string text = RunPlan(request).text;
  EXPECT_THAT(text, AllOf(HasSubstr("1 of 2 measured configurations left out"),
                          HasSubstr("calibrated on 1 measured")));
  request.check = request.calibrate;
  EXPECT_THAT(RunPlan(request).text, HasSubstr("1 of 2 measured"));
}

TEST(RunPlan, ACheckComparesMeasurementsBeforeAndAfterACalibration) {
  const fakes::TemporaryFolder folder;
  const auto measured = folder.path() / "measured.csv";
  const double step_s =
      Forecaster(SmallJob(), {})
          .Predict({.dp = 4, .zero_stage = 3, .microbatches = 16})
          .step_time_s;
  fakes::WriteFile(measured, fmt::format("dp,mbs,mb,zero_stage,step_time_s\n"
                                         "4,1,16,3,{:.9f}\n",
                                         step_s / 1.25));
  ForecastRequest request = Small();
  request.check = measured;
  EXPECT_THAT(RunPlan(request).text,
              AllOf(HasSubstr("torchtitan (fsdp2): 1 measured step times\n"),
                    HasSubstr("as simulated: median error 25.0%, mean 25.0%"),
                    Not(HasSubstr("calibrated:"))));
  request.calibrate = measured;
  EXPECT_THAT(RunPlan(request).text, HasSubstr("  calibrated:   median error"));
}

TEST(RunPlan, EachOfSeveralFrameworksIsWrittenIntoAFolderOfItsOwn) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small("megatron-lm");
  request.write.path = folder.path() / "one";
  EXPECT_THAT(RunPlan(request).text, HasSubstr("wrote "));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "one/launch.sh"));
  request.frameworks = {"megatron-lm", "nanotron"};
  request.write.path = folder.path() / "two";
  (void)RunPlan(request).text;
  EXPECT_TRUE(
      std::filesystem::exists(folder.path() / "two/megatron-lm/launch.sh"));
  EXPECT_TRUE(
      std::filesystem::exists(folder.path() / "two/nanotron/launch.sh"));
  request.headroom_percent = 99.0;
  request.write.path = folder.path() / "three";
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("nothing is written: no layout fits\n"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "three"));
}

TEST(RunPlan, OneQuestionIsAnsweredAndNothingElseIsWritten) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small("megatron-lm");
  request.why = "dp=1,tp=4";
  request.write.path = folder.path() / "written";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("--write cannot be combined with --why"));
  request.write.path.clear();
  request.trace = folder.path() / "trace.json";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("--trace cannot be combined with --why"));
}

TEST(RunPlan, ATraceSaysOfWhichStepItIs) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small("megatron-lm");
  request.trace = folder.path() / "trace.json";
  request.config = "dp=2,tp=2,microbatches=4,zero_stage=0,zero_bucket_mb=24";
  EXPECT_THAT(RunPlan(request).text,
              AllOf(HasSubstr("trace.json: dp=2,tp=2,"),
                    HasSubstr("zero_bucket_mb=24 is ignored")));
  request.config.clear();
  EXPECT_THAT(RunPlan(request).text, HasSubstr("trace.json: dp="));
}

TEST(RunPlan, AConstantIsThatOfEveryRelease) {
  const auto changes = [](const std::vector<std::string>& constants) {
    ForecastRequest request = Small("megatron-lm");
    request.details = true;
    request.constants = constants;
    const std::string text = RunPlan(request).text;
    const std::size_t begin = text.find("other releases");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(changes({"gemm_speed=0.5"}), changes({"gemm_speed=0.51"}));
}

TEST(RunPlan, ARemedyIsWhatItsCommandAnswers) {
  ForecastRequest request = Small("hf-trainer");
  request.model =
      "layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256";
  request.machine.gpu = "h100";
  request.gpus = "1x8";
  request.batch_size = 64;
  request.sequence_length = 8192;
  const std::string text = RunPlan(request).text;
  const std::string remedy = "--framework torchtitan --gpus 2x8 --batch 64 (";
  ASSERT_THAT(text, HasSubstr(remedy));
  request.frameworks = {"torchtitan"};
  request.gpus = "2x8";
  request.format = OutputFormat::kJson;
  const common::Json best =
      common::ParseJson(RunPlan(request).text, "plan")[0]["layouts"][0];
  EXPECT_THAT(
      text.substr(text.find(remedy)),
      testing::StartsWith(fmt::format("{}{}, {:.3g} s per step)", remedy,
                                      best["layout"].get<std::string>(),
                                      best["step_time_s"].get<double>())));
}

TEST(RunPlan, AConstantChangesTheFramework) {
  ForecastRequest request = Small("megatron-lm");
  request.model = std::string(kSmallModel) + ",experts=8,experts_per_token=2";
  request.constants = {"expert_imbalance=1.75"};
  request.details = true;
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("the busiest rank computes 1.75 times"));
}

}  // namespace jobs::forecast_request_test
