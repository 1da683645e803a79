// One problem: every candidate measured, a few of them learned from.

#ifndef STUDIES_CALIBRATION_HELD_OUT_H_
#define STUDIES_CALIBRATION_HELD_OUT_H_

#include <functional>
#include <string>
#include <vector>

#include "harness/manifest.h"
#include "methods/history.h"
#include "studies/calibration/variants.h"

namespace studies {

// What a surrogate makes of n trials. References live as long as the call.
struct Fitted {
  std::string problem;  // "qwen-8gpu" or "ultrascale/ultrascale-1b-8"
  int repeat = 1;
  int trials = 0;  // that ran, of those it was fitted to
  const Variant& variant;
  const Models& models;
  const trials::SearchSpace& space;
  const methods::History& all;    // every candidate, in order
  const std::vector<char>& seen;  // [N]
  double memory_capacity_bytes = 0.0;
};

// Runs every candidate of the problem once, draws candidates at random until
// n = 4, 8, 10, 20 and 40 of them ran (those that failed on the way are learned
// from too), fits every variant at each n, and hands it to `take`. An n that
// would leave fewer than 8 to be predicted is left out.
void FitHeldOut(const harness::Manifest& manifest,
                const harness::ProblemSpec& spec,
                int repeat,
                const std::vector<Variant>& variants,
                const std::function<void(const Fitted&)>& take);

}  // namespace studies

#endif  // STUDIES_CALIBRATION_HELD_OUT_H_
