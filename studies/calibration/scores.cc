#include "studies/calibration/scores.h"

#include <cmath>
#include <limits>

#include "common/quantiles.h"
#include "common/units.h"
#include "methods/acquisition.h"
#include "methods/surrogate_pair.h"
#include "studies/validation/statistics.h"
#include "surrogates/gp/multistart.h"

namespace studies {
namespace {

using common::kNan;
using common::kNormal95;

bool Seen(const std::vector<char>& seen, int candidate) {
  return seen[candidate] != 0;
}

// The predicted interval of one measurement.
struct Interval {
  double nlpd = 0.0;
  double half_width = 0.0;  // of the 95% interval
};

Interval IntervalOf(const Models& models, int candidate, double measured,
                    double noise_variance) {
  const surrogates::MeasurementPrediction& reported = models.reported;
  if (reported.location.size() > 0) {
    const double scale_squared =
        reported.scale_squared[candidate] + noise_variance;
    return {surrogates::NegativeLogDensity(
                measured, reported.location[candidate], scale_squared),
            reported.kTwoSided95 * std::sqrt(scale_squared)};
  }
  const double variance =
      models.throughput.variance[candidate] + noise_variance;
  const double error = measured - models.throughput.mean[candidate];
  return {0.5 * (error * error / variance + std::log(2.0 * M_PI * variance)),
          kNormal95 * std::sqrt(variance)};
}

// The throughput of held-out configurations.
void ScoreThroughput(const Models& models,
                     const surrogates::Observations& measured,
                     const std::vector<char>& seen, Scores& scores) {
  const surrogates::Prediction& prediction = models.throughput;
  const double spread = surrogates::TargetSpread(measured.value);
  std::vector<double> densities;
  std::vector<double> predicted;
  std::vector<double> actual;
  double covered = 0.0;
  double total_nlpd = 0.0;
  double total_width = 0.0;
  for (int i = 0; i < measured.size(); ++i) {
    const int at = measured.candidate[i];
    if (Seen(seen, at)) {
      continue;
    }
    const Interval interval =
        IntervalOf(models, at, measured.value[i], measured.noise_variance[i]);
    const double error = measured.value[i] - prediction.mean[at];
    densities.push_back(interval.nlpd - std::log(spread));
    total_nlpd += densities.back();
    total_width += 2.0 * interval.half_width / spread;
    covered += std::abs(error) <= interval.half_width ? 1.0 : 0.0;
    predicted.push_back(prediction.mean[at]);
    actual.push_back(measured.value[i]);
  }
  const auto held_out = static_cast<double>(actual.size());
  if (prediction.variance.maxCoeff() > 0.0) {  // trees have none
    scores[0] = common::Median(densities);
    scores[1] = covered / held_out;
    scores[6] = total_nlpd / held_out;
    scores[7] = total_width / held_out;
  }
  scores[2] = Spearman(predicted, actual);
}

// The throughput of the candidate that would be tried next over the best one.
double PickOf(const Models& models, const surrogates::Observations& measured,
              const std::vector<char>& seen) {
  const auto size = static_cast<Eigen::Index>(seen.size());
  surrogates::Prediction excess{Eigen::VectorXd::Constant(size, -1e3),
                                Eigen::VectorXd::Zero(size)};
  if (models.memory.mean.size() > 0) {
    excess = methods::MemoryExcess(
        models.memory, 1.0, methods::SurrogatePair::Options{}.memory_scale);
  }
  const int pick =
      methods::ArgMaxConstrainedUcb(models.throughput, excess, 1.0, seen);
  for (int i = 0; i < measured.size(); ++i) {
    if (measured.candidate[i] == pick) {
      return measured.value[i] / measured.value.maxCoeff();
    }
  }
  return 0.0;  // it does not run
}

}  // namespace

Confusion ConfusionOf(const Models& models, const methods::History& all,
                      const std::vector<char>& seen) {
  Confusion confusion;
  for (const trials::Trial& entry : all.trials()) {
    if (Seen(seen, entry.candidate)) {
      continue;
    }
    const bool fails =
        entry.measurement.outcome == trials::Outcome::kOutOfMemory;
    const bool predicted = models.memory.mean[entry.candidate] > 1.0;
    int& count = fails ? (predicted ? confusion.fails_predicted_fails
                                    : confusion.fails_predicted_runs)
                       : (predicted ? confusion.runs_predicted_fails
                                    : confusion.runs_predicted_runs);
    ++count;
  }
  return confusion;
}

Scores Score(const Models& models, const methods::History& all,
             const std::vector<char>& seen) {
  Scores scores;
  scores.fill(kNan);
  const surrogates::Observations measured = all.ThroughputObservations();
  ScoreThroughput(models, measured, seen, scores);
  if (models.memory.mean.size() > 0) {
    const Confusion c = ConfusionOf(models, all, seen);
    const double right = c.fails_predicted_fails;
    scores[3] =
        right / (right + c.runs_predicted_fails);  // NaN: none was called
    scores[4] = right / (right + c.fails_predicted_runs);
  }
  scores[5] = PickOf(models, measured, seen);
  return scores;
}

}  // namespace studies
