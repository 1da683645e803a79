#include "jobs/plan/forecast_text.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::forecast_text_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(ForecastText, WithoutEnoughMemoryItNamesTheSmallestConfiguration) {
  Job job = LlamaJob("megatron-core", 1);
  job.cluster.gpu.memory_bytes = 8e9;
  const Forecaster forecaster(job, {});
  const Forecast forecast = forecaster.MakeForecast();
  EXPECT_TRUE(forecast.layouts.empty());
  EXPECT_THAT(ForecastText(forecaster, forecast, {}),
              AllOf(HasSubstr("the smallest needs"), HasSubstr("GB")));
}

// nanotron leaves one of 7 stages without layers; 72 sequences need 7.
TEST(ForecastText, WhereTheFrameworkRefusesAllItNamesWhatHelps) {
  const Job job{MakeWorkload(FindModel("layers=12,hidden=1536,heads=12,"
                                       "ffn=1408,vocab=128256,experts=8,"
                                       "experts_per_token=2"),
                             72, 8192),
                WithSize(FindMachine({.gpu = "h100"}), {7, 8}),
                FindFramework("nanotron"),
                {}};
  const Planned plan(job);
  EXPECT_FALSE(plan.forecast.smallest.has_value());
  EXPECT_THAT(ForecastText(plan.forecaster, plan.forecast, {}),
              AllOf(HasSubstr("no configuration is valid"),
                    HasSubstr("what makes one possible: --batch 112")));
}

TEST(ForecastText, TextJsonAndCsvAgree) {
  const Forecaster forecaster(LlamaJob(), {});
  const Forecast forecast = forecaster.MakeForecast();
  const common::Json json = ForecastJson(forecaster, forecast, 3);
  EXPECT_EQ(json["layouts"].size(), 3U);
  const std::string text = ForecastText(forecaster, forecast, {.most = 3});
  const std::string csv = ForecastCsv(forecaster, forecast, 4);
  EXPECT_THAT(text, HasSubstr(json["layouts"][0]["config"]));
  EXPECT_THAT(csv, HasSubstr(json["layouts"][2]["layout"]));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
}

TEST(ForecastText, ACalibrationCountsRowsInTheSingular) {
  Calibration calibration{.bounds = 1, .memory_log_stddev = 0.1};
  EXPECT_THAT(ToString(calibration), HasSubstr("and 1 row out of memory"));
  calibration.bounds = 2;
  EXPECT_THAT(ToString(calibration), HasSubstr("and 2 rows out of memory"));
}

TEST(MemoryText, AllocatedReservedAndDeviceMemoryAscend) {
  const Planned& plan = PlannedLlama();
  double allocated = 0.0;
  double reserved = 0.0;
  double device = 0.0;
  ASSERT_EQ(std::sscanf(MemoryText(plan.forecaster, plan.best()).c_str(),
                        "its memory: %lf GB allocated, %lf GB reserved by the "
                        "allocator, %lf GB on the device",
                        &allocated, &reserved, &device),
            3);
  EXPECT_LT(allocated, reserved);
  EXPECT_LT(reserved, device);
  EXPECT_NEAR(device, plan.best().peak_memory_bytes / 1e9, 0.051);
}

TEST(BandText, ACalibrationReplacesTheBandOfTheFramework) {
  const Planned& plain = PlannedLlama();
  EXPECT_THAT(BandText(plain.forecaster, plain.best()),
              testing::Not(HasSubstr("by the calibration")));
  Calibration calibration{.step_times = 5, .noise = 0.05};
  const Forecaster calibrated(LlamaJob(), {.calibration = calibration});
  const Prediction one = calibrated.Predict(plain.best().config);
  double step_s = 0.0;
  double low_s = 0.0;
  double high_s = 0.0;
  ASSERT_EQ(
      std::sscanf(BandText(calibrated, one).c_str(),
                  "step time %lf s: %lf to %lf s", &step_s, &low_s, &high_s),
      3);
  EXPECT_LT(low_s, step_s);
  EXPECT_NEAR(high_s / step_s, step_s / low_s, 0.01);
}

TEST(ForecastJson, TheBandContainsThePrediction) {
  const Planned& plan = PlannedLlama();
  const common::Json json = ForecastJson(plan.forecaster, plan.forecast, 1);
  for (const char* name : {"step_time_s", "peak_memory_bytes"}) {
    const double predicted = json["layouts"][0][name];
    EXPECT_LT(json["bands"][name][0], predicted) << name;
    EXPECT_GT(json["bands"][name][1], predicted) << name;
  }
}

TEST(ForecastJson, SharesAddUpAndExcludedAreThoseOfTheForecast) {
  const Planned& plan = PlannedLlama("megatron-core");
  const common::Json json = ForecastJson(plan.forecaster, plan.forecast, 3);
  for (const common::Json& layout : json["layouts"]) {
    double sum = 0.0;
    for (const auto& share : layout["shares"]) {
      sum += share.get<double>();
    }
    EXPECT_NEAR(sum, 1.0, 1e-9);
    EXPECT_EQ(
        layout["micro_batch_size"].get<int>() *
            layout["microbatches"].get<int>() *
            trials::ParseParallelConfig(layout["config"].get<std::string>()).dp,
        256);
  }
  ASSERT_EQ(json["excluded"].size(), plan.forecast.excluded.size());
  for (std::size_t i = 0; i < json["excluded"].size(); ++i) {
    EXPECT_EQ(json["excluded"][i]["count"], plan.forecast.excluded[i].count);
  }
}

