// The backend that replays a table of measured configurations.

#ifndef HARNESS_TESTBEDS_REPLAY_BACKEND_H_
#define HARNESS_TESTBEDS_REPLAY_BACKEND_H_

#include "common/error.h"
#include "harness/backends.h"
#include "harness/spec.h"

namespace harness {

// Format of the table: docs/replay_tables.md.
// Errors: throws InputError with the place and the remedy.
[[nodiscard]] Backend MakeReplay(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_REPLAY_BACKEND_H_
