// Parts of the result page: its charts, its style and its script.

#ifndef PLOTS_PAGE_PARTS_H_
#define PLOTS_PAGE_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "plots/page.h"

namespace plots {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

// "steps/s", or the unit of another objective.
[[nodiscard]] inline std::string UnitOf(const PageRun& run) {
  return std::string(run.problem->info.valuation().unit());
}

// Text as the content of an element or of an attribute in double quotes.
[[nodiscard]] std::string EscapeHtml(std::string_view text);

// A number with this many significant digits and no exponent, where that is
// readable; "–" if it is not known.
[[nodiscard]] std::string PageNumber(double value, int digits = 4);

// "12 s", "3.4 min"; "–" if it is not known.
[[nodiscard]] std::string Duration(double seconds);

// "dp=8" and so on, a part for each parameter of the configuration.
[[nodiscard]] std::vector<std::string> ConfigParts(const trials::Trial& trial);

// The free share of a GPU's memory in percent; NaN if it is not known.
[[nodiscard]] double HeadroomPercent(const PageRun& run,
                                     const trials::Trial& trial);

// "stopped early"
[[nodiscard]] std::string OutcomeWords(trials::Outcome outcome);

// The mark of an outcome as an SVG element around (x, y).
[[nodiscard]] std::string OutcomeMark(const trials::Trial& trial, double x,
                                      double y);

// The figures at the top of the page: best throughput, speed-up, memory,
// trials.
[[nodiscard]] std::string PageCards(const PageRun& run);

// The trials as a table, whose columns the page's script sorts; "" without any.
[[nodiscard]] std::string TrialTable(const PageRun& run);

// Figures as inline SVG; `width` in px at which the text has its size. A mark
// for every trial; both axes of numbers start at 0.
[[nodiscard]] std::string ThroughputChart(const PageRun& run, int width);
[[nodiscard]] std::string MemoryChart(const PageRun& run, int width);

}  // namespace plots

#endif  // PLOTS_PAGE_PARTS_H_
