// The testbed that replays a table of measured configurations.

#ifndef HARNESS_TESTBEDS_REPLAYED_H_
#define HARNESS_TESTBEDS_REPLAYED_H_

#include "harness/spec.h"
#include "harness/testbed.h"

namespace harness {

// Format of the table: docs/replay_tables.md.
// Errors: throws InputError with the place and the remedy.
[[nodiscard]] Testbed MakeReplay(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_REPLAYED_H_
