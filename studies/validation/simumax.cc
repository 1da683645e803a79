// SimuMax: steps of Megatron-LM with models cut to a few layers, on one host.

#include <string>

#include "studies/validation/table_kind.h"

namespace studies {

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

}  // namespace studies
