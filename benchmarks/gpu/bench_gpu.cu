// Measures what a GPU achieves: matrix products (bf16, fp8, fp32), memory
// bandwidth, element-wise kernels, the gap between kernels. Writes
//
//   OUT/<name>_operators.csv   the calls, a table of the kind gemm-efficiencies
//   EXPERIMENTS/gpus/<name>.toml       datasheet values read from the device
//   EXPERIMENTS/hardware/<name>.toml   fractions; scripts/fit-constants refines
//                                      them from the calls
//
// usage: bench_gpu NAME [OUT] [EXPERIMENTS] [HALF_TFLOPS]

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "bench_gpu: %s: %s\n", what,
                 cudaGetErrorString(error));
    std::exit(1);
  }
}

bool Succeeds(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

// Random bits that are bf16 numbers between -2 and 2 (and harmless as fp8): the
// power that a product draws depends on its data.
__global__ void Fill(std::uint32_t* words, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
       i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + 12345u;
    x ^= x >> 16;
    x *= 2246822519u;
    x ^= x >> 13;
    words[i] = (x & 0x807f807fu) | 0x3f003f00u | ((x >> 3) & 0x00800080u);
  }
}

__global__ void Copy(const float4* from, float4* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
       i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    to[i] = from[i];
  }
}

// silu(gate) * up, 16 bytes per thread.
struct alignas(16) Eight {
  __nv_bfloat16 x[8];
};
__global__ void Silu(const Eight* gate, const Eight* up, Eight* out,
                     std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) {
    const Eight gates = gate[i];
    const Eight ups = up[i];
    Eight result;
    for (int j = 0; j < 8; ++j) {
      const float g = __bfloat162float(gates.x[j]);
      result.x[j] = __float2bfloat16(g / (1.0f + __expf(-g)) *
                                     __bfloat162float(ups.x[j]));
    }
    out[i] = result;
  }
}

__global__ void Nothing() {}

// Seconds of one call: for a quarter of a second, after as long a warm-up, so
// that the clock is the one that the power limit allows.
double Seconds(const std::function<void()>& call) {
  constexpr double kRun_s = 0.25;
  cudaEvent_t begin;
  cudaEvent_t end;
  Check(cudaEventCreate(&begin), "event");
  Check(cudaEventCreate(&end), "event");
  const auto repeat = [&](int times) {
    Check(cudaEventRecord(begin), "event");
    for (int i = 0; i < times; ++i) {
      call();
    }
    Check(cudaEventRecord(end), "event");
    Check(cudaEventSynchronize(end), "measurement");
    float ms = 0.0f;
    Check(cudaEventElapsedTime(&ms, begin, end), "event");
    return 1e-3 * ms / times;
  };
  repeat(1);  // loads the kernel
  const double first_s = std::max(1e-6, repeat(3));
  const int times = std::clamp(static_cast<int>(kRun_s / first_s), 3, 20000);
  repeat(times);
  const double time_s = repeat(times);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return time_s;
}

enum class Type { kBf16, kFp8, kFp32 };
enum class Layout { kTn, kNn, kNt };  // forward, by input, by weight

