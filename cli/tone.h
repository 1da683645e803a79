// Text in the colors of its tone, where standard output has colors.

#pragma once

#include <string>

#include "cli/command_line.h"
#include "jobs/tune/tune_job.h"

namespace cli {

// --color WHEN
[[nodiscard]] Option ColorOption();

void PrintIn(jobs::Tone tone, const std::string& text);

}  // namespace cli
