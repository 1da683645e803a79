#include "jobs/tune/profile.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/program_test.h"
#include "tests/jobs/tune/tune_job_fixture.h"

namespace jobs::profile_test {

using testing::AllOf;
using testing::HasSubstr;

// A step of 0.1 s: a fifth of it computes, and the rest waits for gradients or
// for the host.
std::string Trace(const char* kernel) {
  const auto event = [](const char* kind, const char* name, int from,
                        int length) {
    return fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "ts": {}, "dur": {}}})",
        kind, name, from, length);
  };
  return fmt::format(R"({{"traceEvents": [{}, {}, {}]}})",
                     event("user_annotation", "ProfilerStep#1", 0, 100000),
                     event("kernel", "gemm", 0, 20000),
                     event("kernel", kernel, 20000, 80000));
}

class ProfiledTuneTest : public fakes::ProgramTest {
 protected:
  ProfiledTuneTest() {
    Write("config.json",
          R"({"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 24,
              "n_positions": 1024, "vocab_size": 50304})");
    // The step is 0.05 s long whatever it is told.
    Write("train.sh",
          "#!/bin/sh\nfor i in $(seq $6); do echo \"step $i took 0.0$((i % 3 + "
          "4))\"; "
          "done\n");
  }
  int Tune(const std::string& options) {
    return Oppa(
        "tune --model config.json --gpus 1x8 --gpu h100 --batch 64 "
        "--seq 1024 --trials 2 --steps 4 --finalists 1 "
        "--step-time took.([0-9.]+) --start dp=8,microbatches=8 "
        "--profile trace.json " +
        options +
        " -- ./train.sh --tp {tp} --accumulate {microbatches} --steps "
        "{max_steps}");
  }
};

TEST_F(ProfiledTuneTest, TriesWhatShortensTheSlowPartAfterYours) {
  Write("trace.json", Trace("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
  EXPECT_EQ(Tune(""), 0) << Printed();
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("a step of 0.1 s is exposed data-parallel communication "
                      "80%, computation 20%"),
            HasSubstr("the trials attack exposed data-parallel"),
            HasSubstr("What limits you now: exposed data-parallel")));
  EXPECT_THAT(Content("oppa-results/tune.toml"),
              HasSubstr("start = [\"dp=8,tp=1,pp=1,microbatches=8\", \"dp="));
  EXPECT_EQ(Tune(""), 0) << "resumes" << Printed();
}

TEST_F(ProfiledTuneTest, SaysWhatItNeeds) {
  Write("trace.json", "{}");
  EXPECT_EQ(Tune(""), 2);
  EXPECT_THAT(errors_, HasSubstr("not a trace of PyTorch's profiler"));
}

// The profile of a job with 8 GPUs, in this process.
class PartsTest : public TuneJobTest {
 protected:
  PartsTest() {
    Write("config.json",
          R"({"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 24,
              "n_positions": 1024, "vocab_size": 50304})");
    options_.command = {"./train.sh", "{tp}", "{microbatches}"};
    options_.gpus = "1x8";
    options_.gpu = "h100";
    options_.memory_gib = 0.0;
    options_.batch = 64;
    options_.sequence = 1024;
    options_.start = "dp=8,microbatches=8";
  }
  Profile Of(const std::string& trace) {
    Write("trace.json", trace);
    return {Path("trace.json"), Job()};
  }
};

TEST_F(PartsTest, TheFastestConfigurationShortensTheSlowPart) {
  const Profile data = Of(Trace("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
  const auto next = data.Fastest();
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(*next, *job_->Present());
  EXPECT_TRUE(job_->testbed().space->Find(*next).has_value());
  EXPECT_THAT(data.Text(), HasSubstr(job_->Text(*next)));
}

TEST_F(PartsTest, NamesWhatLimitsAConfigurationAndARemedy) {
  const Profile data = Of(Trace("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
  EXPECT_THAT(data.LimitText(*job_->Present()),
              AllOf(HasSubstr("What limits you now: exposed data-parallel "
                              "communication (exposed data-parallel "
                              "communication 80%, computation 20%)"),
                    HasSubstr("It gets shorter by: larger microbatches or more "
                              "accumulation")));
  EXPECT_THAT(Of(Trace("gemm")).LimitText(*job_->Present()),
              AllOf(HasSubstr("What limits you now: computation (computation "
                              "100%)"),
                    HasSubstr("fused or compiled kernels\n")));
}

TEST_F(PartsTest, NeedsThePresentConfiguration) {
  options_.start = "";
  EXPECT_THAT(fakes::ErrorOf([this] { return Of("{}"); }),
              HasSubstr("--profile: the present configuration is not known"));
}

}  // namespace jobs::profile_test
