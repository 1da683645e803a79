// Embeddings, the loss, and the routing of tokens to experts.

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

using Index = std::int32_t;

template <typename Numbers>
__global__ void EmbeddingForwardKernel(unsigned vectors, unsigned cols,
                                       EmbeddingArgs a) {
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const std::int64_t row = Of<Index>(a.tokens)[i / cols] - a.first;
    Of<Numbers>(a.out)[i] = row >= 0 && row < a.table_rows
                                ? Of<Numbers>(a.table)[row * cols + i % cols]
                                : Numbers();
  }
}

// next[i]: the next place of the token at i, or -1; the complement of that if
// an earlier place has it, too. So the first place of each token begins a list
// of all of them. A warp per place.
__global__ void LinkTokensKernel(Index rows, const Index* tokens, Index* next) {
  const auto lane = static_cast<Index>(threadIdx.x % 32);
  const auto i = static_cast<Index>(FlatIndex() / 32);
  if (i >= rows) {
    return;
  }
  Index before = i - 1 - lane;
  while (before >= 0 && tokens[before] != tokens[i]) {
    before -= 32;
  }
  Index after = i + 1 + lane;
  while (after < rows && tokens[after] != tokens[i]) {
    after += 32;
  }
  before = WarpReduce(before, MaxOf());
  after = -WarpReduce(-after, MaxOf());
  if (lane == 0) {
    const Index link = after < rows ? after + 1 : 0;
    next[i] = before >= 0 ? -1 - link : link;
  }
}

// A block per place; those of a first place sum the list in its order.
template <typename T>
__global__ void EmbeddingBackwardKernel(EmbeddingArgs a, const Index* next) {
  const std::int64_t row = Of<Index>(a.tokens)[blockIdx.x] - a.first;
  if (next[blockIdx.x] < 0 || row < 0 || row >= a.table_rows) {
    return;
  }
  for (std::int64_t col = threadIdx.x; col < a.cols; col += blockDim.x) {
    T& out = Of<T>(a.dtable)[row * a.cols + col];
    float sum = ToFloat(out);
    std::int64_t place = blockIdx.x;
    while (place >= 0) {
      sum += ToFloat(Of<T>(a.dout)[place * a.cols + col]);
      const Index link = next[place];
      place = (link < 0 ? -1 - link : link) - 1;
    }
    out = Round<T>(sum);
  }
}

template <typename Numbers>
__global__ void AddPositionsKernel(unsigned vectors, unsigned cols,
                                   Positions positions, Tensor table,
                                   Tensor x) {
  using T = typename Numbers::Number;
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const std::int64_t position =
        positions.offset + static_cast<unsigned>(positions.begin + i / cols) %
                               static_cast<unsigned>(positions.length);
    const Numbers terms = Of<Numbers>(table)[position * cols + i % cols];
    Numbers sum = Of<Numbers>(x)[i];
    for (int j = 0; j < Numbers::kWidth; ++j) {
      sum.x[j] = Round<T>(ToFloat(sum.x[j]) + ToFloat(terms.x[j]));
    }
    Of<Numbers>(x)[i] = sum;
  }
}

// A thread per position and column.
template <typename T>
__global__ void PositionsBackwardKernel(unsigned count, unsigned cols,
                                        Positions positions, const T* dx,
                                        T* dtable) {
  const auto length = static_cast<unsigned>(positions.length);
  for (auto i = FlatIndex<unsigned>(); i < count; i += FlatStride<unsigned>()) {
    const unsigned place = i / cols;
    const unsigned begin = static_cast<unsigned>(positions.begin) % length;
    T& out = dtable[positions.offset * cols + i];
    float sum = ToFloat(out);
    for (std::int64_t row = (place + length - begin) % length;
         row < positions.rows; row += length) {
      sum += ToFloat(dx[row * cols + i % cols]);
    }
    out = Round<T>(sum);
  }
}

