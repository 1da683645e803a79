// The kinds of published table: one adapter for each set of columns.

#ifndef STUDIES_VALIDATION_TABLE_KIND_H_
#define STUDIES_VALIDATION_TABLE_KIND_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/csv_table.h"
#include "common/error.h"
#include "trials/simulator/gpu_model.h"
#include "trials/tables/facts.h"

namespace studies {

using trials::Facts;
using trials::TableRow;

// The operator or collective of a row that is not a whole step.
struct TimedPart {
  // An operator, by its name in trials/simulator/layer_cost.h, or a collective:
  // all-reduce, reduce-scatter, all-gather, all-to-all, or a call on one GPU.
  // "": a whole step.
  std::string name;
  // Of an operator: tensor-parallel all-reduces that are timed with it, whether
  // its backward accumulates gradients, and whether it copies queries, keys and
  // values into separate tensors, and their gradients into one.
  int forward_all_reduces = 0;
  int backward_all_reduces = 0;
  bool accumulates = false;
  bool copies_heads = false;
  // Of a collective: its buffer (the gathered one), and the bytes that the
  // framework copies in addition. 0: an operator.
  double bytes = 0.0;
  double copied_bytes = 0.0;
  // Of one call on one GPU: a product, or fused attention.
  std::optional<trials::Gemm> gemm;
  std::optional<trials::Attention> attention;
  bool backward = false;

  [[nodiscard]] bool IsCall() const { return gemm || attention; }
};

// Adds one row, with its columns renamed to facts.
struct RowFacts {
  explicit RowFacts(const TableRow& row) : facts(row) {}

  Facts facts;
  // Names of tables in [facts_of] of the settings: model, GPU type, ...
  std::vector<std::string> tokens;
  std::string left_out;  // why there is no prediction; "" if there is one
  // What the table names instead of a cluster: a GPU or an environment of the
  // publisher. The settings have the cluster of each known one. "": the table
  // has one cluster, or names clusters.
  std::string environment;
  TimedPart part;
};

using ReadRow = RowFacts (*)(const TableRow&);

struct TableKind {
  std::string_view name;
  std::vector<std::string_view> columns;  // identify the kind
  ReadRow read;
  common::CsvTable::Rows rows = common::CsvTable::Rows::kWhole;
};

[[nodiscard]] std::span<const TableKind> TableKinds();

// The kind of a table by its columns.
// Errors: throws InputError naming the file, the columns that the nearest kind
// lacks, and all kinds.
[[nodiscard]] const TableKind& KindOf(const common::CsvTable& table);

// Errors: throws InputError for an unknown name.
[[nodiscard]] const TableKind& FindTableKind(std::string_view name);

// The adapters, each in the file of its name.
[[nodiscard]] RowFacts ReadMeasured(const TableRow& row);
[[nodiscard]] RowFacts ReadKorthikanti(const TableRow& row);
[[nodiscard]] RowFacts ReadMosaicml(const TableRow& row);
[[nodiscard]] RowFacts ReadMegatronGolden(const TableRow& row);
[[nodiscard]] RowFacts ReadSimumax(const TableRow& row);
[[nodiscard]] RowFacts ReadGpuOperators(const TableRow& row);
[[nodiscard]] RowFacts ReadAcesoOperators(const TableRow& row);
[[nodiscard]] RowFacts ReadAcesoCollectives(const TableRow& row);
[[nodiscard]] RowFacts ReadNccl(const TableRow& row);

}  // namespace studies

#endif  // STUDIES_VALIDATION_TABLE_KIND_H_
