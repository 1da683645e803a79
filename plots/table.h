// Tables: rows of named values. People read them rounded, in a handy unit;
// programs read all digits in SI units. Text for a terminal, Markdown, HTML and
// CSV are renderers of the same rows.

#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/statistics.h"

namespace plots {

// One value.
struct Cell {
  // NOLINTBEGIN(google-explicit-constructor): a value is a cell.
  Cell() = default;
  Cell(std::string name) : text(name), exact{std::move(name)}, is_name(true) {}
  Cell(std::string_view name) : Cell(std::string(name)) {}
  Cell(const char* name) : Cell(std::string(name)) {}
  Cell(double value);  // with all its digits
  template <std::integral Count>
  Cell(Count count)
      : text(std::to_string(count)), exact{std::to_string(count)} {}
  // NOLINTEND(google-explicit-constructor)
  // A number, and how people read it.
  Cell(std::string shown, double value);

  std::string text;
  // An estimate has its value and its limits; a number that is unknown is "".
  std::vector<std::string> exact = {""};
  bool is_name = false;  // aligned to the left
  std::string style;     // its class in HTML; "": none
};

// "98.3" for 0.983, times `scale`; "" for unknown.
[[nodiscard]] Cell Fixed(double value, int decimals, double scale = 1.0);

// Significant digits without an exponent; "" for unknown, "-" for never.
[[nodiscard]] Cell Rounded(double value, int digits, double scale = 1.0);

// "98.3 [97.9, 99.2]", without limits that are unknown.
[[nodiscard]] Cell Interval(const common::Estimate& estimate, int decimals,
                            double scale = 1.0);

// A text of numbers, "3/20", aligned as one.
[[nodiscard]] inline Cell Figures(std::string text) {
  Cell cell = std::move(text);
  cell.is_name = false;
  return cell;
}

// A value with the names of its column: for programs, and for people. Only
// those read it for whom it has a name. An estimate has three columns for
// programs: NAME, NAME_low and NAME_high.
struct Field {
  Field(std::string name, Cell value)
      : data(name), title(std::move(name)), cell(std::move(value)) {}
  Field(std::string data_name, std::string title_name, Cell value,
        std::string explanation = "")
      : data(std::move(data_name)),
        title(std::move(title_name)),
        meaning(std::move(explanation)),
        cell(std::move(value)) {}

  std::string data;
  std::string title;
  std::string meaning;  // of a column that needs an explanation
  Cell cell;
};
using Row = std::vector<Field>;

struct Table {
  Row columns;  // names, and cells of the right kind
  std::vector<std::vector<Cell>> rows;

  // The first row names the columns, unless they have names already.
  void Add(Row row);
  // Hides the columns from people in which no row has a text.
  void HideEmpty();
};

// A row for each thing. The columns are those of a default thing.
template <typename Thing, typename RowOf>
[[nodiscard]] Table TableOf(const std::vector<Thing>& things,
                            const RowOf& row_of) {
  Table table{.columns = row_of(Thing{})};
  for (const Thing& thing : things) {
    table.Add(row_of(thing));
  }
  return table;
}

// Names in the header are broken into as few lines as make the table at most
// `width` columns wide.
[[nodiscard]] std::string ToText(const Table& table, std::size_t width = 120);
[[nodiscard]] std::string ToMarkdown(const Table& table);
// Without padding, so that a new value changes one line of a document; its
// cells are Markdown.
[[nodiscard]] std::string ToCompactMarkdown(const Table& table);
// A <table> with this id; text is escaped. Numbers have their digits in the
// attribute data-v.
[[nodiscard]] std::string ToHtml(const Table& table, std::string_view id = "");
[[nodiscard]] std::string ToCsv(const Table& table);

// Text as the content of an HTML element or of an attribute in double quotes.
[[nodiscard]] std::string EscapeHtml(std::string_view text);

// Text as a cell or a heading of Markdown.
[[nodiscard]] std::string EscapeMarkdown(std::string_view text);

// Breaks at spaces into lines of at most `width` characters, and words that are
// longer after their commas.
[[nodiscard]] std::vector<std::string> Wrap(std::string_view text,
                                            std::size_t width);

// Each line broken at this width, its next lines indented as far as its text,
// or `hang` if that is more. Text as it is for less than 60: a narrower
// terminal breaks by itself, and 0 is none.
[[nodiscard]] std::string WrapLines(std::string_view text, std::size_t width,
                                    std::size_t hang = 0);

// A row of a CSV file with its newline; cells with a comma, a quote or a line
// break are quoted (RFC 4180).
[[nodiscard]] std::string CsvRow(const std::vector<std::string>& cells);

}  // namespace plots
