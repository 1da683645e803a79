// Held-out evaluation on one problem: every candidate is measured, and the
// surrogates are fitted to a few of them.

#ifndef STUDIES_CALIBRATION_HELD_OUT_H_
#define STUDIES_CALIBRATION_HELD_OUT_H_

#include <functional>
#include <string>
#include <vector>

#include "harness/manifest/manifest.h"
#include "methods/history.h"
#include "studies/calibration/variants.h"

namespace studies {

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
