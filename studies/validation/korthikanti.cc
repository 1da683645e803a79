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

RowFacts ReadKorthikanti(const common::CsvTable& table,
                         const common::CsvTable::Row& row) {
  RowFacts read{Facts(PlaceOf(table, row)), {}, ""};
  Facts& facts = read.facts;
  facts.Add(table,
            row,
            {"gpus",
             "tp",
             "pp",
             "dp",
             "gbs",
             "mbs",
             "layers",
             "hidden",
             "heads",
             "seq",
             "model"});
  facts.Add("model_chunks", table.Cell(row, "vp"));
  facts.Add("scenario", table.Cell(row, "model"));
  facts.Add("sp", table.Cell(row, "comm") == "rs_ag" ? "1" : "0");
  const std::string_view recompute = table.Cell(row, "recompute");
  facts.Add("grad_checkpoint",
            recompute == "full"        ? "1"
            : recompute == "attn_only" ? "2"
                                       : "0");
  facts.Add("step_time_s", table.Cell(row, "iteration_time_s"));
  facts.Add("status", "ok");
  const double memory =
      NumberIn(table, row, "par_opt_gib") + NumberIn(table, row, "act_gib");
  if (!std::isnan(memory)) {
    facts.Add("peak_memory_gb", fmt::format("{}", memory * kGbPerGib));
  } else if (!facts.Has("step_time_s")) {
    read.left_out = "it has neither a step time nor bytes";
  }
  read.tokens = {std::string(table.Cell(row, "model")),
                 std::string(table.Cell(row, "where"))};
  return read;
}

}  // namespace studies
