#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"
#include "common/units.h"
#include "plots/page/parts.h"

namespace plots {
namespace {

using trials::Trial;

using common::kNormal95;

// What all configurations have in common.
std::set<std::string> Fixed(const PageRun& run) {
  std::set<std::string> fixed;
  std::map<std::string, std::size_t> counts;
  for (const Trial& trial : run.trials) {
    for (const std::string& part : ConfigParts(trial)) {
      ++counts[part];
    }
  }
  for (const auto& [part, count] : counts) {
    if (count == run.trials.size() && run.trials.size() > 1) {
      fixed.insert(part);
    }
  }
  return fixed;
}

// The parts of a configuration that are not fixed, as text.
std::string Varying(const Trial& trial, const std::set<std::string>& fixed) {
  std::string text;
  for (const std::string& part : ConfigParts(trial)) {
    if (!fixed.contains(part)) {
      text += (text.empty() ? "" : ", ") + part;
    }
  }
  return text.empty() ? "as below" : text;
}

std::string NumberCell(double value, const std::string& text) {
  return fmt::format("<td class=\"n\" data-v=\"{}\">{}</td>",
                     std::isnan(value) ? "" : common::ExactText(value), text);
}

// `trial` is the i-th of the run.
std::string Row(const PageRun& run, const Trial& trial, std::size_t i,
                const std::set<std::string>& fixed) {
  const auto& measured = trial.measurement;
  const double rate =
      trial.HasThroughput() ? trial.throughput.steps_per_s : trials::kUnknown;
  const double predicted = run.predicted_steps_per_s[i];
  const double peak = measured.peak_memory_bytes.value_or(trials::kUnknown);
  const double headroom = HeadroomPercent(run, trial);
  const double ratio = run.first >= 0 && !std::isnan(rate)
                           ? SpeedUpOf(trial, run.First()).ratio
                           : trials::kUnknown;
  std::string row = fmt::format(
      "<tr{}>", static_cast<int>(i) == run.best ? " class=\"best\"" : "");
  row += NumberCell(trial.number, std::to_string(trial.number));
  row += fmt::format("<td class=\"o-{}\">{}</td>", ToString(measured.outcome),
                     OutcomeWords(measured.outcome));
  row += NumberCell(rate, PageNumber(rate));
  row += NumberCell(ratio,
                    std::isnan(ratio) ? "–" : fmt::format("{:.2f}×", ratio));
  row += NumberCell(
      predicted,
      std::isnan(predicted)
          ? "–"
          : fmt::format("{} ± {}", PageNumber(predicted, 3),
                        PageNumber(kNormal95 * run.predicted_stddev[i], 2)));
  row += NumberCell(peak, PageNumber(peak / common::kGiga, 3));
  row += NumberCell(
      headroom, std::isnan(headroom) ? "–" : fmt::format("{:.0f}%", headroom));
  row += NumberCell(measured.duration_s, Duration(measured.duration_s));
  row += fmt::format(
      "<td class=\"cfg\">{}{}</td>", EscapeHtml(Varying(trial, fixed)),
      measured.message.empty() ? ""
                               : fmt::format("<p class=\"msg\">{}</p>",
                                             EscapeHtml(measured.message)));
  return row + fmt::format("<td>{}</td></tr>\n", ToString(trial.chosen_by));
}

}  // namespace

std::string TrialTable(const PageRun& run) {
  if (run.trials.empty()) {
    return "";
  }
  const std::set<std::string> fixed = Fixed(run);
  const std::vector<std::pair<const char*, std::string>> heads = {
      {"n", "#"},
      {"", "Outcome"},
      {"n big", UnitOf(run)},
      {"n big", "Speed-up"},
      {"n big", "Predicted (95%)"},
      {"n big", "Peak GB"},
      {"n", "Free"},
      {"n", "Took"},
      {"", "Configuration"},
      {"", "Chosen by"}};
  std::string html = "<div class=\"scroll\"><table id=\"trials\"><thead><tr>";
  for (const auto& [style, name] : heads) {
    html += fmt::format(
        "<th scope=\"col\" class=\"{}\" aria-sort=\"{}\"><button "
        "type=\"button\">{}</button></th>",
        style, name[0] == '#' ? "ascending" : "none", name);
  }
  html += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    html += Row(run, run.trials[i], i, fixed);
  }
  html += "</tbody></table></div>";
  if (!fixed.empty()) {
    html += fmt::format("<p class=\"small soft\">In all trials: {}.</p>",
                        EscapeHtml(fmt::format("{}", fmt::join(fixed, ", "))));
  }
  return html;
}

}  // namespace plots
