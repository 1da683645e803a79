// The tables of a summary.

#ifndef PLOTS_SUMMARY_TABLE_H_
#define PLOTS_SUMMARY_TABLE_H_

#include <string>
#include <vector>

#include "plots/summary.h"
#include "plots/table.h"

namespace plots {

// The table of some methods, and what its columns mean.
struct SummaryTable {
  struct Meaning {
    std::string header;
    std::string text;
  };
  Table table;
  std::vector<Meaning> legend;
};

// A row per method, for a document: every number in a column of its own. A
// column that is empty throughout is left out. With one repeat there are no
// quartiles.
[[nodiscard]] SummaryTable WideTable(const std::vector<MethodSummary>& methods,
                                     int repeats);

// The same for a terminal of 120 columns: the quartiles of the throughput only
// where there is no ratio, which shows the same, and counts together.
[[nodiscard]] SummaryTable NarrowTable(
    const std::vector<MethodSummary>& methods, int repeats);

// Problems down, methods across: the median ratio to the optimum.
// Precondition: there is a problem.
[[nodiscard]] Table RatioTable(const Summary& summary);

// The optimum, and the best configuration of each method.
[[nodiscard]] Table ConfigTable(const ProblemSummary& problem);

// Significant digits without an exponent; "" for unknown, "-" for never.
[[nodiscard]] std::string Rounded(double value, int digits);

}  // namespace plots

#endif  // PLOTS_SUMMARY_TABLE_H_
