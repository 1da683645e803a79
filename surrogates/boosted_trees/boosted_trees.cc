#include "surrogates/boosted_trees/boosted_trees.h"

#include <array>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>

namespace surrogates {
namespace {

void Check(int status) {
  if (status != 0) {
    throw std::runtime_error(fmt::format("XGBoost: {}", XGBGetLastError()));
  }
}

struct FreeMatrix {
  void operator()(void* handle) const { XGDMatrixFree(handle); }
};
struct FreeBooster {
  void operator()(void* handle) const { XGBoosterFree(handle); }
};
using Matrix = std::unique_ptr<void, FreeMatrix>;
using Booster = std::unique_ptr<void, FreeBooster>;

Matrix MakeMatrix(const std::vector<float>& rows, int columns) {
  DMatrixHandle handle = nullptr;
  // NaN marks missing values; there are none.
  Check(XGDMatrixCreateFromMat(rows.data(),
                               rows.size() / static_cast<std::size_t>(columns),
                               static_cast<bst_ulong>(columns),
                               std::numeric_limits<float>::quiet_NaN(),
                               &handle));
  return Matrix(handle);
}

}  // namespace

BoostedTrees::BoostedTrees(const trials::SearchSpace& space,
                           const Options& options)
    : options_(options), columns_(static_cast<int>(space.knobs().size())) {
  for (const trials::ParallelConfig& config : space.configs()) {
    for (const trials::Knob& knob : space.knobs()) {
      features_.push_back(static_cast<float>(knob.Get(config)));
    }
  }
  prediction_ = Eigen::VectorXd::Zero(space.size());
}

FitSummary BoostedTrees::Fit(const Observations& observations) {
  FitSummary summary;
  if (observations.size() == 0) {
    prediction_.setZero();
    return summary;
  }
  const double largest = observations.value.maxCoeff();
  const double scale = largest > 0.0 ? largest : 1.0;
  std::vector<float> rows;
  std::vector<float> labels;
  for (int i = 0; i < observations.size(); ++i) {
    const auto begin =
        features_.begin() +
        static_cast<std::ptrdiff_t>(
            observations.candidate[static_cast<std::size_t>(i)]) *
            columns_;
    rows.insert(rows.end(), begin, begin + columns_);
    labels.push_back(static_cast<float>(observations.value[i] / scale));
  }
  const Matrix train = MakeMatrix(rows, columns_);
  Check(XGDMatrixSetFloatInfo(
      train.get(), "label", labels.data(), labels.size()));
  const std::array<DMatrixHandle, 1> cached = {train.get()};
  BoosterHandle handle = nullptr;
  Check(XGBoosterCreate(cached.data(), cached.size(), &handle));
  const Booster booster(handle);
  const std::vector<std::pair<std::string, std::string>> parameters = {
      {"objective", "reg:squarederror"},
      {"tree_method", "exact"},
      {"max_depth", std::to_string(options_.max_depth)},
      {"eta", fmt::format("{}", options_.eta)},
      {"gamma", fmt::format("{}", options_.gamma)},
      {"min_child_weight", fmt::format("{}", options_.min_child_weight)},
      {"lambda", fmt::format("{}", options_.lambda)},
      {"alpha", fmt::format("{}", options_.alpha)},
      {"nthread", "1"},  // the run is the unit of parallel work
      {"verbosity", "0"},
      {"seed", "0"}};
  for (const auto& [name, value] : parameters) {
    Check(XGBoosterSetParam(booster.get(), name.c_str(), value.c_str()));
  }
  for (int round = 0; round < options_.rounds; ++round) {
    Check(XGBoosterUpdateOneIter(booster.get(), round, train.get()));
  }
  const Matrix all = MakeMatrix(features_, columns_);
  bst_ulong length = 0;
  const float* values = nullptr;
  Check(XGBoosterPredict(booster.get(), all.get(), 0, 0, 0, &length, &values));
  for (bst_ulong i = 0; i < length; ++i) {
    prediction_[static_cast<Eigen::Index>(i)] =
        static_cast<double>(values[i]) * scale;
  }
  summary.evaluations = options_.rounds;
  summary.parameters.push_back({"target_scale", scale});
  return summary;
}

void BoostedTrees::Predict(Prediction& prediction) const {
  prediction.mean = prediction_;
  prediction.variance = Eigen::VectorXd::Zero(prediction_.size());
}

}  // namespace surrogates
