#include "trainer/trial.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trainer/communicator_threads.h"
#include "trainer/rank.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::trial_test {

using ::testing::HasSubstr;

Job Faulty(const std::string& kind, int rank, int step) {
  Job job = TinyJob("gpt2", "dp=2", 3);
  job.batch_size = 4;
  job.fault = {.kind = kind, .rank = rank, .step = step};
  return job;
}

TEST(Trial, AFaultOfARankEndsTheTrialInItsStep) {
  const TrialResult result = Train(Faulty("die", 1, 2));
  EXPECT_EQ(result.reason, EndReason::kFailed);
  EXPECT_EQ(result.message, "rank 1: fault in step 2");
  EXPECT_EQ(result.losses.size(), 2U);
  EXPECT_FALSE(result.stuck);
}

TEST(Trial, MemoryBeyondTheArenaIsOutOfMemory) {
  const TrialResult result = Train(Faulty("memory", 0, 1));
  EXPECT_EQ(result.reason, EndReason::kOutOfMemory);
  EXPECT_THAT(result.message, HasSubstr("rank 0: "));
  EXPECT_THAT(result.message, HasSubstr("of workspace do not fit"));
  EXPECT_EQ(result.losses.size(), 1U);
  EXPECT_GT(result.ranks[0].peak_bytes, 0);
}

TEST(Trial, WithoutAFaultAllStepsAreReported) {
  const Job job = Faulty("die", 1, 3);  // after the last step
  LaunchOptions launch;
  launch.world_size = launch.local_ranks = 2;
  launch.timeout_s = 100.0;
  const auto backend = MakeCpuBackend(launch, CpuPrecision::kDouble);
  std::vector<int> steps;
  std::vector<double> losses;
  const TrialResult result = RunTrial(
      job, *backend, launch, [&](int step, double step_s, double loss) {
        steps.push_back(step);
        losses.push_back(loss);
        EXPECT_GE(step_s, 0.0);
      });
  EXPECT_EQ(result.reason, EndReason::kNone);
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(losses, result.losses);
  EXPECT_EQ(result.step_times_s.size(), 3U);
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[1].rank, 1);
  EXPECT_EQ(result.ranks[1].parameters, trials::ParameterCount(job.model));
  const common::Json json = ToJson(job, result);
  EXPECT_EQ(json.at("outcome"), "completed");
  EXPECT_EQ(json.at("losses").size(), 3U);
  EXPECT_EQ(json.at("ranks").size(), 2U);
  EXPECT_FALSE(json.at("ranks")[0].contains("timeline"));
  EXPECT_EQ(json.at("ranks")[1].at("region_peak_bytes").size(), 6U);
  EXPECT_EQ(json.at("ranks")[1].at("peak_bytes"), result.ranks[1].peak_bytes);
}

TEST(Trial, AnArenaOfAByteIsTooSmall) {
  Job job = Faulty("", 0, 0);
  job.memory_bytes = 1;
  EXPECT_EQ(Train(job).reason, EndReason::kOutOfMemory);
  job.memory_bytes = 0;  // no limit but the host's
  EXPECT_EQ(Train(job).reason, EndReason::kNone);
}

TEST(Trial, ATrialThatIsStoppedAfterItsLastStepIsComplete) {
  const Job job = Faulty("", 0, 0);
  for (const int last : {1, 2}) {
    LaunchOptions launch;
    launch.world_size = launch.local_ranks = 2;
    launch.timeout_s = 100.0;
    const auto backend = MakeCpuBackend(launch, CpuPrecision::kDouble);
    const TrialResult result =
        RunTrial(job, *backend, launch, [&](int step, double, double) {
          if (step == last) {
            backend->fabric().Abort(EndReason::kStopped, "by the test");
          }
        });
    EXPECT_EQ(result.reason,
              last == 2 ? EndReason::kNone : EndReason::kStopped);
    EXPECT_EQ(result.message, last == 2 ? "" : "by the test");
    EXPECT_EQ(result.losses.size(), last + 1U);
  }
}

// The thread of a rank that hangs outlives the trial, so the process must end.
TEST(Trial, ARankThatHangsIsLeftBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Job job = Faulty("hang", 1, 0);
        LaunchOptions launch;
        launch.world_size = launch.local_ranks = 2;
        launch.timeout_s = 0.5;
        const auto backend = MakeCpuBackend(launch, CpuPrecision::kDouble);
        const TrialResult result = RunTrial(job, *backend, launch, {}, 0.05);
        _exit(result.stuck && result.reason == EndReason::kFailed ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// Ranks share the memory of the host.
TEST(Trial, ARankHasItsShareOfTheMemory) {
  const auto bytes = [](int ranks) {
    LaunchOptions launch;
    launch.world_size = ranks;
    return MakeCpuBackend(launch, CpuPrecision::kFloat)->MemoryBytes(0);
  };
  EXPECT_GT(bytes(1), std::int64_t{1} << 24);
  EXPECT_EQ(bytes(4), bytes(1) / 4);
  LaunchOptions launch;
  EXPECT_THAT(MakeCpuBackend(launch, CpuPrecision::kFloat)->description(),
              HasSubstr("CPU, float, "));
  EXPECT_THAT(MakeCpuBackend(launch, CpuPrecision::kDouble)->description(),
              HasSubstr("CPU, double, "));
}

class GroupCounter : public ThreadFabric {
 public:
  GroupCounter() : ThreadFabric(10.0) {}
  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override {
    ++groups;
    return ThreadFabric::Group(rank, name, members, own_stream, device);
  }
  int groups = 0;
};

TEST(Rank, TakesItsMemoryWhenItsGroupsHaveTheirs) {
  GroupCounter fabric;
  const Job job = TinyJob("gpt2", "dp=1", 1);
  const auto device = MakeCpuDevice(CpuPrecision::kDouble);
  int groups = 0;
  const auto memory = [&] {
    groups = fabric.groups;
    return std::int64_t{1} << 26;
  };
  const Rank rank(job, 0, memory, fabric, *device);
  EXPECT_EQ(groups, 1);
  EXPECT_EQ(fabric.groups, 1);
}

TEST(Rank, AStepTrainsOnTheDataThatWasPrepared) {
  GroupCounter fabric;
  Job job = TinyJob("gpt2", "dp=1", 9);
  job.adam.learning_rate = 0.0;
  const auto device = MakeCpuDevice(CpuPrecision::kDouble);
  Rank rank(
      job, 0, [] { return std::int64_t{1} << 26; }, fabric, *device);
  const auto loss = [&rank](int step) {
    rank.Prepare(step);
    return rank.Step();
  };
  const double first = loss(0);
  EXPECT_NE(loss(1), first);
  EXPECT_EQ(loss(0), first);
}

}  // namespace trainer::testing::trial_test
