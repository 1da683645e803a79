// Scores of predictions.

#ifndef STUDIES_CALIBRATION_SCORES_H_
#define STUDIES_CALIBRATION_SCORES_H_

#include <array>
#include <vector>

#include "methods/history.h"
#include "studies/calibration/held_out.h"

namespace studies {

//   nlpd       median over held-out configurations of -log p(measured), in
//              units of the problem's spread
//   nlpd mean  mean of the same
//   coverage   share of them within the 95% interval
//   width      mean length of that interval, in units of the spread
//   rank       Spearman's correlation of prediction and measurement
//   precision, recall   of "runs out of memory", predicted mean over capacity
//   pick       throughput of the held-out configuration with the highest cUCB
//              over the best of all
inline constexpr std::array<const char*, 8> kScoreNames = {
    "nlpd",   "coverage", "rank",      "precision",
    "recall", "pick",     "nlpd mean", "width"};
using Scores = std::array<double, kScoreNames.size()>;  // NaN: not defined

// The scores of predictions made from the configurations that `seen` marks;
// `all` contains a measurement of every candidate, in order. Shapes: seen [N].
[[nodiscard]] Scores Score(const Models& models, const methods::History& all,
                           const std::vector<char>& seen);

// Counts of held-out configurations that run or fail, by prediction.
struct Confusion {
  int runs_predicted_runs = 0;
  int runs_predicted_fails = 0;
  int fails_predicted_runs = 0;
  int fails_predicted_fails = 0;
};
[[nodiscard]] Confusion ConfusionOf(const Models& models,
                                    const methods::History& all,
                                    const std::vector<char>& seen);

}  // namespace studies

#endif  // STUDIES_CALIBRATION_SCORES_H_