struct Call {
  Type type;
  Layout layout;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// C[m, n] = A B, row by row; C += A B in fp32 for Layout::kNt.
class Products {
 public:
  Products() {
    ready_ = Succeeds(cublasLtCreate(&handle_));
    Check(cudaMalloc(&workspace_, kWorkspaceBytes), "memory");
    Check(cudaMalloc(&a_, kBufferBytes), "memory");
    Check(cudaMalloc(&b_, kBufferBytes), "memory");
    Check(cudaMalloc(&c_, kBufferBytes), "memory");
    for (void* buffer : {a_, b_, c_}) {
      Fill<<<1024, 256>>>(static_cast<std::uint32_t*>(buffer),
                          kBufferBytes / 4);
    }
    Check(cudaDeviceSynchronize(), "random data");
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  static bool Fits(const Call& call) {
    const std::int64_t most =
        std::max({call.m * call.k, call.k * call.n, 2 * call.m * call.n});
    return most * (call.type == Type::kFp32 ? 4 : 2) <=
           static_cast<std::int64_t>(kBufferBytes);
  }

  // Seconds; 0 if the library has no such product.
  double Time(const Call& call) {
    const cudaDataType_t in = call.type == Type::kBf16  ? CUDA_R_16BF
                              : call.type == Type::kFp8 ? CUDA_R_8F_E4M3
                                                        : CUDA_R_32F;
    const bool adds = call.layout == Layout::kNt;
    const cudaDataType_t out =
        call.type == Type::kFp32 || adds ? CUDA_R_32F : CUDA_R_16BF;
    // Column by column, this is C' = B' A' with C' [n, m].
    const cublasOperation_t op_b =
        call.layout == Layout::kTn ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_a = adds ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &op_b,
                                   sizeof(op_b));
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &op_a,
                                   sizeof(op_a));
    const bool b_by_k = op_b == CUBLAS_OP_T;
    cublasLtMatrixLayoutCreate(&b, in, b_by_k ? call.k : call.n,
                               b_by_k ? call.n : call.k,
                               b_by_k ? call.k : call.n);
    const bool a_by_m = op_a == CUBLAS_OP_T;
    cublasLtMatrixLayoutCreate(&a, in, a_by_m ? call.m : call.k,
                               a_by_m ? call.k : call.m,
                               a_by_m ? call.m : call.k);
    cublasLtMatrixLayoutCreate(&c, out, call.n, call.m, call.n);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
        sizeof(kWorkspaceBytes));
    cublasLtMatmulHeuristicResult_t algorithm{};
    int found = 0;
    const float one = 1.0f;
    const float beta = adds ? 1.0f : 0.0f;
    double time_s = 0.0;
    if (ready_ &&
        Succeeds(cublasLtMatmulAlgoGetHeuristic(
            handle_, product, b, a, c, c, preference, 1, &algorithm, &found)) &&
        found > 0) {
      time_s = Seconds([&] {
        cublasLtMatmul(handle_, product, &one, b_, b, a_, a, &beta, c_, c, c_,
                       c, &algorithm.algo, workspace_, kWorkspaceBytes,
                       nullptr);
      });
    }
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(product);
    return time_s;
  }

  void* a() const { return a_; }
  void* b() const { return b_; }
  void* c() const { return c_; }

  static constexpr std::size_t kBufferBytes = std::size_t{1} << 30;

 private:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
  cublasLtHandle_t handle_ = nullptr;
  bool ready_ = false;
  void* workspace_ = nullptr;
  void* a_ = nullptr;
  void* b_ = nullptr;
  void* c_ = nullptr;
};

struct Device {
  cudaDeviceProp properties{};
  double clock_hz = 0.0;
  double memory_bytes_per_s = 0.0;
  double half_flop_per_s = 0.0;
  double single_flop_per_s = 0.0;
  bool fp8 = false;
};

int Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, 0), "attribute");
  return value;
}

// Operations of the tensor cores of a multiprocessor per clock, 16-bit inputs
// and fp32 sums: NVIDIA's architecture whitepapers.
double TensorFlopPerClock(int major, int minor) {
  switch (major) {
    case 7:
      return 1024;
    case 8:
      return minor == 0 ? 2048 : 1024;
    case 9:
      return 4096;
    default:
      return major == 10 ? 8192 : 1024;
  }
}

Device Describe(double half_tflops) {
  Device device;
  Check(cudaGetDeviceProperties(&device.properties, 0), "properties");
  const cudaDeviceProp& p = device.properties;
  device.clock_hz = 1e3 * Attribute(cudaDevAttrClockRate);
  // Two transfers per clock and line.
  device.memory_bytes_per_s = 2e3 * Attribute(cudaDevAttrMemoryClockRate) *
                              Attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  device.half_flop_per_s = half_tflops > 0
                               ? 1e12 * half_tflops
                               : device.clock_hz * p.multiProcessorCount *
                                     TensorFlopPerClock(p.major, p.minor);
  const double lanes =
      p.major == 7 || (p.major == 8 && p.minor == 0) ? 64 : 128;
  device.single_flop_per_s =
      device.clock_hz * p.multiProcessorCount * lanes * 2;
  device.fp8 = p.major > 8 || (p.major == 8 && p.minor >= 9);
  return device;
}

