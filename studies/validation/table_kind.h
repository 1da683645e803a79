// The kinds of table that are understood: one adapter for each set of columns.

#ifndef STUDIES_VALIDATION_TABLE_KIND_H_
#define STUDIES_VALIDATION_TABLE_KIND_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/csv_table.h"
#include "common/error.h"
#include "studies/validation/facts.h"

namespace studies {

// What is timed where a row is not a whole step.
struct TimedPart {
  // An operator, by its name in trials/simulator/layer_cost.h, or a collective:
  // all-reduce, reduce-scatter, all-gather, all-to-all. "": a whole step.
  std::string name;
  // Of an operator: tensor-parallel all-reduces that are timed with it, whether
  // its backward adds to gradients that are there, and whether queries, keys
  // and values are copied apart, and their gradients together.
  int forward_all_reduces = 0;
  int backward_all_reduces = 0;
  bool accumulates = false;
  bool copies_heads = false;
  // Of a collective: its buffer (the gathered one), and what the framework
  // copies beside it. 0: an operator.
  double bytes = 0.0;
  double copied_bytes = 0.0;
};

// One row in our words.
struct RowFacts {
  Facts facts;
  // Names under which a table's settings may tell more: model, GPU type, ...
  std::vector<std::string> tokens;
  // Why nothing is predicted for it; "" when it is.
  std::string left_out;
  TimedPart part = {};
};

using ReadRow = RowFacts (*)(const common::CsvTable&,
                             const common::CsvTable::Row&);

struct TableKind {
  std::string_view name;
  std::vector<std::string_view> columns;  // by which it is recognised
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
[[nodiscard]] RowFacts ReadMeasured(const common::CsvTable& table,
                                    const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadKorthikanti(const common::CsvTable& table,
                                       const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadMosaicml(const common::CsvTable& table,
                                    const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadMegatronGolden(const common::CsvTable& table,
                                          const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadAcesoOperators(const common::CsvTable& table,
                                          const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadAcesoCollectives(const common::CsvTable& table,
                                            const common::CsvTable::Row& row);
[[nodiscard]] RowFacts ReadNccl(const common::CsvTable& table,
                                const common::CsvTable::Row& row);

// "file:line" of a row.
[[nodiscard]] std::string PlaceOf(const common::CsvTable& table,
                                  const common::CsvTable::Row& row);

// The number in a cell; NaN where the cell is empty.
// Errors: throws InputError "file:line: ...".
[[nodiscard]] double NumberIn(const common::CsvTable& table,
                              const common::CsvTable::Row& row,
                              std::string_view column);

}  // namespace studies

#endif  // STUDIES_VALIDATION_TABLE_KIND_H_