TEST(ForecastCsv, EachRowHasAsManyCellsAsTheHeader) {
  const Planned& plan = PlannedLlama();
  const auto cells = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  const std::string csv = ForecastCsv(plan.forecaster, plan.forecast, 1);
  EXPECT_EQ(cells(csv), cells(ForecastCsvHeader()));
  EXPECT_THAT(csv, testing::StartsWith("fsdp2,dp=16"));
  EXPECT_EQ(ForecastCsv(plan.forecaster, plan.forecast, 0), "");
}

TEST(ForecastText, TheFirstScreenFitsTheTerminal) {
  const Planned& plan = PlannedLlama("megatron-lm");
  for (const std::size_t columns : {80, 120}) {
    const std::string text =
        ForecastText(plan.forecaster, plan.forecast, {.columns = columns});
    const auto lines = common::Split(text, '\n');
    EXPECT_LE(lines.size(), 40U);
    for (const std::string_view line : lines) {
      EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_THAT(text, AllOf(HasSubstr(" \\\n"), HasSubstr("validated"),
                            testing::Not(HasSubstr("not offered:"))));
  }
  EXPECT_THAT(ForecastText(plan.forecaster, plan.forecast, {.details = true}),
              AllOf(HasSubstr("compute "), HasSubstr("its memory: "),
                    HasSubstr("one step away"), HasSubstr("not offered:")));
}

TEST(ForecastText, ManyReasonsAreSummedUpAsOtherRules) {
  Planned plan(SmallJob());
  plan.forecast.excluded.assign(10, {"a reason", 7});
  EXPECT_THAT(ForecastText(plan.forecaster, plan.forecast, {.details = true}),
              HasSubstr("        14  other rules\n"));
  plan.forecast.excluded.resize(8);
  EXPECT_THAT(ForecastText(plan.forecaster, plan.forecast, {.details = true}),
              testing::Not(HasSubstr("other rules")));
}

TEST(ForecastText, AssumptionsAboutExpertsAreNamedIfThereAreAny) {
  EXPECT_THAT(ForecastText(PlannedLlama().forecaster, PlannedLlama().forecast,
                           {.details = true}),
              testing::Not(HasSubstr("assumed: the busiest rank")));
}

// A size at which a GPU trains a million tokens per second.
ScalePoint Fast(int gpus) {
  ScalePoint point{.size = {1, gpus}, .best = Prediction{}, .efficiency = 0.5};
  point.best->tokens_per_s_per_gpu = 1e6;
  point.best->step_time_s = 36.0;
  point.best->mfu = 0.25;
  return point;
}

TEST(Scale, ABillionTokensTakeTheirTimeAndCostTheirGpuHours) {
  const trials::Valuation priced{.price_per_gpu_hour = 3.6};
  const common::Json json = ScaleJson({Fast(4)}, priced)[0];
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 4e6);
  EXPECT_DOUBLE_EQ(json["hours_per_billion_tokens"], 250.0 / 3600.0);
  // 250 s on 4 GPUs are 1000 GPU seconds; a step is 144 of them.
  EXPECT_DOUBLE_EQ(json["price_per_billion_tokens"], 1.0);
  EXPECT_DOUBLE_EQ(json["price_per_step"], 0.144);
  EXPECT_EQ(CostText(Fast(4), priced),
            "cost: 0.144 per step, 1.00 per billion tokens, at 3.6 per GPU "
            "hour\n");
}

TEST(Scale, WithoutAPriceOrALayoutThereIsNoCost) {
  const trials::Valuation priced{.price_per_gpu_hour = 3.6};
  EXPECT_EQ(CostText(Fast(4), {}), "");
  EXPECT_TRUE(CostJson(Fast(4), {}).empty());
  const ScalePoint none{.size = {1, 4}, .problem = "too large"};
  EXPECT_EQ(CostText(none, priced), "");
  EXPECT_EQ(ScaleJson({none}, priced)[0]["problem"], "too large");
}

TEST(Scale, TheTableHasACostColumnOnlyWithAPriceAndNamesProblems) {
  const ScalePoint none{.size = {2, 8}, .problem = "does not fit"};
  const std::string text = ScaleText({Fast(4), none}, {});
  EXPECT_THAT(text, AllOf(HasSubstr("    16 does not fit\n"),
                          HasSubstr("    50% 25.0%"), HasSubstr("  dp=1\n"),
                          testing::Not(HasSubstr("cost/B"))));
  EXPECT_THAT(ScaleText({Fast(4)}, {.price_per_gpu_hour = 3.6}),
              AllOf(HasSubstr("cost/B"), HasSubstr("      1.00  dp=1\n")));
}

}  // namespace jobs::forecast_text_test
