#include "plots/summary_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace plots {
namespace {

std::string Percent(double ratio) {
  return std::isnan(ratio) ? "" : fmt::format("{:.1f}", 100.0 * ratio);
}

// "3.2/8 (10)": minutes, trials, runs.
std::string ReachText(const Reach& reach) {
  if (std::isnan(reach.time_s)) {
    return "";
  }
  return fmt::format("{}/{} ({})", Rounded(reach.time_s / 60.0, 2),
                     Rounded(reach.trials, 2), reach.runs);
}

std::string Runs(const MethodSummary& s) {
  return s.finished == s.repeats ? std::to_string(s.runs)
                                 : fmt::format("{}/{}", s.finished, s.repeats);
}

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

using Cell = std::function<std::string(const MethodSummary&)>;
using Columns = std::vector<std::pair<std::string_view, Cell>>;

// One row per method; a column that is empty throughout is left out.
Table TableOf(const std::vector<MethodSummary>& methods,
              const Columns& columns) {
  Table table;
  table.rows.resize(methods.size());
  for (const auto& [header, cell] : columns) {
    std::vector<std::string> cells;
    std::transform(methods.begin(), methods.end(), std::back_inserter(cells),
                   cell);
    if (std::all_of(cells.begin(), cells.end(),
                    [](const std::string& text) { return text.empty(); })) {
      continue;
    }
    table.header.emplace_back(header);
    for (std::size_t r = 0; r < cells.size(); ++r) {
      table.rows[r].push_back(std::move(cells[r]));
    }
  }
  return table;
}

// "98.3 [97.9, 99.2]"; without limits that are unknown.
std::string WithLimits(double value, double low, double high, double scale,
                       int decimals) {
  if (std::isnan(value)) {
    return "";
  }
  std::string text = fmt::format("{:.{}f}", scale * value, decimals);
  if (!std::isnan(low)) {
    text += fmt::format(" [{:.{}f}, {:.{}f}]", scale * low, decimals,
                        scale * high, decimals);
  }
  return text;
}

// A median with its quartiles or without; "none" where no run has an incumbent.
Cell Throughput(int decimals, bool quartiles) {
  return [=](const MethodSummary& s) -> std::string {
    const common::Quartiles& q = s.throughput;
    return s.best_config.empty() && q.q3 == 0.0
               ? "none"
               : WithLimits(q.median, quartiles ? q.q1 : trials::kUnknown, q.q3,
                            1.0, decimals);
  };
}

// The mean after some trials.
std::string After(const MethodSummary& s, std::size_t checkpoint) {
  return Percent(s.shares[checkpoint].mean.value);
}

// Columns that a terminal and a document share.
const std::pair<std::string_view, Cell> kMethod = {
    "method", [](const MethodSummary& s) { return s.label; }};
const std::pair<std::string_view, Cell> kRuns = {"runs", Runs};
const std::pair<std::string_view, Cell> kThinking = {
    "pick (ms)",
    [](const MethodSummary& s) { return Rounded(1e3 * s.thinking_s, 2); }};
const std::pair<std::string_view, Cell> kMean = {
    "of optimum (%)", [](const MethodSummary& s) {
      return Interval(s.shares[kEnd].mean, 100.0, 1);
    }};

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
constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
    {"steps/s", kThroughputMeaning},
    {"throughput (steps/s)", kThroughputMeaning},
    {"steps/USD", kMoneyMeaning},
    {"steps per money (steps/USD)", kMoneyMeaning},
    {"halfway", "throughput after half of the search time"},
    {"of optimum (%)",
     "noise-free throughput of the configuration returned over that of the "
     "best of all, mean over repeats"},
    {"median", "median of the same"},
    {"median (%)", "median of the same"},
    {"quartiles (%)", "its quartiles over repeats"},
    {"at 5, 10", "mean of the same after 5 and 10 trials"},
    {"after 1", "mean of the same after 1 trial, and so on"},
    {"to 95%", kReachMeaning},
    {"95%: min/trials (runs)", kReachMeaning},
    {"all/early/OOM", "trials, those terminated early and out of memory"},
    {"early", "trials terminated early"},
    {"OOM", "trials out of memory"},
    {"difference (points)",
     "mean difference of the share of the optimum in percentage points, with "
     "its bootstrap 95% interval over the units of the test"},
    {"p (Holm)",
     "Wilcoxon signed-rank test (exact for up to 50 pairs; zeros as Pratt), "
     "adjusted by Holm within the table"},
    {"rank-biserial", "matched-pairs rank-biserial correlation, -1 to 1"},
    {"superiority", "probability that the method is better, ties as a half"},
    {"pick (ms)", "the method's own time per suggestion"}};

}  // namespace

