#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "studies/validation/measured_table.h"
#include "trials/tables/measured_rows.h"

namespace studies {
namespace {

using common::CsvTable;
using common::InputError;

// The columns that a table lacks, under any name of their facts.
std::vector<std::string_view> Lacking(const TableKind& kind,
                                      const CsvTable& table) {
  std::vector<std::string_view> lacking;
  for (const std::string_view column : kind.columns) {
    if (std::ranges::none_of(table.header(), [&](const std::string& name) {
          return name == column || trials::ColumnName(name) == column;
        })) {
      lacking.push_back(column);
    }
  }
  return lacking;
}

}  // namespace

std::span<const TableKind> TableKinds() {
  static const std::vector<TableKind> kinds = {
      {"measured",
       {"scenario", "gpus", "dp", "tp", "pp", "status", "step_time_s"},
       ReadMeasured},
      {"korthikanti",
       {"where", "model", "gpus", "tp", "pp", "recompute", "iteration_time_s"},
       ReadKorthikanti},
      {"mosaicml",
       {"Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum",
        "Throughput (T/s)", "GlobalBatchSize (T)", "Sharding Strategy",
        "Activation Checkpointing"},
       ReadMosaicml},
      {"megatron-golden",
       {"case", "family", "env", "iter_time_median_s", "mem_max_alloc_gib"},
       ReadMegatronGolden},
      {"simumax",
       {"case", "model", "layers", "gpus", "microbatches", "step_time_s",
        "peak_allocated_gib"},
       ReadSimumax},
      {"layouts",
       {"model", "gpu", "gpus", "dp", "tp", "pp", "micro_batch_size",
        "step_time_s"},
       ReadLayouts},
      {"aceso-operators",
       {"model", "mbs", "tp", "algo", "op_name", "forward-compute",
        "backward-compute"},
       ReadAcesoOperators},
      {"gemm-efficiencies",
       {"gpu", "peak_tflops", "operator", "shape", "efficiency"},
       ReadGpuOperators},
      {"aceso-collectives",
       {"p2p_inter_node"},
       ReadAcesoCollectives,
       CsvTable::Rows::kMayBeShort},
      {"nccl", {"gpu", "ngpus", "bytes", "out_of_place_us"}, ReadNccl},
  };
  return kinds;
}

const TableKind& FindTableKind(std::string_view name) {
  common::RequireKnown(name, common::NamesIn(TableKinds(), &TableKind::name),
                       "kind of table");
  return *std::ranges::find(TableKinds(), name, &TableKind::name);
}

const TableKind& KindOf(const CsvTable& table) {
  const auto share = [&](const TableKind& kind) {
    return static_cast<double>(Lacking(kind, table).size()) /
           static_cast<double>(kind.columns.size());
  };
  const TableKind& nearest = *std::ranges::min_element(TableKinds(), {}, share);
  const std::vector<std::string_view> lacking = Lacking(nearest, table);
  if (lacking.empty()) {
    return nearest;
  }
  table.Fail(
      table.header_line(),
      fmt::format("the column '{}' is missing: a table of the kind '{}' has "
                  "the columns {}; add it, or rename the column that has it "
                  "(docs/validation.md describes every kind)",
                  lacking.front(), nearest.name,
                  fmt::join(nearest.columns, ", ")));
}

}  // namespace studies
