// The parts of the result page: its figure, its cards, its table of trials.

#include "plots/page/parts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/text.h"
#include "common/units.h"
#include "plots/figure_files.h"
#include "plots/figures/panels.h"
#include "plots/table.h"

namespace plots {
namespace {

using common::kNormal95;
using trials::Outcome;
using trials::Trial;

// "12 s", "3.4 min"; "" if it is not known.
Cell Duration(double seconds) {
  const auto in = [&](double unit_s, const char* name) -> Cell {
    const Cell number = Rounded(seconds, 3, 1.0 / unit_s);
    return {number.text + (number.text.empty() ? "" : name), seconds};
  };
  return seconds < 90.0     ? in(1.0, " s")
         : seconds < 5400.0 ? in(60.0, " min")
                            : in(3600.0, " h");
}

// The free share of a GPU's memory; NaN if it is not known.
double Headroom(const PageRun& run, const Trial& trial) {
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return capacity && trial.measurement.peak_memory_bytes
             ? 1.0 - *trial.measurement.peak_memory_bytes / *capacity
             : trials::kUnknown;
}

Figure FigureOf(const PageRun& run) {
  std::vector<common::Quartiles> predictions;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const double mean = run.predicted_steps_per_s[i];
    const double spread = common::kNormal95 * run.predicted_stddev[i];
    predictions.push_back({.q1 = std::max(mean - spread, 0.0),
                           .median = mean,
                           .q3 = mean + spread});
  }
  const trials::ExperimentInfo& info = run.experiment.info;
  Figure figure{
      .name = "search",
      .title = info.title.empty() ? info.name : info.title,
      .panels = {TrialPanel(run.trials, run.problem->info, predictions)}};
  figure.caption = figure.panels.front().note;
  Panel memory = MemoryPanel(run.trials, run.problem->info);
  for (const Series& series : memory.series) {
    for (const common::Quartiles& y : series.band.y) {
      if (!std::isnan(y.median)) {
        figure.panels.push_back(memory);
        return figure;
      }
    }
  }
  return figure;
}

// What an <svg> element inside of HTML needs of an SVG file: no prolog, names
// of namespaces or title.
std::string Inline(std::string svg) {
  const auto cut = [&svg](std::string_view begin, std::string_view end) {
    const std::size_t from = svg.find(begin);
    const std::size_t to = svg.find(end, from);
    if (from != std::string::npos && to != std::string::npos) {
      svg.erase(from, to + end.size() - from);
    }
  };
  cut("<?xml", "?>\n");
  cut("xmlns=\"", "\"\n");
  cut("xmlns:xlink=\"", "\"\n");
  cut("<title>", "</desc>");
  return svg;
}

// "27,797"
std::string Thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

// Why the given configuration is not the reference of speed-ups; "" if it is,
// or if none is given.
std::string GivenThatFailed(const PageRun& run) {
  for (const Trial& trial : run.trials) {
    if (trial.chosen_by == trials::ChosenBy::kGiven) {
      return trial.measurement.outcome == Outcome::kCompleted
                 ? ""
                 : fmt::format(" (the given one: {})",
                               OutcomeWords(trial.measurement.outcome));
    }
  }
  return "";
}

std::string Card(const std::string& name, const std::string& value,
                 const std::string& note, const char* style = "") {
  return fmt::format(
      "<div class=\"card{}\"><span class=\"name\">{}</span><b>{}</b>"
      "<span>{}</span></div>",
      style, name, value, note);
}

std::string BestCard(const PageRun& run) {
  const double value = run.Best().throughput.steps_per_s;
  const trials::Valuation valuation = run.problem->info.valuation();
  const double rate = value / valuation.Factor(run.Best().config);
  const auto& tokens = run.problem->info.tokens_per_step;
  return Card(
      std::string(valuation.names().best),
      fmt::format("{} <small>{}</small>", Rounded(value, 4).text,
                  valuation.unit()),
      fmt::format(
          "{} per step{}, trial {}", Duration(1.0 / rate).text,
          tokens ? fmt::format(", {} tokens/s", Thousands(*tokens * rate)) : "",
          run.Best().number),
      " lead");
}

std::string SpeedUpCard(const PageRun& run) {
  const bool given = run.First().chosen_by == trials::ChosenBy::kGiven;
  const std::string reference =
      given ? "the present configuration"
            : "the first configuration that ran" + GivenThatFailed(run);
  if (run.first == run.best) {
    return Card("Speed-up", "none", "over " + reference);
  }
  const common::Estimate speed = SpeedUpOf(run.Best(), run.First());
  return Card(std::string(run.problem->info.valuation().names().ratio),
              fmt::format("{:.2f}×", speed.value),
              fmt::format("[{:.2f}, {:.2f}] over {}", speed.low, speed.high,
                          reference));
}

std::string MemoryCard(const PageRun& run) {
  const auto& peak = run.Best().measurement.peak_memory_bytes;
  if (!peak) {
    return "";
  }
  const double headroom = 100.0 * Headroom(run, run.Best());
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return Card(
      "Peak memory",
      Rounded(*peak / common::kGiga, 3).text + " <small>GB</small>",
      std::isnan(headroom)
          ? std::string("of a GPU")
          : fmt::format("of {} GB, {:.0f}% free{}",
                        Rounded(*capacity / common::kGiga, 3).text, headroom,
                        headroom < 10.0 ? ": little to spare" : ""));
}

// What all configurations have in common.
std::set<std::string> CommonParts(const PageRun& run) {
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

// The i-th trial of the run.
Row RowOf(const PageRun& run, std::size_t i,
          const std::set<std::string>& fixed) {
  const Trial& trial = run.trials[i];
  const auto& measured = trial.measurement;
  const double rate =
      trial.HasThroughput() ? trial.throughput.steps_per_s : trials::kUnknown;
  const double ratio = run.first >= 0 && !std::isnan(rate)
                           ? SpeedUpOf(trial, run.First()).value
                           : trials::kUnknown;
  const double predicted = run.predicted_steps_per_s[i];
  const auto with = [](const Cell& number, const std::string& unit,
                       double value) -> Cell {
    return {number.text + (number.text.empty() ? "" : unit), value};
  };
  Row row = {
      {"#", trial.number},
      {"Outcome", OutcomeWords(measured.outcome)},
      {std::string(run.problem->info.valuation().unit()), Rounded(rate, 4)},
      {"Speed-up", with(Fixed(ratio, 2), "×", ratio)},
      {"Predicted (95%)",
       with(Rounded(predicted, 3),
            " ± " + Rounded(kNormal95 * run.predicted_stddev[i], 2).text,
            predicted)},
      {"Peak GB", Rounded(measured.peak_memory_bytes.value_or(trials::kUnknown),
                          3, 1.0 / common::kGiga)},
      {"Free",
       with(Fixed(Headroom(run, trial), 0, 100.0), "%", Headroom(run, trial))},
      {"Took", Duration(measured.duration_s)},
      {"Configuration", Varying(trial, fixed) +
                            (measured.message.empty() ? "" : "\n") +
                            measured.message},
      {"Chosen by", ToString(trial.chosen_by)}};
  row[1].cell.style = fmt::format("o-{}", ToString(measured.outcome));
  row[8].cell.style = "cfg";
  if (static_cast<int>(i) == run.best) {
    for (Field& field : row) {
      field.cell.style += " best";
    }
  }
  return row;
}

}  // namespace

std::string OutcomeWords(Outcome outcome) {
  if (outcome == Outcome::kTerminatedEarly) {
    return "stopped early";
  }
  std::string words(ToString(outcome));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> ConfigParts(const trials::Trial& trial) {
  std::vector<std::string> parts;
  const std::string label = trials::CandidateLabel(trial);
  for (const std::string_view part : common::Split(label, ',')) {
    parts.emplace_back(part);
  }
  return parts;
}

std::string TrialFigure(const PageRun& run,
                        const std::filesystem::path& folder) {
  const Figure figure = FigureOf(run);
  const FigureFiles written = WriteFigures({{folder, {figure}}}, {"svg"});
  if (!written.error.empty()) {
    return fmt::format("<p class=\"soft\">No figure: {}</p>",
                       EscapeHtml(written.error));
  }
  return "<figure>" +
         Inline(common::ReadFileIfExists(folder / (figure.name + ".svg"))
                    .value_or("")) +
         "</figure>";
}

std::string PageCards(const PageRun& run) {
  std::string cards;
  if (run.best >= 0) {
    cards += BestCard(run) + SpeedUpCard(run) + MemoryCard(run);
  }
  std::map<Outcome, int> counts;
  for (const Trial& trial : run.trials) {
    ++counts[trial.measurement.outcome];
  }
  std::string outcomes;
  for (const auto& [outcome, count] : counts) {
    outcomes += fmt::format("{}{} {}", outcomes.empty() ? "" : ", ", count,
                            OutcomeWords(outcome));
  }
  cards += Card("Trials", std::to_string(run.trials.size()), outcomes);
  cards += Card(
      "Search time",
      Duration(run.trials.empty() ? 0.0 : run.trials.back().elapsed_s).text,
      run.problem->info.backend == "command" ? "on the machine"
                                             : "on a virtual clock");
  return "<div class=\"cards\">" + cards + "</div>\n";
}

std::string TrialTable(const PageRun& run) {
  if (run.trials.empty()) {
    return "";
  }
  const std::set<std::string> fixed = CommonParts(run);
  Table table;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    table.Add(RowOf(run, i, fixed));
  }
  return "<div class=\"scroll\">" + ToHtml(table, "trials") + "</div>" +
         (fixed.empty()
              ? ""
              : fmt::format(
                    "<p class=\"small soft\">In all trials: {}.</p>",
                    EscapeHtml(fmt::format("{}", fmt::join(fixed, ", ")))));
}

}  // namespace plots
