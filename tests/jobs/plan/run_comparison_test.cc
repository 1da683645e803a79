#include "jobs/plan/run_comparison.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"
#include "trials/flop.h"

namespace jobs::run_comparison_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kConfig = "dp=8,tp=2,zero_stage=1,sp=2,mbs=1";

class RunComparisonTest : public testing::Test {
 protected:
  // What `oppa plan --log` says about a file with this text.
  std::string Compare(const std::string& framework, const std::string& text,
                      const std::string& config = kConfig,
                      const std::string& step_time = "") {
    const auto file = folder_.path() / "run.log";
    fakes::WriteFile(file, text);
    const Forecaster forecaster(LlamaJob(framework), {});
    return CompareRun(forecaster, forecaster.MakeForecast(), {file}, config,
                      step_time);
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
            HasSubstr("peak memory: 52.4 GB allocated in the log")));
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
              takes("20"));  // by its times: 22 is smoothed
}

TEST_F(RunComparisonTest, APatternOfStepTimesReplacesThoseOfTheAdapter) {
  std::string text;
  for (const char* time : {"95.1", "20.5", "20.5"}) {
    for (int rank = 0; rank < 4; ++rank) {
      text += fmt::format("rank {}: took {} s\n", rank, time);
    }
  }
  EXPECT_THAT(
      Compare("megatron-lm", text, kConfig, "took ([0-9.]+)"),
      HasSubstr("takes 20.5 s per step (4 lines a step, counted once)"));
  EXPECT_THAT(fakes::ErrorOf([&] { return Compare("megatron-lm", text); }),
              AllOf(HasSubstr("--step-time REGEX"),
                    HasSubstr("tried 'elapsed time per iteration"),
                    HasSubstr("\n  rank 0: took 95.1 s")));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Compare("megatron-lm", "took 20,123 s\n", kConfig,
                               "took ([0-9.,]+)");
              }),
              HasSubstr("'20,123' may be 20123 or 20.123"));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Compare("megatron-lm", text, kConfig, "took");
              }),
              HasSubstr("put the number in parentheses"));
}

TEST_F(RunComparisonTest, AStepOfManyForecastsIsAnotherNumber) {
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Compare("megatron-lm", "time,20000\ntime,20000\n",
                               kConfig, "^time,([0-9]+)");
              }),
              AllOf(HasSubstr("times the forecast"), HasSubstr("(ms)")));
}

// Of the arguments and two steps of Megatron-LM.
std::string MegatronRun(int tp, double step_s, const std::string& more = "") {
  return fmt::format(
      "------------ arguments ------------\n"
      "  data_parallel_size .............................. {}\n"
      "  micro_batch_size ................................ 1\n"
      "  tensor_model_parallel_size ...................... {}\n"
      "  use_distributed_optimizer ....................... True\n"
      "{}-------- end of arguments ---------\nbuilding a model\nloading\n"
      " iteration 1/ 9 | elapsed time per iteration (ms): 90000.0 |\n"
      " iteration 2/ 9 | elapsed time per iteration (ms): {:.1f} |\n"
      " iteration 3/ 9 | elapsed time per iteration (ms): {:.1f} |\n",
      16 / tp, tp, more, 1e3 * step_s, 1e3 * step_s);
}

TEST_F(RunComparisonTest, OfALogOfTwoRunsTheLastOneCounts) {
  EXPECT_THAT(
      Compare("megatron-lm", MegatronRun(2, 20.0) + MegatronRun(4, 25.0), ""),
      AllOf(HasSubstr("tp=4"), HasSubstr("takes 25 s per step")));
}

TEST_F(RunComparisonTest, ALogOfAnotherJobIsRefused) {
  const auto error = [&](const std::string& framework, const std::string& log,
                         const std::string& config) {
    return fakes::ErrorOf([&] { return Compare(framework, log, config); });
  };
  const auto listing = [](const char* argument) {
    return MegatronRun(2, 20.0, argument);
  };
  EXPECT_THAT(error("megatron-lm", listing("  seq_length ........ 4096\n"), ""),
              AllOf(HasSubstr("--seq 8192"), HasSubstr("seq_length")));
  EXPECT_THAT(error("megatron-lm", listing("  world_size ........ 32\n"), ""),
              HasSubstr("--gpus 16"));
  EXPECT_THAT(
      error("nanotron",
            "iteration: 1 / 9 | time_per_iteration_ms: 25K | "
            "global_batch_size: 512 |\n",
            kConfig),
      HasSubstr("another job than --batch 256: 'global_batch_size: 512"));
  EXPECT_THAT(error("megatron-lm", listing(""), "dp=4,tp=4,mbs=1"),
              HasSubstr("the log lists dp=8"));
  // A batch that grows to that of the job.
  EXPECT_THAT(Compare("megatron-lm",
                      MegatronRun(2, 20.0) +
                          " iteration 4/ 9 | global batch size: 128 |\n"
                          " iteration 5/ 9 | global batch size: 256 |\n",
                      ""),
              HasSubstr("takes 20 s per step"));
}