// A block per row of logits, vectors of numbers. maxima: of the row; sums: sum
// exp(logit - max), and max again. One pass, with the maximum so far.
template <typename Numbers>
__global__ void LossMaximaKernel(LossArgs a) {
  constexpr int kWidth = Numbers::kWidth;
  const Numbers* logits =
      Of<Numbers>(a.logits) + blockIdx.x * (a.stride / kWidth);
  float own = -INFINITY;  // of this thread
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i * kWidth < a.cols; i += blockDim.x) {
    const Numbers row = logits[i];
    const int valid = a.cols - i * kWidth < kWidth
                          ? static_cast<int>(a.cols - i * kWidth)
                          : kWidth;
    float maximum = own;
    for (int j = 0; j < kWidth; ++j) {
      maximum = j < valid ? fmaxf(maximum, ToFloat(row.x[j])) : maximum;
    }
    sum *= expf(own - maximum);
    own = maximum;
    for (int j = 0; j < kWidth; ++j) {
      sum += j < valid ? expf(ToFloat(row.x[j]) - own) : 0.0F;
    }
  }
  const float maximum = BlockReduce(own, -INFINITY, MaxOf());
  sum = sum == 0.0F ? 0.0F : sum * expf(own - maximum);
  sum = BlockReduce(sum, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    Of<float>(a.maxima)[blockIdx.x] = maximum;
    Of<float>(a.sums)[2 * blockIdx.x] = sum;
    Of<float>(a.sums)[2 * blockIdx.x + 1] = maximum;
  }
}

// From the maxima of this rank to those of all: a thread per row.
template <typename T>
__global__ void LossSumsKernel(LossArgs a) {
  for (std::int64_t i = FlatIndex(); i < a.rows; i += FlatStride()) {
    const float maximum = Of<float>(a.maxima)[i];
    const Index own = Of<Index>(a.labels)[i];
    const std::int64_t label = own - a.first;
    const bool here = own >= 0 && label >= 0 && label < a.cols;
    float* sums = Of<float>(a.sums) + 2 * i;
    sums[0] *= expf(sums[1] - maximum);
    sums[1] =
        here ? ToFloat(Of<T>(a.logits)[i * a.stride + label]) - maximum : 0.0F;
  }
}

template <typename Numbers>
__global__ void LossGradientKernel(LossArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  Numbers* logits = Of<Numbers>(a.logits) + blockIdx.x * (a.stride / kWidth);
  const Index own = Of<Index>(a.labels)[blockIdx.x];
  const float maximum = Of<float>(a.maxima)[blockIdx.x];
  const auto scale = static_cast<float>(a.scale);
  const float factor = scale / Of<float>(a.sums)[2 * blockIdx.x];
  for (std::int64_t i = threadIdx.x; i * kWidth < a.stride; i += blockDim.x) {
    Numbers row = logits[i];
    for (int j = 0; j < kWidth; ++j) {
      const std::int64_t col = i * kWidth + j;
      float gradient = 0.0F;
      if (own >= 0 && col < a.cols) {
        gradient = factor * expf(ToFloat(row.x[j]) - maximum) -
                   (col == own - a.first ? scale : 0.0F);
      }
      row.x[j] = Round<T>(gradient);
    }
    logits[i] = row;
  }
}

// One block.
__global__ void LossTotalKernel(LossArgs a) {
  const float* sums = Of<float>(a.sums);
  float total = 0.0F;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += blockDim.x) {
    if (Of<Index>(a.labels)[i] >= 0) {
      total += logf(sums[2 * i]) - sums[2 * i + 1];
    }
  }
  total = BlockReduce(total, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    Of<float>(a.loss)[0] += total;
  }
}

// A thread per token, which takes the largest of the remaining logits k times.
template <typename T>
__global__ void RouteForwardKernel(RouteArgs a) {
  for (std::int64_t t = FlatIndex(); t < a.rows; t += FlatStride()) {
    const T* row = Of<T>(a.logits) + t * a.experts;
    Index* own = Of<Index>(a.chosen) + t * a.k;
    for (std::int64_t j = 0; j < a.k; ++j) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < a.experts; ++e) {
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
    for (std::int64_t j = 0; j < a.k; ++j) {
      sum += expf(ToFloat(row[own[j]]) - maximum);
    }
    for (std::int64_t j = 0; j < a.k; ++j) {
      Of<T>(a.weights)[t * a.k + j] =
          Round<T>(expf(ToFloat(row[own[j]]) - maximum) / sum);
    }
  }
}

