#include "plots/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/text.h"

namespace plots {
namespace {

// Characters as they are counted on a terminal: UTF-8 continuation bytes take
// no room.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// What people read of a table, the header first.
struct Shown {
  std::vector<std::vector<std::string>> lines;
  std::vector<bool> is_name;  // of a column with any name in it
};

Shown ShownOf(const Table& table) {
  Shown shown;
  shown.lines.resize(table.rows.size() + 1);
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].title.empty()) {
      continue;
    }
    shown.lines[0].push_back(table.columns[c].title);
    shown.is_name.push_back(false);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const Cell& cell = table.rows[r][c];
      shown.lines[r + 1].push_back(cell.text);
      shown.is_name.back() = shown.is_name.back() || cell.is_name;
    }
  }
  return shown;
}

std::vector<std::size_t> Widths(const Shown& shown) {
  std::vector<std::size_t> widths(shown.is_name.size(), 0);
  for (const std::vector<std::string>& line : shown.lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], Width(line[c]));
    }
  }
  return widths;
}

// With two spaces between columns.
std::size_t LineWidth(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         2 * (std::max<std::size_t>(widths.size(), 1) - 1);
}

// Wraps the names of the header at `limit` characters, or at the width of their
// cells if that is larger; the last line of each name is on the last line.
Shown WithBrokenHeader(const Shown& shown, std::size_t limit) {
  Shown broken{.lines = {}, .is_name = shown.is_name};
  std::vector<std::vector<std::string>> names;
  std::size_t lines = 1;
  for (std::size_t c = 0; c < shown.is_name.size(); ++c) {
    std::size_t width = limit;
    for (std::size_t line = 1; line < shown.lines.size(); ++line) {
      width = std::max(width, Width(shown.lines[line][c]));
    }
    lines = std::max(lines,
                     names.emplace_back(Wrap(shown.lines[0][c], width)).size());
  }
  broken.lines.assign(lines, std::vector<std::string>(names.size()));
  for (std::size_t c = 0; c < names.size(); ++c) {
    for (std::size_t w = 0; w < names[c].size(); ++w) {
      broken.lines[lines - names[c].size() + w][c] = names[c][w];
    }
  }
  broken.lines.insert(broken.lines.end(), shown.lines.begin() + 1,
                      shown.lines.end());
  return broken;
}

std::string Line(const Shown& shown, std::size_t line,
                 const std::vector<std::size_t>& widths,
                 std::string_view separator) {
  std::string text;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    const std::string& cell = shown.lines[line][c];
    const std::string padding(widths[c] - Width(cell), ' ');
    text += c == 0 ? "" : separator;
    text += shown.is_name[c] ? cell + padding : padding + cell;
  }
  return text;
}

}  // namespace

Cell::Cell(double value) : Cell(common::ExactText(value), value) {}

Cell::Cell(std::string shown, double value)
    : text(std::move(shown)), exact{common::ExactText(value)} {}

Cell Fixed(double value, int decimals, double scale) {
  return {
      std::isnan(value) ? "" : fmt::format("{:.{}f}", scale * value, decimals),
      value};
}

Cell Rounded(double value, int digits, double scale) {
  const double scaled = scale * value;
  if (std::isnan(scaled)) {
    return {"", value};
  }
  if (std::isinf(scaled)) {
    return {"-", value};
  }
  const int before =
      scaled == 0.0
          ? 1
          : static_cast<int>(std::floor(std::log10(std::abs(scaled)))) + 1;
  return {fmt::format("{:.{}f}", scaled, std::clamp(digits - before, 0, 6)),
          value};
}

Cell Interval(const common::Estimate& estimate, int decimals, double scale) {
  Cell cell = Fixed(estimate.value, decimals, scale);
  if (!std::isnan(estimate.value) && !std::isnan(estimate.low)) {
    cell.text += fmt::format(" [{:.{}f}, {:.{}f}]", scale * estimate.low,
                             decimals, scale * estimate.high, decimals);
  }
  cell.exact.push_back(common::ExactText(estimate.low));
  cell.exact.push_back(common::ExactText(estimate.high));
  return cell;
}

void Table::Add(Row row) {
  std::vector<Cell>& cells = rows.emplace_back();
  for (const Field& field : row) {
    cells.push_back(field.cell);
  }
  if (columns.empty()) {
    columns = std::move(row);
  }
}

void Table::HideEmpty() {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (std::ranges::all_of(
            rows, [c](const auto& row) { return row[c].text.empty(); })) {
      columns[c].title.clear();
    }
  }
}

std::string ToText(const Table& table, std::size_t width) {
  Shown shown = ShownOf(table);
  const std::size_t rows = shown.lines.size() - 1;
  for (std::size_t limit = width; limit > 0 && LineWidth(Widths(shown)) > width;
       --limit) {
    shown = WithBrokenHeader(ShownOf(table), limit);
  }
  const std::size_t header = shown.lines.size() - rows;
  const std::vector<std::size_t> widths = Widths(shown);
  std::string text;
  for (std::size_t i = 0; i < shown.lines.size(); ++i) {
    text += Line(shown, i, widths, "  ") + "\n";
    text += i + 1 == header ? std::string(LineWidth(widths), '-') + "\n" : "";
  }
  return text;
}

