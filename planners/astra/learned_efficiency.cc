#include "planners/astra/learned_efficiency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "surrogates/boosted_trees/boosted_trees.h"

namespace planners {
namespace {

using common::CsvTable;

constexpr int kFeatures = 3;

// The value of "m=" in "b=1, m=4096, k=5120".
double SizeOf(const CsvTable& table, const CsvTable::Row& row,
              std::string_view name) {
  const std::string_view shape = table.Cell(row, "shape");
  for (const std::string_view part : common::Split(shape, ',')) {
    const std::string_view text = common::Trim(part);
    if (text.size() > 2 && text.substr(0, 1) == name && text[1] == '=') {
      const double size = common::NumberOrNan(text.substr(2));
      if (size >= 1.0) {
        return size;
      }
    }
  }
  table.Fail(row.line,
             fmt::format("shape '{}' must contain {} = a number from 1, as in "
                         "'m=4096, n=1536, k=5120'",
                         shape, name));
}

std::array<float, kFeatures> FeaturesOf(const MatrixProduct& product) {
  return {static_cast<float>(std::log2(product.m)),
          static_cast<float>(std::log2(product.n)),
          static_cast<float>(std::log2(product.k))};
}

}  // namespace

std::vector<MeasuredProduct> ReadMeasuredProducts(
    const std::filesystem::path& path, std::string_view gpu) {
  const CsvTable table = CsvTable::Read(path);
  for (const char* column : {"gpu", "operator", "shape", "efficiency"}) {
    if (!table.Find(column)) {
      table.Fail(table.header_line(), fmt::format("no column '{}'", column));
    }
  }
  std::vector<MeasuredProduct> measured;
  std::set<std::string> known;
  for (const CsvTable::Row& row : table.rows()) {
    if (table.Cell(row, "operator") != "matmul") {
      continue;
    }
    known.emplace(table.Cell(row, "gpu"));
    if (table.Cell(row, "gpu") != gpu) {
      continue;
    }
    const std::string_view cell = table.Cell(row, "efficiency");
    const double efficiency = common::NumberOrNan(cell);
    if (!(efficiency > 0.0 && efficiency <= 1.0)) {
      table.Fail(
          row.line,
          fmt::format("efficiency '{}' must be above 0 and at most 1", cell));
    }
    measured.push_back({{SizeOf(table, row, "m"), SizeOf(table, row, "n"),
                         SizeOf(table, row, "k")},
                        efficiency});
  }
  if (measured.empty()) {
    throw common::InputError(
        fmt::format("{}: no matrix products of the GPU '{}'; known: {}",
                    path.string(), gpu, fmt::join(known, ", ")));
  }
  return measured;
}

ProductEfficiency LearnEfficiency(
    const std::vector<MeasuredProduct>& measured) {
  std::vector<float> rows;
  std::vector<float> labels;
  for (const MeasuredProduct& each : measured) {
    const auto features = FeaturesOf(each.product);
    rows.insert(rows.end(), features.begin(), features.end());
    labels.push_back(static_cast<float>(each.efficiency));
  }
  const auto range = std::ranges::minmax_element(labels);
  const double least = *range.min;
  const double most = *range.max;
  const auto trees = std::make_shared<const surrogates::TreeEnsemble>(
      rows, labels, kFeatures,
      surrogates::TreeOptions{
          .rounds = 100, .max_depth = 4, .eta = 0.1, .gamma = 0.0});
  // A model has few shapes, and one prediction is slow.
  using Key = std::array<float, kFeatures>;
  const auto memory = std::make_shared<std::map<Key, double>>();
  return [trees, memory, least, most](const MatrixProduct& product) {
    const Key key = FeaturesOf(product);
    const auto found = memory->find(key);
    if (found != memory->end()) {
      return found->second;
    }
    const double predicted =
        trees->Predict(std::vector<float>(key.begin(), key.end())).front();
    return memory->emplace(key, std::clamp(predicted, least, most))
        .first->second;
  };
}

ProductEfficiency LearnEfficiency(const std::filesystem::path& path,
                                  std::string_view gpu) {
  return LearnEfficiency(ReadMeasuredProducts(path, gpu));
}

}  // namespace planners