template <typename T>
__global__ void RouteBackwardKernel(RouteArgs a) {
  for (std::int64_t t = FlatIndex(); t < a.rows; t += FlatStride()) {
    const T* weight = Of<T>(a.weights) + t * a.k;
    const T* dweight = Of<T>(a.dweights) + t * a.k;
    T* dlogits = Of<T>(a.dlogits) + t * a.experts;
    float sum = 0.0F;
    for (std::int64_t j = 0; j < a.k; ++j) {
      sum += ToFloat(weight[j]) * ToFloat(dweight[j]);
    }
    for (std::int64_t e = 0; e < a.experts; ++e) {
      dlogits[e] = Round<T>(0.0F);
    }
    for (std::int64_t j = 0; j < a.k; ++j) {
      dlogits[Of<Index>(a.chosen)[t * a.k + j]] =
          Round<T>(ToFloat(weight[j]) * (ToFloat(dweight[j]) - sum));
    }
  }
}

template <typename T>
__device__ __forceinline__ float WeightOf(const SlotArgs& a,
                                          std::int64_t choice) {
  return a.weights.data == nullptr ? 1.0F : ToFloat(Of<T>(a.weights)[choice]);
}

template <typename Numbers>
__global__ void ScatterRowsKernel(unsigned vectors, unsigned cols, SlotArgs a) {
  using T = typename Numbers::Number;
  const auto k = static_cast<unsigned>(a.k);
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const unsigned choice = i / cols;
    const float weight = WeightOf<T>(a, choice);
    Numbers row = Of<Numbers>(a.from)[choice / k * cols + i % cols];
    for (T& number : row.x) {
      number = Round<T>(weight * ToFloat(number));
    }
    const std::int64_t slot = Of<Index>(a.slots)[choice];
    Of<Numbers>(a.to)[slot * cols + i % cols] = row;
  }
}

template <typename Numbers>
__global__ void CombineRowsKernel(unsigned vectors, unsigned cols, SlotArgs a) {
  using T = typename Numbers::Number;
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    Vector<float, Numbers::kWidth> sum = {};
    for (std::int64_t j = 0; j < a.k; ++j) {
      const std::int64_t choice = i / cols * a.k + j;
      const std::int64_t slot = Of<Index>(a.slots)[choice];
      const Numbers row = Of<Numbers>(a.from)[slot * cols + i % cols];
      const float weight = WeightOf<T>(a, choice);
      for (int n = 0; n < Numbers::kWidth; ++n) {
        sum.x[n] += weight * ToFloat(row.x[n]);
      }
    }
    Numbers& to = Of<Numbers>(a.to)[i];
    for (int n = 0; n < Numbers::kWidth; ++n) {
      to.x[n] = Round<T>(sum.x[n]);
    }
  }
}

// A block per token and expert.
template <typename T>
__global__ void CombineWeightsKernel(SlotArgs a, const T* dto, T* dweights) {
  dto += blockIdx.x / a.k * a.cols;
  const T* from = Of<T>(a.from) + Of<Index>(a.slots)[blockIdx.x] * a.cols;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
    sum += ToFloat(dto[i]) * ToFloat(from[i]);
  }
  sum = BlockReduce(sum, 0.0F, SumOf());
  if (threadIdx.x == 0) {
    dweights[blockIdx.x] = Round<T>(sum);
  }
}

// Calls f(Vector()), as WithRows, without its limit: logits are the largest
// tensor.
template <typename F>
void WithLogits(const LossArgs& args, const F& f) {
  WithType(args.logits.width, [&](auto number) {
    using T = decltype(number);
    WithVectors<16 / static_cast<int>(sizeof(T))>(
        args.stride, {args.logits},
        [&](auto width) { f(Vector<T, width()>()); });
  });
}

}  // namespace