std::vector<Call> Grid(const Device& device) {
  // Layers of models (in, out), some narrow as under tensor parallelism.
  const std::vector<std::pair<int, int>> layers = {
      {2048, 2048}, {2048, 8192},  {4096, 4096},  {4096, 1536}, {4096, 28672},
      {5120, 5120}, {14336, 4096}, {8192, 1024},  {8192, 8192}, {8192, 7168},
      {1024, 8192}, {28672, 8192}, {4096, 32128}, {768, 3072}};
  std::vector<Call> calls;
  for (const auto& [in, out] : layers) {
    for (const std::int64_t tokens : {2048, 8192}) {
      calls.push_back({Type::kBf16, Layout::kTn, tokens, out, in});
      calls.push_back({Type::kBf16, Layout::kNn, tokens, in, out});
      calls.push_back({Type::kBf16, Layout::kNt, out, in, tokens});
      if (device.fp8) {
        calls.push_back({Type::kFp8, Layout::kTn, tokens, out, in});
      }
    }
  }
  calls.push_back({Type::kFp32, Layout::kTn, 4096, 4096, 4096});
  return calls;
}

struct Rates {
  double half = 0.0;  // largest share of the datasheet's rate
  double fp8 = 0.0;
  double single = 0.0;
  double copy = 0.0;
  double elements = 0.0;
  double launch_s = 0.0;
};

// One line of the table; returns the share.
double Report(std::FILE* csv, const std::string& gpu, const Call& call,
              double time_s, double peak_flop_per_s) {
  const char* layout = call.layout == Layout::kTn   ? "TN"
                       : call.layout == Layout::kNn ? "NN"
                                                    : "NT";
  const bool adds = call.layout == Layout::kNt;
  const double share =
      2.0 * call.m * call.n * call.k / time_s / peak_flop_per_s;
  std::fprintf(csv,
               "%s,%.6g,%s,\"b=1, m=%lld, k=%lld, n=%lld, layout=%s, "
               "accumulate=%s, out_dtype=%s, dtype=%s\",%.6g\n",
               gpu.c_str(), peak_flop_per_s / 1e12,
               call.type == Type::kFp32 ? "matmul_fp32" : "matmul",
               static_cast<long long>(call.m), static_cast<long long>(call.k),
               static_cast<long long>(call.n), layout, adds ? "True" : "False",
               adds ? "fp32" : "bf16", call.type == Type::kFp8 ? "fp8" : "bf16",
               share);
  return share;
}

void MeasureProducts(const Device& device, const std::string& gpu,
                     std::FILE* csv, Products& products, Rates& rates) {
  const std::vector<Call> calls = Grid(device);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    std::fprintf(stderr, "\rproducts %zu of %zu", i + 1, calls.size());
    const double time_s = Products::Fits(call) ? products.Time(call) : 0.0;
    if (time_s <= 0.0) {
      continue;
    }
    if (call.type == Type::kFp32) {
      rates.single = std::max(rates.single, Report(csv, gpu, call, time_s,
                                                   device.single_flop_per_s));
    } else if (call.type == Type::kFp8) {
      rates.fp8 = std::max(rates.fp8, Report(csv, gpu, call, time_s,
                                             2 * device.half_flop_per_s));
    } else {
      rates.half = std::max(
          rates.half, Report(csv, gpu, call, time_s, device.half_flop_per_s));
    }
  }
  std::fprintf(stderr, "\n");
}

void MeasureMemory(const Device& device, Products& buffers, Rates& rates) {
  std::fprintf(stderr, "memory, element-wise kernels, gap between kernels\n");
  constexpr std::size_t kBytes = Products::kBufferBytes;
  const double copy_s = Seconds([&] {
    Copy<<<8 * device.properties.multiProcessorCount, 512>>>(
        static_cast<const float4*>(buffers.a()),
        static_cast<float4*>(buffers.c()), kBytes / sizeof(float4));
  });
  rates.copy = 2.0 * kBytes / copy_s / device.memory_bytes_per_s;
  // As large as the activations of a layer.
  constexpr std::size_t kElements = std::size_t{8192} * 14336;
  const double silu_s = Seconds([&] {
    Silu<<<(kElements / 8 + 255) / 256, 256>>>(
        static_cast<const Eight*>(buffers.a()),
        static_cast<const Eight*>(buffers.b()),
        static_cast<Eight*>(buffers.c()), kElements / 8);
  });
  rates.elements = 6.0 * kElements / silu_s / device.memory_bytes_per_s;
  rates.launch_s = Seconds([] { Nothing<<<1, 32>>>(); });
}

