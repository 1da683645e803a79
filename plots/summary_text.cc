#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "plots/comparison.h"
#include "plots/summary.h"
#include "plots/table.h"

namespace plots {
namespace {

// What the cells of a table have in common.
struct View {
  trials::Valuation valuation;
  int repeats = 1;
  int decimals = 3;     // of a throughput
  bool ratios = false;  // there is a share of the optimum
};

Cell Percent(double ratio) { return Fixed(ratio, 1, 100.0); }

Cell Runs(const MethodSummary& s) {
  return s.finished == s.repeats
             ? Cell(s.runs)
             : Figures(fmt::format("{}/{}", s.finished, s.repeats));
}

// A median, and its quartiles where there is room; "none" where no run has an
// incumbent.
Cell Throughput(const MethodSummary& s, const View& view) {
  const common::Quartiles& q = s.throughput;
  const bool quartiles = view.repeats != 1 && !view.ratios;
  const Cell shown = Interval({.value = q.median,
                               .low = quartiles ? q.q1 : trials::kUnknown,
                               .high = q.q3},
                              view.decimals);
  const bool none = s.best_config.empty() && q.q3 == 0.0;
  return {none ? "none" : shown.text, q.median};
}

// "25.0 48.7": after 5 and 10 trials.
Cell Checkpoints(const MethodSummary& s) {
  constexpr std::size_t kAfter5 = 2;
  static_assert(kCheckpoints[kAfter5] == 5 && kCheckpoints[kAfter5 + 1] == 10);
  const double after_10 = s.shares[kAfter5 + 1].mean.value;
  return Figures(std::isnan(after_10)
                     ? ""
                     : Percent(s.shares[kAfter5].mean.value).text + " " +
                           Percent(after_10).text);
}

// A median of counts.
Cell Tenths(double count) {
  return {
      std::isnan(count) ? "" : fmt::format("{:g}", std::round(10 * count) / 10),
      count};
}

// All columns for programs, and for people as many as a terminal of 120
// characters has room for.
Row RowOf(const MethodSummary& s, const trials::ProblemInfo& info,
          const View& view) {
  const Share& end = s.shares[kEnd];
  const std::string per(view.valuation.names().column);
  Row row = {
      {"problem", "", s.problem},
      {"method", "", s.method},
      {"label", "method", s.label},
      {"family", "", s.family},
      {"repeats", "", s.repeats},
      {"runs", "", s.runs},
      {"", "runs", Runs(s)},
      {"finished", "", s.finished},
      {"throughput_median" + per, std::string(view.valuation.unit()),
       Throughput(s, view), std::string(view.valuation.names().measured)},
      {"throughput_q1" + per, "", s.throughput.q1},
      {"throughput_q3" + per, "", s.throughput.q3},
      {"throughput_halfway" + per, "", s.throughput_halfway},
      {"ratio_mean", "of optimum (%)", Interval(end.mean, 1, 100.0),
       "noise-free throughput of the result over that of the best of all, "
       "mean"},
      {"ratio_median", "", Interval(end.median, 1)},
      {"", "median", Percent(end.median.value)},
      {"ratio_q1", "", end.q1},
      {"ratio_q3", "", end.q3},
      {"", "after 5, 10", Checkpoints(s), "mean after so many trials"}};
  for (std::size_t c = 0; c < kEnd; ++c) {
    const std::string after = "ratio_after_" + CheckpointName(c);
    row.emplace_back(after + "_mean", "", Interval(s.shares[c].mean, 1));
    row.emplace_back(after + "_median", "", s.shares[c].median.value);
  }
  for (const auto& [percent, to] :
       {std::pair("95", s.reach_95), {"99", s.reach_99}}) {
    row.emplace_back(fmt::format("time_to_{}_s", percent), "", to.time_s);
    row.emplace_back(fmt::format("trials_to_{}", percent), "", to.trials);
    row.emplace_back(fmt::format("runs_to_{}", percent), "", to.runs);
  }
  const Row rest = {
      {"", "min to 95%", Rounded(s.reach_95.time_s, 2, 1.0 / 60.0),
       "minutes until 95%, median (-: most runs do not reach it)"},
      {"trials", "trials", Tenths(s.trials)},
      {"terminated_early", "early", Tenths(s.terminated_early),
       "trials stopped early"},
      {"out_of_memory", "OOM", Tenths(s.out_of_memory), "trials out of memory"},
      {"thinking_s_per_trial", "pick (ms)", Rounded(s.thinking_s, 2, 1000.0),
       "own time per trial"},
      {"best" + per, "", s.best_steps_per_s},
      {"best_config", "", s.best_config},
      {"optimum" + per, "", info.optimum_steps_per_s},
      {"optimum_config", "", info.optimum_config},
      {"backend", "", info.backend}};
  row.insert(row.end(), rest.begin(), rest.end());
  return row;
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

// A row per method, without the columns that are empty throughout.
Table MethodTable(const std::vector<MethodSummary>& methods,
                  const trials::Valuation& valuation, int repeats) {
  View view{.valuation = valuation,
            .repeats = repeats,
            .decimals = Decimals(methods)};
  view.ratios = std::ranges::any_of(methods, [](const auto& s) {
    return !std::isnan(s.shares[kEnd].mean.value);
  });
  Table table;
  for (const MethodSummary& s : methods) {
    table.Add(RowOf(s, {}, view));
  }
  table.HideEmpty();
  return table;
}

// Problems down, methods across: the mean share of the optimum.
Table RatioTable(const Summary& summary) {
  Table table;
  for (const ProblemSummary& problem : summary.problems) {
    Row row = {{"of optimum (%)", problem.info.name}};
    for (const MethodSummary& s : problem.methods) {
      row.emplace_back(s.label, Percent(s.shares[kEnd].mean.value));
    }
    table.Add(std::move(row));
  }
  return table;
}

// One or two lines about the problem itself.
std::string Describe(const ProblemSummary& problem) {
  const trials::ProblemInfo& info = problem.info;
  std::string text = fmt::format(
      "{}{}", info.description.empty() ? "" : info.description + "; ",
      BackendName(info.backend));
  text += fmt::format("; {} configurations", info.candidates);
  if (info.feasible >= 0) {
    text += fmt::format(", {} of them fit", info.feasible);
  }
  for (const std::string& source :
       info.predictions.value_or(std::vector<std::string>())) {
    text += fmt::format(";\npredictions: {}", source);
  }
  if (info.optimum_steps_per_s > 0.0) {
    text += fmt::format(";\nexhaustive optimum, noise-free: {} {}: {}",
                        Rounded(info.optimum_steps_per_s, 4).text,
                        info.valuation().unit(), info.optimum_config);
  }
  return text + "\n";
}

// The best configuration of all methods, and who found it, the best method
// first; or, if there are runs, that there is none.
std::string BestFound(const ProblemSummary& problem) {
  const MethodSummary* best = nullptr;
  bool any_run = false;
  int finders = 0;
  for (const MethodSummary& s : problem.methods) {
    any_run = any_run || s.runs > 0;
    if (s.best_config.empty()) {
      continue;
    }
    const bool same =
        best != nullptr && s.best_steps_per_s == best->best_steps_per_s;
    if (best == nullptr || s.best_steps_per_s > best->best_steps_per_s) {
      best = &s;
      finders = 1;
    } else if (same) {
      ++finders;
      best =
          s.shares[kEnd].mean.value > best->shares[kEnd].mean.value ? &s : best;
    }
  }
  if (best == nullptr) {
    return any_run ? "no configuration ran: no trial completed, and figures of "
                     "the throughput are not drawn\n\n"
                   : "";
  }
  return fmt::format(
      "best found, {}: {} {}: {} ({}{})\n\n",
      best->best_is_exact ? "noise-free" : "measured",
      Rounded(best->best_steps_per_s, 4).text, problem.info.valuation().unit(),
      best->best_config, best->label,
      finders == 1 ? "" : fmt::format(" and {} more", finders - 1));
}

std::string Lines(const std::string& legend) {
  constexpr std::size_t kWidth = 116;
  return fmt::format("{}\n", fmt::join(Wrap(legend, kWidth), "\n"));
}

std::string MeanTitle(const MeanSummary& mean, const Summary& summary,
                      const trials::ExperimentInfo& info) {
  return fmt::format(
      "Mean over {} of {} problems{}, {} repeat{} ({})", mean.problems.size(),
      info.problems.size(),
      mean.half.empty() ? "" : fmt::format(": {} half", mean.half),
      info.repeats, info.repeats == 1 ? "" : "s",
      BackendName(summary.problems.front().info.backend));
}

// Which problems are held out, if any; a paragraph.
std::string Halves(const trials::ExperimentInfo& info) {
  if (!info.held_out.has_value()) {
    return "";
  }
  if (!RunsHeldOut(info)) {
    return fmt::format(
        "Development half: {} problems; {} held-out are left out.\n\n",
        info.problems.size(), info.held_out->size());
  }
  return fmt::format(
      "Held-out half, whose results must not be used to choose settings: "
      "{}.\n\n",
      fmt::join(*info.held_out, ", "));
}

// The parts of a summary.
class Document {
 public:
  Document(const Summary& summary, const std::vector<ComparisonSet>& sets,
           const trials::ExperimentInfo& info, Form form)
      : summary_(summary), sets_(sets), info_(info), form_(form) {
    if (info.repeats != 1) {
      legend_ = "[95% intervals]: bootstrap over repeats within problems.";
    }
  }

  std::string Text() {
    std::string text =
        Heading("# ", info_.title.empty() ? info_.name : info_.title) +
        Halves(info_);
    for (const MeanSummary& mean : summary_.means) {
      text += Heading("## ", MeanTitle(mean, summary_, info_));
      text += Methods(mean.methods);
      text += Comparisons(mean.name);
    }
    if (!summary_.means.empty()) {
      text += Render(RatioTable(summary_));
    }
    if (summary_.means.empty() || form_ == Form::kMarkdown) {
      for (const ProblemSummary& problem : summary_.problems) {
        text += Problem(problem);
      }
    }
    return text + Lines(legend_);
  }

 private:
  [[nodiscard]] std::string Heading(std::string_view level,
                                    const std::string& title) const {
    return form_ == Form::kMarkdown
               ? fmt::format("{}{}\n\n", level, EscapeMarkdown(title))
               : title + "\n\n";
  }

  // The table; the meaning of each of its columns is added to the legend, once,
  // in the order of the calls.
  std::string Render(const Table& table) {
    const bool markdown = form_ == Form::kMarkdown;
    for (const Field& column : table.columns) {
      const std::string entry = fmt::format(
          "{0}{1}{0}: {2}.", markdown ? "`" : "", column.title, column.meaning);
      if (!column.title.empty() && !column.meaning.empty() &&
          legend_.find(entry) == std::string::npos) {
        legend_ += (legend_.empty() ? "" : " ") + entry;
      }
    }
    return (markdown ? ToMarkdown(table) : plots::ToText(table)) + "\n";
  }

  std::string Methods(const std::vector<MethodSummary>& methods) {
    return Render(MethodTable(methods, ValuationOf(summary_), info_.repeats));
  }

  // Comparisons with the reference at the end of the budget over one set of
  // problems.
  std::string Comparisons(std::string_view problems) {
    std::string text;
    for (const ComparisonSet& set : sets_) {
      if (set.checkpoint != kEnd || set.problems != problems) {
        continue;
      }
      for (const bool variants : {false, true}) {
        const Table table = ComparisonTable(set, variants);
        text += table.rows.empty() ? "" : Render(table);
      }
      text += Lines(Describe(set)) + "\n";
    }
    return text;
  }

  std::string Problem(const ProblemSummary& problem) {
    const std::string& name = problem.info.name;
    std::string text = name.empty() ? "" : Heading("## ", name);
    text += Describe(problem) + "\n";
    text += Methods(problem.methods);
    text += summary_.means.empty() ? Comparisons(name) : "";
    return text + BestFound(problem);
  }

  const Summary& summary_;
  const std::vector<ComparisonSet>& sets_;
  const trials::ExperimentInfo& info_;
  Form form_;
  std::string legend_;
};

}  // namespace

std::string ToCsv(const Summary& summary) {
  const View view{.valuation = ValuationOf(summary)};
  Table table{.columns = RowOf(MethodSummary{}, {}, view)};
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      table.Add(RowOf(s, problem.info, view));
    }
  }
  for (const MeanSummary& mean : summary.means) {
    for (const MethodSummary& s : mean.methods) {
      table.Add(RowOf(s, {}, view));
    }
  }
  return ToCsv(table);
}

std::string ToText(const Summary& summary,
                   const std::vector<ComparisonSet>& comparisons,
                   const trials::ExperimentInfo& info, Form form) {
  return Document(summary, comparisons, info, form).Text();
}

std::string BackendName(const std::string& backend) {
  if (backend == "simulator") {
    return "simulated cluster";
  }
  if (backend == "replay") {
    return "replayed measurements";
  }
  return backend.empty() ? "unknown backend" : "backend: " + backend;
}

}  // namespace plots
