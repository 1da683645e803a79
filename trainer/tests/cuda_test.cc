// The CUDA part of the trainer, its kernels and collectives emulated on the
// CPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/fakes/sanitizers.h"
#include "trainer/count.h"
#include "trainer/cuda/cores.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::cuda_test {

std::unique_ptr<Backend> Emulated(const LaunchOptions& launch) {
  void* module = dlopen(OPPA_EMULATED_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    throw std::runtime_error(dlerror());
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(module, kModuleEntry));
  const char* error = "no entry";
  Backend* backend = entry == nullptr ? nullptr : entry(launch, &error);
  if (backend == nullptr) {
    throw std::runtime_error(error);
  }
  return std::unique_ptr<Backend>(backend);
}

LaunchOptions Launch(const Job& job, const std::string& precision) {
  LaunchOptions launch;
  launch.world_size = launch.local_ranks = job.ranks();
  launch.timeout_s = 20.0;
  launch.precision = precision;
  return launch;
}

TrialResult TrainEmulated(const Job& job, const std::string& precision) {
  const LaunchOptions launch = Launch(job, precision);
  return RunTrial(job, *Emulated(launch), launch);
}

// Narrow enough to be quick, with heads that fit the tiles of attention.
Job SmallJob(std::string_view type, std::string_view config) {
  Job job = TinyJob(type, config, 2);
  job.model.layers = 2;
  job.model.attention_heads = 4;
  job.model.kv_heads = std::min(job.model.kv_heads, 4);
  job.model.head_size = 8;
  job.batch_size = 4;
  job.sequence_length = 8;
  return job;
}

double LargestError(const std::vector<double>& a,
                    const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  EXPECT_FALSE(a.empty());
  double error = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    error = std::max(error, std::abs(a[i] - b[i]) / b[i]);
  }
  return error;
}

class EmulatedCuda : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EmulatedCuda, InFloatLossesEqualThoseOfTheCpu) {
  OPPA_SKIP_IF_SANITIZED();
  const Job job = SmallJob(GetParam(), "dp=1,tp=1,pp=1");
  const TrialResult cpu = Train(job, CpuPrecision::kFloat);
  EXPECT_LT(LargestError(TrainEmulated(job, "float").losses, cpu.losses), 1e-5);
}

TEST_P(EmulatedCuda, InBfloat16LossesAreNearThoseOfTheCpu) {
  OPPA_SKIP_IF_SANITIZED();
  const Job job = SmallJob(GetParam(), "dp=1,tp=1,pp=1");
  const TrialResult cpu = Train(job, CpuPrecision::kFloat);
  EXPECT_LT(LargestError(TrainEmulated(job, "bf16").losses, cpu.losses), 5e-3);
}

// 1 + 2^-9 is 1 in bfloat16.
TEST(EmulatedCard, ManySmallGradientsAddUpInWideSums) {
  OPPA_SKIP_IF_SANITIZED();
  constexpr int kMicrobatches = 64;
  LaunchOptions launch;
  launch.precision = "bf16";
  const auto backend = Emulated(launch);
  const auto device = backend->MakeDevice(0);
  std::byte* memory = device->Reserve(1 << 10);
  const Tensor sum{memory, 1, sizeof(float)};
  const Tensor wide{memory + 256, 1, sizeof(float)};
  const Tensor gradient{memory + 512, 1, 2};
  float value = 1.0F / 512.0F;
  device->FromHost(&value, wide);
  device->Convert(wide, gradient);
  value = 1.0F;
  device->FromHost(&value, sum);
  for (int i = 0; i < kMicrobatches; ++i) {
    device->Add(gradient, sum);
  }
  device->ToHost(sum, &value);
  EXPECT_EQ(value, 1.0F + kMicrobatches / 512.0F);
}

// Bytes per parameter: 2 for the gradients of a microbatch and 4 for sums.
TEST(EmulatedCard, SeveralMicrobatchesHaveWideSumsOfGradients) {
  OPPA_SKIP_IF_SANITIZED();
  const auto bytes = [](const std::string& config) {
    const TrialResult result = TrainEmulated(SmallJob("gpt2", config), "bf16");
    EXPECT_EQ(result.reason, EndReason::kNone) << result.message;
    const auto gradients = static_cast<std::size_t>(Region::kGradients);
    return static_cast<double>(
               result.ranks.front().region_peak_bytes[gradients]) /
           static_cast<double>(result.ranks.front().parameters);
  };
  EXPECT_NEAR(bytes("dp=1,tp=1,pp=1"), 2.0, 0.2);
  EXPECT_NEAR(bytes("dp=1,tp=1,pp=1,microbatches=2"), 6.0, 0.6);
  EXPECT_NEAR(bytes("dp=2,tp=1,pp=1,microbatches=2,zero_stage=2"), 2.0, 0.2);
}

