// The testbed that replays a table of measured configurations.

#pragma once

#include "harness/testbed.h"

namespace harness {

// Format of the table: docs/replay_tables.md.
// Errors: throws InputError with the place and the remedy.
[[nodiscard]] Testbed MakeReplay(const ProblemSpec& problem);

}  // namespace harness
