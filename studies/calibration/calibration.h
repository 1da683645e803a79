// The surrogates of the compared methods, each fitted to the first trials of a
// search of its method, and their predictions beside measurements.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/manifest/manifest.h"
#include "methods/history.h"
#include "methods/method.h"
#include "studies/output.h"
#include "surrogates/gp/measurement.h"
#include "surrogates/surrogate.h"

namespace studies {

// The predictions of a surrogate for every candidate, and its learned
// parameters.
struct Models {
  surrogates::Prediction throughput;  // steps/s, used by the search
  // The reported distribution; empty: the normal one of `throughput`.
  surrogates::MeasurementPrediction reported;
  surrogates::Prediction memory;   // of the capacity; empty: none
  surrogates::FitSummary learned;  // of the throughput
};

struct Variant {
  std::string name;    // in records: "ours"
  std::string label;   // in figures
  std::string method;  // whose search it is fitted to
  std::function<Models(const methods::Problem&, const methods::History&,
                       std::uint64_t seed)>
      fit;
};

// as printed           the surrogates of OPPA-PAPER: the paper's OPPA
// ours                 those of OPPA, with the reported intervals
// ours, as searched    the same fit, with the intervals that the search uses
// cost model           the printed terms alone, after random trials
// vanilla BO           a Gaussian process alone
// xgboost              boosted trees
[[nodiscard]] std::vector<Variant> Variants();

// A surrogate fitted to n trials. References are valid during the call only.
struct Fitted {
  std::string problem;  // "qwen-8gpu" or "ultrascale/ultrascale-1b-8"
  int repeat = 1;
  int trials = 0;  // that it was fitted to
  const Variant& variant;
  const Models& models;
  const methods::History& all;    // every candidate, in order
  const std::vector<char>& seen;  // [N]
  double memory_capacity_bytes = 0.0;
};

// Runs every candidate of the problem once, and a search of each variant's
// method with the seeds of the experiment, but without its time budget. Fits
// the variant to the first 10 and 20 trials, as the paper does, and passes it
// to `take`. Skipped: a number of trials that the search does not reach, or
// that leaves fewer than 8 candidates that run to predict.
void FitToSearches(const harness::Manifest& manifest,
                   const harness::ProblemSpec& spec, int repeat,
                   const std::vector<Variant>& variants,
                   const std::function<void(const Fitted&)>& take);

//   coverage   share of held-out configurations within the 95% interval
//   rank       Spearman's correlation of their predictions and measurements
//   precision, recall   of "runs out of memory", predicted mean over capacity
//   best       throughput of the configuration that is predicted to be the best
//              of all over that of the best one; 0 where it does not run
inline constexpr std::array<const char*, 5> kScoreNames = {
    "coverage", "rank", "precision", "recall", "best"};
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

// Collects the predictions of the surrogates into tables and figures:
//
//   scores         scores of every fit, and their means over problems and
//                  repeats
//   out_of_memory  confusion matrices in the first repeat, with figures of
//                  predicted against measured throughput (Figs. 6, 20-22) and
//                  memory (Fig. 23)
//   table5         the logarithms of the length scales that the paper's OPPA
//                  and ours learned from 20 trials of the first repeat
class Collection {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] std::vector<Output> Take() const;

 private:
  // A variant, and the number of trials that it is fitted to.
  using Key = std::pair<std::string, int>;
  using Panels = std::map<Key, plots::Panel>;

  void AddPredictions(const Fitted& fitted);
  void AddLengthScales(const Fitted& fitted);
  [[nodiscard]] Output TakePredictions() const;
  [[nodiscard]] Output TakeLengthScales() const;
  [[nodiscard]] Output TakeScores() const;

  plots::Table scores_;
  std::map<Key, std::vector<Scores>> by_surrogate_;
  plots::Table confusion_;
  std::vector<std::string> problems_;  // in order
  std::map<std::string, Panels> throughput_;
  std::map<std::string, Panels> memory_;
  plots::Table length_scales_;
  std::vector<std::string> fields_;
  std::vector<std::string> columns_;
  std::map<std::pair<std::string, std::string>, double> logs_;
};

}  // namespace studies
