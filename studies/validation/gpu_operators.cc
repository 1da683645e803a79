// Calls on one GPU: the share of the datasheet rate that products and fused
// attention reach.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "studies/validation/table_kind.h"

namespace studies {
namespace {

constexpr double kTera = 1e12;

// The values of a shape, "b=1, m=4096, k=5120, layout=TN".
class Shape {
 public:
  explicit Shape(const TableRow& row) : row_(row), text_(row.Cell("shape")) {
    for (const std::string_view part : common::Split(text_, ',')) {
      const std::string_view pair = common::Trim(part);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos) {
        values_.emplace(pair.substr(0, equals), pair.substr(equals + 1));
      }
    }
  }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

  [[nodiscard]] std::string_view Text(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? "" : found->second;
  }
  [[nodiscard]] double Number(std::string_view key) const {
    double number = 0.0;
    try {
      number = common::ParseDouble(Text(key));
    } catch (const common::InputError&) {  // reported below, with its row
      number = 0.0;
    }
    if (!(number > 0.0)) {
      row_.table.Fail(
          row_.csv.line,
          fmt::format("the shape '{}' needs a number above 0 for {}", text_,
                      key));
    }
    return number;
  }

 private:
  const TableRow& row_;
  std::string text_;
  std::map<std::string_view, std::string_view> values_;
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
  const std::string_view stage = shape.Text("stage");
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
