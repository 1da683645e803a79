// Prior means around predictions of every candidate.

#pragma once

#include <string>
#include <vector>

#include <Eigen/Core>

#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The places of c and e among the coefficients of a PredictedMean.
inline constexpr int kDifference = 2;
inline constexpr int kAssumption = 3;

// The mean of the logarithm of a target, throughput or memory, around its
// logarithm x by predictions, which another model's logarithm y corrects,
//
//   m = a + b (x - med x) + c d + e z,   d = y - x (- med d unless level_of_y),
//   a ~ N(med x + shift, level_stddev^2),  b ~ N(1, 0.1^2),  c ~ N(0, 0.3^2),
//   e ~ N(0, 0.5^2).
//
// The errors of predictions are mostly ratios, and those of two models nearly
// independent: their average is better than either where neither was fitted,
// and worse than the one that was. So c starts at the predictions alone. It
// reaches y at c = 1, three deviations away, where predictions are useless.
// With level_of_y, that includes the level of y: the memory of a described job.
// z, if there is one, is what another assumption adds to x.
//
// Source: own; docs/decisions/0024-residual-process.md and
// 0028-attention-of-another-kind.md.
// Shapes: x, y and z are [N], features is [N, 3], or [N, 4] with z.
// Errors: throws std::invalid_argument for logarithms that are not finite.
[[nodiscard]] ParametricMean PredictedMean(const Eigen::VectorXd& x,
                                           const Eigen::VectorXd& y,
                                           bool level_of_y, double shift,
                                           double level_stddev,
                                           const Eigen::VectorXd& z = {});

// x + difference, up to a constant, in the place of x.
struct Alternative {
  std::string assumption;
  double log_odds = 0.0;       // log(P(this) / P(x)), without observations
  Eigen::VectorXd difference;  // [N]
  // See trials::Predictions.
  bool another_model = false;
  bool other_memory = false;
};

// Alternatives to x, weighed by observations y_i, of which those of a family
// share an error,
//
//   p(h) ~ exp(log_odds_h) N(y; a + x + d_h, K),  a ~ N(0, 2^2),
//   K_ij = 0.3^2 [same family] + 0.15^2 [i = j] + noise_i [i = j].
//
// Source: own; docs/decisions/0026-rates-of-links.md and
// 0027-another-model.md.
class Alternatives {
 public:
  Alternatives() = default;  // none

  // `families` is that of every candidate, [N].
  // Errors: throws std::invalid_argument for shapes that do not match.
  Alternatives(Eigen::VectorXd x, std::vector<Alternative> all,
               std::vector<int> families);

  [[nodiscard]] bool empty() const { return all_.empty(); }

  // The log odds of such alternatives by another target.
  struct Evidence {
    double another_model = 0.0;
    double other_memory = 0.0;
  };
  // Weighs the alternatives by logarithms of the target, and by another one.
  void Weigh(const Observations& observed, const Evidence& evidence);

  // The probability of an alternative.
  struct Share {
    std::string assumption;
    double probability = 0.0;
  };
  // Those of at least 5%, the most probable first; without x itself.
  [[nodiscard]] std::vector<Share> shares() const;
  // The mean of the difference, sum_h p(h) d_h, and its variance; [N].
  [[nodiscard]] const Eigen::VectorXd& difference() const {
    return difference_;
  }
  [[nodiscard]] const Eigen::VectorXd& variance() const { return variance_; }

 private:
  Eigen::VectorXd x_;
  std::vector<Alternative> all_;
  std::vector<int> families_;
  std::vector<double> probability_;  // of each alternative
  Eigen::VectorXd difference_;
  Eigen::VectorXd variance_;
};

}  // namespace surrogates
