// The step times of simulated trials.

#ifndef STUDIES_NOISE_H_
#define STUDIES_NOISE_H_

#include "studies/output.h"

namespace studies {

// noise: shows simulated trials of the problem in the same way as the paper
// shows real ones: step times of a few configurations (Fig. 3), the estimate
// against the threshold of outlier removal (Fig. 10) and against the number of
// steps (Fig. 15).
struct NoiseVerbOptions {
  int trials = 4;
  int steps = 100;
  int seed = 1;
};
[[nodiscard]] int Noise(const StudyOptions& options,
                        const NoiseVerbOptions& noise, const Sink& sink);

}  // namespace studies

#endif  // STUDIES_NOISE_H_
