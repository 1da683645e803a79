// The figures of a report, as a table: a new figure is one row in figures.cc.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plots/experiment_records.h"
#include "plots/figure.h"
#include "plots/figures/panels.h"
#include "plots/table.h"

namespace plots {

// The curves that a figure consists of.
enum class FigureSet {
  kMethods,   // the compared methods, on one problem
  kPrinted,   // OPPA as printed and its ablations, on one problem
  kOurs,      // this project's OPPA and its ablations, on one problem
  kProblems,  // the compared methods, over all problems
};

// The records that a figure requires.
struct FigureNeed {
  std::string_view text;
  bool (*is_met)(const FigureInput& input);
};

struct FigureKind {
  std::string_view name;   // in manifests, options, and of its files
  std::string_view shows;  // for display
  std::string_view paper;  // the figure of the paper; "": none
  FigureSet set = FigureSet::kMethods;
  FigureNeed needs;
  Panels (*panels)(const FigureInput& input) = nullptr;
};

[[nodiscard]] std::span<const FigureKind> Figures();

// A row per figure, for docs/figures.md.
[[nodiscard]] Table FigureTable();

// The figure of one problem, or of all: null. Nothing if it is not a figure of
// that, or if the records cannot fill it.
[[nodiscard]] std::optional<Figure> MakeFigure(const FigureKind& kind,
                                               const ExperimentRecords& records,
                                               const ProblemRecords* problem);

// A figure with at most kMostColors lines in a panel, or NAME, NAME-2, ... with
// at most this number each, of which the first is in all of them.
[[nodiscard]] std::vector<Figure> InParts(Figure figure);

// The figures of single problems, those of several experiments as one: the
// panels of each problem, under its title, and one legend. `names` is the
// choice of figures; empty: all.
[[nodiscard]] std::vector<Figure> JointFigures(
    const std::vector<ExperimentRecords>& experiments,
    const std::vector<std::string>& names);

}  // namespace plots
