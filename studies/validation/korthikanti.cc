// Korthikanti et al. (2022): Table 5 has step times; Fig. 1 has bytes, computed
// in the paper, of parameters with optimizer and of activations. Fig. 7 has
// shares of activations only.

#include <cmath>

#include <fmt/format.h>

#include "studies/validation/table_kind.h"

namespace studies {
namespace {

constexpr double kGbPerGib = 1.073741824;

}  // namespace

RowFacts ReadKorthikanti(const TableRow& row) {
  RowFacts read(row);
  Facts& facts = read.facts;
  facts.Add(row, {"gpus", "tp", "pp", "dp", "gbs", "mbs", "layers", "hidden",
                  "heads", "seq", "model"});
  facts.Add("model_chunks", row.Cell("vp"));
  facts.Add("scenario", row.Cell("model"));
  facts.Add("sequence_parallel", row.Cell("comm") == "rs_ag" ? "1" : "0");
  const std::string recompute = row.Cell("recompute");
  facts.Add("grad_checkpoint", recompute == "full"        ? "1"
                               : recompute == "attn_only" ? "2"
                                                          : "0");
  facts.Add("step_time_s", row.Cell("iteration_time_s"));
  facts.Add("status", "ok");
  const double memory = row.Number("par_opt_gib") + row.Number("act_gib");
  if (!std::isnan(memory)) {
    facts.Add("peak_memory_gb", fmt::format("{}", memory * kGbPerGib));
  } else if (!facts.Has("step_time_s")) {
    read.left_out = "it has neither a step time nor bytes";
  }
  read.tokens = {row.Cell("model"), row.Cell("where")};
  return read;
}

}  // namespace studies
