// MosaicML's LLM Foundry: throughput of MPT models with FSDP.

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "common/text.h"
#include "studies/validation/table_kind.h"

namespace studies {
namespace {

// "1600" of "A100 80GB with 1600 Gbps node-node interconnect"; "" where the
// section does not say.
std::string GbpsOf(const std::string& section) {
  std::size_t end = section.find("Gbps");
  if (end == std::string::npos) {
    return "";
  }
  while (end > 0 && section[end - 1] == ' ') {
    --end;
  }
  std::size_t begin = end;
  while (begin > 0 && section[begin - 1] >= '0' && section[begin - 1] <= '9') {
    --begin;
  }
  return section.substr(begin, end - begin);
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

}  // namespace studies
