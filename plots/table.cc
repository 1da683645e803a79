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

std::vector<std::size_t> Widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (const std::string& cell : table.header) {
    widths.push_back(Width(cell));
  }
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], Width(row[c]));
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
std::vector<std::vector<std::string>> WrappedHeader(const Table& table) {
  std::vector<std::vector<std::string>> words;
  std::size_t lines = 1;
  for (const std::string& name : table.header) {
    std::vector<std::string>& of_name = words.emplace_back();
    for (const std::string_view word : common::Split(name, ' ')) {
      of_name.emplace_back(word);
    }
    lines = std::max(lines, of_name.size());
  }
  std::vector<std::vector<std::string>> header(
      lines, std::vector<std::string>(table.header.size()));
  for (std::size_t c = 0; c < words.size(); ++c) {
    const std::size_t first = lines - words[c].size();
    for (std::size_t w = 0; w < words[c].size(); ++w) {
      header[first + w][c] = words[c][w];
    }
  }
  return header;
}

bool IsName(const Table& table, std::size_t column) {
  return column == 0 || table.all_are_names ||
         (table.last_is_name && column + 1 == table.header.size());
}

std::string Padded(const Table& table, const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths,
                   std::string_view separator) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string padding(widths[c] - Width(cells[c]), ' ');
    line += c == 0 ? "" : separator;
    line += IsName(table, c) ? cells[c] + padding : padding + cells[c];
  }
  return line;
}

}  // namespace

std::string ToText(const Table& table) {
  constexpr std::size_t kTerminalWidth = 120;
  Table fitted = table;
  std::vector<std::vector<std::string>> headers = {table.header};
  if (LineWidth(Widths(table)) > kTerminalWidth) {
    headers = WrappedHeader(table);
    fitted.header.assign(table.header.size(), "");
    fitted.rows.insert(fitted.rows.end(), headers.begin(), headers.end());
  }
  const std::vector<std::size_t> widths = Widths(fitted);
  std::string text;
  for (const std::vector<std::string>& line : headers) {
    text += Padded(table, line, widths, "  ") + "\n";
  }
  text += std::string(LineWidth(widths), '-') + "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += Padded(table, row, widths, "  ") + "\n";
  }
  return text;
}

std::string ToMarkdown(const Table& table) {
  const std::vector<std::size_t> widths = Widths(table);
  const auto line = [&](const std::vector<std::string>& cells) {
    return "| " + Padded(table, cells, widths, " | ") + " |\n";
  };
  std::string text = line(table.header) + "|";
  for (std::size_t c = 0; c < widths.size(); ++c) {
    text += " " + std::string(std::max<std::size_t>(widths[c], 2) - 1, '-') +
            (IsName(table, c) ? "-" : ":") + " |";
  }
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += line(row);
  }
  return text;
}

std::string ToHtml(const Table& table) {
  const auto row = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string html = "<tr>";
    for (std::size_t c = 0; c < cells.size(); ++c) {
      html += fmt::format("<{0}{1}>{2}</{0}>", tag,
                          IsName(table, c) ? "" : " class=\"n\"",
                          EscapeHtml(cells[c]));
    }
    return html + "</tr>\n";
  };
  std::string html =
      "<table><thead>" + row(table.header, "th") + "</thead><tbody>\n";
  for (const std::vector<std::string>& cells : table.rows) {
    html += row(cells, "td");
  }
  return html + "</tbody></table>";
}

Fields& Fields::Add(std::string name, std::string text) {
  names_.push_back(std::move(name));
  values_.push_back(std::move(text));
  return *this;
}

Fields& Fields::Add(std::string name, const char* text) {
  return Add(std::move(name), std::string(text));
}

Fields& Fields::Add(std::string name, double value) {
  return Add(std::move(name), common::ExactText(value));
}

Fields& Fields::Add(std::string name, int value) {
  return Add(std::move(name), std::to_string(value));
}

Fields& Fields::Add(const std::string& name, const common::Estimate& estimate) {
  return Add(name, estimate.value)
      .Add(name + "_low", estimate.low)
      .Add(name + "_high", estimate.high);
}

std::string Fields::Header() const { return CsvRow(names_); }
std::string Fields::Row() const { return CsvRow(values_); }

std::string Interval(const common::Estimate& estimate, double scale,
                     int decimals) {
  if (std::isnan(estimate.value)) {
    return "";
  }
  std::string text = fmt::format("{:.{}f}", scale * estimate.value, decimals);
  if (!std::isnan(estimate.low)) {
    text += fmt::format(" [{:.{}f}, {:.{}f}]", scale * estimate.low, decimals,
                        scale * estimate.high, decimals);
  }
  return text;
}

std::string Rounded(double value, int digits) {
  if (std::isnan(value)) {
    return "";
  }
  if (std::isinf(value)) {
    return "-";
  }
  const int before =
      value == 0.0 ? 1 : static_cast<int>(std::floor(std::log10(value))) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(digits - before, 0, 6));
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
