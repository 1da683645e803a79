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
  return fmt::format("{}/{} ({})",
                     Rounded(reach.time_s / 60.0, 2),
                     Rounded(reach.trials, 2),
                     reach.runs);
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
                   2 - static_cast<int>(std::floor(std::log10(smallest))),
                   0,
                   6);
}

using Cell = std::function<std::string(const MethodSummary&)>;

struct Column {
  std::string_view header;
  Cell cell;
  std::string_view meaning;  // "": needs no explanation
};

// One row per method; a column that is empty throughout is left out.
SummaryTable TableOf(const std::vector<MethodSummary>& methods,
                     const std::vector<Column>& columns) {
  SummaryTable result;
  result.table.rows.resize(methods.size());
  for (const auto& [header, cell, meaning] : columns) {
    std::vector<std::string> cells;
    std::transform(
        methods.begin(), methods.end(), std::back_inserter(cells), cell);
    if (std::all_of(cells.begin(), cells.end(), [](const std::string& text) {
          return text.empty();
        })) {
      continue;
    }
    result.table.header.emplace_back(header);
    if (!meaning.empty()) {
      result.legend.push_back({std::string(header), std::string(meaning)});
    }
    for (std::size_t r = 0; r < cells.size(); ++r) {
      result.table.rows[r].push_back(std::move(cells[r]));
    }
  }
  return result;
}

// The columns of one table: they depend on what all methods have.
class Columns {
 public:
  Columns(const std::vector<MethodSummary>& methods, int repeats)
      : quartiles_(repeats != 1),
        decimals_(Decimals(methods)),
        has_ratios_(std::any_of(
            methods.begin(),
            methods.end(),
            [](const auto& s) { return !std::isnan(s.ratio.median); })),
        some_unfinished_(
            std::any_of(methods.begin(), methods.end(), [](const auto& s) {
              return s.finished != s.repeats;
            })) {}

  [[nodiscard]] static Column Method() {
    return {"method", [](const auto& s) { return s.label; }, ""};
  }

  [[nodiscard]] Column Finished() const {
    return {
        "runs",
        Runs,
        some_unfinished_ ? "finished/requested while some are unfinished" : ""};
  }

  // The quartiles only where there is no ratio, if `brief`.
  [[nodiscard]] Column Throughput(std::string_view header, bool brief) const {
    const bool quartiles = quartiles_ && !(brief && has_ratios_);
    return {header,
            [*this, quartiles](const MethodSummary& s) -> std::string {
              const bool none = s.best_config.empty() && s.throughput.q3 == 0.0;
              return none ? "none"
                          : Spread(s.throughput, 1.0, decimals_, quartiles);
            },
            has_ratios_ ? "measured throughput of the best configuration, with "
                          "noise: it can exceed the noise-free optimum; 0 for "
                          "a run without a completed trial"
                        : "measured throughput of the best configuration; 0 "
                          "for a run without a completed trial"};
  }

  [[nodiscard]] Column Halfway() const {
    return {"halfway",
            [*this](const MethodSummary& s) -> std::string {
              return std::isnan(s.throughput_halfway)
                         ? ""
                         : fmt::format(
                               "{:.{}f}", s.throughput_halfway, decimals_);
            },
            "throughput after half of the search time"};
  }

  [[nodiscard]] Column Ratio() const {
    constexpr int kDecimals = 1;
    return {"of optimum (%)",
            [*this](const auto& s) {
              return Spread(s.ratio, 100.0, kDecimals, quartiles_);
            },
            "noise-free throughput of the configuration returned over that of "
            "the best of all"};
  }

  [[nodiscard]] static Column Thinking() {
    return {"pick (ms)",
            [](const auto& s) { return Rounded(1e3 * s.thinking_s, 2); },
            "the method's own time per suggestion"};
  }

 private:
  static std::string Spread(const common::Quartiles& q,
                            double scale,
                            int decimals,
                            bool quartiles) {
    if (std::isnan(q.median)) {
      return "";
    }
    const std::string median =
        fmt::format("{:.{}f}", scale * q.median, decimals);
    return quartiles ? fmt::format("{} [{:.{}f}, {:.{}f}]",
                                   median,
                                   scale * q.q1,
                                   decimals,
                                   scale * q.q3,
                                   decimals)
                     : median;
  }

  bool quartiles_;
  int decimals_;
  bool has_ratios_;
  bool some_unfinished_;
};

constexpr std::string_view kReachMeaning =
    "minutes/trials until it reaches 95% of the optimum (runs that do); - "
    "unless more than half of the runs do";

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

SummaryTable WideTable(const std::vector<MethodSummary>& methods, int repeats) {
  const Columns columns(methods, repeats);
  return TableOf(
      methods,
      {Columns::Method(),
       columns.Finished(),
       columns.Throughput("throughput (steps/s)", false),
       columns.Halfway(),
       columns.Ratio(),
       {"after 10",
        [](const auto& s) { return Percent(s.ratio_after_10); },
        "`of optimum` after 10 trials"},
       {"after 20",
        [](const auto& s) { return Percent(s.ratio_after_20); },
        ""},
       {"95%: min/trials (runs)",
        [](const auto& s) { return ReachText(s.reach_95); },
        kReachMeaning},
       {"99%: min/trials (runs)",
        [](const auto& s) { return ReachText(s.reach_99); },
        ""},
       {"trials", [](const auto& s) { return Rounded(s.trials, 2); }, ""},
       {"early",
        [](const auto& s) { return Rounded(s.terminated_early, 2); },
        "trials terminated early"},
       {"OOM",
        [](const auto& s) { return Rounded(s.out_of_memory, 2); },
        "trials out of memory"},
       Columns::Thinking()});
}

SummaryTable NarrowTable(const std::vector<MethodSummary>& methods,
                         int repeats) {
  const Columns columns(methods, repeats);
  const Cell after = [](const MethodSummary& s) -> std::string {
    return std::isnan(s.ratio_after_10)
               ? ""
               : fmt::format("{} {}",
                             Percent(s.ratio_after_10),
                             Percent(s.ratio_after_20));
  };
  const Cell counts = [](const MethodSummary& s) -> std::string {
    return std::isnan(s.trials)
               ? ""
               : fmt::format("{:g}/{:g}/{:g}",
                             std::round(10 * s.trials) / 10,
                             std::round(10 * s.terminated_early) / 10,
                             std::round(10 * s.out_of_memory) / 10);
  };
  return TableOf(
      methods,
      {Columns::Method(),
       columns.Finished(),
       columns.Throughput("steps/s", true),
       columns.Ratio(),
       {"at 10, 20", after, "the same after 10 and 20 trials"},
       {"to 95%",
        [](const auto& s) { return ReachText(s.reach_95); },
        kReachMeaning},
       {"to 99%", [](const auto& s) { return ReachText(s.reach_99); }, ""},
       {"trials", counts, "all/terminated early/out of memory"},
       Columns::Thinking()});
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
      row.push_back(Percent(s.ratio.median));
    }
  }
  return table;
}

Table ConfigTable(const ProblemSummary& problem) {
  const bool exact = std::any_of(problem.methods.begin(),
                                 problem.methods.end(),
                                 [](const auto& s) { return s.best_is_exact; });
  Table table{.header = {"best configuration",
                         exact ? "noise-free steps/s" : "steps/s",
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
