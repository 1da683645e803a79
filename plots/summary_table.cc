#include "plots/summary_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace plots {
namespace {

// What the cells of a table have in common.
struct View {
  Reader reader = Reader::kDocument;
  int repeats = 1;
  int decimals = 3;     // of a throughput
  bool ratios = false;  // there is a share of the optimum
  [[nodiscard]] bool terminal() const { return reader == Reader::kTerminal; }
};

std::string Percent(double ratio) {
  return std::isnan(ratio) ? "" : fmt::format("{:.1f}", 100.0 * ratio);
}

std::string Runs(const MethodSummary& s, const View& /*view*/) {
  return s.finished == s.repeats ? std::to_string(s.runs)
                                 : fmt::format("{}/{}", s.finished, s.repeats);
}

// A median with its quartiles, or on a terminal that has the ratio, too,
// without; "none" where no run has an incumbent.
std::string Throughput(const MethodSummary& s, const View& view) {
  const common::Quartiles& q = s.throughput;
  if (s.best_config.empty() && q.q3 == 0.0) {
    return "none";
  }
  const bool quartiles = view.repeats != 1 && !(view.terminal() && view.ratios);
  return Interval({.value = q.median,
                   .low = quartiles ? q.q1 : trials::kUnknown,
                   .high = q.q3},
                  1.0, view.decimals);
}

std::string Halfway(const MethodSummary& s, const View& view) {
  return Interval({.value = s.throughput_halfway}, 1.0, view.decimals);
}

std::string Mean(const MethodSummary& s, const View& /*view*/) {
  return Interval(s.shares[kEnd].mean, 100.0, 1);
}

std::string Median(const MethodSummary& s, const View& view) {
  return view.terminal() ? Percent(s.shares[kEnd].median.value)
                         : Interval(s.shares[kEnd].median, 100.0, 1);
}

std::string Quartiles(const MethodSummary& s, const View& view) {
  const Share& end = s.shares[kEnd];
  return view.repeats == 1 || std::isnan(end.q1)
             ? ""
             : Percent(end.q1) + ", " + Percent(end.q3);
}

template <std::size_t checkpoint>
std::string After(const MethodSummary& s, const View& /*view*/) {
  return Percent(s.shares[checkpoint].mean.value);
}

std::string After5And10(const MethodSummary& s, const View& view) {
  const std::string after_5 = After<2>(s, view);
  return after_5.empty() ? "" : after_5 + " " + After<3>(s, view);
}

// "3.2/8 (10)": minutes, trials, runs.
template <Reach MethodSummary::*reach>
std::string To(const MethodSummary& s, const View& /*view*/) {
  const Reach& to = s.*reach;
  return std::isnan(to.time_s)
             ? ""
             : fmt::format("{}/{} ({})", Rounded(to.time_s / 60.0, 2),
                           Rounded(to.trials, 2), to.runs);
}

template <double MethodSummary::*number, int scale = 1>
std::string Number(const MethodSummary& s, const View& /*view*/) {
  return Rounded(scale * (s.*number), 2);
}

std::string Counts(const MethodSummary& s, const View& /*view*/) {
  const auto tenths = [](double count) { return std::round(10 * count) / 10; };
  return std::isnan(s.trials)
             ? ""
             : fmt::format("{:g}/{:g}/{:g}", tenths(s.trials),
                           tenths(s.terminated_early), tenths(s.out_of_memory));
}

struct Column {
  std::string_view document;  // its name there; "": it has no such column
  std::string_view terminal;
  std::string_view meaning;
  std::string (*cell)(const MethodSummary&, const View&);
};

constexpr std::string_view kValue = "value";  // in the unit of the objective
constexpr std::string_view kThroughputMeaning =
    "measured throughput of the best configuration, with noise, so that it can "
    "exceed the noise-free optimum; 0 for a run without a completed trial";
constexpr std::string_view kMoneyMeaning =
    "steps for the price of a USD with the cheapest configuration, as "
    "measured, with noise, so that it can exceed the noise-free optimum; 0 for "
    "a run without a completed trial";
constexpr std::string_view kReachMeaning =
    "minutes/trials until it reaches 95% of the optimum (runs that do); - "
    "unless more than half of the runs do";

constexpr Column kColumns[] = {
    {"method", "method", "",
     [](const MethodSummary& s, const View&) { return s.label; }},
    {"runs", "runs", "", Runs},
    {kValue, kValue, "", Throughput},
    {"halfway", "", "throughput after half of the search time", Halfway},
    {"of optimum (%)", "of optimum (%)",
     "noise-free throughput of the configuration returned over that of the "
     "best of all, mean over repeats",
     Mean},
    {"median (%)", "median", "median of the same", Median},
    {"quartiles (%)", "", "its quartiles over repeats", Quartiles},
    {"", "at 5, 10", "mean of the same after 5 and 10 trials", After5And10},
    {"after 1", "", "mean of the same after 1 trial, and so on", After<0>},
    {"after 3", "", "", After<1>},
    {"after 5", "", "", After<2>},
    {"after 10", "", "", After<3>},
    {"after 20", "", "", After<4>},
    {"95%: min/trials (runs)", "to 95%", kReachMeaning,
     To<&MethodSummary::reach_95>},
    {"99%: min/trials (runs)", "", "", To<&MethodSummary::reach_99>},
    {"", "all/early/OOM", "trials, those terminated early and out of memory",
     Counts},
    {"trials", "", "", Number<&MethodSummary::trials>},
    {"early", "", "trials terminated early",
     Number<&MethodSummary::terminated_early>},
    {"OOM", "", "trials out of memory", Number<&MethodSummary::out_of_memory>},
    {"pick (ms)", "pick (ms)", "the method's own time per suggestion",
     Number<&MethodSummary::thinking_s, 1000>}};

// Decimals that give the smallest median three significant digits.
int Decimals(const std::vector<MethodSummary>& methods) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const MethodSummary& s : methods) {
    if (s.throughput.median > 0.0) {
      smallest = std::min(smallest, s.throughput.median);
    }
  }
  return std::isinf(smallest)
             ? 3
             : std::clamp(
                   2 - static_cast<int>(std::floor(std::log10(smallest))), 0,
                   6);
}

}  // namespace

