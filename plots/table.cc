#include "plots/table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/text.h"

namespace plots {
namespace {

// Characters as they are counted on a terminal: UTF-8 continuation bytes take
// no room.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// What people read of a table.
struct Shown {
  std::vector<std::string> header;
  std::vector<std::vector<const Cell*>> rows;
  std::vector<bool> is_name;  // of a column with any name in it
};

Shown ShownOf(const Table& table) {
  Shown shown;
  shown.rows.resize(table.rows.size());
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].title.empty()) {
      continue;
    }
    shown.header.push_back(table.columns[c].title);
    bool is_name = false;
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      shown.rows[r].push_back(&table.rows[r][c]);
      is_name = is_name || table.rows[r][c].is_name;
    }
    shown.is_name.push_back(is_name);
  }
  return shown;
}

std::vector<std::size_t> Widths(const Shown& shown) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < shown.header.size(); ++c) {
    widths.push_back(Width(shown.header[c]));
    for (const std::vector<const Cell*>& row : shown.rows) {
      widths[c] = std::max(widths[c], Width(row[c]->text));
    }
  }
  return widths;
}

// With two spaces between columns.
std::size_t LineWidth(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         2 * (std::max<std::size_t>(widths.size(), 1) - 1);
}

// The header's names broken at every space, the last words on the last line.
std::vector<std::vector<std::string>> WrappedHeader(const Shown& shown) {
  std::size_t lines = 1;
  for (const std::string& name : shown.header) {
    lines = std::max(lines, common::Split(name, ' ').size());
  }
  std::vector<std::vector<std::string>> header(
      lines, std::vector<std::string>(shown.header.size()));
  for (std::size_t c = 0; c < shown.header.size(); ++c) {
    const auto words = common::Split(shown.header[c], ' ');
    for (std::size_t w = 0; w < words.size(); ++w) {
      header[lines - words.size() + w][c] = words[w];
    }
  }
  return header;
}

std::string Line(const Shown& shown, const std::vector<std::string>& texts,
                 const std::vector<std::size_t>& widths,
                 std::string_view separator) {
  std::string line;
  for (std::size_t c = 0; c < texts.size(); ++c) {
    const std::string padding(widths[c] - Width(texts[c]), ' ');
    line += c == 0 ? "" : separator;
    line += shown.is_name[c] ? texts[c] + padding : padding + texts[c];
  }
  return line;
}

std::vector<std::string> Texts(const std::vector<const Cell*>& row) {
  std::vector<std::string> texts;
  for (const Cell* cell : row) {
    texts.push_back(cell->text);
  }
  return texts;
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
    if (std::all_of(rows.begin(), rows.end(),
                    [c](const auto& row) { return row[c].text.empty(); })) {
      columns[c].title.clear();
    }
  }
}

std::string ToText(const Table& table) {
  constexpr std::size_t kTerminalWidth = 120;
  const Shown shown = ShownOf(table);
  std::vector<std::vector<std::string>> headers = {shown.header};
  std::vector<std::size_t> widths = Widths(shown);
  if (LineWidth(widths) > kTerminalWidth) {
    headers = WrappedHeader(shown);
    Shown narrow = shown;
    narrow.header.assign(shown.header.size(), "");
    widths = Widths(narrow);
    for (const std::vector<std::string>& line : headers) {
      for (std::size_t c = 0; c < line.size(); ++c) {
        widths[c] = std::max(widths[c], Width(line[c]));
      }
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : headers) {
    text += Line(shown, line, widths, "  ") + "\n";
  }
  text += std::string(LineWidth(widths), '-') + "\n";
  for (const std::vector<const Cell*>& row : shown.rows) {
    text += Line(shown, Texts(row), widths, "  ") + "\n";
  }
  return text;
}

std::string ToMarkdown(const Table& table) {
  const Shown shown = ShownOf(table);
  const std::vector<std::size_t> widths = Widths(shown);
  const auto line = [&](const std::vector<std::string>& texts) {
    return "| " + Line(shown, texts, widths, " | ") + " |\n";
  };
  std::string text = line(shown.header) + "|";
  for (std::size_t c = 0; c < widths.size(); ++c) {
    text += " " + std::string(std::max<std::size_t>(widths[c], 2) - 1, '-') +
            (shown.is_name[c] ? "-" : ":") + " |";
  }
  text += "\n";
  for (const std::vector<const Cell*>& row : shown.rows) {
    text += line(Texts(row));
  }
  return text;
}

std::string ToHtml(const Table& table, std::string_view id) {
  const Shown shown = ShownOf(table);
  std::string html = fmt::format("<table id=\"{}\"><thead><tr>", id);
  for (std::size_t c = 0; c < shown.header.size(); ++c) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>",
                        shown.is_name[c] ? "" : " class=\"n\"",
                        EscapeHtml(shown.header[c]));
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<const Cell*>& row : shown.rows) {
    html += "<tr>";
    for (const Cell* cell : row) {
      html += fmt::format(
          "<td class=\"{}{}\"{}>{}</td>", cell->is_name ? "" : "n ",
          cell->style,
          cell->is_name ? ""
                        : fmt::format(" data-v=\"{}\"", cell->exact.front()),
          EscapeHtml(cell->text));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

std::string ToCsv(const Table& table) {
  std::vector<std::string> names;
  for (const Field& column : table.columns) {
    for (std::size_t i = 0; i < column.cell.exact.size(); ++i) {
      constexpr const char* kLimits[] = {"", "_low", "_high"};
      if (!column.data.empty()) {
        names.push_back(column.data + kLimits[i]);
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
  std::string html;
  for (const char c : common::Printable(std::string(text))) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::vector<std::string> Wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string_view word : common::Split(text, ' ')) {
    if (lines.empty() || Width(lines.back()) + 1 + Width(word) > width) {
      lines.emplace_back(word);
    } else {
      lines.back() += fmt::format(" {}", word);
    }
  }
  return lines;
}

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : ",") + common::CsvCell(cells[i]);
  }
  return line + "\n";
}

}  // namespace plots
