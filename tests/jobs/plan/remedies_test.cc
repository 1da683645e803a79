#include "jobs/plan/remedies.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::remedies_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A request: a job and its options.
struct Asked {
  Job job;
  ForecastOptions options;
};

// The request with options as a user would give them: "--seq 4096".
Asked With(Asked asked, const std::string& options) {
  const std::vector<std::string_view> words = common::Split(options, ' ');
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string value(words[i + 1]);
    if (words[i] == "--seq") {
      asked.job.workload.sequence_length = std::stoi(value);
    } else if (words[i] == "--batch") {
      asked.job.workload.batch_size = std::stoi(value);
    } else if (words[i] == "--headroom") {
      asked.options.headroom = std::stod(value) / 100.0;
    } else if (words[i] == "--gpus") {
      asked.job.cluster =
          WithSize(asked.job.cluster, ParseMachineSizes(value, {8}).front());
    } else if (words[i] == "--framework") {
      SetFramework(value, asked.job);
    } else {
      ADD_FAILURE() << "unknown option " << words[i];
    }
  }
  return asked;
}

bool HasLayout(const Asked& asked) {
  try {
    return !Planned(asked.job, asked.options).forecast.layouts.empty();
  } catch (const common::InputError&) {
    return false;
  }
}

std::vector<std::string> OptionsOf(const Asked& asked) {
  std::vector<std::string> options;
  for (const Remedy& remedy : Remedies(asked.job, asked.options)) {
    options.push_back(remedy.options);
  }
  return options;
}

// Three requests of which nothing is offered, each for a reason of its own.
std::vector<Asked> Hopeless() {
  Asked batch{LlamaJob("deepspeed"), {}};
  batch.job.workload.batch_size = 250;  // on 16 GPUs by data parallelism only
  Asked one_gpu{LlamaJob("fsdp2", 1), {}};
  one_gpu.job.cluster = WithSize(one_gpu.job.cluster, {1, 1});
  return {batch, one_gpu, {LlamaJob("hf-trainer"), {}}};
}

TEST(Remedies, EachOneAppliedGivesTheLayoutThatItNames) {
  for (const Asked& asked : Hopeless()) {
    EXPECT_FALSE(HasLayout(asked));
    const auto remedies = Remedies(asked.job, asked.options);
    EXPECT_THAT(remedies, Not(IsEmpty()));
    for (const Remedy& remedy : remedies) {
      const Asked changed = With(asked, remedy.options);
      const Planned plan(changed.job, changed.options);
      ASSERT_FALSE(plan.forecast.layouts.empty()) << remedy.options;
      EXPECT_EQ(plan.best().config, remedy.best.config) << remedy.options;
      EXPECT_DOUBLE_EQ(plan.best().step_time_s, remedy.best.step_time_s);
    }
  }
}

TEST(Remedies, NoneOfAKindIsLargerThanNeeded) {
  for (const Asked& asked : Hopeless()) {
    for (const std::string& options : OptionsOf(asked)) {
      if (options.starts_with("--seq ")) {
        const int tokens = std::stoi(options.substr(6));
        EXPECT_TRUE(
            2 * tokens == asked.job.workload.sequence_length ||
            !HasLayout(With(asked, fmt::format("--seq {}", 2 * tokens))))
            << options;
      } else if (options.starts_with("--gpus 1x")) {
        const int gpus = std::stoi(options.substr(9));
        EXPECT_FALSE(
            HasLayout(With(asked, fmt::format("--gpus 1x{}", gpus / 2))))
            << options;
      }
    }
  }
}

TEST(Remedies, ABatchThatTheGpusDivideIsTheNextLarger) {
  EXPECT_THAT(OptionsOf(Hopeless().front()), testing::Contains("--batch 256"));
}

TEST(Remedies, ReplicasNeedTheSameMemoryOnAnyNumberOfGpus) {
  EXPECT_THAT(OptionsOf({LlamaJob("hf-trainer"), {}}),
              AllOf(testing::Contains("--framework torchtitan"),
                    Not(testing::Contains(HasSubstr("--gpus")))));
}

TEST(Remedies, GpusAreDoubledUntilTheShardsFitAndNoFurther) {
  for (const int gpus : {2, 4, 8}) {
    Job job = SmallJob("torchtitan", 1);
    job.workload.batch_size = 8;
    job.cluster.gpu.memory_bytes =
        1.2 * Planned(With({job, {}}, fmt::format("--gpus 1x{}", gpus)).job)
                  .forecast.smallest->peak_memory_bytes;
    const Asked asked{job, {}};
    const auto options = OptionsOf(asked);
    for (const std::string& option : options) {
      if (option.starts_with("--gpus 1x")) {
        const int named = std::stoi(option.substr(9));
        EXPECT_LE(named, gpus);
        EXPECT_TRUE(HasLayout(With(asked, option)));
        for (int fewer = 1; fewer < named; fewer *= 2) {
          EXPECT_FALSE(
              HasLayout(With(asked, fmt::format("--gpus 1x{}", fewer))))
              << option;
        }
      }
    }
    EXPECT_THAT(options, testing::Contains(testing::StartsWith("--gpus 1x")));
  }
}

