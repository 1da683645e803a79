#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include <cublasLt.h>

#include "trainer/cuda/gemm.h"

namespace trainer::cuda {
namespace {

void Check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + ": " +
                             cublasLtGetStatusString(status));
  }
}

// A descriptor of cuBLASLt that destroys itself.
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) {
      destroy(handle_);
    }
  }
  Owned(Owned&& other) noexcept : handle_(other.handle_) {
    other.handle_ = nullptr;
  }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle* out() { return &handle_; }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference =
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// The first algorithm that the heuristics of cuBLASLt propose for a shape.
struct Plan {
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
};

Layout MakeLayout(cudaDataType_t type, bool transposed, std::int64_t rows,
                  std::int64_t cols, std::int64_t stride) {
  Layout layout;
  Check(cublasLtMatrixLayoutCreate(
            layout.out(), type,
            static_cast<std::uint64_t>(transposed ? cols : rows),
            static_cast<std::uint64_t>(transposed ? rows : cols), stride),
        "cublasLtMatrixLayoutCreate");
  return layout;
}

// The largest power of two, up to 256, that divides an address.
std::uint32_t Alignment(const std::byte* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::uint32_t alignment = 256;
  while (alignment > 1 && address % alignment != 0) {
    alignment /= 2;
  }
  return alignment;
}

class CublasGemm final : public GemmRunner {
 public:
  explicit CublasGemm(void* workspace) : workspace_(workspace) {
    Check(cublasLtCreate(handle_.out()), "cublasLtCreate");
  }

  // cuBLASLt has columns where we have rows, so it computes the transpose:
  // C^T = op(B)^T op(A)^T.
  void Run(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
           cudaStream_t stream) override {
    const Key key{shape.transpose_a, shape.transpose_b, shape.m,
                  shape.n,           shape.k,           shape.lda,
                  shape.ldb,         shape.ldc,         c.width,
                  Alignment(a.data), Alignment(b.data), Alignment(c.data)};
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      found = plans_.emplace(key, MakePlan(shape, a, b, c)).first;
    }
    const Plan& plan = found->second;
    const auto alpha = static_cast<float>(shape.alpha);
    const auto beta = static_cast<float>(shape.beta);
    Check(cublasLtMatmul(handle_.get(), plan.operation.get(), &alpha, b.data,
                         plan.b.get(), a.data, plan.a.get(), &beta, c.data,
                         plan.c.get(), c.data, plan.c.get(), &plan.algorithm,
                         workspace_, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  using Key = std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t, int,
                         std::uint32_t, std::uint32_t, std::uint32_t>;

  [[nodiscard]] Plan MakePlan(const GemmShape& shape, const Tensor& a,
                              const Tensor& b, const Tensor& c) const {
    const cudaDataType_t type = c.width == 2 ? CUDA_R_16BF : CUDA_R_32F;
    Plan plan;
    Check(cublasLtMatmulDescCreate(plan.operation.out(), CUBLAS_COMPUTE_32F,
                                   CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cublasOperation_t op_a =
        shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b =
        shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    // The first operand of cuBLASLt is B.
    Check(cublasLtMatmulDescSetAttribute(plan.operation.get(),
                                         CUBLASLT_MATMUL_DESC_TRANSA, &op_b,
                                         sizeof(op_b)),
          "cublasLtMatmulDescSetAttribute");
    Check(cublasLtMatmulDescSetAttribute(plan.operation.get(),
                                         CUBLASLT_MATMUL_DESC_TRANSB, &op_a,
                                         sizeof(op_a)),
          "cublasLtMatmulDescSetAttribute");
    // A row-major [r, c] matrix is a column-major [c, r] one.
    plan.a = MakeLayout(type, shape.transpose_a, shape.k, shape.m, shape.lda);
    plan.b = MakeLayout(type, shape.transpose_b, shape.n, shape.k, shape.ldb);
    plan.c = MakeLayout(type, false, shape.n, shape.m, shape.ldc);
    SetAlgorithm(a, b, c, plan);
    return plan;
  }

  void SetAlgorithm(const Tensor& a, const Tensor& b, const Tensor& c,
                    Plan& plan) const {
    Preference preference;
    Check(cublasLtMatmulPreferenceCreate(preference.out()),
          "cublasLtMatmulPreferenceCreate");
    const auto set = [&preference](cublasLtMatmulPreferenceAttributes_t name,
                                   const auto& value) {
      Check(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value,
                                                 sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::uint64_t{kWorkspaceBytes});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Alignment(b.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Alignment(a.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Alignment(c.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Alignment(c.data));
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    Check(cublasLtMatmulAlgoGetHeuristic(
              handle_.get(), plan.operation.get(), plan.b.get(), plan.a.get(),
              plan.c.get(), plan.c.get(), preference.get(), 1, &result, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) {
      throw std::runtime_error(
          "cuBLASLt has no algorithm for a matrix product");
    }
    plan.algorithm = result.algo;
  }

  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  void* workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace

std::unique_ptr<GemmRunner> MakeGemmRunner(void* workspace) {
  return std::make_unique<CublasGemm>(workspace);
}

}  // namespace trainer::cuda
