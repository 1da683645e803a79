#include "planners/operators/analytic_operators.h"

#include <algorithm>

#include "common/units.h"

namespace planners {
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
  double output = 0.0;   // elements sent on, with what passes by
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
  const auto product = [&](const char* name, double in, double out, double kept,
                           double output) {
    return OperatorWork{.name = name,
                        .flops = 2.0 * n * in * out / t,
                        .touched = n * (in + out) / t,
                        .weights = in * out / t,
                        .kept = kept,
                        .output = output};
  };
  const double kv = static_cast<double>(job.kv_heads) / job.heads;
  const double wide = n * job.feed_forward / t;  // inner elements
  const double in_matrices = job.gated ? 2.0 : 1.0;
  // The residual passes all operators of a block, and the values pass those of
  // the scores.
  const double scores = x + kv * x / t + a;
  OperatorWork qkv = product("enc-attention-qkv", h, (1.0 + 2.0 * kv) * h, x,
                             x + (1.0 + 2.0 * kv) * x / t);
  OperatorWork dense = product("enc-attention-dense", h, h, x / t, 2.0 * x);
  OperatorWork first =
      product("enc-MLP-GEMM-1", h, in_matrices * job.feed_forward, x,
              x + in_matrices * wide);
  OperatorWork second =
      product("enc-MLP-GEMM-2", job.feed_forward, h, wide, 2.0 * x);
  // The loss is computed from the logits where they are: nothing is sent on.
  OperatorWork head = product("gpt-post-process", h, v, x + n * v / t, 0.0);
  qkv.reduced = first.reduced = head.reduced = x;
  dense.reduced = second.reduced = x;
  dense.reduces_forward = second.reduces_forward = true;
  const double core = 2.0 * n * job.sequence_length * h / t;
  return {
      {"encoder-embedding", 0.0, 2.0 * x, v * h / t, 0.5 * x, x, x, true},
      {"enc-1st-layernorm", 0.0, 2.0 * x, 0.0, x, 2.0 * x},
      qkv,
      {"enc-attention-score", core, (1.0 + kv) * x / t + a, 0.0,
       (1.0 + kv) * x / t, scores},
      {"enc-attention-softmax", 0.0, 2.0 * a, 0.0, a, scores},
      {"enc-attention-dropout", 0.0, 2.5 * a, 0.0, a, scores},
      {"enc-attention-context", core, (1.0 + kv) * x / t + a, 0.0, kv * x / t,
       x + x / t},
      dense,
      {"enc-post-attention-dropout", 0.0, 3.0 * x, 0.0, 0.5 * x, x},
      {"enc-2nd-layernorm", 0.0, 2.0 * x, 0.0, x, 2.0 * x},
      first,
      {"enc-MLP-gelu", 0.0, (in_matrices + 1.0) * wide, 0.0, in_matrices * wide,
       x + wide},
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
      const double link_gb_per_s = tp > job.gpus_per_node
                                       ? job.between_hosts_gb_per_s
                                       : job.link_gb_per_s;
      double input_mb = 0.0;
      for (const OperatorWork& work : OperatorWorkOf(job, micro_batch, tp)) {
        const double touched_us =
            work.touched * kBytesPerNumber / job.memory_gb_per_s * 1e-3;
        const double forward_us =
            std::max(work.flops / job.tflops * 1e-6, touched_us);
        const double backward_us =
            std::max(2.0 * work.flops / job.tflops * 1e-6, touched_us);
        const double reduce_us = work.reduced * kBytesPerNumber * 2.0 *
                                 (tp - 1) / tp / link_gb_per_s * 1e-3;
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

}  // namespace planners
