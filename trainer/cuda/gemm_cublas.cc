#include <compare>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>

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

// Row-major [rows, cols], transposed or not, as cuBLASLt sees it: [cols, rows].
cublasLtMatrixLayoutOpaque_t LayoutOf(cudaDataType_t type, bool transposed,
                                      std::int64_t rows, std::int64_t cols,
                                      std::int64_t stride) {
  cublasLtMatrixLayoutOpaque_t layout{};
  Check(cublasLtMatrixLayoutInit(
            &layout, type, static_cast<std::uint64_t>(transposed ? rows : cols),
            static_cast<std::uint64_t>(transposed ? cols : rows), stride),
        "cublasLtMatrixLayoutInit");
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

// A product as cuBLASLt sees it, which has columns where we have rows: C^T =
// op(B)^T op(A)^T. Its descriptors live on the stack.
struct Product {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a, b, c;

  Product(const GemmShape& shape, int width, const Tensor& bias) {
    const cudaDataType_t type = width == 2 ? CUDA_R_16BF : CUDA_R_32F;
    Check(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescInit");
    Set(CUBLASLT_MATMUL_DESC_TRANSA,
        shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_TRANSB,
        shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!bias.empty()) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
    }
    a = LayoutOf(type, shape.transpose_a, shape.m, shape.k, shape.lda);
    b = LayoutOf(type, shape.transpose_b, shape.k, shape.n, shape.ldb);
    c = LayoutOf(type, false, shape.m, shape.n, shape.ldc);
  }

 private:
  template <typename Value>
  void Set(cublasLtMatmulDescAttributes_t name, const Value& value) {
    Check(
        cublasLtMatmulDescSetAttribute(&operation, name, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  }
};

class CublasGemm final : public GemmRunner {
 public:
  explicit CublasGemm(void* workspace) : workspace_(workspace) {
    Check(cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~CublasGemm() override { cublasLtDestroy(handle_); }
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;

  void Run(const GemmShape& shape, Tensor a, Tensor b, Tensor c, Tensor bias,
           cudaStream_t stream) override {
    Product product(shape, c.width, bias);
    // Experts have other numbers of tokens at each call, in m or k, to which no
    // stride belongs: those that round up to the same multiple have one
    // algorithm, if it can do both.
    GemmShape rounded = shape;
    std::int64_t& tokens = shape.transpose_a ? rounded.k : rounded.m;
    if (!shape.transpose_a || !shape.transpose_b) {
      tokens = (tokens + kBucket - 1) / kBucket * kBucket;
    }
    const Operands operands{c.width, Alignment(a.data), Alignment(b.data),
                            Alignment(c.data), !bias.empty()};
    cublasLtMatmulAlgo_t algorithm = AlgorithmOf(rounded, operands, bias);
    cublasLtMatmulHeuristicResult_t check{};
    if ((rounded.m != shape.m || rounded.k != shape.k) &&
        (cublasLtMatmulAlgoCheck(handle_, &product.operation, &product.b,
                                 &product.a, &product.c, &product.c, &algorithm,
                                 &check) != CUBLAS_STATUS_SUCCESS ||
         check.workspaceSize > kWorkspaceBytes)) {
      algorithm = AlgorithmOf(shape, operands, bias);
    }
    const auto alpha = static_cast<float>(shape.alpha);
    const auto beta = static_cast<float>(shape.beta);
    Check(cublasLtMatmul(handle_, &product.operation, &alpha, b.data,
                         &product.b, a.data, &product.a, &beta, c.data,
                         &product.c, c.data, &product.c, &algorithm, workspace_,
                         kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::int64_t kBucket = 64;
  static constexpr std::size_t kMostAlgorithms = 4096;

  struct Operands {
    int width;
    std::uint32_t a, b, c;  // alignments
    bool bias;
    auto operator<=>(const Operands&) const = default;
  };
  using Key = std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t, Operands>;

  // The first that the heuristics of cuBLASLt propose.
  cublasLtMatmulAlgo_t AlgorithmOf(const GemmShape& shape,
                                   const Operands& operands,
                                   const Tensor& bias) {
    const Key key{shape.transpose_a, shape.transpose_b, shape.m,
                  shape.n,           shape.k,           shape.lda,
                  shape.ldb,         shape.ldc,         operands};
    const auto found = algorithms_.find(key);
    if (found != algorithms_.end()) {
      return found->second;
    }
    Product product(shape, operands.width, bias);
    cublasLtMatmulPreferenceOpaque_t preference{};
    Check(cublasLtMatmulPreferenceInit(&preference),
          "cublasLtMatmulPreferenceInit");
    const auto set = [&preference](cublasLtMatmulPreferenceAttributes_t name,
                                   const auto& value) {
      Check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value,
                                                 sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::uint64_t{kWorkspaceBytes});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, operands.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, operands.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, operands.c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, operands.c);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    Check(cublasLtMatmulAlgoGetHeuristic(
              handle_, &product.operation, &product.b, &product.a, &product.c,
              &product.c, &preference, 1, &result, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) {
      throw std::runtime_error(
          "cuBLASLt has no algorithm for a matrix product");
    }
    if (algorithms_.size() >= kMostAlgorithms) {
      algorithms_.clear();
    }
    return algorithms_[key] = result.algo;
  }

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace

std::unique_ptr<GemmRunner> MakeGemmRunner(void* workspace) {
  return std::make_unique<CublasGemm>(workspace);
}

}  // namespace trainer::cuda
