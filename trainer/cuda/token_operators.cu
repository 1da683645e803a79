// Embeddings, the loss, and the routing of tokens to experts.

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

using Index = std::int32_t;

template <typename T>
__global__ void EmbeddingForwardKernel(std::int64_t rows, std::int64_t cols,
                                       std::int64_t first,
                                       std::int64_t table_rows,
                                       const Index* tokens, const T* table,
                                       T* out) {
  for (std::int64_t i = FlatIndex(); i < rows * cols; i += FlatStride()) {
    const std::int64_t row = tokens[i / cols] - first;
    out[i] = row >= 0 && row < table_rows ? table[row * cols + i % cols]
                                          : Round<T>(0.0F);
  }
}

// next[i]: the next place of the token at i, or -1; the complement of that if
// an earlier place has it, too. So the first place of each token begins a list
// of all of them.
__global__ void LinkTokensKernel(std::int64_t rows, const Index* tokens,
                                 Index* next) {
  for (std::int64_t i = FlatIndex(); i < rows; i += FlatStride()) {
    std::int64_t before = i - 1;
    while (before >= 0 && tokens[before] != tokens[i]) {
      --before;
    }
    std::int64_t after = i + 1;
    while (after < rows && tokens[after] != tokens[i]) {
      ++after;
    }
    const auto link = static_cast<Index>(after < rows ? after + 1 : 0);
    next[i] = before >= 0 ? -1 - link : link;
  }
}

// A block per place; those of a first place sum the list in its order.
template <typename T>
__global__ void EmbeddingBackwardKernel(std::int64_t cols, std::int64_t first,
                                        std::int64_t table_rows,
                                        const Index* tokens, const Index* next,
                                        const T* dout, T* dtable) {
  const std::int64_t row = tokens[blockIdx.x] - first;
  if (next[blockIdx.x] < 0 || row < 0 || row >= table_rows) {
    return;
  }
  for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    float sum = ToFloat(dtable[row * cols + col]);
    std::int64_t place = blockIdx.x;
    while (place >= 0) {
      sum += ToFloat(dout[place * cols + col]);
      const Index link = next[place];
      place = (link < 0 ? -1 - link : link) - 1;
    }
    dtable[row * cols + col] = Round<T>(sum);
  }
}

template <typename T>
__global__ void AddPositionsKernel(Positions positions, std::int64_t cols,
                                   const T* table, T* x) {
  const std::int64_t count = positions.rows * cols;
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    const std::int64_t position =
        positions.offset + (positions.begin + i / cols) % positions.length;
    x[i] = Round<T>(ToFloat(x[i]) + ToFloat(table[position * cols + i % cols]));
  }
}

// A thread per position and column.
template <typename T>
__global__ void PositionsBackwardKernel(Positions positions, std::int64_t cols,
                                        const T* dx, T* dtable) {
  const std::int64_t count = positions.length * cols;
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    const std::int64_t place = i / cols;
    const std::int64_t col = i % cols;
    const std::int64_t begin = positions.begin % positions.length;
    std::int64_t row = (place - begin + positions.length) % positions.length;
    T& out = dtable[(positions.offset + place) * cols + col];
    float sum = ToFloat(out);
    for (; row < positions.rows; row += positions.length) {
      sum += ToFloat(dx[row * cols + col]);
    }
    out = Round<T>(sum);
  }
}

template <typename T>
__global__ void LossMaximaKernel(std::int64_t cols, std::int64_t stride,
                                 const T* logits, float* maxima) {
  logits += blockIdx.x * stride;
  float maximum = ToFloat(logits[0]);
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    maximum = fmaxf(maximum, ToFloat(logits[i]));
  }
  maximum = BlockReduce(maximum, ToFloat(logits[0]), MaxOf());
  if (threadIdx.x == 0) {
    maxima[blockIdx.x] = maximum;
  }
}

template <typename T>
__global__ void LossSumsKernel(std::int64_t cols, std::int64_t stride,
                               std::int64_t first, const T* logits,
                               const Index* labels, const float* maxima,
                               float* sums) {
  logits += blockIdx.x * stride;
  const float maximum = maxima[blockIdx.x];
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    sum += expf(ToFloat(logits[i]) - maximum);
  }
  sum = BlockReduce(sum, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    const std::int64_t label = labels[blockIdx.x] - first;
    const bool here = labels[blockIdx.x] >= 0 && label >= 0 && label < cols;
    sums[2 * blockIdx.x] = sum;
    sums[2 * blockIdx.x + 1] = here ? ToFloat(logits[label]) - maximum : 0.0F;
  }
}

