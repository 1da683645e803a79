// The panels that figures are made of.

#ifndef PLOTS_FIGURES_PANELS_H_
#define PLOTS_FIGURES_PANELS_H_

#include <string>
#include <vector>

#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/figure.h"
#include "plots/figures/drawn.h"

namespace plots {

// Best throughput against a cost, with the exhaustive optimum.
[[nodiscard]] Panel ThroughputPanel(const ProblemRecords& problem,
                                    const std::vector<Drawn>& drawn, Cost cost,
                                    Value value);

// Configurations tried against search time.
[[nodiscard]] Panel TrialCountPanel(const ProblemRecords& problem,
                                    const std::vector<Drawn>& drawn);

// Training steps done over `hours` of search and training, and their number
// at the end with quartile bars.
[[nodiscard]] std::vector<Panel> TrainingPanels(const ProblemRecords& problem,
                                                const std::vector<Drawn>& drawn,
                                                double hours);

// What was left to gain after each trial, from the first number of trials at
// which every run has an estimate: the expected gain and the probability that
// the incumbent is within 5% of the optimum, both in percent.
[[nodiscard]] std::vector<Panel> RemainingPanels(
    const std::vector<Drawn>& drawn);

// The suggestion time of the method for each trial.
[[nodiscard]] Panel ThinkingPanel(const std::vector<Drawn>& drawn);

// Incumbent over the exhaustive optimum, both without noise, against trials:
// the mean over problems of the medians (and quartiles) over repeats.
// Precondition: every problem has an optimum and runs of the same methods.
[[nodiscard]] Panel MeanRatioPanel(
    const std::vector<const ProblemRecords*>& problems);

}  // namespace plots

#endif  // PLOTS_FIGURES_PANELS_H_
