#include "jobs/plan/step_trace.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "jobs/plan/forecast_request.h"
#include "jobs/plan/run_comparison.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::step_trace_test {

using common::Json;
using testing::HasSubstr;

// The fastest layout of each kind of two frameworks: with and without a
// pipeline.
template <typename Check>
void ForLayouts(const Check& check) {
  for (const char* framework : {"megatron-lm", "torchtitan"}) {
    const Planned& planned = PlannedLlama(framework);
    for (const Layout& layout : FastestOfKinds(planned.forecast)) {
      SCOPED_TRACE(framework + (" " + ToString(layout.best.config)));
      check(planned.forecaster, layout.best);
    }
  }
}

// The published format: https://docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Complete Events", "Metadata".
TEST(StepTrace, HasTheKeysOfTheFormatAndEndsWithTheStep) {
  ForLayouts([](const Forecaster& forecaster, const Prediction& one) {
    const Json trace = StepTrace(forecaster, one);
    double end_us = 0.0;
    std::set<int> stages;
    std::map<std::pair<int, int>, double> ends_us;  // of kernels, by thread
    for (const Json& event : trace["traceEvents"]) {
      ASSERT_TRUE(event["pid"].is_number_integer());
      ASSERT_TRUE(event["tid"].is_number_integer());
      ASSERT_TRUE(event["name"].is_string());
      stages.insert(event["pid"].get<int>());
      if (event["ph"] == "M") {
        continue;
      }
      ASSERT_EQ(event["ph"], "X");
      const double begin_us = event["ts"].get<double>();
      const double length_us = event["dur"].get<double>();
      ASSERT_GE(begin_us, 0.0);
      ASSERT_GE(length_us, 0.0);
      end_us = std::max(end_us, begin_us + length_us);
      if (event["cat"] == "kernel") {
        double& last_us =
            ends_us[{event["pid"].get<int>(), event["tid"].get<int>()}];
        ASSERT_GE(begin_us, last_us - 1e-6 * end_us) << "kernels overlap";
        last_us = begin_us + length_us;
      }
    }
    EXPECT_EQ(static_cast<int>(stages.size()), one.config.pp);
    EXPECT_NEAR(end_us, 1e6 * one.step_time_s, 1e-6 * end_us);
  });
}

TEST(StepTrace, ReadAsAProfileItHasThePartsOfTheForecast) {
  const fakes::TemporaryFolder folder;
  ForLayouts([&](const Forecaster& forecaster, const Prediction& one) {
    const auto file = folder.path() / "trace.json";
    common::ReplaceFile(file, common::ToText(StepTrace(forecaster, one)));
    const Parts read = ReadProfile(file, one.config);
    const Parts expected = PartsOf(forecaster.Report(one.config).time);
    const double tolerance_s = 1e-4 * one.step_time_s;
    for (const Part part :
         {kCompute, kTensor, kContext, kExperts, kData, kPipeline}) {
      EXPECT_NEAR(read[part], expected[part], tolerance_s) << kPartNames[part];
    }
    // Long gaps are idle in a profile.
    EXPECT_NEAR(read[kGaps] + read[kIdle], expected[kGaps], tolerance_s);
    EXPECT_NEAR(std::accumulate(read.begin(), read.end(), 0.0), one.step_time_s,
                tolerance_s);
  });
}

TEST(StepTrace, OfManyActionsHasSomeStagesAndThoseThatEndTheStep) {
  const fakes::TemporaryFolder folder;
  const auto file = folder.path() / "trace.json";
  int tried = 0;
  ForLayouts([&](const Forecaster& forecaster, const Prediction& one) {
    if (one.config.pp < 4) {
      return;
    }
    ++tried;
    const trials::SimulatedStep step = forecaster.Record(one.config);
    const int half = one.config.pp * ActionCount(step.shape) / 2;
    const Json trace = StepTrace(forecaster, one, half);
    EXPECT_EQ(trace["otherData"]["stages"], "one of 2, and those that end it");
    std::set<int> stages;
    for (const Json& event : trace["traceEvents"]) {
      stages.insert(event["pid"].get<int>());
    }
    EXPECT_LT(static_cast<int>(stages.size()), one.config.pp);
    EXPECT_TRUE(stages.contains(step.critical_stage));
    EXPECT_TRUE(stages.contains(one.config.pp - 1));
    common::ReplaceFile(file, common::ToText(trace));
    EXPECT_NEAR(ReadProfile(file, one.config)[kCompute],
                PartsOf(step.report.time)[kCompute], 1e-4 * one.step_time_s);
  });
  EXPECT_GT(tried, 0);
}

ForecastRequest Request(const fakes::TemporaryFolder& folder) {
  ForecastRequest request;
  request.model = kSmallModel;
  request.gpus = "4";
  request.machine.gpu = "h100";
  request.batch_size = 64;
  request.sequence_length = 2048;
  request.frameworks = {"megatron-lm"};
  request.trace = folder.path() / "trace.json";
  return request;
}

TEST(StepTrace, OfTheCommandIsThatOfTheFastestOrOfTheNamedConfiguration) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Request(folder);
  request.format = OutputFormat::kJson;
  const Json plan = common::ParseJson(RunPlan(request).text, "plan");
  Json trace = common::ReadJson(request.trace);
  EXPECT_EQ(trace["otherData"]["config"], plan[0]["layouts"][0]["config"]);
  EXPECT_EQ(trace["otherData"]["step_time_s"],
            plan[0]["layouts"][0]["step_time_s"]);
  request.config = "dp=1,tp=1,pp=4,micro_batch_size=2";
  (void)RunPlan(request);
  trace = common::ReadJson(request.trace);
  EXPECT_THAT(trace["otherData"]["config"].get<std::string>(),
              HasSubstr("pp=4"));
}

TEST(StepTrace, NeedsOneSizeAndForAConfigurationOneFramework) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Request(folder);
  request.gpus = "4..8";
  EXPECT_THAT(fakes::ErrorOf([&] { (void)RunPlan(request); }),
              HasSubstr("--trace needs one size"));
  request = Request(folder);
  request.frameworks.emplace_back("torchtitan");
  request.config = "dp=4,mbs=1";
  EXPECT_THAT(fakes::ErrorOf([&] { (void)RunPlan(request); }),
              HasSubstr("--trace with one --framework"));
}

}  // namespace jobs::step_trace_test
