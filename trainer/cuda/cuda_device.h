// A GPU as the device of one rank.

#pragma once

#include <array>
#include <functional>
#include <memory>

#include "trainer/cuda/attention.h"
#include "trainer/cuda/gemm.h"
#include "trainer/cuda/streams.h"
#include "trainer/device.h"

namespace trainer::cuda {

// Several ranks can have devices on one card, each with its own streams and its
// own memory. The functions of an operator are in the file with its kernels.
//
// Errors: throws std::runtime_error for an error of CUDA, and what `check`
// throws while the host waits for the device.
class CudaDevice final : public Device {
 public:
  // While the host waits for the device: `begin` is called first, and its
  // result destroyed at the end; `check` is called again and again.
  struct HostWaits {
    std::function<std::shared_ptr<const void>()> begin;
    std::function<void()> check;
  };
  // width: 2 (bfloat16) or 4 (float).
  CudaDevice(int device, int width, HostWaits waits);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Device numbers belong to threads: every thread that uses the device calls
  // this first.
  void MakeCurrent() const;
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  [[nodiscard]] int width() const override;
  [[nodiscard]] int wide_width() const override;
  [[nodiscard]] std::int64_t row_multiple() const override;
  std::byte* Reserve(std::int64_t bytes) override;
  void Zero(Tensor x) override;
  void Copy(Tensor from, Tensor to) override;
  void Convert(Tensor from, Tensor to) override;
  void Add(Tensor from, Tensor to) override;
  void FromHost(const void* from, Tensor to) override;
  void ToHost(Tensor from, void* to) override;
  void Synchronize() override;
  void Generate(const Slab& slab, Tensor to) override;
  void SwapLeading(std::int64_t n0, std::int64_t n1, std::int64_t cols,
                   Tensor from, Tensor to) override;
  void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
            Tensor bias) override;
  void NormForward(const NormArgs& args) override;
  void NormBackward(const NormArgs& args) override;
  void AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
               Tensor x) override;
  void BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                    Tensor dbias) override;
  void ActivationForward(const ActivationArgs& args) override;
  void ActivationBackward(const ActivationArgs& args) override;
  void Rotate(const RotateArgs& args) override;
  [[nodiscard]] std::int64_t AttentionKept(
      const AttentionShape& shape) const override;
  [[nodiscard]] std::int64_t AttentionScratch(
      const AttentionShape& shape) const override;
  void AttentionForward(const AttentionArgs& args) override;
  void AttentionBackward(const AttentionArgs& args) override;
  void EmbeddingForward(const EmbeddingArgs& args) override;
  void EmbeddingBackward(const EmbeddingArgs& args) override;
  void AddPositions(const Positions& positions, std::int64_t cols, Tensor table,
                    Tensor x) override;
  void PositionsBackward(const Positions& positions, std::int64_t cols,
                         Tensor dx, Tensor dtable) override;
  void LossMaxima(const LossArgs& args) override;
  void LossSums(const LossArgs& args) override;
  void LossBackward(const LossArgs& args) override;
  void RouteForward(const RouteArgs& args) override;
  void RouteBackward(const RouteArgs& args) override;
  void ScatterRows(const SlotArgs& args) override;
  void CombineRows(const SlotArgs& args) override;
  void CombineWeights(const SlotArgs& args, Tensor dto,
                      Tensor dweights) override;
  void Adam(const AdamArgs& args) override;

 private:
  // The part of the staging memory that was used longest ago, when the device
  // has done its copy.
  std::byte* NextPart();
  // Elements of scratch memory that the library takes.
  [[nodiscard]] std::int64_t FusedScratch(const AttentionShape& shape) const;
  // Polls, so that the end of a trial on another rank ends the wait.
  void WaitFor(const Mark& mark);

  int device_;
  int width_;
  HostWaits waits_;
  cudaStream_t stream_ = nullptr;
  void* slab_ = nullptr;
  // Outside the arena: of matrix products, and of the backward pass of
  // embeddings.
  void* workspace_ = nullptr;
  std::unique_ptr<GemmRunner> gemm_;
  std::unique_ptr<FusedAttention> fused_;  // null: there is none
  void* staging_ = nullptr;        // pinned: copies do not block in the driver
  std::array<MarkPtr, 8> copied_;  // by part: the end of its last copy
  std::size_t part_ = 0;
};

}  // namespace trainer::cuda
