#include "jobs/plan/forecast_text.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/job_fixture.h"

namespace jobs::forecast_text_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(ForecastText, WithoutEnoughMemoryItNamesTheSmallestConfiguration) {
  Job job = LlamaJob("megatron-core", 1);
  job.cluster.gpu.memory_bytes = 8e9;
  const Forecaster planner(job, {});
  const Forecast plan = planner.MakeForecast();
  EXPECT_TRUE(plan.layouts.empty());
  EXPECT_THAT(ForecastText(planner, plan, 5),
              AllOf(HasSubstr("the smallest needs"), HasSubstr("GB")));
}

TEST(ForecastText, TextJsonAndCsvAgree) {
  const Forecaster planner(LlamaJob(), {});
  const Forecast plan = planner.MakeForecast();
  const common::Json json = ForecastJson(planner, plan, 3);
  EXPECT_EQ(json["layouts"].size(), 3U);
  const std::string text = ForecastText(planner, plan, 3);
  const std::string csv = ForecastCsv(planner, plan, 4);
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

}  // namespace jobs::forecast_text_test