void CudaDevice::EmbeddingForward(const EmbeddingArgs& args) {
  WithRows(args.rows, args.cols, {args.out, args.table},
           [&](auto numbers, unsigned vectors, unsigned cols) {
             LaunchFlat(EmbeddingForwardKernel<decltype(numbers)>, vectors,
                        stream_, vectors, cols, args);
           });
}

void CudaDevice::EmbeddingBackward(const EmbeddingArgs& args) {
  auto* next = static_cast<Index*>(workspace_);
  if (static_cast<std::size_t>(args.rows) > kWorkspaceBytes / sizeof(Index)) {
    throw std::invalid_argument("a microbatch has too many tokens");
  }
  constexpr int kPlaces = kRowThreads / 32;  // of a block
  Launch(LinkTokensKernel, Grid{(args.rows + kPlaces - 1) / kPlaces}, stream_,
         args.rows, Of<Index>(args.tokens), next);
  WithType(args.dout.width, [&](auto number) {
    Launch(EmbeddingBackwardKernel<decltype(number)>, Grid{args.rows}, stream_,
           args, next);
  });
}

void CudaDevice::AddPositions(const Positions& positions, std::int64_t cols,
                              Tensor table, Tensor x) {
  WithRows(positions.rows, cols, {table, x},
           [&](auto numbers, unsigned vectors, unsigned vector_cols) {
             LaunchFlat(AddPositionsKernel<decltype(numbers)>, vectors, stream_,
                        vectors, vector_cols, positions, table, x);
           });
}

void CudaDevice::PositionsBackward(const Positions& positions,
                                   std::int64_t cols, Tensor dx,
                                   Tensor dtable) {
  WithType(dx.width, [&](auto number) {
    using T = decltype(number);
    const unsigned count = ShortCount(positions.length * cols);
    LaunchFlat(PositionsBackwardKernel<T>, count, stream_, count, cols,
               positions, Of<T>(dx), Of<T>(dtable));
  });
}

void CudaDevice::LossMaxima(const LossArgs& args) {
  WithLogits(args, [&](auto numbers) {
    Launch(LossMaximaKernel<decltype(numbers)>, Grid{args.rows}, stream_, args);
  });
}

void CudaDevice::LossSums(const LossArgs& args) {
  WithType(args.logits.width, [&](auto number) {
    LaunchFlat(LossSumsKernel<decltype(number)>, args.rows, stream_, args);
  });
}

void CudaDevice::LossBackward(const LossArgs& args) {
  Launch(LossTotalKernel, Grid{1}, stream_, args);
  WithLogits(args, [&](auto numbers) {
    Launch(LossGradientKernel<decltype(numbers)>, Grid{args.rows}, stream_,
           args);
  });
}

void CudaDevice::RouteForward(const RouteArgs& args) {
  WithType(args.logits.width, [&](auto number) {
    LaunchFlat(RouteForwardKernel<decltype(number)>, args.rows, stream_, args);
  });
}

void CudaDevice::RouteBackward(const RouteArgs& args) {
  WithType(args.weights.width, [&](auto number) {
    LaunchFlat(RouteBackwardKernel<decltype(number)>, args.rows, stream_, args);
  });
}

void CudaDevice::ScatterRows(const SlotArgs& args) {
  WithRows(args.rows * args.k, args.cols, {args.from, args.to},
           [&](auto numbers, unsigned vectors, unsigned cols) {
             LaunchFlat(ScatterRowsKernel<decltype(numbers)>, vectors, stream_,
                        vectors, cols, args);
           });
}

void CudaDevice::CombineRows(const SlotArgs& args) {
  WithRows(args.rows, args.cols, {args.from, args.to},
           [&](auto numbers, unsigned vectors, unsigned cols) {
             LaunchFlat(CombineRowsKernel<decltype(numbers)>, vectors, stream_,
                        vectors, cols, args);
           });
}

void CudaDevice::CombineWeights(const SlotArgs& args, Tensor dto,
                                Tensor dweights) {
  WithType(args.from.width, [&](auto number) {
    using T = decltype(number);
    Launch(CombineWeightsKernel<T>, Grid{args.rows * args.k}, stream_, args,
           Of<T>(dto), Of<T>(dweights));
  });
}

}  // namespace trainer::cuda
