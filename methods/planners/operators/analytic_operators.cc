#include "methods/planners/operators/analytic_operators.h"

#include <algorithm>

#include "common/units.h"

namespace methods {
namespace {

using common::kMebi;                     // the megabyte of Aceso's profiles
constexpr double kBytesPerNumber = 2.0;  // of a number

// What an operator does to one microbatch on one GPU, in elements.
struct OperatorWork {
  const char* name;
  double flops = 0.0;    // forward
  double touched = 0.0;  // elements that it reads and writes
  double weights = 0.0;  // parameters
  double kept = 0.0;     // elements for backward
  double output = 0.0;   // elements
  double reduced = 0.0;  // elements of an all-reduce, forward or backward
  bool reduces_forward = false;
};

// Operators of a microbatch of `sequences`, split over `t` GPUs.
std::vector<OperatorWork> OperatorWorkOf(const AnalyticJob& job,
                                         double sequences, double t) {
  const double h = job.hidden;
  const double n = sequences * job.sequence_length;  // tokens
  const double x = n * h;                            // elements of a layer
  const double a = n * job.sequence_length * job.heads / t;  // of the scores
  const double v = job.vocabulary;
  const auto product = [&](const char* name, double in, double out,
                           double kept) {
    return OperatorWork{.name = name,
                        .flops = 2.0 * n * in * out / t,
                        .touched = n * (in + out) / t,
                        .weights = in * out / t,
                        .kept = kept,
                        .output = n * out};
  };
  const double kv = static_cast<double>(job.kv_heads) / job.heads;
  const double wide = n * job.feed_forward / t;  // inner elements
  const double in_matrices = job.gated ? 2.0 : 1.0;
  OperatorWork qkv = product("enc-attention-qkv", h, (1.0 + 2.0 * kv) * h, x);
  OperatorWork dense = product("enc-attention-dense", h, h, x / t);
  OperatorWork first =
      product("enc-MLP-GEMM-1", h, in_matrices * job.feed_forward, x);
  OperatorWork second = product("enc-MLP-GEMM-2", job.feed_forward, h, wide);
  OperatorWork head = product("gpt-post-process", h, v, x + n * v / t);
  qkv.reduced = first.reduced = head.reduced = x;
  dense.reduced = second.reduced = x;
  dense.reduces_forward = second.reduces_forward = true;
  const double core = 2.0 * n * job.sequence_length * h / t;
  return {
      {"encoder-embedding", 0.0, 2.0 * x, v * h / t, 0.5 * x, x, x, true},
      {"enc-1st-layernorm", 0.0, 2.0 * x, 0.0, x, x},
      qkv,
      {"enc-attention-score", core, (1.0 + kv) * x / t + a, 0.0,
       (1.0 + kv) * x / t, x},
      {"enc-attention-softmax", 0.0, 2.0 * a, 0.0, a, x},
      {"enc-attention-dropout", 0.0, 2.5 * a, 0.0, a, x},
      {"enc-attention-context", core, (1.0 + kv) * x / t + a, 0.0, kv * x / t,
       x},
      dense,
      {"enc-post-attention-dropout", 0.0, 3.0 * x, 0.0, 0.5 * x, x},
      {"enc-2nd-layernorm", 0.0, 2.0 * x, 0.0, x, x},
      first,
      {"enc-MLP-gelu", 0.0, (in_matrices + 1.0) * wide, 0.0, in_matrices * wide,
       x},
      second,
      {"enc-post-MLP-dropout", 0.0, 3.0 * x, 0.0, 0.5 * x, x},
      {"final-layernorm", 0.0, 2.0 * x, 0.0, x, x},
      head,
  };
}

}  // namespace

OperatorTable AnalyticOperators(const AnalyticJob& job) {
  std::vector<ProfiledOperator> rows;
  for (const int micro_batch : job.micro_batches) {
    for (int tp = 1; tp <= job.largest_tp; tp *= 2) {
      double input_mb = 0.0;
      for (const OperatorWork& work : OperatorWorkOf(job, micro_batch, tp)) {
        const double touched_us =
            work.touched * kBytesPerNumber / job.memory_gb_per_s * 1e-3;
        const double forward_us =
            std::max(work.flops / job.tflops * 1e-6, touched_us);
        const double backward_us =
            std::max(2.0 * work.flops / job.tflops * 1e-6, touched_us);
        const double reduce_us = work.reduced * kBytesPerNumber * 2.0 *
                                 (tp - 1) / tp / job.link_gb_per_s * 1e-3;
        ProfiledOperator row{work.name, micro_batch, tp, 0, {}};
        row.profile = {
            .forward_us = forward_us + (work.reduces_forward ? reduce_us : 0.0),
            .backward_us =
                backward_us + (work.reduces_forward ? 0.0 : reduce_us),
            .input_mb = input_mb,
            .output_mb = work.output * kBytesPerNumber / kMebi,
            .weights_mb = work.weights * kBytesPerNumber / kMebi,
            .activations_mb = work.kept * kBytesPerNumber / kMebi};
        input_mb = row.profile.output_mb;
        rows.push_back(std::move(row));
      }
    }
  }
  return OperatorTable::Of(rows);
}

}  // namespace methods