std::string EscapeMarkdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return escaped;
}

std::string ToMarkdown(const Table& table) {
  Shown shown = ShownOf(table);
  for (std::vector<std::string>& line : shown.lines) {
    std::ranges::transform(line, line.begin(), EscapeMarkdown);
  }
  const std::vector<std::size_t> widths = Widths(shown);
  std::string text;
  for (std::size_t i = 0; i < shown.lines.size(); ++i) {
    text += "| " + Line(shown, i, widths, " | ") + " |\n";
    for (std::size_t c = 0; i == 0 && c < widths.size(); ++c) {
      text += (c == 0 ? "| " : " ") +
              std::string(std::max<std::size_t>(widths[c], 2) - 1, '-') +
              (shown.is_name[c] ? "-" : ":") + " |";
    }
    text += i == 0 ? "\n" : "";
  }
  return text;
}

std::string ToCompactMarkdown(const Table& table) {
  Shown shown = ShownOf(table);
  shown.lines.emplace(shown.lines.begin() + 1, shown.is_name.size(), "---");
  std::string text;
  for (const std::vector<std::string>& line : shown.lines) {
    for (const std::string& cell : line) {
      text += cell.empty() ? "| " : fmt::format("| {} ", cell);
    }
    text += "|\n";
  }
  return text;
}

std::string ToHtml(const Table& table, std::string_view id) {
  std::string head;
  std::vector<std::string> rows(table.rows.size(), "<tr>");
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const Field& column = table.columns[c];
    if (column.title.empty()) {
      continue;
    }
    head += fmt::format("<th scope=\"col\"{}>{}</th>",
                        column.cell.is_name ? "" : " class=\"n\"",
                        EscapeHtml(column.title));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Cell& cell = table.rows[r][c];
      rows[r] += fmt::format("<td class=\"{}{}\"", cell.is_name ? "" : "n ",
                             cell.style);
      rows[r] +=
          cell.is_name ? "" : fmt::format(" data-v=\"{}\"", cell.exact.front());
      rows[r] += ">" + EscapeHtml(cell.text) + "</td>";
    }
  }
  std::string html = fmt::format(
      "<table id=\"{}\"><thead><tr>{}</tr></thead><tbody>\n", id, head);
  for (const std::string& row : rows) {
    html += row + "</tr>\n";
  }
  return html + "</tbody></table>";
}

std::string ToCsv(const Table& table) {
  std::vector<std::string> names;
  for (const Field& column : table.columns) {
    for (std::size_t i = 0; i < column.cell.exact.size(); ++i) {
      constexpr std::array<std::string_view, 3> kLimits = {"", "_low", "_high"};
      if (!column.data.empty()) {
        names.push_back(column.data + std::string(kLimits.at(i)));
      }
    }
  }
  std::string csv = CsvRow(names);
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> values;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (!table.columns[c].data.empty()) {
        values.insert(values.end(), row[c].exact.begin(), row[c].exact.end());
      }
    }
    csv += CsvRow(values);
  }
  return csv;
}

std::string EscapeHtml(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {{'&', "&amp;"},
                                                             {'<', "&lt;"},
                                                             {'>', "&gt;"},
                                                             {'"', "&quot;"},
                                                             {'\'', "&#39;"}};
  std::string html;
  for (const char c : common::Printable(text)) {
    const auto* const entity =
        std::find_if(std::begin(kEntities), std::end(kEntities),
                     [c](const auto& one) { return one.first == c; });
    html += entity == std::end(kEntities) ? std::string_view(&c, 1)
                                          : entity->second;
  }
  return html;
}

std::vector<std::string> Wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::string_view word : common::Split(text, ' ')) {
    std::size_t used = lines.empty() ? width : Width(lines.back()) + 1;
    while (Width(word) > width) {  // a part of it may fit into the line
      const std::size_t left = width - std::min(used, width);
      std::size_t end = left > 0 ? word.rfind(',', left - 1) + 1 : 0;
      if (end > 0) {
        lines.back() += fmt::format(" {}", word.substr(0, end));
      } else if ((end = word.rfind(',', width - 1) + 1) != 0) {
        lines.emplace_back(word.substr(0, end));
      } else {
        break;
      }
      word.remove_prefix(end);
      used = width;
    }
    if (lines.empty() || used + Width(word) > width) {
      lines.emplace_back(word);
    } else {
      lines.back() += fmt::format(" {}", word);
    }
  }
  return lines;
}

std::string WrapLines(std::string_view text, std::size_t width,
                      std::size_t hang) {
  constexpr std::size_t kLeast = 60;
  if (width < kLeast) {
    return std::string(text);
  }
  std::vector<std::string> lines;
  for (const std::string_view line : common::Split(text, '\n')) {
    const std::size_t indent =
        std::min(std::max(hang, line.find_first_not_of(' ')), line.size());
    lines.push_back(
        fmt::format("{}{}", line.substr(0, indent),
                    fmt::join(Wrap(line.substr(indent), width - indent),
                              "\n" + std::string(indent, ' '))));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : ",") + common::CsvCell(cells[i]);
  }
  return line + "\n";
}

}  // namespace plots
