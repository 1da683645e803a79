// Named facts about one row of a table, collected from several sources.

#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "common/csv_table.h"
#include "common/toml_table.h"

namespace trials {

// One row of a table, by column.
struct TableRow {
  const common::CsvTable& table;
  const common::CsvTable::Row& csv;

  // "" where the table has no such column.
  [[nodiscard]] std::string Cell(std::string_view column) const {
    return std::string(table.Cell(csv, column));
  }
  // NaN where the cell is empty.
  // Errors: throws InputError "file:line: ...".
  [[nodiscard]] double Number(std::string_view column) const;
};

// Names and their values as text. The names are those of the fields of a
// ParallelConfig, of a model's shape (layers, hidden_size, attention_heads,
// kv_heads, ffn_size, vocab_size, family, tied_embeddings), of a workload
// (sequence_length, global_batch_size, precision) and of a measurement
// (scenario, gpus, status, step_time_s, peak_memory_gb).
//
// The first value of a fact counts: add the row before its scenario, and the
// scenario before the whole table. Empty text adds nothing.
//
// Errors: throw InputError "place: ..." with the name and a remedy.
class Facts {
 public:
  // `place` is for messages: "file:line" of a row.
  explicit Facts(std::string place) : place_(std::move(place)) {}
  explicit Facts(const TableRow& row);

  void Add(std::string_view name, std::string_view value);
  // Every column of a row, these columns of it, every key of a TOML table. Two
  // columns of a row with one name must not differ.
  void Add(const TableRow& row);
  void Add(const TableRow& row,
           std::initializer_list<std::string_view> columns);
  void Add(const common::TomlTable& table);
  // The value counts, whatever was added before.
  void Replace(std::string_view name, std::string_view value);

  [[nodiscard]] bool Has(std::string_view name) const;
  [[nodiscard]] std::string Text(std::string_view name,
                                 std::string_view otherwise = "") const;
  [[nodiscard]] std::string RequireText(std::string_view name) const;
  [[nodiscard]] int RequireInt(std::string_view name) const;
  [[nodiscard]] int Int(std::string_view name, int otherwise) const;
  // A number above 0; NaN where the fact is missing.
  [[nodiscard]] double Number(std::string_view name) const;
  // A number that may also be 0. Precondition: the fact is there.
  [[nodiscard]] double NonNegative(std::string_view name) const;
  [[nodiscard]] bool Flag(std::string_view name, bool otherwise) const;

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& all()
      const {
    return facts_;
  }
  // The names that were asked for, whether they are there or not.
  [[nodiscard]] const std::set<std::string, std::less<>>& asked() const {
    return *asked_;
  }
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  // nullptr where the fact is missing. Notes that it was asked for.
  [[nodiscard]] const std::string* Find(std::string_view name) const;

  std::string place_;
  std::map<std::string, std::string, std::less<>> facts_;
  // Of the copies, too.
  std::shared_ptr<std::set<std::string, std::less<>>> asked_ =
      std::make_shared<std::set<std::string, std::less<>>>();
};

// The name of a fact for a column or key: "layers" for "num_layers",
// "microbatches" for "mb".
[[nodiscard]] std::string FactName(std::string_view name);

}  // namespace trials
