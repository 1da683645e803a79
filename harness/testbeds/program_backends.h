// The backends whose trials are programs on the cluster, in wall-clock time.

#ifndef HARNESS_TESTBEDS_PROGRAM_BACKENDS_H_
#define HARNESS_TESTBEDS_PROGRAM_BACKENDS_H_

#include "common/error.h"
#include "harness/backends.h"
#include "harness/spec.h"

namespace harness {

// A program that the manifest names. Format: docs/external-trials.md.
[[nodiscard]] Backend MakeCommand(const ProblemSpec& problem);

// oppa-train, next to the program oppa, with the model, batch and sequence
// length of [workload] and the memory of a GPU of [cluster] as its capacity.
[[nodiscard]] Backend MakeTrainer(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_PROGRAM_BACKENDS_H_
