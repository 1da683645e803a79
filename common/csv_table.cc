#include "common/csv_table.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
// The reader truncates long file names in its own messages, on purpose.
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wstringop-truncation"
#endif
#include <libfccp/csv.h>
#pragma GCC diagnostic pop

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "common/toml_table.h"

namespace common {
namespace {

// Cuts a line into cells; the reader's buffer is overwritten.
std::vector<std::string> Cells(char* text) {
  using Quotes = io::double_quote_escape<',', '"'>;
  std::vector<std::string> cells;
  while (true) {
    char* end = text + (Quotes::find_next_column_end(text) - text);
    const bool last = *end == '\0';
    *end = '\0';
    char* next = end + 1;
    Quotes::unescape(text, end);
    cells.emplace_back(Trim({text, static_cast<std::size_t>(end - text)}));
    if (last) {
      return cells;
    }
    text = next;
  }
}

std::string WithoutFormula(std::string_view cell) {
  constexpr std::string_view kBegins = "=+-@\t\r";
  std::string text(cell);
  if (text.size() < 2 || kBegins.find(text[0]) == std::string_view::npos) {
    return text;
  }
  try {
    (void)ParseDouble(text);
    return text;
  } catch (const std::invalid_argument&) {
    return "'" + text;
  }
}

}  // namespace

// Note: fast-cpp-csv-parser reads lines and cells; its CSVReader requires the
// columns at compile time, so this file parses the header.
CsvTable CsvTable::Read(const std::filesystem::path& path, Rows rows) {
  CsvTable table;
  table.path_ = path.string();
  if (!IsFile(path)) {
    throw InputError(fmt::format("{}: no such file", table.path_));
  }
  const std::string content = ReadFile(path);
  io::LineReader reader(table.path_, content.data(),
                        content.data() + content.size());
  while (char* text = reader.next_line()) {
    if (Trim(text).empty() || *text == '#') {
      continue;
    }
    const unsigned line = reader.get_file_line();
    std::vector<std::string> cells;
    try {
      cells = Cells(text);
    } catch (const io::error::escaped_string_not_closed&) {
      table.Fail(line, "a quote is opened but not closed");
    }
    if (table.header_.empty()) {
      table.header_ = std::move(cells);
      table.header_line_ = line;
      continue;
    }
    if (rows == Rows::kMayBeShort && cells.size() < table.header_.size()) {
      cells.resize(table.header_.size());
    }
    if (cells.size() != table.header_.size()) {
      table.Fail(line, fmt::format("{} cells where the header has {}",
                                   cells.size(), table.header_.size()));
    }
    table.rows_.push_back({line, std::move(cells)});
  }
  if (table.header_.empty()) {
    throw InputError(
        fmt::format("{}: the header line is missing", table.path_));
  }
  return table;
}

std::optional<std::size_t> CsvTable::Find(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  if (found == header_.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - header_.begin());
}

std::string_view CsvTable::Cell(const Row& row, std::string_view column) const {
  const std::optional<std::size_t> at = Find(column);
  return at ? std::string_view(row.cells[*at]) : std::string_view();
}

void CsvTable::Fail(unsigned line, const std::string& message) const {
  throw InputError(fmt::format("{}:{}: {}", path_, line, message));
}

std::string CsvCell(std::string_view cell) {
  const std::string text = WithoutFormula(cell);
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

}  // namespace common