template <typename T>
__global__ void LossGradientKernel(std::int64_t cols, std::int64_t stride,
                                   std::int64_t first, float scale,
                                   const Index* labels, const float* maxima,
                                   const float* sums, T* logits) {
  logits += blockIdx.x * stride;
  const bool counts = labels[blockIdx.x] >= 0;
  const std::int64_t label = labels[blockIdx.x] - first;
  const float factor = scale / sums[2 * blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < stride; i += blockDim.x) {
    float gradient = 0.0F;
    if (counts && i < cols) {
      gradient = factor * expf(ToFloat(logits[i]) - maxima[blockIdx.x]) -
                 (i == label ? scale : 0.0F);
    }
    logits[i] = Round<T>(gradient);
  }
}

// One block.
__global__ void LossTotalKernel(std::int64_t rows, const Index* labels,
                                const float* sums, float* loss) {
  float total = 0.0F;
  for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    if (labels[i] >= 0) {
      total += logf(sums[2 * i]) - sums[2 * i + 1];
    }
  }
  total = BlockReduce(total, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    loss[0] += total;
  }
}

// A thread per token, which takes the largest of the remaining logits k times.
template <typename T>
__global__ void RouteForwardKernel(std::int64_t rows, std::int64_t experts,
                                   std::int64_t k, const T* logits,
                                   Index* chosen, T* weights) {
  for (std::int64_t t = FlatIndex(); t < rows; t += FlatStride()) {
    const T* row = logits + t * experts;
    Index* own = chosen + t * k;
    for (std::int64_t j = 0; j < k; ++j) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < experts; ++e) {
        bool taken = false;
        for (std::int64_t i = 0; i < j; ++i) {
          taken = taken || own[i] == e;
        }
        if (!taken && (best < 0 || ToFloat(row[e]) > ToFloat(row[best]))) {
          best = e;
        }
      }
      own[j] = static_cast<Index>(best);
    }
    const float maximum = ToFloat(row[own[0]]);
    float sum = 0.0F;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += expf(ToFloat(row[own[j]]) - maximum);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      weights[t * k + j] = Round<T>(expf(ToFloat(row[own[j]]) - maximum) / sum);
    }
  }
}

template <typename T>
__global__ void RouteBackwardKernel(std::int64_t rows, std::int64_t experts,
                                    std::int64_t k, const Index* chosen,
                                    const T* weights, const T* dweights,
                                    T* dlogits) {
  for (std::int64_t t = FlatIndex(); t < rows; t += FlatStride()) {
    const T* weight = weights + t * k;
    const T* dweight = dweights + t * k;
    float sum = 0.0F;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += ToFloat(weight[j]) * ToFloat(dweight[j]);
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      dlogits[t * experts + e] = Round<T>(0.0F);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      dlogits[t * experts + chosen[t * k + j]] =
          Round<T>(ToFloat(weight[j]) * (ToFloat(dweight[j]) - sum));
    }
  }
}

template <typename T>
__global__ void ScatterRowsKernel(std::int64_t rows, std::int64_t k,
                                  std::int64_t cols, const T* from,
                                  const Index* slots, const T* weights, T* to) {
  for (std::int64_t i = FlatIndex(); i < rows * k * cols; i += FlatStride()) {
    const std::int64_t slot = i / cols;
    const float weight = weights == nullptr ? 1.0F : ToFloat(weights[slot]);
    to[slots[slot] * cols + i % cols] =
        Round<T>(weight * ToFloat(from[slot / k * cols + i % cols]));
  }
}

template <typename T>
__global__ void CombineRowsKernel(std::int64_t rows, std::int64_t k,
                                  std::int64_t cols, const T* from,
                                  const Index* slots, const T* weights, T* to) {
  for (std::int64_t i = FlatIndex(); i < rows * cols; i += FlatStride()) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t slot = i / cols * k + j;
      const float weight = weights == nullptr ? 1.0F : ToFloat(weights[slot]);
      sum += weight * ToFloat(from[slots[slot] * cols + i % cols]);
    }
    to[i] = Round<T>(sum);
  }
}

// A block per token and expert.
template <typename T>
__global__ void CombineWeightsKernel(std::int64_t k, std::int64_t cols,
                                     const T* dto, const T* from,
                                     const Index* slots, T* dweights) {
  dto += blockIdx.x / k * cols;
  from += slots[blockIdx.x] * cols;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    sum += ToFloat(dto[i]) * ToFloat(from[i]);
  }
  sum = BlockReduce(sum, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    dweights[blockIdx.x] = Round<T>(sum);
  }
}

}  // namespace

void CudaDevice::EmbeddingForward(std::int64_t rows, std::int64_t cols,
                                  std::int64_t first, std::int64_t table_rows,
                                  Tensor tokens, Tensor table, Tensor out) {
  WithType(out.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(EmbeddingForwardKernel<T>, rows * cols, stream_, rows, cols,
               first, table_rows, Of<Index>(tokens), Of<T>(table), Of<T>(out));
  });
}

