// Tables, and what they are written as: text for a terminal, Markdown, HTML,
// and CSV for programs.

#ifndef PLOTS_TABLE_H_
#define PLOTS_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/statistics.h"

namespace plots {

// Columns of numbers are aligned to the right, those of names to the left: the
// first, and the last with `last_is_name`. Every row has as many cells as
// the header.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool last_is_name = false;
  bool all_are_names = false;
  // Columns that need an explanation, and their meaning.
  std::vector<std::pair<std::string, std::string>> meanings;
};

// Names in the header are broken at spaces where the table would otherwise be
// wider than 120 columns.
[[nodiscard]] std::string ToText(const Table& table);
[[nodiscard]] std::string ToMarkdown(const Table& table);
// A <table>; text is escaped.
[[nodiscard]] std::string ToHtml(const Table& table);

// A row of a file for programs: names and values. A number has all its digits
// and is empty where it is unknown.
class Fields {
 public:
  Fields& Add(std::string name, std::string text);
  Fields& Add(std::string name, const char* text);
  Fields& Add(std::string name, double value);
  Fields& Add(std::string name, int value);
  // NAME, NAME_low and NAME_high.
  Fields& Add(const std::string& name, const common::Estimate& estimate);

  [[nodiscard]] std::string Header() const;
  [[nodiscard]] std::string Row() const;

 private:
  std::vector<std::string> names_;
  std::vector<std::string> values_;
};

// The fields of each thing under their names, which a thing by default has,
// too.
template <typename Thing>
[[nodiscard]] std::string ToCsv(const std::vector<Thing>& things,
                                Fields (*fields)(const Thing&)) {
  std::string text = fields(Thing{}).Header();
  for (const Thing& thing : things) {
    text += fields(thing).Row();
  }
  return text;
}

// "98.3 [97.9, 99.2]", times `scale`; "" for unknown, without limits that are
// unknown.
[[nodiscard]] std::string Interval(const common::Estimate& estimate,
                                   double scale, int decimals);

// Significant digits without an exponent; "" for unknown, "-" for never.
[[nodiscard]] std::string Rounded(double value, int digits);

// Text as the content of an HTML element or of an attribute in double quotes.
[[nodiscard]] std::string EscapeHtml(std::string_view text);

// Breaks at spaces into lines of at most `width` characters.
[[nodiscard]] std::vector<std::string> Wrap(std::string_view text,
                                            std::size_t width);

// A row of a CSV file with its newline; cells with a comma, a quote or a line
// break are quoted (RFC 4180).
[[nodiscard]] std::string CsvRow(const std::vector<std::string>& cells);

}  // namespace plots

#endif  // PLOTS_TABLE_H_
