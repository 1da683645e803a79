// The panels that figures are made of, and the methods that they draw.

#pragma once

#include <string_view>
#include <vector>

#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/figure.h"
#include "trials/record.h"

namespace plots {

// A method that is drawn, and its style.
struct Drawn {
  const MethodRecords* method = nullptr;
  LineStyle style;
};

// The methods that have runs of a family, first the one that its name is of;
// or without a family (""), those to be compared: all but ablations and
// variants, unless there is nothing else, first those that have some. A method
// looks the same whether or not the others have runs yet.
[[nodiscard]] std::vector<Drawn> Select(const ProblemRecords& problem,
                                        std::string_view family = "");

// The records that a figure is drawn from.
struct FigureInput {
  // One; of a figure over problems, all that can be compared.
  std::vector<const ProblemRecords*> problems;
  std::vector<Drawn> drawn;  // methods, of the first problem
};

using Panels = std::vector<Panel>;

// Best throughput against a cost, with the exhaustive optimum.
[[nodiscard]] Panel ThroughputPanel(const ProblemRecords& problem,
                                    const std::vector<Drawn>& drawn, Cost cost);

// Configurations tried against search time.
[[nodiscard]] Panels TrialCountPanels(const FigureInput& input);

// Training steps done over a few hours of search and training, and their number
// at the end with quartile bars.
[[nodiscard]] Panels TrainingPanels(const FigureInput& input);

// What was left to gain after each trial, from the first number of trials at
// which every run has an estimate: the expected gain and the probability that
// the incumbent is within 5% of the optimum, both in percent.
[[nodiscard]] Panels RemainingPanels(const FigureInput& input);

// The suggestion time of the method for each trial.
[[nodiscard]] Panels ThinkingPanels(const FigureInput& input);

// Incumbent over the exhaustive optimum, both without noise, against trials:
// the mean over problems of the medians (and quartiles) over repeats.
// Precondition: every problem has an optimum and runs of the same methods.
[[nodiscard]] Panels MeanRatioPanels(const FigureInput& input);

// The throughput of each trial, with a symbol for its outcome, and the best
// completed one so far as a line that begins with the first. Trials without
// throughput are at 0. A prediction of a trial, where there is one, is a point
// with its 95% interval; shape: one per trial, or none. A diamond is around the
// trial `chosen`, an index, whose configuration repeated measurements chose.
[[nodiscard]] Panel TrialPanel(
    const std::vector<trials::Trial>& trials,
    const trials::ProblemInfo& problem,
    const std::vector<common::Quartiles>& predictions = {}, int chosen = -1);

// The peak memory of each trial in GB, with the same symbols, and the memory of
// a GPU, at which a trial that ran out of it is drawn if its peak is not known.
[[nodiscard]] Panel MemoryPanel(const std::vector<trials::Trial>& trials,
                                const trials::ProblemInfo& problem);

}  // namespace plots
