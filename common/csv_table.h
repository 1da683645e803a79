// A CSV file with a header line, read into memory.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace common {

// Cells are text, without the spaces around them; quotes, byte order marks and
// foreign line endings are handled. Empty lines and lines that start with # are
// skipped.
//
// Errors: every function throws InputError "file:line: ...".
class CsvTable {
 public:
  struct Row {
    unsigned line = 0;
    std::vector<std::string> cells;  // as many as the header has
  };

  // Whether a row may have fewer cells than the header; missing cells are
  // empty.
  enum class Rows { kWhole, kMayBeShort };

  // The table that is made of the one of a file; every row has a cell for each
  // column.
  CsvTable(std::string path, unsigned header_line,
           std::vector<std::string> header, std::vector<Row> rows)
      : path_(std::move(path)),
        header_line_(header_line),
        header_(std::move(header)),
        rows_(std::move(rows)) {}

  [[nodiscard]] static CsvTable Read(const std::filesystem::path& path,
                                     Rows rows = Rows::kWhole);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& header() const {
    return header_;
  }
  [[nodiscard]] unsigned header_line() const { return header_line_; }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

  // The place of a column; absent when the header has no such name.
  [[nodiscard]] std::optional<std::size_t> Find(std::string_view name) const;

  // The cell of a column in a row; "" where the table has no such column.
  [[nodiscard]] std::string_view Cell(const Row& row,
                                      std::string_view column) const;

  [[noreturn]] void Fail(unsigned line, const std::string& message) const;

 private:
  CsvTable() = default;

  std::string path_;
  unsigned header_line_ = 0;
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

// A cell in CSV format: in quotes if it contains a comma or a quote. A text
// that a spreadsheet would take for a formula, which may run programs, begins
// with an apostrophe, which makes it a text there.
[[nodiscard]] std::string CsvCell(std::string_view text);

}  // namespace common
