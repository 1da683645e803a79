// Megatron-LM's continuous integration: step time and peak memory per set of
// flags, one host of 8 GPUs.

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "studies/validation/table_kind.h"

namespace studies {
namespace {

constexpr double kGbPerGib = 1.073741824;
// A model under this many hidden units spends its step in the CPU and in the
// tests' own checks; only its memory says something.
constexpr double kTinyHidden = 2048;
constexpr double kGpus = 8;

std::string WhyLeftOut(const common::CsvTable& table,
                       const common::CsvTable::Row& row) {
  const std::string_view family = table.Cell(row, "family");
  if (family != "gpt" && family != "bert" && family != "moe") {
    return fmt::format("models of the family '{}' are not simulated", family);
  }
  for (const std::string_view column :
       {"gbs", "mbs", "seq", "layers", "hidden", "heads"}) {
    if (table.Cell(row, column).empty()) {
      return fmt::format("'{}' is not published", column);
    }
  }
  if (!table.Cell(row, "fp8").empty() || !table.Cell(row, "fsdp").empty()) {
    return "8-bit arithmetic and Megatron's FSDP are not simulated";
  }
  const std::string_view expert_tp = table.Cell(row, "etp");
  if (!expert_tp.empty() && expert_tp != table.Cell(row, "tp")) {
    return "experts with a tensor parallelism of their own are not simulated";
  }
  const auto size = [&](std::string_view column) {
    const double value = NumberIn(table, row, column);
    return value > 0.0 ? value : 1.0;
  };
  if (size("tp") * size("pp") * size("cp") > kGpus) {
    return "more than one host of 8 GPUs, of which nothing is published";
  }
  return "";
}

// "dev_dgx_a100": dev, dgx, a100.
std::vector<std::string> PartsOf(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream text(name);
  for (std::string part; std::getline(text, part, '_');) {
    parts.push_back(part.substr(0, part.find('-')));
  }
  return parts;
}

}  // namespace

RowFacts ReadMegatronGolden(const common::CsvTable& table,
                            const common::CsvTable::Row& row) {
  RowFacts read{Facts(PlaceOf(table, row)), {}, WhyLeftOut(table, row)};
  Facts& facts = read.facts;
  facts.Add(table,
            row,
            {"gbs",
             "mbs",
             "seq",
             "layers",
             "hidden",
             "heads",
             "ffn",
             "experts",
             "cp",
             "ep"});
  facts.Add("scenario", table.Cell(row, "case"));
  const std::string_view family = table.Cell(row, "family");
  facts.Add("family", family == "moe" ? "gpt" : family);
  facts.Add("tp", table.Cell(row, "tp"));
  facts.Add("tp", "1");
  facts.Add("pp", table.Cell(row, "pp"));
  facts.Add("pp", "1");
  facts.Add("model_chunks", table.Cell(row, "vpp"));
  const double per_stage = NumberIn(table, row, "vpp_layers_per_stage");
  if (per_stage > 0.0) {
    facts.Add("model_chunks",
              fmt::format("{}",
                          NumberIn(table, row, "layers") /
                              facts.RequireInt("pp") / per_stage));
  }
  facts.Add("zero_stage", table.Cell(row, "dist_opt") == "true" ? "1" : "0");
  facts.Add("sp", table.Cell(row, "seq_parallel") == "true" ? "1" : "0");
  const std::string_view recompute = table.Cell(row, "recompute");
  facts.Add("grad_checkpoint",
            recompute.empty()          ? "0"
            : recompute == "selective" ? "2"
                                       : "1");
  facts.Add("precision",
            table.Cell(row, "bf16") == "true"   ? "bf16"
            : table.Cell(row, "fp16") == "true" ? "fp16"
                                                : "fp32");
  facts.Add("status", "ok");
  if (NumberIn(table, row, "hidden") >= kTinyHidden) {
    facts.Add("step_time_s", table.Cell(row, "iter_time_median_s"));
  }
  const double memory = NumberIn(table, row, "mem_max_alloc_gib");
  if (memory > 0.0) {
    facts.Add("peak_memory_gb", fmt::format("{}", memory * kGbPerGib));
  } else if (!facts.Has("step_time_s") && read.left_out.empty()) {
    read.left_out = "neither memory nor the time of a model that is not tiny";
  }
  // Transformer Engine splits a sequence for its fused attention only, and the
  // local implementation has none.
  if (NumberIn(table, row, "cp") > 1.0) {
    facts.Add("flash_attention", "true");
  } else if (table.Cell(row, "impl") == "local") {
    facts.Add("flash_attention", "false");
  }
  for (const std::string_view column : {"env", "case", "family"}) {
    const std::string text(table.Cell(row, column));
    read.tokens.push_back(text);
    for (const std::string& part : PartsOf(text)) {
      read.tokens.push_back(part);
    }
  }
  return read;
}

}  // namespace studies
