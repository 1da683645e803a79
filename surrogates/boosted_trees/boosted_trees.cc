#include "surrogates/boosted_trees/boosted_trees.h"

#include <cstddef>

namespace surrogates {

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