// Without the card: the device only says what attention keeps.
TEST(EmulatedCard, CountedMemoryIsThatOfATrial) {
  OPPA_SKIP_IF_SANITIZED();
  for (const char* config :
       {"dp=2,tp=1,pp=1,microbatches=2,zero_stage=2,overlap_zero_comm=1",
        "dp=1,tp=2,pp=2,microbatches=4,grad_checkpoint=2"}) {
    const Job job = SmallJob("qwen2", config);
    const TrialResult trial = TrainEmulated(job, "bf16");
    const auto backend = Emulated(Launch(job, "bf16"));
    const TrialResult counted = CountMemory(job, *backend->MakeDevice(0));
    for (const RankResult& stage : counted.ranks) {
      EXPECT_EQ(stage.region_peak_bytes,
                trial.ranks[stage.rank].region_peak_bytes)
          << config;
      EXPECT_EQ(stage.peak_bytes, trial.ranks[stage.rank].peak_bytes);
    }
  }
}

TEST(EmulatedCard, InBfloat16MicrobatchesHaveTheLossesOfOneBatch) {
  OPPA_SKIP_IF_SANITIZED();
  const Job one = SmallJob("gpt2", "dp=1,tp=1,pp=1");
  const std::vector<double> cpu = Train(one, CpuPrecision::kFloat).losses;
  for (const char* config :
       {"dp=1,tp=1,pp=1,microbatches=4",
        "dp=2,tp=1,pp=1,microbatches=2,zero_stage=1,overlap_zero_comm=0",
        "dp=2,tp=1,pp=1,microbatches=2,zero_stage=3",
        "dp=1,tp=1,pp=2,microbatches=4",
        "dp=2,tp=1,pp=2,microbatches=2,zero_stage=2"}) {
    const TrialResult result = TrainEmulated(SmallJob("gpt2", config), "bf16");
    EXPECT_LT(LargestError(result.losses, cpu), 5e-3) << config;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EmulatedCuda, ::testing::ValuesIn(kModels),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST(EmulatedCard, RanksThatShareACardHaveTheLossesOfOne) {
  OPPA_SKIP_IF_SANITIZED();
  for (const std::string_view type : {"qwen2", "mixtral"}) {
    const std::vector<double> one =
        TrainEmulated(SmallJob(type, "dp=1,tp=1,pp=1"), "float").losses;
    for (const std::string config :
         {"dp=4,tp=1,pp=1,zero_stage=1,zero_bucket_mb=1",
          "dp=2,tp=2,pp=1,zero_stage=2,sp=2",
          "dp=2,tp=1,pp=2,microbatches=2,zero_stage=0",
          "dp=2,tp=1,pp=1,cp=2,zero_stage=3,overlap_zero_allgather=1",
          "dp=1,tp=2,pp=2,microbatches=4,grad_checkpoint=1",
          "dp=4,tp=1,pp=1,grad_checkpoint=2,ep="}) {
      const std::string whole =
          config +
          (config.back() == '=' ? (type == "mixtral" ? "4" : "1") : "");
      const TrialResult result = TrainEmulated(SmallJob(type, whole), "float");
      EXPECT_LT(LargestError(result.losses, one), 1e-5)
          << type << " " << whole << " " << result.message;
    }
  }
}

TEST(EmulatedCard, ResultsAreTheSameEachTime) {
  OPPA_SKIP_IF_SANITIZED();
  const Job job = SmallJob("qwen2", "dp=2,tp=2,pp=1,zero_stage=2");
  EXPECT_EQ(TrainEmulated(job, "bf16").losses,
            TrainEmulated(job, "bf16").losses);
}

// A missing barrier shows as a result that depends on the order. These two
// models run every kernel.
TEST(EmulatedCard, ResultsDoNotDependOnTheOrderOfThreads) {
  OPPA_SKIP_IF_SANITIZED();
  for (const std::string_view type : {"gpt2", "mixtral"}) {
    const Job job = SmallJob(type, "dp=1,tp=1,pp=1");
    const std::vector<double> forward = TrainEmulated(job, "bf16").losses;
    for (const char* order : {"reverse", "mixed"}) {
      ::setenv("OPPA_EMULATION_ORDER", order, 1);
      EXPECT_EQ(TrainEmulated(job, "bf16").losses, forward) << order;
      ::unsetenv("OPPA_EMULATION_ORDER");
    }
  }
}

TEST(EmulatedCard, ARankWithoutMemoryEndsTheTrialOfAll) {
  OPPA_SKIP_IF_SANITIZED();
  Job job = SmallJob("qwen2", "dp=2,tp=1,pp=2,microbatches=2");
  job.memory_bytes = 100 << 10;
  EXPECT_EQ(TrainEmulated(job, "bf16").reason, EndReason::kOutOfMemory);
}

TEST(Cores, AThreadStaysOnThoseOfAListThatItMayUse) {
  std::thread([] {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    int core = 0;
    while (!CPU_ISSET(core, &before)) {
      ++core;
    }
    const auto kept = [](const std::string& list) {
      cuda::KeepToCores(list);
      cpu_set_t now;
      sched_getaffinity(0, sizeof(now), &now);
      return CPU_COUNT(&now);
    };
    const int all = CPU_COUNT(&before);
    EXPECT_EQ(kept(""), all);
    EXPECT_EQ(kept("4000-4007"), all);
    EXPECT_EQ(kept("0-1023"), all);
    EXPECT_EQ(kept("1020-1023," + std::to_string(core)), 1);
  }).join();
}

// ---- attention against the loops of the CPU ----

struct Operands {
  std::vector<float> q, k, v, dout;
};

// Numbers that bfloat16 represents.
std::vector<float> Draw(std::mt19937_64& engine, std::int64_t size) {
  std::vector<float> numbers(size);
  for (float& x : numbers) {
    x = static_cast<float>(static_cast<int>(engine() % 257) - 128) / 128.0F;
  }
  return numbers;
}

// out, dq, dk, dv of a device, as float.
class AttentionRun {
 public:
  AttentionRun(Device& device, const AttentionShape& shape)
      : device_(device), shape_(shape) {
    next_ = device.Reserve(16 << 20);
  }

  std::vector<std::vector<float>> Run(const Operands& in, bool keep) {
    const Tensor q = Put(in.q), k = Put(in.k), v = Put(in.v);
    const Tensor dout = Put(in.dout);
    const Tensor out = Make(dout.size), dq = Make(q.size);
    const Tensor dk = Make(k.size), dv = Make(v.size);
    const Tensor kept = keep ? Make(device_.AttentionKept(shape_)) : Tensor{};
    const Tensor scratch = Make(device_.AttentionScratch(shape_));
    const AttentionArgs args{shape_,  q,    k,  v,  out, kept,
                             scratch, dout, dq, dk, dv};
    device_.AttentionForward(args);
    device_.AttentionBackward(args);
    return {Get(out), Get(dq), Get(dk), Get(dv)};
  }

 private:
  Tensor Make(std::int64_t size, int width = 0) {
    const int bytes = width == 0 ? device_.width() : width;
    const Tensor tensor{next_, size, bytes};
    next_ += (tensor.bytes() + 255) / 256 * 256;
    return tensor;
  }
  Tensor Put(const std::vector<float>& numbers) {
    const auto size = static_cast<std::int64_t>(numbers.size());
    const Tensor staged = Make(size, sizeof(float));
    device_.FromHost(numbers.data(), staged);
    const Tensor tensor = Make(size);
    device_.Convert(staged, tensor);
    return tensor;
  }
  std::vector<float> Get(Tensor tensor) {
    const Tensor staged = Make(tensor.size, sizeof(float));
    device_.Convert(tensor, staged);
    std::vector<float> numbers(tensor.size);
    device_.ToHost(staged, numbers.data());
    return numbers;
  }

  Device& device_;
  AttentionShape shape_;
  std::byte* next_ = nullptr;
};

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

class CardAttention : public ::testing::TestWithParam<AttentionShape> {};

TEST_P(CardAttention, EqualsTheCpuWithinTheRoundingOfBfloat16) {
  OPPA_SKIP_IF_SANITIZED();
  AttentionShape shape = GetParam();
  shape.q_stride = shape.out_stride = shape.heads * shape.head_size;
  shape.kv_stride = shape.kv_heads * shape.head_size;
  std::mt19937_64 engine(1);
  const std::int64_t q = shape.batch * shape.queries * shape.q_stride;
  const std::int64_t kv = shape.batch * shape.keys * shape.kv_stride;
  const Operands operands{Draw(engine, q), Draw(engine, kv), Draw(engine, kv),
                          Draw(engine, q)};
  const auto cpu = MakeCpuDevice(CpuPrecision::kFloat);
  const auto expected = AttentionRun(*cpu, shape).Run(operands, true);
  LaunchOptions launch;
  launch.precision = "bf16";
  const auto backend = Emulated(launch);
  for (const bool keep : {true, false}) {
    const auto device = backend->MakeDevice(0);
    const auto actual = AttentionRun(*device, shape).Run(operands, keep);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(RelativeError(actual[i], expected[i]), 1e-2)
          << "result " << i << ", keep " << keep;
    }
  }
}

AttentionShape Shape(std::int64_t queries, std::int64_t keys,
                     std::int64_t offset, std::int64_t heads,
                     std::int64_t kv_heads, std::int64_t head_size,
                     bool causal) {
  AttentionShape shape;
  shape.batch = 2;
  shape.queries = queries;
  shape.keys = keys;
  shape.query_offset = offset;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_size = head_size;
  shape.causal = causal;
  return shape;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CardAttention,
    ::testing::Values(Shape(70, 70, 0, 2, 1, 16, true),    // grouped queries
                      Shape(33, 70, 37, 2, 2, 8, true),    // context parallel
                      Shape(40, 40, 0, 1, 1, 72, false),   // wide heads
                      Shape(20, 20, 0, 2, 1, 12, true)));  // plain

}  // namespace trainer::testing::cuda_test
