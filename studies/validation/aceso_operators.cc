// Aceso's profiles of operators on V100: one GPU's share of one microbatch,
// forward and backward in microseconds.

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "common/text.h"
#include "studies/validation/table_kind.h"

namespace studies {
namespace {

constexpr double kFailedUs = 1e7;  // the profiler's value for a failure

struct Known {
  std::string_view name;  // in the table
  std::string_view part;  // in the simulator
  int forward_all_reduces = 0;
  int backward_all_reduces = 0;
  bool accumulates = false;
  bool copies_heads = false;
};

// Megatron's operators. Aceso's runtime times tensor-parallel all-reduces
// together with their matrix products, makes queries, keys and values
// contiguous, and accumulates gradients in the embedding only.
constexpr std::array kOperators = {
    Known{"encoder-embedding", "embedding", 1, 0, true},
    Known{"enc-1st-layernorm", "norm"},
    Known{"enc-attention-qkv", "qkv", 0, 1, false, true},
    Known{"enc-attention-score", "scores"},
    Known{"enc-attention-softmax", "softmax"},
    Known{"enc-attention-dropout", "dropout"},
    Known{"enc-attention-context", "context"},
    Known{"enc-attention-dense", "output", 1, 0},
    Known{"enc-post-attention-dropout", "residual"},
    Known{"enc-2nd-layernorm", "norm"},
    Known{"enc-MLP-GEMM-1", "ffn-in", 0, 1},
    Known{"enc-MLP-gelu", "activation"},
    Known{"enc-MLP-GEMM-2", "ffn-out", 1, 0},
    Known{"enc-post-MLP-dropout", "residual"},
    Known{"final-layernorm", "final-norm"},
    Known{"gpt-post-process", "head", 0, 1},
};

std::string WhyLeftOut(std::string_view model, std::string_view algorithm,
                       bool known) {
  if (model.starts_with("resnet")) {
    return "convolutions are not simulated";
  }
  if (algorithm != "0") {
    return "matrix products split the other way are not simulated";
  }
  return known ? "" : "decoders with cross attention are not simulated";
}

}  // namespace

RowFacts ReadAcesoOperators(const TableRow& row) {
  RowFacts read(row);
  const std::string model = row.Cell("model");
  const std::string name = row.Cell("op_name");
  const auto* known =
      std::find_if(kOperators.begin(), kOperators.end(),
                   [&](const Known& one) { return one.name == name; });
  read.left_out =
      WhyLeftOut(model, row.Cell("algo"), known != kOperators.end());
  if (known != kOperators.end()) {
    read.part = {std::string(known->part), known->forward_all_reduces,
                 known->backward_all_reduces, known->accumulates,
                 known->copies_heads};
  }
  Facts& facts = read.facts;
  facts.Add("model", model);
  facts.Add("scenario", model);
  facts.Add("gpus", row.Cell("tp"));
  facts.Add("tp", row.Cell("tp"));
  facts.Add("dp", "1");
  facts.Add("pp", "1");
  facts.Add("micro_batch_size", row.Cell("mbs"));
  facts.Add("microbatches", "1");
  facts.Add("status", "ok");
  const double forward_us = row.Number("forward-compute");
  const double backward_us = row.Number("backward-compute");
  if (std::max(forward_us, backward_us) < kFailedUs) {
    facts.Add("step_time_s",
              common::ExactText(1e-6 * (forward_us + backward_us)));
  } else if (read.left_out.empty()) {
    read.left_out = "did not run";
  }
  read.tokens = {model};
  return read;
}

}  // namespace studies
