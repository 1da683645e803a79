// Charts that a verb draws of a problem.

#ifndef HARNESS_VERB_CHARTS_H_
#define HARNESS_VERB_CHARTS_H_

#include <string_view>
#include <vector>

#include "harness/manifest.h"
#include "harness/verbs.h"
#include "plots/line_chart.h"

namespace harness {

// Draws them in results/<verb>/<manifest>[/<problem>] and prints where they
// are, or why there are no pictures. Errors: throws InputError where the folder
// cannot be written.
void DrawCharts(const VerbOptions& options,
                std::string_view verb,
                const ProblemSpec& problem,
                const std::vector<plots::LineChart>& charts);

}  // namespace harness

#endif  // HARNESS_VERB_CHARTS_H_
