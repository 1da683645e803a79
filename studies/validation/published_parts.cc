// The adapters of tables of operators, collectives and calls on one GPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"
#include "studies/validation/measured_table.h"

namespace studies {

// Aceso's profiles of operators on V100: one GPU's share of one microbatch,
// forward and backward in microseconds.

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
  const auto* known = std::ranges::find_if(
      kOperators, [&](const Known& one) { return one.name == name; });
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

// Times of collectives: nccl-tests as vTrain published them, and those of
// Aceso's profiler.

namespace {

using common::kMebi;
constexpr double kFailedMs = 1e6;  // Aceso's profiler's value for a failure

}  // namespace

// One row per size: gpu, ngpus, bytes, out_of_place_us.
RowFacts ReadNccl(const TableRow& row) {
  RowFacts read(row);
  const std::string gpu = row.Cell("gpu");
  const std::string gpus = row.Cell("ngpus");
  read.part.name = "all-reduce";
  read.part.bytes = row.Number("bytes");
  read.facts.Add("scenario", fmt::format("{}-{}", gpu, gpus));
  read.facts.Add("gpus", gpus);
  read.facts.Add("status", "ok");
  read.facts.Add("step_time_s",
                 common::ExactText(1e-6 * row.Number("out_of_place_us")));
  read.tokens = {gpu};
  return read;
}

// Lines "prim_<model>_<collective>_<n>gpus, MB, ms" (MB of 2^20 bytes), each
// kind after a line of titles. Lines of messages between two GPUs have a
// different form.
RowFacts ReadAcesoCollectives(const TableRow& row) {
  RowFacts read(row);
  const std::string& name = row.csv.cells[0];
  if (!name.starts_with("prim_")) {
    read.left_out = "messages: see the [intra] and [inter] of the cluster";
    return read;
  }
  if (row.csv.cells[1].starts_with("data_size")) {
    read.left_out = "a line of titles";
    return read;
  }
  struct Form {
    std::string_view name;  // in the table
    std::string_view part;  // in the simulator
    bool gathers;           // the size is that of one rank's share
    double copies;          // of the whole buffer, reading and writing
  };
  // PyTorch's all_gather and reduce_scatter copy lists of tensors from and to
  // one buffer.
  constexpr Form kForms[] = {{"_all_gather_", "all-gather", true, 2.0},
                             {"_all_reduce_", "all-reduce", false, 0.0},
                             {"_reduce_scatter_", "reduce-scatter", false, 2.0},
                             {"_all_to_all_", "all-to-all", false, 0.0}};
  for (const Form& form : kForms) {
    const std::size_t at = name.find(form.name);
    if (at == std::string::npos) {
      continue;
    }
    const std::size_t digits = at + form.name.size();
    const std::string gpus = name.substr(digits, name.find("gpus") - digits);
    const double megabytes = common::ParseDouble(row.csv.cells[1]);
    read.part.name = form.part;
    read.part.bytes =
        kMebi * megabytes * (form.gathers ? common::ParseDouble(gpus) : 1.0);
    read.part.copied_bytes = form.copies * read.part.bytes;
    read.facts.Add("scenario", name.substr(0, at));
    read.facts.Add("gpus", gpus);
    read.facts.Add("status", "ok");
    const double time_ms = common::ParseDouble(row.csv.cells[2]);
    if (megabytes < 1.0) {
      read.left_out = "less than the MiB that sizes are rounded to";
    } else if (time_ms < kFailedMs) {
      read.facts.Add("step_time_s", common::ExactText(1e-3 * time_ms));
    } else {
      read.left_out = "did not run";
    }
    return read;
  }
  read.left_out = "another collective";
  return read;
}

// Calls on one GPU: the share of the datasheet rate that products and fused
// attention reach.

namespace {

constexpr double kTera = 1e12;

// The values of a shape, "b=1, m=4096, k=5120, layout=TN".
class Shape {
 public:
  explicit Shape(const TableRow& row) : values_(row) {
    const std::string text = row.Cell("shape");
    for (const std::string_view part : common::Split(text, ',')) {
      const std::string_view pair = common::Trim(part);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos) {
        values_.Add(pair.substr(0, equals), pair.substr(equals + 1));
      }
    }
  }

