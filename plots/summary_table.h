// The tables of a summary.

#ifndef PLOTS_SUMMARY_TABLE_H_
#define PLOTS_SUMMARY_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/statistics.h"
#include "plots/summary.h"
#include "plots/table.h"

namespace plots {

// A row per method, for a document: every number in a column of its own. A
// column that is empty throughout is left out. With one repeat there are no
// intervals and quartiles.
[[nodiscard]] Table WideTable(const std::vector<MethodSummary>& methods,
                              int repeats,
                              const trials::Valuation& valuation = {});

// The same for a terminal of 120 columns: the quartiles of the throughput only
// where there is no ratio, which shows the same, and the counts in one column.
[[nodiscard]] Table NarrowTable(const std::vector<MethodSummary>& methods,
                                int repeats,
                                const trials::Valuation& valuation = {});

// The meaning of a column of these tables; "" for a column that needs no
// explanation.
[[nodiscard]] std::string_view MeaningOf(std::string_view header);

// Problems down, methods across: the mean share of the optimum.
// Precondition: there is a problem.
[[nodiscard]] Table RatioTable(const Summary& summary);

// The optimum, and the best configuration of each method.
[[nodiscard]] Table ConfigTable(const ProblemSummary& problem);

// "98.3 [97.9, 99.2]", times `scale`; "" for unknown, without limits that are
// unknown.
[[nodiscard]] std::string Interval(const common::Estimate& estimate,
                                   double scale, int decimals);

// Significant digits without an exponent; "" for unknown, "-" for never.
[[nodiscard]] std::string Rounded(double value, int digits);

}  // namespace plots

#endif  // PLOTS_SUMMARY_TABLE_H_
