#include "surrogates/boosted_trees/tree_ensemble.h"

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <xgboost/c_api.h>

namespace surrogates {
namespace {

void Check(int status) {
  if (status != 0) {
    throw std::runtime_error(fmt::format("XGBoost: {}", XGBGetLastError()));
  }
}

std::shared_ptr<void> MakeMatrix(const std::vector<float>& rows, int columns) {
  DMatrixHandle handle = nullptr;
  // NaN marks missing values; there are none.
  Check(XGDMatrixCreateFromMat(
      rows.data(), rows.size() / static_cast<std::size_t>(columns),
      static_cast<bst_ulong>(columns), std::numeric_limits<float>::quiet_NaN(),
      &handle));
  return {handle, [](void* matrix) { XGDMatrixFree(matrix); }};
}

}  // namespace

TreeEnsemble::TreeEnsemble(const std::vector<float>& rows,
                           const std::vector<float>& labels, int columns,
                           const TreeOptions& options)
    : columns_(columns), train_(MakeMatrix(rows, columns)) {
  Check(XGDMatrixSetFloatInfo(train_.get(), "label", labels.data(),
                              labels.size()));
  const std::array<DMatrixHandle, 1> cached = {train_.get()};
  BoosterHandle handle = nullptr;
  Check(XGBoosterCreate(cached.data(), cached.size(), &handle));
  booster_.reset(handle, [](void* booster) { XGBoosterFree(booster); });
  const std::vector<std::pair<std::string, std::string>> parameters = {
      {"objective", "reg:squarederror"},
      {"tree_method", "exact"},
      {"max_depth", std::to_string(options.max_depth)},
      {"eta", fmt::format("{}", options.eta)},
      {"gamma", fmt::format("{}", options.gamma)},
      {"min_child_weight", fmt::format("{}", options.min_child_weight)},
      {"lambda", fmt::format("{}", options.lambda)},
      {"alpha", fmt::format("{}", options.alpha)},
      {"nthread", "1"},  // the run is the unit of parallel work
      {"verbosity", "0"},
      {"seed", "0"}};
  for (const auto& [name, value] : parameters) {
    Check(XGBoosterSetParam(handle, name.c_str(), value.c_str()));
  }
  for (int round = 0; round < options.rounds; ++round) {
    Check(XGBoosterUpdateOneIter(handle, round, train_.get()));
  }
}

std::vector<float> TreeEnsemble::Predict(const std::vector<float>& rows) const {
  const std::shared_ptr<void> all = MakeMatrix(rows, columns_);
  bst_ulong length = 0;
  const float* values = nullptr;
  Check(XGBoosterPredict(booster_.get(), all.get(), 0, 0, 0, &length, &values));
  return {values, values + length};
}

}  // namespace surrogates
