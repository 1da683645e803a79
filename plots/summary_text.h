// The summary as CSV, as Markdown and for a terminal.

#ifndef PLOTS_SUMMARY_TEXT_H_
#define PLOTS_SUMMARY_TEXT_H_

#include <string>
#include <vector>

#include "plots/comparison.h"
#include "plots/summary.h"
#include "trials/record.h"

namespace plots {

// A row per problem and method, then the means as problem "(mean)". SI units,
// unknown numbers empty, infinity "inf"; columns in docs/figures.md.
[[nodiscard]] std::string ToCsv(const Summary& summary);

// For readers: rounded, with the comparisons at the end of the budget, the
// optimum and the best configurations found.
[[nodiscard]] std::string ToMarkdown(
    const Summary& summary, const std::vector<ComparisonSet>& comparisons,
    const trials::ExperimentInfo& info);

// The same for a terminal; with an axis over problems only the means and the
// ratio per problem.
[[nodiscard]] std::string ToText(const Summary& summary,
                                 const std::vector<ComparisonSet>& comparisons,
                                 const trials::ExperimentInfo& info);

// "simulated cluster", "replayed measurements", ...: how tables and figures
// name a backend.
[[nodiscard]] std::string BackendName(const std::string& backend);

}  // namespace plots

#endif  // PLOTS_SUMMARY_TEXT_H_