TEST(Remedies, MoreGpusAreThoseOfTheNodeFirst) {
  EXPECT_THAT(OptionsOf(Hopeless()[1]),
              testing::Contains(testing::StartsWith("--gpus 1x")));
}

// A job whose smallest configuration needs a share of the memory.
Job NeedsShare(double share) {
  Job job = SmallJob("deepspeed", 1);
  const double needed = Planned(job).forecast.smallest->peak_memory_bytes;
  job.cluster.gpu.memory_bytes =
      needed / share / job.framework.framework.allocator.usable_memory;
  return job;
}

TEST(Remedies, HeadroomFallsNoFurtherThanTheLayoutNeeds) {
  const auto headroom = [](double share, double free) -> std::string {
    for (const std::string& options :
         OptionsOf({NeedsShare(share), {.headroom = free}})) {
      if (options.starts_with("--headroom")) {
        return options;
      }
    }
    return "none";
  };
  EXPECT_EQ(headroom(0.93, 0.1), "--headroom 5");
  EXPECT_EQ(headroom(0.97, 0.1), "--headroom 0");
  EXPECT_EQ(headroom(1.05, 0.1), "none");
  EXPECT_EQ(headroom(0.97, 0.05), "none") << "it is small already";
}

TEST(Remedies, AnImageHasNoShorterSequence) {
  Asked asked{SmallJob("deepspeed", 1), {}};
  asked.job.cluster.gpu.memory_bytes =
      1.2 * Planned(With(asked, "--seq 512").job)
                .forecast.smallest->peak_memory_bytes;
  asked.job.workload.sequence_length = 32768;
  const auto shorter = testing::Contains(testing::StartsWith("--seq"));
  EXPECT_THAT(OptionsOf(asked), shorter);
  asked.job.workload.model.patch_size = 16;
  EXPECT_THAT(OptionsOf(asked), Not(shorter));
}

TEST(Remedies, WhereNoSingleChangeWorksTheyAreCombined) {
  Asked asked{LlamaJob("deepspeed"), {}};
  asked.job.cluster = WithSize(FindMachine({.gpu = "4090"}), {1, 2});
  asked.job.workload.batch_size = 250;
  EXPECT_THAT(
      OptionsOf(asked),
      testing::ElementsAre("--framework torchtitan --gpus 1x8 --batch 256"));
  EXPECT_TRUE(HasLayout(With(asked, OptionsOf(asked).front())));
}

TEST(RemediesText, HasEachRemedyWithItsLayoutAndStep) {
  const Asked asked = Hopeless().front();
  const std::string text = RemediesText(asked.job, asked.options);
  EXPECT_THAT(text, testing::StartsWith("what makes one possible: "));
  for (const Remedy& remedy : Remedies(asked.job, asked.options)) {
    EXPECT_THAT(text,
                HasSubstr(fmt::format(
                    "{} ({}, {:.3g} s per step)", remedy.options,
                    LayoutName(remedy.best.config), remedy.best.step_time_s)));
  }
}

// torchtitan computes in bf16 and fp8, and trains all weights.
TEST(Remedies, AnotherFrameworkCanTrainTheJob) {
  const auto has_torchtitan = [](trials::Precision precision,
                                 std::vector<std::string> training) {
    Job job = LlamaJob("hf-trainer");
    job.workload.precision = precision;
    job.training = std::move(training);
    SetFramework("hf-trainer", job);
    return std::ranges::any_of(
        OptionsOf({job, {}}), [](const std::string& options) {
          return options.find("torchtitan") != options.npos;
        });
  };
  EXPECT_TRUE(has_torchtitan(trials::Precision::kBf16, {}));
  EXPECT_FALSE(has_torchtitan(trials::Precision::kFp16, {}));
  EXPECT_FALSE(has_torchtitan(trials::Precision::kBf16, {"lora_rank=8"}));
}

TEST(RemediesText, WithoutARemedyItAsksForMoreMemory) {
  Job job = SmallJob("deepspeed", 1);
  job.cluster.gpu.memory_bytes = 1e6;
  EXPECT_THAT(Remedies(job, {}), IsEmpty());
  EXPECT_EQ(RemediesText(job, {}),
            "more GPUs of this kind do not help: give GPUs with more memory "
            "(--gpu), or a smaller model\n");
}

}  // namespace jobs::remedies_test