void WriteFiles(const std::filesystem::path& experiments,
                const std::string& name, const Device& device,
                const Rates& rates) {
  const auto share = [](double value) { return std::clamp(value, 0.01, 1.0); };
  const cudaDeviceProp& p = device.properties;
  std::filesystem::create_directories(experiments / "gpus");
  std::filesystem::create_directories(experiments / "hardware");
  std::ofstream gpu(experiments / "gpus" / (name + ".toml"));
  gpu << "# Read from the device by benchmarks/gpu/bench_gpu. Rates are those "
         "of "
         "the\n# maximal clock ("
      << device.clock_hz / 1e6
      << " MHz).\n# Format: docs/cluster_format.md.\nname = \"" << p.name
      << "\"\narchitecture = \"" << name
      << "\"\nmemory_gib = " << p.totalGlobalMem / 1073741824.0
      << "\nmemory_bandwidth_gb_per_s = " << device.memory_bytes_per_s / 1e9
      << "\nhalf_tflops = " << device.half_flop_per_s / 1e12
      << "\nsingle_tflops = " << device.single_flop_per_s / 1e12
      << "\nmultiprocessors = " << p.multiProcessorCount << "\n";
  if (rates.fp8 > 0.0) {
    gpu << "fp8_tflops = " << 2 * device.half_flop_per_s / 1e12 << "\n";
  }
  std::ofstream file(experiments / "hardware" / (name + ".toml"));
  file
      << "# Measured by benchmarks/gpu/bench_gpu on " << p.name
      << ".\n# Fractions of the values in experiments/gpus/" << name
      << ".toml; format: docs/simulator.md,\n# \"Constants\".\n"
      << "validated = \"calls on this GPU (make bench-gpu)\"\n"
      << "# The best product; scripts/fit-constants fits it with the constants "
         "of tiles.\ntensor_fraction = "
      << share(rates.half) << "\nsingle_fraction = " << share(rates.single)
      << "\n";
  if (rates.fp8 > 0.0) {
    file << "fp8_fraction = " << share(rates.fp8) << "\n";
  }
  file << "# Copies reach " << rates.copy
       << "; this is an element-wise kernel.\nmemory_fraction = "
       << share(rates.elements) << "\n# The gap between kernels is "
       << rates.launch_s * 1e6
       << " us (launch_s of a framework).\n"
          "tile_overhead = 60\nepilogue_share = 0.45\nwave_overlap = 0.5\n"
          "# Estimates unless attention.py measured attention and they were "
          "fitted.\nflash_fraction = 0.7\nflash_backward_fraction = 0.55\n"
          "flash_tail = 1\nflash_backward_tail = 0.3\n"
          "# Copied from the A100.\nunaligned_fraction = 0.52\n";
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::fprintf(stderr,
                 "bench_gpu: no CUDA GPU here (%s); nothing was measured\n",
                 cudaGetErrorString(error));
    return 2;
  }
  const std::string name = argc > 1 ? argv[1] : "measured";
  const std::filesystem::path out = argc > 2 ? argv[2] : "results/gpu";
  const std::filesystem::path experiments = argc > 3 ? argv[3] : "experiments";
  const Device device = Describe(argc > 4 ? std::atof(argv[4]) : 0.0);
  std::filesystem::create_directories(out);
  const std::filesystem::path table = out / (name + "_operators.csv");
  std::FILE* csv = std::fopen(table.c_str(), "w");
  if (csv == nullptr) {
    std::fprintf(stderr, "bench_gpu: could not write %s\n",
                 table.string().c_str());
    return 2;
  }
  std::fprintf(csv, "gpu,peak_tflops,operator,shape,efficiency\n");
  Products products;
  Rates rates;
  MeasureProducts(device, name, csv, products, rates);
  std::fclose(csv);
  MeasureMemory(device, products, rates);
  WriteFiles(experiments, name, device, rates);
  std::printf(
      "%s: %s; best product %.0f TFLOPS, copies %.0f GB/s, "
      "element-wise %.0f GB/s, gap between kernels %.1f us\n",
      table.string().c_str(), device.properties.name,
      rates.half * device.half_flop_per_s / 1e12,
      rates.copy * device.memory_bytes_per_s / 1e9,
      rates.elements * device.memory_bytes_per_s / 1e9, rates.launch_s * 1e6);
  return 0;
}
