// Asks cuDNN, without a GPU, whether it has kernels for the attention that the
// trainer needs. It cannot compile or run them here.

#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/cuda/attention_cudnn.h"

namespace {

struct Gpu {
  const char* name;
  int version, multiprocessors, shared_bytes;
};
constexpr Gpu kGpus[] = {{"A100", 80, 108, 166912},
                         {"H100", 90, 132, 232448},
                         {"B200", 100, 148, 232448}};
const Gpu* current = kGpus;

}  // namespace

// Instead of those of the CUDA runtime.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties,
                                               int /*device*/) {
  std::memset(properties, 0, sizeof(*properties));
  properties->major = current->version / 10;
  properties->minor = current->version % 10;
  return cudaSuccess;
}

namespace trainer::cuda {
namespace {

// The JSON that cuDNN writes for a GPU, with what differs between these.
std::string Describe(const Gpu& gpu) {
  return fmt::format(
      R"({{"deviceName": "{}", "deviceVer": {}, "multiProcessorCount": {},
  "maxSharedMemoryPerBlockOptin": {}, "maxSharedMemoryPerBlock": 49152,
  "reservedSharedMemoryPerBlock": 1024, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "warpSize": 32,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "smClockRateKHz": 1500000, "memClockRateKHz": 2000000,
  "l2CacheSize": 41943040, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "driverVer": 13000, "cudaDeviceId": 0,
  "totalGlobalMem": 80000000000}})",
      gpu.name, gpu.version * 10, gpu.multiprocessors, gpu.shared_bytes);
}

// What is wrong; "" if cuDNN has a kernel.
std::string Problem(const AttentionShape& shape, bool backward) {
  const std::string text = Describe(*current);
  const auto gpu = std::make_shared<cudnn_frontend::DeviceProperties>();
  const auto graph = AttentionGraph(shape, backward);
  graph->set_device_properties(gpu);
  for (auto error :
       {gpu->deserialize({text.begin(), text.end()}), graph->validate(),
        graph->build_operation_graph(),
        graph->create_execution_plans({cudnn_frontend::HeurMode_t::A}),
        graph->check_support()}) {
    if (error.is_bad()) {
      return error.get_message();
    }
  }
  return "";
}

// Tokens of one rank have queries, keys and values in one row.
AttentionShape Shape(std::int64_t batch, std::int64_t queries,
                     std::int64_t keys, std::int64_t offset, std::int64_t heads,
                     std::int64_t kv_heads, std::int64_t head_size,
                     bool causal) {
  const bool one = queries == keys;
  const std::int64_t q = heads * head_size;
  const std::int64_t kv = 2 * kv_heads * head_size;
  return {.batch = batch,
          .queries = queries,
          .keys = keys,
          .query_offset = offset,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_size = head_size,
          .q_stride = one ? q + kv : q,
          .kv_stride = one ? q + kv : kv,
          .out_stride = q,
          .causal = causal};
}

TEST(CudnnAttention, HasKernelsForTheModelsOfTheTrainer) {
  for (const Gpu& gpu : kGpus) {
    current = &gpu;
    for (const AttentionShape& shape :
         {Shape(8, 1024, 1024, 0, 12, 2, 128, true),    // Qwen2
          Shape(32, 1024, 1024, 0, 12, 12, 64, true),   // GPT-2
          Shape(16, 512, 512, 0, 12, 12, 64, false),    // BERT
          Shape(64, 197, 197, 0, 12, 12, 64, false),    // ViT
          Shape(1, 4096, 4096, 0, 32, 8, 128, true),    // Mixtral
          Shape(2, 512, 1024, 0, 12, 2, 128, true),     // cp, the first rank
          Shape(2, 512, 1024, 512, 12, 2, 128, true),   // the last one
          Shape(2, 100, 400, 200, 12, 2, 128, true),    // of odd length
          Shape(2, 512, 1024, 512, 12, 12, 64, false),  // BERT, cp
          Shape(4, 64, 64, 0, 4, 4, 8, true)}) {        // scaled
      for (const bool backward : {false, true}) {
        EXPECT_EQ(Problem(shape, backward), "")
            << gpu.name << ", " << shape.queries << " queries, heads of "
            << shape.head_size << ", backward " << backward;
      }
    }
  }
}

TEST(CudnnAttention, HasNoneForOddHeads) {
  EXPECT_NE(Problem(Shape(2, 64, 64, 0, 2, 1, 12, true), false), "");
}

}  // namespace
}  // namespace trainer::cuda
