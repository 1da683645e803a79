#include "planners/operators/operator_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "common/text.h"
#include "common/toml_table.h"

namespace planners {
namespace {

using common::CsvTable;

constexpr double kFailedUs = 1e6;  // Aceso's profiler writes 1e7

struct Column {
  std::string_view name;
  double OperatorProfile::*value;
};
constexpr std::array kColumns = {
    Column{"forward-compute", &OperatorProfile::forward_us},
    Column{"backward-compute", &OperatorProfile::backward_us},
    Column{"input_size", &OperatorProfile::input_mb},
    Column{"output_size", &OperatorProfile::output_mb},
    Column{"weights", &OperatorProfile::weights_mb},
    Column{"activations", &OperatorProfile::activations_mb},
    Column{"fwd_reserved", &OperatorProfile::forward_reserved_mb},
    Column{"bwd_reserved", &OperatorProfile::backward_reserved_mb},
};

double NumberAt(const CsvTable& table, const CsvTable::Row& row,
                std::string_view column, double least) {
  const std::string_view text = table.Cell(row, column);
  const double value = common::NumberOrNan(text);
  if (!(value >= least)) {
    table.Fail(row.line,
               fmt::format("{} = '{}': must be a number of at least {}", column,
                           text, least));
  }
  return value;
}

int IntegerAt(const CsvTable& table, const CsvTable::Row& row,
              std::string_view column, int least, int most) {
  const double value = NumberAt(table, row, column, least);
  if (value > most || value != std::floor(value)) {
    table.Fail(row.line,
               fmt::format("{} = {}: must be an integer from {} to {}", column,
                           value, least, most));
  }
  return static_cast<int>(value);
}

ProfiledOperator ReadRow(const CsvTable& table, const CsvTable::Row& row) {
  ProfiledOperator read;
  read.name = table.Cell(row, "op_name");
  read.micro_batch = IntegerAt(table, row, "mbs", 1, 4096);
  read.tp = IntegerAt(table, row, "tp", 1, 1024);
  read.variant = IntegerAt(table, row, "algo", 0, 7);
  if (!std::has_single_bit(static_cast<unsigned>(read.tp))) {
    table.Fail(row.line,
               fmt::format("tp = {}: must be a power of two", read.tp));
  }
  for (const Column& column : kColumns) {
    read.profile.*column.value = NumberAt(table, row, column.name, 0.0);
  }
  return read;
}

std::vector<ProfiledOperator> RowsOf(const CsvTable& table,
                                     std::string_view model) {
  std::vector<std::string_view> columns = {"mbs", "tp", "algo", "op_name"};
  for (const Column& column : kColumns) {
    columns.push_back(column.name);
  }
  for (const std::string_view column : columns) {
    if (!table.Find(column)) {
      table.Fail(table.header_line(),
                 fmt::format("the column '{}' is missing", column));
    }
  }
  const bool one_model = !table.Find("model");
  std::vector<ProfiledOperator> rows;
  std::set<std::string> models;
  for (const CsvTable::Row& row : table.rows()) {
    if (one_model || table.Cell(row, "model") == model) {
      rows.push_back(ReadRow(table, row));
    } else {
      models.emplace(table.Cell(row, "model"));
    }
  }
  if (rows.empty()) {
    throw common::InputError(fmt::format("{}: no profile of '{}'; known: {}",
                                         table.path(), model,
                                         fmt::join(models, ", ")));
  }
  return rows;
}

}  // namespace

OperatorTable OperatorTable::Read(const std::filesystem::path& path,
                                  std::string_view model) {
  const std::vector<ProfiledOperator> rows =
      RowsOf(CsvTable::Read(path), model);
  try {
    return Of(rows);
  } catch (const common::InputError& e) {
    throw common::InputError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

OperatorTable OperatorTable::Of(const std::vector<ProfiledOperator>& rows) {
  if (rows.empty()) {
    throw common::InputError("no operators");
  }
  OperatorTable table;
  std::set<int> micro_batches;
  for (const ProfiledOperator& row : rows) {
    if (row.micro_batch == rows[0].micro_batch && row.tp == rows[0].tp &&
        row.variant == rows[0].variant) {
      table.names_.push_back(row.name);
    }
    micro_batches.insert(row.micro_batch);
    table.tp_sizes_ = std::max(
        table.tp_sizes_,
        static_cast<int>(std::bit_width(static_cast<unsigned>(row.tp))));
    table.variants_ = std::max(table.variants_, row.variant + 1);
  }
  table.micro_batches_.assign(micro_batches.begin(), micro_batches.end());
  table.slots_.assign(static_cast<std::size_t>(*micro_batches.rbegin()) + 1,
                      -1);
  for (std::size_t i = 0; i < table.micro_batches_.size(); ++i) {
    table.slots_[table.micro_batches_[i]] = static_cast<int>(i);
  }
  const std::size_t size =
      table.names_.size() * table.micro_batches_.size() *
      static_cast<std::size_t>(table.tp_sizes_ * table.variants_);
  table.profiles_.resize(size);
  table.known_.assign(size, 0);
  for (const ProfiledOperator& row : rows) {
    const auto name = std::ranges::find(table.names_, row.name);
    if (name == table.names_.end()) {
      throw common::InputError(fmt::format(
          "the operator '{}' is missing in the first rows", row.name));
    }
    const std::size_t at = table.Index(
        static_cast<int>(name - table.names_.begin()),
        table.slots_[row.micro_batch],
        static_cast<int>(std::bit_width(static_cast<unsigned>(row.tp))) - 1,
        row.variant);
    table.profiles_[at] = row.profile;
    table.known_[at] = row.profile.forward_us < kFailedUs &&
                       row.profile.backward_us < kFailedUs;
  }
  return table;
}

}  // namespace planners