void CudaDevice::EmbeddingBackward(std::int64_t rows, std::int64_t cols,
                                   std::int64_t first, std::int64_t table_rows,
                                   Tensor tokens, Tensor dout, Tensor dtable) {
  auto* next = static_cast<Index*>(workspace_);
  if (static_cast<std::size_t>(rows) > kWorkspaceBytes / sizeof(Index)) {
    throw std::invalid_argument("a microbatch has too many tokens");
  }
  LaunchFlat(LinkTokensKernel, rows, stream_, rows, Of<Index>(tokens), next);
  WithType(dout.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(EmbeddingBackwardKernel<T>, Grid{rows}, stream_, cols, first,
           table_rows, Of<Index>(tokens), next, Of<T>(dout), Of<T>(dtable));
  });
}

void CudaDevice::AddPositions(const Positions& positions, std::int64_t cols,
                              Tensor table, Tensor x) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(AddPositionsKernel<T>, positions.rows * cols, stream_, positions,
               cols, Of<T>(table), Of<T>(x));
  });
}

void CudaDevice::PositionsBackward(const Positions& positions,
                                   std::int64_t cols, Tensor dx,
                                   Tensor dtable) {
  WithType(dx.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(PositionsBackwardKernel<T>, positions.length * cols, stream_,
               positions, cols, Of<T>(dx), Of<T>(dtable));
  });
}

void CudaDevice::LossMaxima(std::int64_t rows, std::int64_t cols,
                            std::int64_t stride, Tensor logits, Tensor maxima) {
  WithType(logits.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(LossMaximaKernel<T>, Grid{rows}, stream_, cols, stride,
           Of<T>(logits), Of<float>(maxima));
  });
}

void CudaDevice::LossSums(std::int64_t rows, std::int64_t cols,
                          std::int64_t stride, std::int64_t first,
                          Tensor logits, Tensor labels, Tensor maxima,
                          Tensor sums) {
  WithType(logits.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(LossSumsKernel<T>, Grid{rows}, stream_, cols, stride, first,
           Of<T>(logits), Of<Index>(labels), Of<float>(maxima),
           Of<float>(sums));
  });
}

void CudaDevice::LossBackward(std::int64_t rows, std::int64_t cols,
                              std::int64_t stride, std::int64_t first,
                              double scale, Tensor labels, Tensor maxima,
                              Tensor sums, Tensor logits, Tensor loss) {
  Launch(LossTotalKernel, Grid{1}, stream_, rows, Of<Index>(labels),
         Of<float>(sums), Of<float>(loss));
  WithType(logits.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(LossGradientKernel<T>, Grid{rows}, stream_, cols, stride, first,
           static_cast<float>(scale), Of<Index>(labels), Of<float>(maxima),
           Of<float>(sums), Of<T>(logits));
  });
}

void CudaDevice::RouteForward(std::int64_t rows, std::int64_t experts,
                              std::int64_t k, Tensor logits, Tensor chosen,
                              Tensor weights) {
  WithType(logits.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(RouteForwardKernel<T>, rows, stream_, rows, experts, k,
               Of<T>(logits), Of<Index>(chosen), Of<T>(weights));
  });
}

void CudaDevice::RouteBackward(std::int64_t rows, std::int64_t experts,
                               std::int64_t k, Tensor chosen, Tensor weights,
                               Tensor dweights, Tensor dlogits) {
  WithType(weights.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(RouteBackwardKernel<T>, rows, stream_, rows, experts, k,
               Of<Index>(chosen), Of<T>(weights), Of<T>(dweights),
               Of<T>(dlogits));
  });
}

void CudaDevice::ScatterRows(std::int64_t rows, std::int64_t k,
                             std::int64_t cols, Tensor from, Tensor slots,
                             Tensor weights, Tensor to) {
  WithType(from.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(ScatterRowsKernel<T>, rows * k * cols, stream_, rows, k, cols,
               Of<T>(from), Of<Index>(slots), Of<T>(weights), Of<T>(to));
  });
}

void CudaDevice::CombineRows(std::int64_t rows, std::int64_t k,
                             std::int64_t cols, Tensor from, Tensor slots,
                             Tensor weights, Tensor to) {
  WithType(from.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(CombineRowsKernel<T>, rows * cols, stream_, rows, k, cols,
               Of<T>(from), Of<Index>(slots), Of<T>(weights), Of<T>(to));
  });
}

void CudaDevice::CombineWeights(std::int64_t rows, std::int64_t k,
                                std::int64_t cols, Tensor dto, Tensor from,
                                Tensor slots, Tensor dweights) {
  WithType(from.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(CombineWeightsKernel<T>, Grid{rows * k}, stream_, k, cols,
           Of<T>(dto), Of<T>(from), Of<Index>(slots), Of<T>(dweights));
  });
}

}  // namespace trainer::cuda
