// Small tables of text: aligned for a terminal, or Markdown.

#ifndef PLOTS_TABLE_H_
#define PLOTS_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plots {

// Columns of numbers are aligned to the right, those of names to the left: the
// first, and the last with `last_is_name`. Every row has as many cells as
// the header.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool last_is_name = false;
  bool all_are_names = false;
};

// Names in the header are broken at spaces where the table would otherwise be
// wider than 120 columns.
[[nodiscard]] std::string ToText(const Table& table);
[[nodiscard]] std::string ToMarkdown(const Table& table);

// Breaks at spaces into lines of at most `width` characters.
[[nodiscard]] std::vector<std::string> Wrap(std::string_view text,
                                            std::size_t width);

// A row of a CSV file with its newline; cells with a comma, a quote or a line
// break are quoted (RFC 4180).
[[nodiscard]] std::string CsvRow(const std::vector<std::string>& cells);

}  // namespace plots

#endif  // PLOTS_TABLE_H_
