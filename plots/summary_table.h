// The tables of a summary.

#ifndef PLOTS_SUMMARY_TABLE_H_
#define PLOTS_SUMMARY_TABLE_H_

#include <vector>

#include "plots/summary.h"
#include "plots/table.h"

namespace plots {

// Who reads a table: a document has a column for every number; a terminal has
// room for 120 characters, so that some share a column or are left out.
enum class Reader { kDocument, kTerminal };

// A row per method, without the columns that are empty throughout. With one
// repeat there are no intervals and quartiles.
[[nodiscard]] Table MethodTable(const std::vector<MethodSummary>& methods,
                                int repeats, const trials::Valuation& valuation,
                                Reader reader);

// Problems down, methods across: the mean share of the optimum.
// Precondition: there is a problem.
[[nodiscard]] Table RatioTable(const Summary& summary);

// The optimum, and the best configuration of each method.
[[nodiscard]] Table ConfigTable(const ProblemSummary& problem);

}  // namespace plots

#endif  // PLOTS_SUMMARY_TABLE_H_
