// The memory of a device, and the functions on vectors of numbers.

#include <cmath>
#include <new>
#include <utility>

#include "trainer/cuda/attention.h"
#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"
#include "trainer/random.h"

namespace trainer::cuda {
namespace {

template <typename From, typename To>
__global__ void ConvertKernel(std::int64_t count, const From* from, To* to) {
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    to[i] = Round<To>(ToFloat(from[i]));
  }
}

template <typename From, typename To>
__global__ void AddKernel(std::int64_t count, const From* from, To* to) {
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    to[i] = Round<To>(ToFloat(to[i]) + ToFloat(from[i]));
  }
}

template <typename T>
__global__ void GenerateKernel(Slab slab, T* to) {
  for (std::int64_t i = FlatIndex(); i < slab.rows * slab.cols;
       i += FlatStride()) {
    const std::int64_t row = slab.row_begin + i / slab.cols;
    const std::int64_t col = slab.col_begin + i % slab.cols;
    const auto index = static_cast<std::uint64_t>(row * slab.global_cols + col);
    const double normal =
        slab.scale == 0.0 ? 0.0 : slab.scale * Normal(slab.key, index);
    to[i] = Round<T>(row < slab.global_rows
                         ? static_cast<float>(slab.shift + normal)
                         : 0.0F);
  }
}

template <typename T>
__global__ void SwapLeadingKernel(std::int64_t n0, std::int64_t n1,
                                  std::int64_t cols, const T* from, T* to) {
  for (std::int64_t i = FlatIndex(); i < n0 * n1 * cols; i += FlatStride()) {
    const std::int64_t row = i / cols;
    to[(row % n1 * n0 + row / n1) * cols + i % cols] = from[i];
  }
}

// As AdamOptions, with the corrections of the bias of the moments.
struct AdamNumbers {
  float rate, beta1, beta2, epsilon, decay, unbias1, unbias2;
};

template <typename Gradient, typename Weight>
__global__ void AdamKernel(AdamNumbers adam, AdamArgs args) {
  float* first = Of<float>(args.first_moment);
  float* second = Of<float>(args.second_moment);
  for (std::int64_t i = FlatIndex(); i < args.gradient.size;
       i += FlatStride()) {
    const float g = ToFloat(Of<Gradient>(args.gradient)[i]);
    const float m = adam.beta1 * first[i] + (1.0F - adam.beta1) * g;
    const float v = adam.beta2 * second[i] + (1.0F - adam.beta2) * g * g;
    const float weight = adam.decay * Of<float>(args.master)[i] -
                         adam.rate * (m * adam.unbias1) /
                             (sqrtf(v * adam.unbias2) + adam.epsilon);
    first[i] = m;
    second[i] = v;
    Of<float>(args.master)[i] = weight;
    Of<Weight>(args.weights)[i] = Round<Weight>(weight);
  }
}

}  // namespace

