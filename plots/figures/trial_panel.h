// The panels with a mark for each trial of one search.

#ifndef PLOTS_FIGURES_TRIAL_PANEL_H_
#define PLOTS_FIGURES_TRIAL_PANEL_H_

#include <vector>

#include "plots/figure.h"
#include "trials/record.h"

namespace plots {

// The throughput of each trial, with a symbol for its outcome, and the best
// completed one so far as a line that begins with the first. Trials without
// throughput are at 0. A prediction of a trial, where there is one, is a point
// with its 95% interval; shape: one per trial, or none.
[[nodiscard]] Panel TrialPanel(
    const std::vector<trials::Trial>& trials,
    const trials::ProblemInfo& problem,
    const std::vector<common::Quartiles>& predictions = {});

// The peak memory of each trial in GB, with the same symbols, and the memory of
// a GPU, at which a trial that ran out of it is drawn if its peak is not known.
[[nodiscard]] Panel MemoryPanel(const std::vector<trials::Trial>& trials,
                                const trials::ProblemInfo& problem);

}  // namespace plots

#endif  // PLOTS_FIGURES_TRIAL_PANEL_H_
