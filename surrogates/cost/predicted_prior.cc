#include "surrogates/cost/predicted_prior.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "common/quantiles.h"

namespace surrogates {
namespace {

constexpr double kSlopeStddev = 0.1;
constexpr double kDifferenceStddev = 0.3;
constexpr double kAssumptionStddev = 0.5;

// Of Alternatives: deviations of the level of observations, of what a family
// shares and of one observation, and the smallest share that is shown.
constexpr double kLevelStddev = 2.0;
constexpr double kFamilyStddev = 0.3;
constexpr double kErrorStddev = 0.15;
constexpr double kSmallestShare = 0.05;

double CenterOf(const Eigen::VectorXd& values) {
  return common::UpperMedian({values.begin(), values.end()});
}

// log N(y; a + x + d, K) up to what all alternatives share, in O(n): K is a
// diagonal and two levels of what is shared, each of which the Sherman-Morrison
// formula removes. An empty d is 0.
double LogLikelihood(const Observations& observed,
                     const Eigen::Ref<const Eigen::VectorXd>& x,
                     const Eigen::Ref<const Eigen::VectorXd>& difference,
                     const std::vector<int>& family_of) {
  // Sums of 1, e and e^2 over the variances of single observations, where e is
  // what x and d leave.
  struct Sums {
    double ones = 0.0, errors = 0.0, squares = 0.0;

    // With an error of this variance that all of them share.
    [[nodiscard]] Sums Sharing(double variance) const {
      const double scale = 1.0 / (1.0 + variance * ones);
      return {ones * scale, errors * scale,
              squares - variance * scale * errors * errors};
    }
  };
  std::map<int, Sums> families;
  for (int i = 0; i < observed.size(); ++i) {
    const int candidate = observed.candidate[i];
    const double error = observed.value[i] - x[candidate] -
                         (difference.size() > 0 ? difference[candidate] : 0.0);
    const double variance =
        kErrorStddev * kErrorStddev + observed.noise_variance[i];
    Sums& sums = families[family_of[candidate]];
    sums.ones += 1.0 / variance;
    sums.errors += error / variance;
    sums.squares += error * error / variance;
  }
  Sums all;
  for (const auto& [family, sums] : families) {
    const Sums kin = sums.Sharing(kFamilyStddev * kFamilyStddev);
    all.ones += kin.ones;
    all.errors += kin.errors;
    all.squares += kin.squares;
  }
  return -0.5 * all.Sharing(kLevelStddev * kLevelStddev).squares;
}

}  // namespace

ParametricMean PredictedMean(const Eigen::VectorXd& x, const Eigen::VectorXd& y,
                             bool level_of_y, double shift, double level_stddev,
                             const Eigen::VectorXd& z) {
  if (x.size() == 0 || x.size() != y.size() || !x.allFinite() ||
      !y.allFinite()) {
    throw std::invalid_argument(
        "predictions must be finite and positive for every candidate");
  }
  ParametricMean mean;
  mean.link = ParametricMean::Link::kLogLinear;
  mean.features.setOnes(x.size(), z.size() > 0 ? kAssumption + 1 : kAssumption);
  const double level = CenterOf(x);
  mean.features.col(1) = x.array() - level;
  mean.features.col(kDifference) = y - x;
  if (!level_of_y) {
    mean.features.col(kDifference).array() -= CenterOf(y - x);
  }
  mean.coefficients = {{"level", level + shift, level_stddev},
                       {"slope", 1.0, kSlopeStddev},
                       {"difference", 0.0, kDifferenceStddev}};
  if (z.size() > 0) {
    mean.features.col(kAssumption) = z;
    mean.coefficients.push_back({"assumption", 0.0, kAssumptionStddev});
  }
  return mean;
}

Alternatives::Alternatives(Eigen::VectorXd x, std::vector<Alternative> all,
                           std::vector<int> families)
    : x_(std::move(x)), all_(std::move(all)), families_(std::move(families)) {
  for (Alternative& each : all_) {
    if (each.difference.size() != x_.size() ||
        std::ssize(families_) != x_.size()) {
      throw std::invalid_argument(
          "an alternative has one difference per candidate");
    }
    each.difference.array() -= CenterOf(each.difference);
  }
  Weigh({}, {});
}

void Alternatives::Weigh(const Observations& observed,
                         const Evidence& evidence) {
  const double own = LogLikelihood(observed, x_, Eigen::VectorXd(), families_);
  double largest = own;
  probability_.clear();
  for (const Alternative& each : all_) {
    probability_.push_back(
        each.log_odds + (each.another_model ? evidence.another_model : 0.0) +
        (each.other_memory ? evidence.other_memory : 0.0) +
        LogLikelihood(observed, x_, each.difference, families_));
    largest = std::max(largest, probability_.back());
  }
  double sum = std::exp(own - largest);
  for (double& each : probability_) {
    each = std::exp(each - largest);
    sum += each;
  }
  difference_.setZero(x_.size());
  variance_.setZero(x_.size());
  for (std::size_t h = 0; h < all_.size(); ++h) {
    probability_[h] /= sum;
    difference_ += probability_[h] * all_[h].difference;
    variance_.array() += probability_[h] * all_[h].difference.array().square();
  }
  variance_.array() -= difference_.array().square();
}

std::vector<Alternatives::Share> Alternatives::shares() const {
  std::vector<Share> shares;
  for (std::size_t h = 0; h < all_.size(); ++h) {
    if (probability_[h] >= kSmallestShare) {
      shares.push_back({all_[h].assumption, probability_[h]});
    }
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &Share::probability);
  return shares;
}

}  // namespace surrogates