CudaDevice::CudaDevice(int device, int width, HostWaits waits)
    : device_(device), width_(width), waits_(std::move(waits)) {
  MakeCurrent();
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
  Check(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc (workspace)");
  gemm_ = MakeGemmRunner(workspace_);
}

CudaDevice::~CudaDevice() {
  MakeCurrent();
  gemm_.reset();
  cudaFree(workspace_);
  cudaFree(slab_);
  cudaStreamDestroy(stream_);
}

void CudaDevice::MakeCurrent() const {
  Check(cudaSetDevice(device_), "cudaSetDevice");
}

int CudaDevice::width() const { return width_; }
int CudaDevice::wide_width() const { return sizeof(float); }

std::byte* CudaDevice::Reserve(std::int64_t bytes) {
  MakeCurrent();
  if (cudaMalloc(&slab_, static_cast<std::size_t>(bytes)) != cudaSuccess) {
    slab_ = nullptr;
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(slab_);
}

void CudaDevice::Zero(Tensor x) {
  Check(
      cudaMemsetAsync(x.data, 0, static_cast<std::size_t>(x.bytes()), stream_),
      "cudaMemsetAsync");
}

void CudaDevice::Copy(Tensor from, Tensor to) {
  Check(cudaMemcpyAsync(to.data, from.data,
                        static_cast<std::size_t>(from.bytes()),
                        cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
}

void CudaDevice::Convert(Tensor from, Tensor to) {
  if (from.width == to.width) {
    Copy(from, to);
    return;
  }
  WithTypes(from.width, to.width, [&](auto in, auto out) {
    using From = typename decltype(in)::Type;
    using To = typename decltype(out)::Type;
    LaunchFlat(ConvertKernel<From, To>, from.size, stream_, from.size,
               Of<From>(from), Of<To>(to));
  });
}

void CudaDevice::Add(Tensor from, Tensor to) {
  WithTypes(from.width, to.width, [&](auto in, auto out) {
    using From = typename decltype(in)::Type;
    using To = typename decltype(out)::Type;
    LaunchFlat(AddKernel<From, To>, from.size, stream_, from.size,
               Of<From>(from), Of<To>(to));
  });
}

// Copies of pageable memory wait in the driver.
void CudaDevice::FromHost(const void* from, Tensor to) {
  const auto wait = waits_.begin();
  Check(cudaMemcpyAsync(to.data, from, static_cast<std::size_t>(to.bytes()),
                        cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
  Synchronize();  // the caller may change its memory
}

void CudaDevice::ToHost(Tensor from, void* to) {
  const auto wait = waits_.begin();
  Check(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()),
                        cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
  Synchronize();
}

// Polls, so that the end of a trial on another rank ends the wait.
void CudaDevice::Synchronize() {
  const auto wait = waits_.begin();
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream_);
    if (error == cudaSuccess) {
      return;
    }
    if (error != cudaErrorNotReady) {
      Check(error, "cudaStreamQuery");
    }
    waits_.check();
  }
}

void CudaDevice::Generate(const Slab& slab, Tensor to) {
  WithType(to.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(GenerateKernel<T>, to.size, stream_, slab, Of<T>(to));
  });
}

void CudaDevice::SwapLeading(std::int64_t n0, std::int64_t n1,
                             std::int64_t cols, Tensor from, Tensor to) {
  WithType(from.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(SwapLeadingKernel<T>, n0 * n1 * cols, stream_, n0, n1, cols,
               Of<T>(from), Of<T>(to));
  });
}

void CudaDevice::Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c) {
  if (shape.m > 0 && shape.n > 0 && shape.k > 0) {
    gemm_->Run(shape, a, b, c, stream_);
  }
}

std::int64_t CudaDevice::AttentionKept(const AttentionShape& shape) const {
  return AttentionStatisticsBytes(shape) / width_;
}

std::int64_t CudaDevice::AttentionScratch(const AttentionShape& shape) const {
  return 2 * AttentionStatisticsBytes(shape) / width_;
}

void CudaDevice::AttentionForward(const AttentionArgs& args) {
  cuda::AttentionForward(args, stream_);
}

// Without `kept`, the sums are behind the deltas in the scratch memory.
void CudaDevice::AttentionBackward(const AttentionArgs& args) {
  AttentionArgs again = args;
  if (args.kept.empty()) {
    again.kept = args.scratch.From(AttentionKept(args.shape));
    again.out = {};
    cuda::AttentionForward(again, stream_);
    again.out = args.out;
  }
  cuda::AttentionBackward(again, stream_);
}

void CudaDevice::Adam(const AdamArgs& args) {
  const AdamOptions& options = args.options;
  const AdamNumbers adam{
      static_cast<float>(options.learning_rate),
      static_cast<float>(options.beta1),
      static_cast<float>(options.beta2),
      static_cast<float>(options.epsilon),
      static_cast<float>(1.0 - options.learning_rate * options.weight_decay),
      static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, options.step))),
      static_cast<float>(1.0 / (1.0 - std::pow(options.beta2, options.step)))};
  WithTypes(args.gradient.width, args.weights.width, [&](auto in, auto out) {
    using Gradient = typename decltype(in)::Type;
    using Weight = typename decltype(out)::Type;
    LaunchFlat(AdamKernel<Gradient, Weight>, args.gradient.size, stream_, adam,
               args);
  });
}

}  // namespace trainer::cuda
