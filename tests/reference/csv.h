// Tables of reference numbers.

#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tests {

// The rows of a comma-separated file of numbers under one line of names.
inline std::vector<std::vector<double>> ReadNumbers(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) {
    throw std::runtime_error("cannot read " + path);
  }
  std::vector<std::vector<double>> rows;
  while (std::getline(in, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    std::vector<double>& row = rows.emplace_back();
    for (double value = 0.0; words >> value;) {
      row.push_back(value);
    }
  }
  return rows;
}

}  // namespace tests
