#include "surrogates/boosted_trees/boosted_trees.h"

#include <array>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include "trials/knobs.h"

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
      {"objective", options.objective == TreeObjective::kPairwiseRanking
                        ? "rank:pairwise"
                        : "reg:squarederror"},
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

BoostedTrees::BoostedTrees(const trials::SearchSpace& space,
                           const Options& options)
    : options_(options), columns_(static_cast<int>(space.knobs().size())) {
  for (const trials::ParallelConfig& config : space.configs()) {
    for (const trials::Knob& knob : space.knobs()) {
      features_.push_back(static_cast<float>(knob.Get(config)));
    }
  }
  prediction_ = Eigen::VectorXd::Zero(space.size());
  (void)MakeMatrix({0.0F}, 1);  // a missing library is an error before a trial
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
        static_cast<std::ptrdiff_t>(observations.candidate[i]) * columns_;
    rows.insert(rows.end(), begin, begin + columns_);
    labels.push_back(static_cast<float>(observations.value[i] / scale));
  }
  const std::vector<float> values =
      TreeEnsemble(rows, labels, columns_, options_).Predict(features_);
  for (std::size_t i = 0; i < values.size(); ++i) {
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