TEST_F(RunComparisonTest, MoreMemoryThanTheGpuHasIsRefused) {
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Compare(
                    "megatron-lm",
                    MegatronRun(2, 20.0) +
                        "[Rank 0] (after 2 iterations) memory (MB) | "
                        "allocated: 30000 | max allocated: 300000.0 |\n",
                    "");
              }),
              HasSubstr("a peak of 314.6 GB is more than"));
}

TEST_F(RunComparisonTest, ALossThatIsNotFiniteIsSaid) {
  EXPECT_THAT(Compare("megatron-lm",
                      MegatronRun(2, 20.0) +
                          " iteration 4/ 9 | elapsed time per iteration (ms): "
                          "20000.0 | lm loss: nan |\n",
                      ""),
              HasSubstr("note: the loss is not finite"));
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
  constexpr double kScale = 200.0;  // 20 s, which the job can take
  std::string events;
  const auto add = [&events](std::string_view kind, std::string_view name,
                             double from, double length,
                             std::string_view args = "{}") {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, )"
        R"("ts": {:.3f}, "dur": {:.3f}, "args": {}}})",
        events.empty() ? "" : ",\n", kind, name, kScale * from, kScale * length,
        args);
  };
  constexpr double kBegin = 5e12;  // microseconds
  for (int step = 0; step < 2; ++step) {
    const double begin = kBegin + step * 1e5;
    add("user_annotation", fmt::format("ProfilerStep#{}", step), begin, 1e5);
    add("cpu_op", "aten::mm", begin, 9e4);
    add("kernel", "sm90_xmma_gemm_bf16", begin, 3e4,
        R"({"device": 0, "stream": 7})");
    add("kernel", "fmha_cutlass", begin + 30000.25, 3e4,
        R"({"device": 0, "stream": 7})");
    add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", begin + 50000.25,
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
  EXPECT_THAT(
      Compare("megatron-lm", Trace()),
      AllOf(HasSubstr("your run takes 20 s per step"),
            testing::ContainsRegex("computation +12 s"),
            testing::ContainsRegex("exposed data-parallel communication +4 s"),
            testing::ContainsRegex("launch gaps +5e-05 s"),
            testing::ContainsRegex("idle +4 s")));
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

TEST_F(RunComparisonTest, ARunAsFastAsItsForecastIsNeitherSlowerNorFaster) {
  const Forecaster& forecaster = PlannedLlama("megatron-core").forecaster;
  const double step_s =
      forecaster.Predict(Complete(kConfig, forecaster.space()).config)
          .step_time_s;
  const auto says = [&](double factor) {
    const std::string line =
        fmt::format(" iteration 2/ 9 | elapsed time per iteration (ms): {} |\n",
                    1000.0 * factor * step_s);
    return Compare("megatron-lm", line + line);
  };
  EXPECT_THAT(says(1.5), HasSubstr("50% slower than it should be"));
  EXPECT_THAT(says(0.7), HasSubstr("30% faster than its forecast"));
  EXPECT_THAT(says(1.001), HasSubstr(" 0% slower"));
}

// Half of the square of a causal mask is hidden: a kernel may skip it.
TEST(LeastFlop, CountsHalfOfCausalAttention) {
  trials::Workload workload = LlamaJob().workload;
  workload.sequence_length = 1 << 17;
  const double attention = 12.0 * 32 * 4096 * workload.sequence_length;
  EXPECT_NEAR(
      trials::FlopPerToken(workload) - trials::LeastFlopPerToken(workload),
      attention / 2, 1e-6 * attention);
  workload.model.causal = false;
  EXPECT_EQ(trials::FlopPerToken(workload),
            trials::LeastFlopPerToken(workload));
}

// 0.1 s for 2 million tokens of an 8B model are 77 times the rate of 16 H100.
TEST_F(RunComparisonTest, AStepShorterThanItsWorkIsNotBelieved) {
  EXPECT_THAT(
      fakes::ErrorOf([&] {
        return Compare(
            "megatron-lm",
            " iteration 1/ 9 | elapsed time per iteration (ms): 100.0 |\n"
            " iteration 2/ 9 | elapsed time per iteration (ms): 100.0 |\n");
      }),
      AllOf(HasSubstr("of the peak rate of 16 H100"), HasSubstr("--batch"),
            HasSubstr("--precision")));
}

TEST_F(RunComparisonTest, AStepIsTheMedianWithoutTheFirst) {
  EXPECT_THAT(
      Compare("megatron-lm",
              " iteration 1/ 9 | elapsed time per iteration (ms): 90000.0 |\n"
              " iteration 2/ 9 | elapsed time per iteration (ms): 20000.0 |\n"
              " iteration 3/ 9 | elapsed time per iteration (ms): 21000.0 |\n"
              " iteration 4/ 9 | elapsed time per iteration (ms): 60000.0 |\n"),
      HasSubstr("your run takes 21 s per step"));
}

TEST_F(RunComparisonTest, WhatTheConfigurationLeavesOutIsSaid) {
  const char* log =
      " iteration 2/ 9 | elapsed time per iteration (ms): 20000.0 |\n";
  EXPECT_THAT(
      Compare("megatron-lm", log, "dp=8,tp=2,mbs=8"),
      AllOf(HasSubstr("assumed, as --config does not name it: zero_stage=1"),
            HasSubstr("sp=2; name")));
  EXPECT_THAT(Compare("megatron-lm", log,
                      "dp=8,tp=2,mbs=1,zero_stage=0,dp_bucket_mb=100,"
                      "grad_checkpoint=0,sp=2"),
              testing::Not(HasSubstr("assumed, as --config")));
}

TEST_F(RunComparisonTest, ALogWithoutATraceAsksForOneAndSharesTheForecast) {
  EXPECT_THAT(
      Compare("megatron-lm",
              " iteration 2/ 9 | elapsed time per iteration (ms): 20000.0 |\n"),
      AllOf(HasSubstr("forecast of a step: compute "),
            HasSubstr("run.log,trace.json\n"), HasSubstr("its memory: "),
            testing::Not(HasSubstr("peak memory:"))));
}

// Megatron-LM's unit is the MiB.
TEST_F(RunComparisonTest, APeakFarFromItsForecastIsExplainedOrNot) {
  const char* config = "dp=2,tp=8,mbs=1,zero_stage=1,sp=8";
  const Forecaster forecaster(LlamaJob("megatron-lm"), {});
  const Job& job = forecaster.job();
  const trials::ParallelConfig run = {
      .dp = 2, .tp = 8, .zero_stage = 1, .microbatches = 128, .sp = 8};
  const auto compare = [&](double bytes) {
    return Compare(
        "megatron-lm",
        fmt::format(" iteration 2/ 9 | elapsed time per iteration (ms): 20000 "
                    "|\n[Rank 0] memory (MB) | max allocated: {:.1f} |\n",
                    bytes / (1 << 20)),
        config);
  };
  // That of the same kind: what the allocator gave out.
  const auto allocated = [](const trials::StepReport& report) {
    return report.memory.Bytes(trials::PeakMemory::kAllocated);
  };
  const double forecast = allocated(forecaster.Report(run));
  ASSERT_LT(1.3 * forecast, 1.25 * forecaster.Predict(run).peak_memory_bytes);
  EXPECT_THAT(compare(1.2 * forecast),
              testing::Not(HasSubstr("times its forecast")));
  EXPECT_THAT(compare(1.3 * forecast), HasSubstr("1.3 times its forecast"));
  trials::Framework stored = job.framework.framework;
  EXPECT_EQ(ChangeAttention(stored), "attention that stores its scores");
  EXPECT_THAT(compare(allocated(trials::Simulator(job.workload, job.cluster,
                                                  {stored, nullptr})
                                    .Simulate(run))),
              AllOf(HasSubstr("times its forecast"),
                    HasSubstr("attention that stores its scores (")));
  trials::ParallelConfig unsharded = run;
  unsharded.zero_stage = 0;
  EXPECT_THAT(compare(allocated(forecaster.Report(unsharded))),
              HasSubstr("does the run have ZeRO stage 0 ("));
  EXPECT_THAT(compare(0.2 * forecast), HasSubstr("explains it"));
}

TEST(Parts, OfAForecastAddUpToItsStep) {
  const Planned& plan = PlannedLlama("megatron-core");
  for (const Layout& layout : plan.forecast.layouts) {
    const trials::TimeBreakdown time =
        plan.forecaster.Report(layout.best.config).time;
    const Parts parts = PartsOf(time);
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), time.Total(),
                1e-9 * time.Total());
    EXPECT_EQ(parts[kIdle], 0.0);
  }
}

