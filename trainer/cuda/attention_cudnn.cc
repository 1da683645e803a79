#include "trainer/cuda/attention_cudnn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "trainer/cuda/attention.h"

namespace trainer::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

template <typename Options>
Options OptionsOf(const AttentionShape& shape) {
  Options options;
  options.set_name("attention");
  options.set_attn_scale(1.0F / std::sqrt(static_cast<float>(shape.head_size)));
  if (shape.causal) {
    options.set_causal_mask_bottom_right(true);
  }
  return options;
}

void Check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + ": " +
                             cudnnGetErrorString(status));
  }
}

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention() { Check(cudnnCreate(&handle_), "cudnnCreate"); }
  ~CudnnAttention() override { cudnnDestroy(handle_); }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  [[nodiscard]] std::int64_t ScratchBytes(
      const AttentionShape& shape) override {
    return std::max(PlanOf(shape, false).bytes, PlanOf(shape, true).bytes);
  }

  [[nodiscard]] bool Run(const AttentionArgs& args, bool backward,
                         cudaStream_t stream) override {
    const Plan& plan = PlanOf(args.shape, backward);
    if (plan.graph == nullptr) {
      return false;
    }
    Check(cudnnSetStream(handle_, stream), "cudnnSetStream");
    std::unordered_map<std::int64_t, void*> tensors = {
        {kQ, args.q.data},
        {kK, args.k.data},
        {kV, args.v.data},
        {kOut, args.out.data},
        {kLogSums, args.kept.data}};
    if (backward) {
      tensors.insert({{kDout, args.dout.data},
                      {kDq, args.dq.data},
                      {kDk, args.dk.data},
                      {kDv, args.dv.data}});
      ZeroUnseen(args.shape, args.dk, stream);
      ZeroUnseen(args.shape, args.dv, stream);
    }
    fe::error_t error =
        plan.graph->execute(handle_, tensors, args.scratch.data);
    if (error.is_bad()) {
      throw std::runtime_error("attention of cuDNN: " + error.get_message());
    }
    return true;
  }

 private:
  struct Plan {
    std::shared_ptr<fe::graph::Graph> graph;  // null: cuDNN has no kernel
    std::int64_t bytes = 0;                   // of its workspace
  };
  using Key = std::array<std::int64_t, 12>;

  const Plan& PlanOf(const AttentionShape& s, bool backward) {
    const Key key{s.batch,     s.queries,    s.keys,      s.query_offset,
                  s.heads,     s.kv_heads,   s.head_size, s.q_stride,
                  s.kv_stride, s.out_stride, s.causal,    backward};
    const auto [place, is_new] = plans_.try_emplace(key);
    Plan& plan = place->second;
    if (is_new) {
      auto graph = AttentionGraph(s, backward);
      if (graph->build(handle_, {fe::HeurMode_t::A}).is_good() &&
          graph->get_workspace_size(plan.bytes).is_good()) {
        plan.graph = std::move(graph);
      }
    }
    return plan;
  }

  // The gradient of keys that no query sees.
  static void ZeroUnseen(const AttentionShape& shape, Tensor gradient,
                         cudaStream_t stream) {
    const std::int64_t seen = KeysSeen(shape);
    const auto pitch = static_cast<std::size_t>(shape.kv_stride) * 2;
    for (std::int64_t i = 0; seen < shape.keys && i < shape.batch; ++i) {
      cuda::Check(
          cudaMemset2DAsync(
              gradient.From((i * shape.keys + seen) * shape.kv_stride).data,
              pitch, 0,
              static_cast<std::size_t>(shape.kv_heads * shape.head_size * 2),
              static_cast<std::size_t>(shape.keys - seen), stream),
          "cudaMemset2DAsync");
    }
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace

std::unique_ptr<FusedAttention> MakeFusedAttention() {
  return std::make_unique<CudnnAttention>();
}

std::int64_t KeysSeen(const AttentionShape& shape) {
  return shape.causal ? std::min(shape.keys, shape.query_offset + shape.queries)
                      : shape.keys;
}

std::shared_ptr<fe::graph::Graph> AttentionGraph(const AttentionShape& shape,
                                                 bool backward) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  // [batch, heads, tokens, head_size], of which `rows` tokens are in memory.
  const auto describe = [&shape](const TensorPtr& tensor, AttentionTensor name,
                                 std::int64_t heads, std::int64_t tokens,
                                 std::int64_t rows, std::int64_t stride) {
    tensor->set_uid(name)
        .set_dim({shape.batch, heads, tokens, shape.head_size})
        .set_stride({rows * stride, shape.head_size, stride, 1});
    return tensor;
  };
  const auto queries = [&](const TensorPtr& tensor, AttentionTensor name,
                           std::int64_t stride) {
    return describe(tensor, name, shape.heads, shape.queries, shape.queries,
                    stride);
  };
  const auto keys = [&](const TensorPtr& tensor, AttentionTensor name) {
    return describe(tensor, name, shape.kv_heads, KeysSeen(shape), shape.keys,
                    shape.kv_stride);
  };
  const auto log_sums = [&](const TensorPtr& tensor) {
    tensor->set_uid(kLogSums)
        .set_dim({shape.batch, shape.heads, shape.queries, 1})
        .set_stride({shape.heads * shape.queries, shape.queries, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
    return tensor;
  };
  const auto input = [&graph] {
    return graph->tensor(fe::graph::Tensor_attributes());
  };
  const TensorPtr q = queries(input(), kQ, shape.q_stride);
  const TensorPtr k = keys(input(), kK);
  const TensorPtr v = keys(input(), kV);
  if (!backward) {
    auto options = OptionsOf<fe::graph::SDPA_attributes>(shape);
    options.set_generate_stats(true);
    const auto [out, sums] = graph->sdpa(q, k, v, options);
    queries(out, kOut, shape.out_stride)->set_output(true);
    log_sums(sums)->set_output(true);
    return graph;
  }
  const auto options = OptionsOf<fe::graph::SDPA_backward_attributes>(shape);
  const TensorPtr out = queries(input(), kOut, shape.out_stride);
  const TensorPtr dout = queries(input(), kDout, shape.out_stride);
  const auto [dq, dk, dv] =
      graph->sdpa_backward(q, k, v, out, dout, log_sums(input()), options);
  queries(dq, kDq, shape.q_stride)->set_output(true);
  keys(dk, kDk)->set_output(true);
  keys(dv, kDv)->set_output(true);
  return graph;
}

}  // namespace trainer::cuda
