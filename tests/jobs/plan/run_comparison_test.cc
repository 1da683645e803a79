#include "jobs/plan/run_comparison.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::run_comparison_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kConfig = "dp=8,tp=2,zero_stage=1,sp=2,mbs=1";

class RunComparisonTest : public testing::Test {
 protected:
  // What `oppa plan --log` says about a file with this text.
  std::string Compare(const std::string& framework, const std::string& text,
                      const std::string& config = kConfig) {
    const auto file = folder_.path() / "run.log";
    fakes::WriteFile(file, text);
    const Forecaster planner(LlamaJob(framework), {});
    return CompareRun(planner, {file}, config);
  }

  fakes::TemporaryFolder folder_;
};

// Lines as the frameworks write them; the first step is a warm-up.
TEST_F(RunComparisonTest, ReadsTheLogsOfEveryFramework) {
  const auto takes = [](const char* time) {
    return HasSubstr(fmt::format("your run takes {} s per step", time));
  };
  EXPECT_THAT(
      Compare("megatron-lm",
              " [2026-01-01 00:00:00] iteration        1/     100 | consumed "
              "samples:          256 | elapsed time per iteration (ms): "
              "91234.5 | learning rate: 1E-04 |\n"
              " iteration        2/     100 | elapsed time per iteration (ms): "
              "20000.0 |\n"
              "[Rank 0] (after 2 iterations) memory (MB) | allocated: 30000 | "
              "max allocated: 50000.0 |\n"),
      AllOf(takes("20"), HasSubstr("slower than it should be"),
            HasSubstr("peak memory: 52.4 GB in the log")));
  EXPECT_THAT(Compare("torchtitan",
                      "[titan] - step:  1  loss: 12.2  memory: 40.00GiB(50%)  "
                      "tps: 100  tflops: 1\n"
                      "[titan] - step: 10  loss:  9.1  memory: 41.00GiB(51%)  "
                      "tps: 8,192  tflops: 470\n",
                      "dp=16,zero_stage=3,mbs=1"),
              takes("16"));
  EXPECT_THAT(
      Compare("deepspeed",
              "steps: 1 loss: 9.0 iter time (s): 40.1 samples/sec: 6.4\n"
              "steps: 2 loss: 8.9 iter time (s): 30.0 samples/sec: 8.5\n",
              "dp=16,zero_stage=3,mbs=1"),
      takes("30"));
  EXPECT_THAT(Compare("nanotron",
                      "iteration: 1 / 20 | time_per_iteration_ms: 60K |\n"
                      "iteration: 2 / 20 | time_per_iteration_ms: 25.5K |\n"),
              takes("25.5"));
  EXPECT_THAT(Compare("hf-trainer",
                      "  1%| | 1/100 [00:31<50:00, 31.0s/it]\r"
                      "  2%| | 2/100 [00:51<40:00, 22.0s/it]\n",
                      "dp=16,mbs=1"),
              takes("22"));
}

TEST_F(RunComparisonTest, ReadsTheConfigurationFromTheArgumentsOfMegatron) {
  EXPECT_THAT(
      Compare("megatron-lm",
              "  micro_batch_size ................................ 1\n"
              "  sequence_parallel ............................... True\n"
              "  tensor_model_parallel_size ...................... 2\n"
              "  use_distributed_optimizer ....................... True\n"
              " iteration 2/ 9 | elapsed time per iteration (ms): 20000.0 |\n",
              ""),
      testing::StartsWith("dp=8,tp=2,pp=1,zero_stage=1,"));
}

// A trace in the form of Kineto: two steps of 100 ms. Each has 60 ms of
// computation, an all-reduce of which 10 ms are hidden and 20 ms exposed, a
// gap of 50 us, and is idle otherwise.
std::string Trace() {
  std::string events;
  const auto add = [&events](std::string_view kind, std::string_view name,
                             double from, double length,
                             std::string_view args = "{}") {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, )"
        R"("ts": {:.3f}, "dur": {:.3f}, "args": {}}})",
        events.empty() ? "" : ",\n", kind, name, from, length, args);
  };
  constexpr double kBegin = 5e12;  // microseconds
  for (int step = 0; step < 2; ++step) {
    const double begin = kBegin + step * 1e5;
    add("user_annotation", fmt::format("ProfilerStep#{}", step), begin, 1e5);
    add("cpu_op", "aten::mm", begin, 9e4);
    add("kernel", "sm90_xmma_gemm_bf16", begin, 3e4,
        R"({"device": 0, "stream": 7})");
    add("kernel", "fmha_cutlass", begin + 30050, 3e4,
        R"({"device": 0, "stream": 7})");
    add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", begin + 50050,
        3e4,
        R"({"stream": 20, "Group size": 8, "Collective name": "allreduce"})");
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "traceEvents": [
{{"ph": "M", "name": "process_name", "pid": 0, "ts": 0}},
{}]}})",
      events);
}

TEST_F(RunComparisonTest, ATraceSaysWhichPartIsSlow) {
  EXPECT_THAT(Compare("megatron-lm", Trace()),
              AllOf(HasSubstr("your run takes 0.1 s per step"),
                    testing::ContainsRegex("computation +0.06 s"),
                    testing::ContainsRegex(
                        "exposed data-parallel communication +0.02 s"),
                    testing::ContainsRegex("launch gaps +5e-05 s"),
                    testing::ContainsRegex("idle +0.01995 s")));
}

TEST_F(RunComparisonTest, SaysWhatIsMissing) {
  const auto problem = [this](const std::string& text,
                              const std::string& config) {
    return fakes::ErrorOf([&] { return Compare("megatron-lm", text, config); });
  };
  EXPECT_THAT(problem("hello\n", kConfig), HasSubstr("no step time found"));
  EXPECT_THAT(problem("hello\n", ""), HasSubstr("--config dp=8"));
  EXPECT_THAT(problem(Trace(), "dp=8,tp=2"), HasSubstr("micro_batch_size"));
  EXPECT_THAT(problem(Trace(), "dp=3,mbs=1"), HasSubstr("--config dp=3"));
  EXPECT_THAT(
      problem(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": )"
              R"("aten::mm", "ts": 1, "dur": 2}]})",
              kConfig),
      HasSubstr("ProfilerActivity.CUDA"));
}

}  // namespace jobs::run_comparison_test
