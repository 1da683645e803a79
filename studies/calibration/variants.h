// The surrogates that are compared, each fitted to the same few trials.

#ifndef STUDIES_CALIBRATION_VARIANTS_H_
#define STUDIES_CALIBRATION_VARIANTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

}  // namespace studies

#endif  // STUDIES_CALIBRATION_VARIANTS_H_
