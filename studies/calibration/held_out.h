// Held-out evaluation on one problem: every candidate is measured, and
// surrogates are fitted to a few of them.

#ifndef STUDIES_CALIBRATION_HELD_OUT_H_
#define STUDIES_CALIBRATION_HELD_OUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/manifest/manifest.h"
#include "methods/history.h"
#include "methods/method.h"
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
  std::string name;   // in records: "ours"
  std::string label;  // in figures
  std::function<Models(const methods::Problem&, const methods::History&,
                       std::uint64_t seed)>
      fit;
};

// ours                 what the method `oppa` uses, with the reported intervals
// ours, as searched    the same fit, with the intervals that the search uses
// ours, no nugget      without the nugget of single configurations
// as printed           App. D's prior and embedding, Eq. 23 without priors
// no prior mean        a constant mean, otherwise ours: `oppa-no-prior`
// vanilla BO           a constant mean, the paper's embedding, known noise
// prior mean alone     the cost model with independent deviations, no kernel
// xgboost              boosted trees, as DeepSpeed's autotuner
[[nodiscard]] std::vector<Variant> Variants();

// A surrogate fitted to n trials. References are valid during the call only.
struct Fitted {
  std::string problem;  // "qwen-8gpu" or "ultrascale/ultrascale-1b-8"
  int repeat = 1;
  int trials = 0;  // completed ones it was fitted to
  const Variant& variant;
  const Models& models;
  const trials::SearchSpace& space;
  const methods::History& all;    // every candidate, in order
  const std::vector<char>& seen;  // [N]
  double memory_capacity_bytes = 0.0;
};

// Runs every candidate of the problem once, draws candidates at random until n
// = 4, 8, 10, 20 and 40 of them ran (failed trials are part of the training
// data too), fits every variant at each n, and passes it to `take`. An n that
// would leave fewer than 8 candidates to predict is skipped.
void FitHeldOut(const harness::Manifest& manifest,
                const harness::ProblemSpec& spec, int repeat,
                const std::vector<Variant>& variants,
                const std::function<void(const Fitted&)>& take);

}  // namespace studies

#endif  // STUDIES_CALIBRATION_HELD_OUT_H_
