// The adapters of tables of training steps.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "studies/validation/measured_table.h"
#include "trials/tables/row_training.h"

namespace studies {

// Tables of measured configurations (docs/replay_tables.md): columns have the
// names of the facts.
RowFacts ReadMeasured(const TableRow& row) {
  RowFacts read(row);
  read.facts = trials::MeasuredFacts(row);
  read.tokens = trials::TokensOf(read.facts.Text("scenario"));
  return read;
}

// Korthikanti et al. (2022): Table 5 has step times; Fig. 1 has bytes, computed
// in the paper, of parameters with optimizer and of activations. Fig. 7 has
// shares of activations only.

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
    facts.Add("peak_memory_gb",
              fmt::format("{}", memory * (common::kGibi / common::kGiga)));
  } else if (!facts.Has("step_time_s")) {
    read.left_out = "it has neither a step time nor bytes";
  }
  read.tokens = {row.Cell("model"), row.Cell("where")};
  return read;
}

// MosaicML's LLM Foundry: throughput of MPT models with FSDP.

namespace {

// "1600" of "A100 80GB with 1600 Gbps node-node interconnect"; "" where the
// section does not say.
std::string GbpsOf(const std::string& section) {
  static const common::Pattern gbps("([0-9]+) *Gbps");
  const std::vector<std::string_view> found = gbps.Find(section);
  return found.empty() ? "" : std::string(found[1]);
}

// PyTorch's names; "hybrid" means within a host.
void AddSharding(const std::string& strategy, RowFacts& read) {
  if (strategy == "NO_SHARD") {
    read.facts.Add("zero_stage", "0");
  } else if (strategy == "SHARD_GRAD_OP" || strategy == "_HYBRID_SHARD_ZERO2") {
    read.facts.Add("zero_stage", "2");
  } else if (strategy == "FULL_SHARD" || strategy == "HYBRID_SHARD") {
    read.facts.Add("zero_stage", "3");
  } else {
    read.left_out = fmt::format("sharding '{}' is not simulated", strategy);
  }
  if (strategy.find("HYBRID_SHARD") != std::string::npos) {
    read.facts.Add("shard_within_host", "1");
  }
}

}  // namespace

RowFacts ReadMosaicml(const TableRow& row) {
  RowFacts read(row);
  Facts& facts = read.facts;
  facts.Add("model", "mpt-" + row.Cell("Model"));
  facts.Add("scenario",
            fmt::format("{}-{}-{}-{}", row.Cell("Model"), row.Cell("GPU"),
                        row.Cell("# GPUs"), row.Cell("SeqLen (T)")));
  facts.Add("sequence_length", row.Cell("SeqLen (T)"));
  facts.Add("gpus", row.Cell("# GPUs"));
  facts.Add("dp", row.Cell("# GPUs"));
  facts.Add("tp", "1");
  facts.Add("pp", "1");
  facts.Add("micro_batch_size", row.Cell("MicroBatchSize"));
  facts.Add("microbatches", row.Cell("GradAccum"));
  AddSharding(row.Cell("Sharding Strategy"), read);
  facts.Add("grad_checkpoint",
            row.Cell("Activation Checkpointing") == "True" ? "1" : "0");
  facts.Add("host_gbps", GbpsOf(row.Cell("section")));
  facts.Add("status", "ok");
  // Sequences a second are rounded to whole numbers, often to 0.
  const double time_s =
      row.Number("GlobalBatchSize (T)") / row.Number("Throughput (T/s)");
  facts.Add("step_time_s", common::ExactText(time_s));
  const std::string precision = row.Cell("Precision");
  facts.Add("precision",
            precision.find("fp8") != std::string::npos ? "fp8" : "bf16");
  if (row.Cell("Activation CPUOffload") == "True") {
    read.left_out = "offloading is not simulated";
  }
  read.environment = row.Cell("GPU");
  read.tokens = {row.Cell("section"), row.Cell("MP Mode"), row.Cell("GPU"),
                 row.Cell("Model")};
  return read;
}

// Megatron-LM's continuous integration: step time and peak memory per set of
// flags, one host of 8 GPUs.

