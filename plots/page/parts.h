// Parts of the result page: its figures, its style and its script.

#ifndef PLOTS_PAGE_PARTS_H_
#define PLOTS_PAGE_PARTS_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plots/page.h"

namespace plots {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

// "dp=8" and so on, a part for each parameter of the configuration.
[[nodiscard]] std::vector<std::string> ConfigParts(const trials::Trial& trial);

// "stopped early"
[[nodiscard]] std::string OutcomeWords(trials::Outcome outcome);

// Throughput and memory of each trial as an inline SVG, by the same code as the
// figures of a report, which writes search.{svg,csv,gp} into `folder`; or a
// paragraph with the reason why there is none.
[[nodiscard]] std::string TrialFigure(const PageRun& run,
                                      const std::filesystem::path& folder);

// The numbers at the top of the page: best throughput, speed-up, memory,
// trials.
[[nodiscard]] std::string PageCards(const PageRun& run);

// The trials as a table, whose columns the page's script sorts; "" without any.
[[nodiscard]] std::string TrialTable(const PageRun& run);

}  // namespace plots

#endif  // PLOTS_PAGE_PARTS_H_
