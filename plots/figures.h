// The figures of the paper, from records.

#ifndef PLOTS_FIGURES_H_
#define PLOTS_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/figure.h"

namespace plots {

struct FigureOptions {
  double training_hours = 3.0;  // > 0; see ReportOptions
  Value value = Value::kMeasured;
};

// One figure of one problem, by its name (see FigureNames in report.h).
// Nothing if the records cannot fill it: no runs yet, no ablations, no time.
// Precondition: the name is known and is not that of the overview.
[[nodiscard]] std::optional<Figure> MakeFigure(const std::string& name,
                                               const ExperimentRecords& records,
                                               const ProblemRecords& problem,
                                               const FigureOptions& options);

// The ratio of the incumbent to the exhaustive optimum against trials, mean
// over problems (see MeanRatioPanel). Over the problems that have an optimum
// and runs of every method that has any; nothing with fewer than two of them.
[[nodiscard]] std::optional<Figure> MakeOverview(
    const ExperimentRecords& records);

}  // namespace plots

#endif  // PLOTS_FIGURES_H_
