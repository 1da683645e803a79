// A GPU as the device of one rank.

#ifndef TRAINER_CUDA_CUDA_DEVICE_H_
#define TRAINER_CUDA_CUDA_DEVICE_H_

#include <functional>
#include <memory>

#include "trainer/cuda/gemm.h"
#include "trainer/cuda/platform.h"
#include "trainer/device.h"

namespace trainer::cuda {

// Several ranks can have devices on one card, each with its own streams and its
// own memory. The functions of an operator are in the file with its kernels.
//
// Errors: throws std::runtime_error for an error of CUDA, and what `check`
// throws while the host waits for the device.
class CudaDevice final : public Device {
 public:
  // width: 2 (bfloat16) or 4 (float). check: called while the host waits.
  CudaDevice(int device, int width, std::function<void()> check);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Device numbers belong to threads: every thread that uses the device calls
  // this first.
  void MakeCurrent() const;
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  [[nodiscard]] int width() const override;
  [[nodiscard]] int wide_width() const override;
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
  void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c) override;
  void NormForward(NormKind kind, double epsilon, std::int64_t rows,
                   std::int64_t cols, Tensor x, Tensor scale, Tensor shift,
                   Tensor y, Tensor statistics) override;
  void NormBackward(NormKind kind, std::int64_t rows, std::int64_t cols,
                    Tensor dy, Tensor x, Tensor scale, Tensor statistics,
                    Tensor dx, Tensor dscale, Tensor dshift) override;
  void AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
               Tensor x) override;
  void BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                    Tensor dbias) override;
  void ActivationForward(Activation kind, std::int64_t rows, std::int64_t cols,
                         Tensor bias, Tensor x, Tensor y) override;
  void ActivationBackward(Activation kind, std::int64_t rows, std::int64_t cols,
                          Tensor dy, Tensor x, Tensor dx) override;
  void Rotate(const Positions& positions, std::int64_t heads,
              std::int64_t head_size, std::int64_t stride, bool backward,
              Tensor table, Tensor x) override;
  [[nodiscard]] std::int64_t AttentionKept(
      const AttentionShape& shape) const override;
  [[nodiscard]] std::int64_t AttentionScratch(
      const AttentionShape& shape) const override;
  void AttentionForward(const AttentionShape& shape, Tensor q, Tensor k,
                        Tensor v, Tensor out, Tensor kept,
                        Tensor scratch) override;
  void AttentionBackward(const AttentionShape& shape, Tensor dout, Tensor q,
                         Tensor k, Tensor v, Tensor out, Tensor kept,
                         Tensor scratch, Tensor dq, Tensor dk,
                         Tensor dv) override;
  void EmbeddingForward(std::int64_t rows, std::int64_t cols,
                        std::int64_t first, std::int64_t table_rows,
                        Tensor tokens, Tensor table, Tensor out) override;
  void EmbeddingBackward(std::int64_t rows, std::int64_t cols,
                         std::int64_t first, std::int64_t table_rows,
                         Tensor tokens, Tensor dout, Tensor dtable) override;
  void AddPositions(const Positions& positions, std::int64_t cols, Tensor table,
                    Tensor x) override;
  void PositionsBackward(const Positions& positions, std::int64_t cols,
                         Tensor dx, Tensor dtable) override;
  void LossMaxima(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                  Tensor logits, Tensor maxima) override;
  void LossSums(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                std::int64_t first, Tensor logits, Tensor labels, Tensor maxima,
                Tensor sums) override;
  void LossBackward(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                    std::int64_t first, double scale, Tensor labels,
                    Tensor maxima, Tensor sums, Tensor logits,
                    Tensor loss) override;
  void RouteForward(std::int64_t rows, std::int64_t experts, std::int64_t k,
                    Tensor logits, Tensor chosen, Tensor weights) override;
  void RouteBackward(std::int64_t rows, std::int64_t experts, std::int64_t k,
                     Tensor chosen, Tensor weights, Tensor dweights,
                     Tensor dlogits) override;
  void ScatterRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                   Tensor from, Tensor slots, Tensor weights,
                   Tensor to) override;
  void CombineRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                   Tensor from, Tensor slots, Tensor weights,
                   Tensor to) override;
  void CombineWeights(std::int64_t rows, std::int64_t k, std::int64_t cols,
                      Tensor dto, Tensor from, Tensor slots,
                      Tensor dweights) override;
  void Adam(const AdamOptions& options, Tensor gradient, Tensor master,
            Tensor first_moment, Tensor second_moment, Tensor weights) override;

 private:
  [[nodiscard]] float* LogSums(const AttentionShape& shape, Tensor kept,
                               Tensor scratch) const;

  int device_;
  int width_;
  std::function<void()> check_;
  cudaStream_t stream_ = nullptr;
  void* slab_ = nullptr;
  // Outside the arena: of matrix products, and of the backward pass of
  // embeddings.
  void* workspace_ = nullptr;
  std::unique_ptr<GemmRunner> gemm_;
};

}  // namespace trainer::cuda

#endif  // TRAINER_CUDA_CUDA_DEVICE_H_
