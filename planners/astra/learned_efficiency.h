// The efficiency of matrix products, learned from measurements.

#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "planners/astra/astra_model.h"

namespace planners {

// A measured product: the share of the peak that it reaches.
struct MeasuredProduct {
  MatrixProduct product;
  double efficiency = 0.0;  // in (0, 1]
};

// Reads the rows of a GPU whose `operator` is "matmul" from a CSV file with the
// columns gpu, operator, shape and efficiency. A shape contains "m=4096",
// "n=1536" and "k=5120", in any order, separated by ", ".
// Errors: throws InputError "file:line: ..." for a missing column or size, a
// size below 1 and an efficiency outside (0, 1]; and for an unknown GPU,
// listing the known ones.
[[nodiscard]] std::vector<MeasuredProduct> ReadMeasuredProducts(
    const std::filesystem::path& path, std::string_view gpu);

// Boosted trees (XGBoost) on the logarithms of m, n and k, 100 rounds of depth
// 4. Predictions are limited to the range of the measurements: trees are
// constant beyond it. Not for use by several threads at once.
// Source: Astra Sec. 3.5; it does not publish its features or settings.
[[nodiscard]] ProductEfficiency LearnEfficiency(
    const std::vector<MeasuredProduct>& measured);
[[nodiscard]] ProductEfficiency LearnEfficiency(
    const std::filesystem::path& path, std::string_view gpu);

}  // namespace planners
