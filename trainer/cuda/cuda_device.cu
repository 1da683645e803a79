// The memory of a device, and the functions on vectors of numbers.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "trainer/cuda/attention.h"
#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"
#include "trainer/random.h"

namespace trainer::cuda {
namespace {

// to = from, or += with kAdds.
template <typename From, typename To, int kWidth, bool kAdds>
__global__ void ConvertKernel(std::int64_t vectors, Tensor from, Tensor to) {
  for (std::int64_t i = FlatIndex(); i < vectors; i += FlatStride()) {
    const Vector<From, kWidth> in = Of<Vector<From, kWidth>>(from)[i];
    Vector<To, kWidth>& place = Of<Vector<To, kWidth>>(to)[i];
    Vector<To, kWidth> out = kAdds ? place : Vector<To, kWidth>();
    for (int j = 0; j < kWidth; ++j) {
      out.x[j] = Round<To>(ToFloat(out.x[j]) + ToFloat(in.x[j]));
    }
    place = out;
  }
}

template <bool kAdds>
void Convert(Tensor from, Tensor to, cudaStream_t stream) {
  WithTypes(from.width, to.width, [&](auto in, auto out) {
    WithVectors<4>(from.size, {from, to}, [&](auto width) {
      LaunchFlat(ConvertKernel<decltype(in), decltype(out), width(), kAdds>,
                 from.size / width(), stream, from.size / width(), from, to);
    });
  });
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

template <typename Numbers>
__global__ void SwapLeadingKernel(unsigned vectors, unsigned cols, unsigned n0,
                                  unsigned n1, Tensor from, Tensor to) {
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const unsigned row = i / cols;
    Of<Numbers>(to)[(row % n1 * n0 + row / n1) * cols + i % cols] =
        Of<Numbers>(from)[i];
  }
}

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

// As AdamOptions, with the corrections of the bias of the moments.
struct AdamNumbers {
  float rate, beta1, beta2, epsilon, decay, unbias1, unbias2;
};

template <typename Gradient, typename Weight, int kWidth>
__global__ void AdamKernel(AdamNumbers adam, AdamArgs args) {
  using Wide = Vector<float, kWidth>;
  for (std::int64_t i = FlatIndex(); i < args.gradient.size / kWidth;
       i += FlatStride()) {
    const auto gradient = Of<Vector<Gradient, kWidth>>(args.gradient)[i];
    Wide first = Of<Wide>(args.first_moment)[i];
    Wide second = Of<Wide>(args.second_moment)[i];
    Wide master = Of<Wide>(args.master)[i];
    Vector<Weight, kWidth> weight;
    for (int j = 0; j < kWidth; ++j) {
      const float g = ToFloat(gradient.x[j]);
      const float m = adam.beta1 * first.x[j] + (1.0F - adam.beta1) * g;
      const float v = adam.beta2 * second.x[j] + (1.0F - adam.beta2) * g * g;
      first.x[j] = m;
      second.x[j] = v;
      master.x[j] = adam.decay * master.x[j] -
                    adam.rate * (m * adam.unbias1) /
                        (sqrtf(v * adam.unbias2) + adam.epsilon);
      weight.x[j] = Round<Weight>(master.x[j]);
    }
    Of<Wide>(args.first_moment)[i] = first;
    Of<Wide>(args.second_moment)[i] = second;
    Of<Wide>(args.master)[i] = master;
    Of<Vector<Weight, kWidth>>(args.weights)[i] = weight;
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
#ifdef OPPA_CUDNN
  if (width == 2) {
    fused_ = MakeFusedAttention();
  }
#endif
  Check(cudaMallocHost(&staging_, copied_.size() * kPartBytes),
        "cudaMallocHost");
}

CudaDevice::~CudaDevice() {
  MakeCurrent();
  fused_.reset();
  gemm_.reset();
  cudaFreeHost(staging_);
  cudaFree(workspace_);
  cudaFree(slab_);
  cudaStreamDestroy(stream_);
}

void CudaDevice::MakeCurrent() const {
  Check(cudaSetDevice(device_), "cudaSetDevice");
}

int CudaDevice::width() const { return width_; }
int CudaDevice::wide_width() const { return sizeof(float); }
// Of 16 bytes; else cuBLASLt has only kernels without Hopper's copy engine.
std::int64_t CudaDevice::row_multiple() const { return 16 / width_; }

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
  cuda::Convert<false>(from, to, stream_);
}

void CudaDevice::Add(Tensor from, Tensor to) {
  cuda::Convert<true>(from, to, stream_);
}

std::byte* CudaDevice::NextPart() {
  part_ = (part_ + 1) % copied_.size();
  if (copied_[part_] != nullptr) {
    WaitFor(*copied_[part_]);
  }
  return static_cast<std::byte*>(staging_) + part_ * kPartBytes;
}

void CudaDevice::FromHost(const void* from, Tensor to) {
  const auto bytes = static_cast<std::size_t>(to.bytes());
  for (std::size_t at = 0; at < bytes; at += kPartBytes) {
    const std::size_t size = std::min(kPartBytes, bytes - at);
    std::byte* part = NextPart();
    std::memcpy(part, static_cast<const std::byte*>(from) + at, size);
    Check(cudaMemcpyAsync(to.data + at, part, size, cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
    copied_[part_] = std::make_shared<const Mark>(stream_);
  }
}

void CudaDevice::ToHost(Tensor from, void* to) {
  const auto bytes = static_cast<std::size_t>(from.bytes());
  for (std::size_t at = 0; at < bytes; at += kPartBytes) {
    const std::size_t size = std::min(kPartBytes, bytes - at);
    std::byte* part = NextPart();
    Check(
        cudaMemcpyAsync(part, from.data + at, size, cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
    Synchronize();
    std::memcpy(static_cast<std::byte*>(to) + at, part, size);
  }
}

void CudaDevice::Synchronize() { WaitFor(Mark(stream_)); }

void CudaDevice::WaitFor(const Mark& mark) {
  const auto wait = waits_.begin();
  while (!mark.Reached()) {
    waits_.check();
  }
}

void CudaDevice::Generate(const Slab& slab, Tensor to) {
  WithType(to.width, [&](auto number) {
    using T = decltype(number);
    LaunchFlat(GenerateKernel<T>, to.size, stream_, slab, Of<T>(to));
  });
}

void CudaDevice::SwapLeading(std::int64_t n0, std::int64_t n1,
                             std::int64_t cols, Tensor from, Tensor to) {
  WithRows(n0 * n1, cols, {from, to},
           [&](auto numbers, unsigned vectors, unsigned vector_cols) {
             LaunchFlat(SwapLeadingKernel<decltype(numbers)>, vectors, stream_,
                        vectors, vector_cols, n0, n1, from, to);
           });
}

void CudaDevice::Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
                      Tensor bias) {
  if (shape.m > 0 && shape.n > 0 && shape.k > 0) {
    gemm_->Run(shape, a, b, c, bias, stream_);
  }
}

std::int64_t CudaDevice::AttentionKept(const AttentionShape& shape) const {
  return AttentionStatisticsBytes(shape) / width_;
}

std::int64_t CudaDevice::FusedScratch(const AttentionShape& shape) const {
  constexpr std::int64_t kAlignment = 256;
  const std::int64_t bytes =
      fused_ == nullptr ? 0 : fused_->ScratchBytes(shape);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment / width_;
}

// What the library takes, then <dout, out> and the log-sum-exp without `kept`.
std::int64_t CudaDevice::AttentionScratch(const AttentionShape& shape) const {
  return FusedScratch(shape) + 2 * AttentionKept(shape);
}

void CudaDevice::AttentionForward(const AttentionArgs& args) {
  AttentionArgs own = args;
  if (args.kept.empty()) {
    own.kept = args.scratch.From(FusedScratch(args.shape));
  }
  if (fused_ == nullptr || !fused_->Run(own, false, stream_)) {
    PlainAttentionForward(own, stream_);
  }
}

void CudaDevice::AttentionBackward(const AttentionArgs& args) {
  AttentionArgs own = args;
  const Tensor statistics = args.scratch.From(FusedScratch(args.shape));
  if (args.kept.empty()) {
    own.kept = statistics.From(AttentionKept(args.shape));
    AttentionForward(own);
  }
  if (fused_ == nullptr || !fused_->Run(own, true, stream_)) {
    own.scratch = statistics;
    PlainAttentionBackward(own, stream_);
  }
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
    WithVectors<4>(args.gradient.size,
                   {args.gradient, args.first_moment, args.second_moment,
                    args.master, args.weights},
                   [&](auto width) {
                     LaunchFlat(
                         AdamKernel<decltype(in), decltype(out), width()>,
                         args.gradient.size / width(), stream_, adam, args);
                   });
  });
}

}  // namespace trainer::cuda