namespace {

// A model under this many hidden units spends its step in the CPU and in the
// tests' own checks; only its memory is meaningful.
constexpr double kTinyHidden = 2048;
constexpr double kGpus = 8;

// "dev_dgx_a100": dev, dgx, a100.
std::vector<std::string> PartsOf(const std::string& name) {
  std::vector<std::string> parts;
  for (const std::string_view part : common::Split(name, '_')) {
    parts.emplace_back(part.substr(0, part.find('-')));
  }
  return parts;
}

// The GPU that the name of an environment contains: "a100" of "dev_dgx_a100",
// "h100" of "dev_dgxh100_coreweave", "gb200" of "dev_dgx_gb200"; "" for none.
std::string GpuOf(const std::string& environment) {
  static const common::Pattern gpu("(gb|gh|rtx|mi|[abhlv])[0-9]{2,4}");
  const std::vector<std::string_view> found = gpu.Find(environment);
  return found.empty() ? "" : std::string(found[0]);
}

std::string WhyLeftOut(const TableRow& row) {
  const std::string family = row.Cell("family");
  for (const std::string& part : PartsOf(row.Cell("case"))) {
    if (part == "grpo" || part == "rl" || part == "ppo" ||
        part == "inference") {
      return "a step of reinforcement learning or inference is not a training "
             "step";
    }
  }
  if (family != "gpt" && family != "bert" && family != "moe") {
    return fmt::format("models of the family '{}' are not simulated", family);
  }
  for (const std::string_view column :
       {"gbs", "mbs", "seq", "layers", "hidden", "heads"}) {
    if (row.Cell(column).empty()) {
      return fmt::format("'{}' is not published", column);
    }
  }
  if (!row.Cell("fp8").empty() || !row.Cell("fsdp").empty()) {
    return "8-bit arithmetic and Megatron's FSDP are not simulated";
  }
  const std::string expert_tp = row.Cell("etp");
  if (!expert_tp.empty() && expert_tp != "1" && expert_tp != row.Cell("tp")) {
    return "experts split over some tensor-parallel ranks are not simulated";
  }
  const auto size = [&](std::string_view column) {
    const double value = row.Number(column);
    return value > 0.0 ? value : 1.0;
  };
  if (size("tp") * size("pp") * size("cp") > kGpus) {
    return "more than one host of 8 GPUs, of which nothing is published";
  }
  return "";
}

}  // namespace

RowFacts ReadMegatronGolden(const TableRow& row) {
  RowFacts read(row);
  read.left_out = WhyLeftOut(row);
  Facts& facts = read.facts;
  facts.Add(row, {"gbs", "mbs", "seq", "layers", "hidden", "heads", "ffn",
                  "experts", "cp", "ep"});
  facts.Add("scenario", row.Cell("case"));
  const std::string family = row.Cell("family");
  facts.Add("family", family == "moe" ? "gpt" : family);
  facts.Add("tp", row.Cell("tp"));
  facts.Add("tp", "1");
  facts.Add("pp", row.Cell("pp"));
  facts.Add("pp", "1");
  if (row.Number("ep") > 1.0 && row.Number("tp") > 1.0) {  // its default is tp
    facts.Add("whole_experts", row.Cell("etp") == "1" ? "true" : "false");
  }
  facts.Add("model_chunks", row.Cell("vpp"));
  const double per_stage = row.Number("vpp_layers_per_stage");
  if (per_stage > 0.0) {
    facts.Add("model_chunks",
              fmt::format("{}", row.Number("layers") / facts.RequireInt("pp") /
                                    per_stage));
  }
  facts.Add("zero_stage", row.Cell("dist_opt") == "true" ? "1" : "0");
  facts.Add("sequence_parallel",
            row.Cell("seq_parallel") == "true" ? "1" : "0");
  const std::string recompute = row.Cell("recompute");
  facts.Add("grad_checkpoint", recompute.empty()          ? "0"
                               : recompute == "selective" ? "2"
                                                          : "1");
  facts.Add("precision", row.Cell("bf16") == "true"   ? "bf16"
                         : row.Cell("fp16") == "true" ? "fp16"
                                                      : "fp32");
  facts.Add("status", "ok");
  if (row.Number("hidden") >= kTinyHidden) {
    facts.Add("step_time_s", row.Cell("iter_time_median_s"));
  }
  const double memory = row.Number("mem_max_alloc_gib");
  if (memory > 0.0) {
    facts.Add("peak_memory_gb",
              fmt::format("{}", memory * common::kGibi / common::kGiga));
  } else if (!facts.Has("step_time_s") && read.left_out.empty()) {
    read.left_out = "neither memory nor the time of a model that is not tiny";
  }
  // Transformer Engine splits a sequence for its fused attention only, and the
  // local implementation has none.
  if (row.Number("cp") > 1.0) {
    facts.Add("flash_attention", "true");
  } else if (row.Cell("impl") == "local") {
    facts.Add("flash_attention", "false");
  }
  read.environment = row.Cell("env");
  read.tokens.push_back(GpuOf(read.environment));
  for (const std::string_view column : {"env", "case", "family"}) {
    const std::string text = row.Cell(column);
    read.tokens.push_back(text);
    for (const std::string& part : PartsOf(text)) {
      read.tokens.push_back(part);
    }
  }
  return read;
}

