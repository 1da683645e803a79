// The panel with a mark for each trial of one search.

#ifndef PLOTS_TRIAL_PANEL_H_
#define PLOTS_TRIAL_PANEL_H_

#include "plots/experiment_records.h"
#include "plots/figure.h"

namespace plots {

// The throughput of each trial, with a symbol for its outcome, and the best
// completed one so far as a line that begins with the first. Trials without
// throughput are at 0.
[[nodiscard]] Panel TrialPanel(const Run& run,
                               const trials::ProblemInfo& problem);

}  // namespace plots

#endif  // PLOTS_TRIAL_PANEL_H_