std::string Rounded(double value, int digits) {
  if (std::isnan(value)) {
    return "";
  }
  if (std::isinf(value)) {
    return "-";
  }
  const int before =
      value == 0.0 ? 1 : static_cast<int>(std::floor(std::log10(value))) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(digits - before, 0, 6));
}

Table WideTable(const std::vector<MethodSummary>& methods, int repeats,
                const trials::Valuation& valuation) {
  const int decimals = Decimals(methods);
  return TableOf(
      methods,
      {kMethod,
       kRuns,
       {valuation.quantity(), Throughput(decimals, repeats != 1)},
       {"halfway",
        [&](const auto& s) {
          return std::isnan(s.throughput_halfway)
                     ? std::string()
                     : fmt::format("{:.{}f}", s.throughput_halfway, decimals);
        }},
       kMean,
       {"median (%)",
        [](const auto& s) {
          return Interval(s.shares[kEnd].median, 100.0, 1);
        }},
       {"quartiles (%)",
        [&](const auto& s) {
          const Share& end = s.shares[kEnd];
          return repeats == 1 || std::isnan(end.q1)
                     ? std::string()
                     : Percent(end.q1) + ", " + Percent(end.q3);
        }},
       {"after 1", [](const auto& s) { return After(s, 0); }},
       {"after 3", [](const auto& s) { return After(s, 1); }},
       {"after 5", [](const auto& s) { return After(s, 2); }},
       {"after 10", [](const auto& s) { return After(s, 3); }},
       {"after 20", [](const auto& s) { return After(s, 4); }},
       {"95%: min/trials (runs)",
        [](const auto& s) { return ReachText(s.reach_95); }},
       {"99%: min/trials (runs)",
        [](const auto& s) { return ReachText(s.reach_99); }},
       {"trials", [](const auto& s) { return Rounded(s.trials, 2); }},
       {"early", [](const auto& s) { return Rounded(s.terminated_early, 2); }},
       {"OOM", [](const auto& s) { return Rounded(s.out_of_memory, 2); }},
       kThinking});
}

Table NarrowTable(const std::vector<MethodSummary>& methods, int repeats,
                  const trials::Valuation& valuation) {
  const bool ratios = std::any_of(
      methods.begin(), methods.end(),
      [](const auto& s) { return !std::isnan(s.shares[kEnd].mean.value); });
  const Cell after = [](const MethodSummary& s) -> std::string {
    return After(s, 2).empty() ? "" : After(s, 2) + " " + After(s, 3);
  };
  const Cell counts = [](const MethodSummary& s) -> std::string {
    return std::isnan(s.trials)
               ? ""
               : fmt::format("{:g}/{:g}/{:g}", std::round(10 * s.trials) / 10,
                             std::round(10 * s.terminated_early) / 10,
                             std::round(10 * s.out_of_memory) / 10);
  };
  return TableOf(
      methods,
      {kMethod,
       kRuns,
       {valuation.unit(),
        Throughput(Decimals(methods), !ratios && repeats != 1)},
       kMean,
       {"median",
        [](const auto& s) { return Percent(s.shares[kEnd].median.value); }},
       {"at 5, 10", after},
       {"to 95%", [](const auto& s) { return ReachText(s.reach_95); }},
       {"all/early/OOM", counts},
       kThinking});
}

std::string Interval(const common::Estimate& estimate, double scale,
                     int decimals) {
  return WithLimits(estimate.value, estimate.low, estimate.high, scale,
                    decimals);
}

std::string_view MeaningOf(std::string_view header) {
  for (const auto& [known, meaning] : kMeanings) {
    if (known == header) {
      return meaning;
    }
  }
  return "";
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
