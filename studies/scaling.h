// A problem on an increasing number of GPUs.

#ifndef STUDIES_SCALING_H_
#define STUDIES_SCALING_H_

#include <vector>

#include "common/error.h"
#include "studies/output.h"

namespace studies {

// scale: runs the problem on an increasing number of hosts of its cluster. For
// each number of GPUs it reports the fastest configuration of the whole space
// at the manifest's batch, the time of one fixed replica (tp, pp and
// microbatches of `replica`) copied over all GPUs, and the cost of simulation:
// CPU microseconds per configuration of the space, and of one configuration
// that shares nothing with another.
// Errors: throws InputError for a backend other than the simulator, and for a
// number of GPUs that does not fill whole hosts.
struct ScaleOptions {
  std::vector<int> gpus;  // empty: 8, 16, ... 16384
};
[[nodiscard]] int Scale(const StudyOptions& options, const ScaleOptions& scale,
                        const Sink& sink);

}  // namespace studies

#endif  // STUDIES_SCALING_H_