// The parts of a trace with kernels {name, begin, length, arguments} in ms.
class ProfileTest : public testing::Test {
 protected:
  struct Kernel {
    std::string name;
    double begin_ms;
    double length_ms;
    std::string args = "{}";
  };
  Parts Read(const std::vector<Kernel>& kernels,
             const trials::ParallelConfig& config = {}) {
    std::string events;
    for (const auto& [name, begin, length, args] : kernels) {
      events += fmt::format(
          R"({}{{"ph": "X", "cat": "kernel", "name": "{}", "ts": {}, )"
          R"("dur": {}, "args": {}}})",
          events.empty() ? "" : ",", name, 1000.0 * begin, 1000.0 * length,
          args);
    }
    const auto file = folder_.path() / "trace.json";
    fakes::WriteFile(file, fmt::format(R"({{"traceEvents": [{}]}})", events));
    return ReadProfile(file, config);
  }
  // The part that a collective counts for.
  Part Group(const std::string& name, const std::string& args,
             const trials::ParallelConfig& config = {}) {
    const Parts parts = Read({{name, 0.0, 1.0, args}}, config);
    return static_cast<Part>(std::ranges::max_element(parts) - parts.begin());
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(ProfileTest, OverlappedCommunicationIsComputation) {
  const Parts parts = Read({{"gemm", 0.0, 4.0},
                            {"ncclAllReduce", 1.0, 2.0},
                            {"ncclAllReduce", 3.5, 1.5}});
  EXPECT_NEAR(parts[kCompute], 4e-3, 1e-9);
  EXPECT_NEAR(parts[kData], 1e-3, 1e-9);
}

TEST_F(ProfileTest, AShortGapIsALaunchAndALongOneIdle) {
  const Parts parts =
      Read({{"gemm", 0.0, 1.0}, {"gemm", 1.1, 1.0}, {"gemm", 2.3, 1.0}});
  EXPECT_NEAR(parts[kCompute], 3e-3, 1e-9);
  EXPECT_NEAR(parts[kGaps], 1e-4, 1e-9);
  EXPECT_NEAR(parts[kIdle], 2e-4, 1e-9);
}

TEST_F(ProfileTest, ACollectiveIsOfTheGroupThatItDescribes) {
  const auto described = [&](const char* group) {
    return Group(
        "ncclAllReduce",
        fmt::format(R"({{"Process Group Description": "{}"}})", group));
  };
  EXPECT_EQ(described("TENSOR_MODEL_PARALLEL_GROUP"), kTensor);
  EXPECT_EQ(described("mesh_tp"), kTensor);
  EXPECT_EQ(described("CONTEXT_PARALLEL_GROUP"), kContext);
  EXPECT_EQ(described("EXPERT_MODEL_PARALLEL_GROUP"), kExperts);
  EXPECT_EQ(described("mesh_pp"), kPipeline);
  EXPECT_EQ(described("EXPERT_DATA_PARALLEL_GROUP"), kData);
  EXPECT_EQ(described("mesh_dp_shard_cp"), kData);
}

TEST_F(ProfileTest, WithoutADescriptionTheKindAndTheRanksDecide) {
  EXPECT_EQ(Group("ncclSendRecv", "{}", {.pp = 2}), kPipeline);
  EXPECT_EQ(Group("ncclSendRecv", "{}", {.cp = 2}), kContext);
  EXPECT_EQ(Group("ncclAllToAll", "{}", {.ep = 2}), kExperts);
  EXPECT_EQ(Group("ncclAllToAll", "{}", {.cp = 2}), kContext);
  const trials::ParallelConfig both{.dp = 8, .tp = 4};
  EXPECT_EQ(Group("ncclAllReduce", R"({"Group size": 4})", both), kTensor);
  EXPECT_EQ(Group("ncclAllReduce", R"({"Group size": 8})", both), kData);
  EXPECT_EQ(Group("ncclAllReduce", "{}", {.tp = 4}), kTensor);
}

TEST_F(ProfileTest, AnotherFileIsRefusedWithItsName) {
  const auto file = folder_.path() / "other.json";
  for (const char* text :
       {"{}", "[1]", "{\"traceEvents\": [{\"ph\": \"X\"}]}"}) {
    fakes::WriteFile(file, text);
    EXPECT_THAT(fakes::ErrorOf([&] { return ReadProfile(file, {}); }),
                HasSubstr("other.json"));
  }
}

}  // namespace jobs::run_comparison_test