Table MethodTable(const std::vector<MethodSummary>& methods, int repeats,
                  const trials::Valuation& valuation, Reader reader) {
  const View view{
      .reader = reader,
      .repeats = repeats,
      .decimals = Decimals(methods),
      .ratios = std::any_of(methods.begin(), methods.end(), [](const auto& s) {
        return !std::isnan(s.shares[kEnd].mean.value);
      })};
  const bool money = valuation.objective == trials::Objective::kMoney;
  Table table;
  table.rows.resize(methods.size());
  for (const Column& column : kColumns) {
    std::string_view name = view.terminal() ? column.terminal : column.document;
    std::string_view meaning = column.meaning;
    if (name == kValue) {
      name = view.terminal() ? valuation.unit() : valuation.quantity();
      meaning = money ? kMoneyMeaning : kThroughputMeaning;
    }
    std::vector<std::string> cells;
    std::transform(methods.begin(), methods.end(), std::back_inserter(cells),
                   [&](const auto& s) { return column.cell(s, view); });
    if (name.empty() ||
        std::all_of(cells.begin(), cells.end(),
                    [](const std::string& text) { return text.empty(); })) {
      continue;
    }
    table.header.emplace_back(name);
    if (!meaning.empty()) {
      table.meanings.emplace_back(name, meaning);
    }
    for (std::size_t r = 0; r < cells.size(); ++r) {
      table.rows[r].push_back(std::move(cells[r]));
    }
  }
  return table;
}

Table RatioTable(const Summary& summary) {
  Table table;
  table.header = {"of optimum (%)"};
  for (const MethodSummary& s : summary.problems.front().methods) {
    table.header.push_back(s.label);
  }
  for (const ProblemSummary& problem : summary.problems) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(problem.info.name);
    for (const MethodSummary& s : problem.methods) {
      row.push_back(Percent(s.shares[kEnd].mean.value));
    }
  }
  return table;
}

Table ConfigTable(const ProblemSummary& problem) {
  const bool exact = std::any_of(problem.methods.begin(), problem.methods.end(),
                                 [](const auto& s) { return s.best_is_exact; });
  Table table{.header = {"best configuration",
                         fmt::format("{}{}", exact ? "noise-free " : "",
                                     problem.info.valuation().unit()),
                         "configuration"},
              .last_is_name = true};
  if (problem.info.optimum_steps_per_s > 0.0) {
    table.rows.push_back({"exhaustive optimum",
                          Rounded(problem.info.optimum_steps_per_s, 4),
                          problem.info.optimum_config});
  }
  for (const MethodSummary& s : problem.methods) {
    if (!s.best_config.empty()) {
      table.rows.push_back(
          {s.label, Rounded(s.best_steps_per_s, 4), s.best_config});
    }
  }
  return table;
}

}  // namespace plots
