// The step times of simulated trials.

#ifndef HARNESS_NOISE_H_
#define HARNESS_NOISE_H_

#include "harness/verbs.h"

namespace harness {

// noise: simulated trials of the problem as the paper draws real ones: step
// times of a few configurations (Fig. 3), the estimate against the threshold of
// outlier removal (Fig. 10) and against the number of steps (Fig. 15).
struct NoiseVerbOptions {
  int trials = 4;
  int steps = 100;
  int seed = 1;
};
[[nodiscard]] int Noise(const VerbOptions& options,
                        const NoiseVerbOptions& noise);

}  // namespace harness

#endif  // HARNESS_NOISE_H_
