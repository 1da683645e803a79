// Rows of records for fuzz targets.

#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/hash.h"
#include "common/text.h"

namespace fuzz {

// A row gets its check value if it ends with '!', which no mutation would find.
inline std::string Rows(std::string_view text) {
  std::string rows;
  for (const std::string_view line : common::Split(text, '\n')) {
    if (line.ends_with('!')) {
      const std::string row(line.substr(0, line.size() - 1));
      std::array<char, 16> check{};
      std::snprintf(check.data(), check.size(), ",%08x", common::RowCheck(row));
      rows += row + check.data() + "\n";
    } else {
      rows += line;
      rows += '\n';
    }
  }
  rows.pop_back();
  return rows;
}

}  // namespace fuzz