// SimuMax: steps of Megatron-LM with models cut to a few layers, on one host.
RowFacts ReadSimumax(const TableRow& row) {
  RowFacts read(row);
  Facts& facts = read.facts;
  facts.Add("sequence_parallel", row.Cell("sp") == "1" ? "1" : "0");
  facts.Add(row,
            {"model", "layers", "gpus", "tp", "pp", "cp", "ep", "dp",
             "microbatches", "micro_batch_size", "sequence_length", "precision",
             "cp_communication", "fused_cross_entropy", "step_time_s"});
  facts.Add("scenario", row.Cell("model"));
  facts.Add("status", "ok");
  facts.Add("peak_memory_gb", row.Cell("peak_allocated_gib"));
  read.tokens = {row.Cell("model")};
  return read;
}

// Layouts of several frameworks, models and GPUs, as tables of many sources
// have them: a name for each, which the settings explain.

namespace {

// The word of a cell, of these: its value.
std::string WordIn(
    const std::string& cell,
    std::initializer_list<std::pair<std::string_view, std::string_view>>
        words) {
  for (const auto& [word, value] : words) {
    if (cell.find(word) != std::string::npos) {
      return std::string(value);
    }
  }
  return "";
}

// The number of the fullest stage: "46.77" of "46.77;36.59".
std::string Largest(const std::string& numbers) {
  double largest = 0.0;
  for (const std::string_view number : common::Split(numbers, ';')) {
    largest = std::max(largest, common::ParseDouble(number));
  }
  return fmt::format("{}", largest);
}

void AddPeak(const TableRow& row, Facts& facts) {
  facts.Add(row, {"peak_memory_bytes"});
  for (const std::string_view column :
       {"peak_allocated_gib", "peak_reserved_or_device_gib",
        "peak_memory_gib_per_stage"}) {
    const std::string cell = row.Cell(column);
    facts.Add("peak_memory_gb", cell.empty() ? "" : Largest(cell));
  }
  facts.Add("peak_memory_unit",
            WordIn(row.Cell("memory_unit"), {{"GiB", "GiB"}, {"GB", "GB"}}));
}

}  // namespace

RowFacts ReadLayouts(const TableRow& row) {
  RowFacts read(row);
  Facts& facts = read.facts;
  facts.Add(row, {"model", "layers", "seq", "gpus", "dp", "tp", "pp", "cp",
                  "ep", "zero_stage", "micro_batch_size", "microbatches",
                  "global_batch", "layers_per_stage", "status"});
  facts.Add("status", "ok");
  facts.Add("scenario",
            fmt::format("{} {}", row.Cell("model"), row.Cell("gpus")));
  facts.Add("model_chunks", row.Cell("vpp"));
  facts.Add("precision", WordIn(row.Cell("precision"), {{"fp8", "fp8"},
                                                        {"bf16", "bf16"},
                                                        {"fp16", "fp16"},
                                                        {"fp32", "fp32"}}));
  const std::string fsdp = row.Cell("fsdp");
  facts.Add("zero_stage", WordIn(fsdp, {{"ZeRO-2", "2"},
                                        {"ZeRO-3", "3"},
                                        {"SDP", "3"},
                                        {"1", "3"},
                                        {"DDP", "0"}}));
  facts.Add("shard_within_host", fsdp == "HSDP" ? "1" : "");
  const std::string recompute = row.Cell("recompute");
  const std::string parts =
      WordIn(recompute, {{"full", "1"}, {"selective", "2"}, {"none", "0"}});
  facts.Add("grad_checkpoint", recompute == "core_attn" ? "2" : parts);
  if (!recompute.empty() && !facts.Has("grad_checkpoint")) {
    read.left_out = fmt::format("recomputation of '{}' alone", recompute);
  }
  AddPeak(row, facts);
  facts.Add(row, {"step_time_s"});
  const double tokens_per_s = row.Number("tokens_per_s_gpu");
  if (tokens_per_s > 0.0 && facts.Has("global_batch_size")) {
    facts.Add("step_time_s",
              common::ExactText(facts.Number("global_batch_size") *
                                facts.Number("sequence_length") /
                                (tokens_per_s * facts.RequireInt("gpus"))));
  } else if (!facts.Has("step_time_s") && !facts.Has("peak_memory_gb")) {
    read.left_out = "neither the time of a step nor memory is published";
  }
  read.environment = row.Cell("gpu");
  for (const std::string_view column :
       {"model", "framework", "precision", "schedule", "other", "gpu"}) {
    read.tokens.push_back(row.Cell(column));
  }
  read.tokens.push_back(fmt::format("pp {}", row.Cell("pp")));
  read.tokens.insert(
      read.tokens.begin(),
      fmt::format("{} {}", read.environment, row.Cell("gpu_memory_gib")));
  return read;
}

}  // namespace studies