  [[nodiscard]] std::string Text(std::string_view key) const {
    return values_.Text(trials::FactName(key));
  }
  [[nodiscard]] double Number(std::string_view key) const {
    const double number = values_.Number(trials::FactName(key));
    if (std::isnan(number)) {
      values_.Fail(fmt::format("the shape needs a number above 0 for {}", key));
    }
    return number;
  }

 private:
  Facts values_;
};

double BytesOf(std::string_view type) {
  return type == "fp32" || type == "float32" ? 4.0 : 2.0;
}

// The weights of a layer, whatever the direction and the number of tokens: the
// three products of a layer belong to one family.
std::string Family(double in, double out) {
  return fmt::format("{}x{}", std::min(in, out), std::max(in, out));
}

// The layout TN is the forward product, NN the gradient of its input and NT
// that of its weight, where m and n are the sizes of the layer.
void ReadMatmul(const Shape& shape, std::string& family, TimedPart& part) {
  const double m = shape.Number("m");
  const double n = shape.Number("n");
  const double k = shape.Number("k");
  trials::Gemm gemm{shape.Number("b"), m, n, k};
  gemm.accumulate = shape.Text("accumulate") == "True";
  gemm.result_bytes = BytesOf(shape.Text("out_dtype"));
  gemm.fp8 = shape.Text("dtype") == "fp8";
  family = shape.Text("layout") == "NT" ? Family(m, n) : Family(k, n);
  part.name = gemm.fp8 ? "gemm fp8" : gemm.accumulate ? "gemm, adds" : "gemm";
  part.gemm = gemm;
}

void ReadGrouped(const Shape& shape, std::string& family, TimedPart& part) {
  const double groups = shape.Number("ng");
  const double rows = shape.Number("M");
  const double out = shape.Number("N");
  const double in = shape.Number("K");
  const std::string stage = shape.Text("stage");
  trials::Gemm gemm{groups, rows, out, in};
  if (stage == "bwd_grad_act") {
    gemm = {groups, rows, in, out};
  } else if (stage == "bwd_grad_w") {
    gemm = {groups, out, in, rows};
    gemm.result_bytes = BytesOf(shape.Text("main_grad_dtype"));
  }
  gemm.accumulate = shape.Text("accumulate") == "True";
  family = Family(in, out);
  part.name = "grouped gemm";
  part.gemm = gemm;
}

// Returns the number of operations that the publisher counts: of all scores,
// though half of them are masked.
double ReadAttention(const Shape& shape, std::string& family, TimedPart& part) {
  const double sequence = shape.Number("seq_len");
  const double heads = shape.Number("head_num");
  const double key_heads = shape.Number("kv_head_num");
  const double head = shape.Number("qk_head_dim");
  const double value_head = shape.Number("v_head_dim");
  const double batch = shape.Number("batch");
  family = fmt::format("attention-{}-{}-{}", sequence, heads, head);
  // Kernels take one head size: shorter values are filled up.
  const double elements = 2.0 * batch * sequence * (heads + key_heads) * head;
  part.name = part.backward ? "attention backward" : "attention forward";
  part.attention = {batch * heads, sequence,
                    sequence,      std::max(head, value_head),
                    true,          2.0 * elements};
  return (part.backward ? 5.0 : 2.0) * batch * sequence * sequence * heads *
         (head + value_head);
}

}  // namespace

RowFacts ReadGpuOperators(const TableRow& row) {
  RowFacts read(row);
  const std::string name = row.Cell("operator");
  const Shape shape(row);
  std::string family;
  double flop = 0.0;
  if (name == "matmul") {
    ReadMatmul(shape, family, read.part);
    flop = read.part.gemm->Flop();
  } else if (name == "group_matmul") {
    ReadGrouped(shape, family, read.part);
    flop = read.part.gemm->Flop();
  } else if (name == "sdp_fwd" || name == "sdp_bwd") {
    read.part.backward = name == "sdp_bwd";
    flop = ReadAttention(shape, family, read.part);
  } else {
    read.left_out = fmt::format("the operator '{}' is not simulated", name);
  }
  const std::string gpu = row.Cell("gpu");
  read.facts.Add("scenario", fmt::format("{} {}", gpu, family));
  read.facts.Add("status", "ok");
  read.facts.Add("gpu", gpu);
  if (flop > 0.0) {
    const double rate =
        row.Number("efficiency") * row.Number("peak_tflops") * kTera;
    read.facts.Add("step_time_s", common::ExactText(flop / rate));
  }
  read.tokens = {gpu};
  return read;
}

}  // namespace studies
