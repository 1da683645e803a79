#include "plots/table.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace plots {
namespace {

// Characters as they are counted on a terminal: UTF-8 continuation bytes take
// no room.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
      }));
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

bool IsName(const Table& table, std::size_t column) {
  return column == 0 ||
         (table.last_is_name && column + 1 == table.header.size());
}

std::string Padded(const Table& table,
                   const std::vector<std::string>& cells,
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
  const std::vector<std::size_t> widths = Widths(table);
  std::string text = Padded(table, table.header, widths, "  ") + "\n";
  text += std::string(Width(text) - 1, '-') + "\n";
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

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    line += line.empty() && &cell == &cells.front() ? "" : ",";
    if (cell.find_first_of(",\"\n\r") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) {
      line += c == '"' ? "\"\"" : std::string(1, c);
    }
    line += '"';
  }
  return line + "\n";
}

}  // namespace plots
