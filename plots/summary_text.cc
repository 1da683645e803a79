#include "plots/summary_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "plots/table.h"

namespace plots {
namespace {

// Who reads a text: a document has a column for every number; a terminal has
// room for 120 characters.
enum class Reader { kDocument, kTerminal };

// What the cells of a table have in common.
struct View {
  trials::Valuation valuation;
  Reader reader = Reader::kDocument;
  int repeats = 1;
  int decimals = 3;     // of a throughput
  bool ratios = false;  // there is a share of the optimum
  [[nodiscard]] bool terminal() const { return reader == Reader::kTerminal; }
};

// A method on a problem, or on average.
struct SummaryLine {
  MethodSummary method;
  trials::ProblemInfo info;
};

Cell Percent(double ratio) { return Fixed(ratio, 1, 100.0); }

Cell Runs(const MethodSummary& s) {
  return s.finished == s.repeats
             ? Cell(s.runs)
             : Figures(fmt::format("{}/{}", s.finished, s.repeats));
}

// A median with its quartiles, or on a terminal that has the ratio, too,
// without; "none" where no run has an incumbent.
Cell Throughput(const MethodSummary& s, const View& view) {
  const common::Quartiles& q = s.throughput;
  const bool quartiles = view.repeats != 1 && !(view.terminal() && view.ratios);
  const Cell shown = Interval({.value = q.median,
                               .low = quartiles ? q.q1 : trials::kUnknown,
                               .high = q.q3},
                              view.decimals);
  const bool none = s.best_config.empty() && q.q3 == 0.0;
  return {none ? "none" : shown.text, q.median};
}

// "3.2/8 (10)": minutes, trials, runs.
Cell To(const Reach& to) {
  return Figures(std::isnan(to.time_s)
                     ? ""
                     : fmt::format("{}/{} ({})",
                                   Rounded(to.time_s, 2, 1.0 / 60.0).text,
                                   Rounded(to.trials, 2).text, to.runs));
}

Cell Counts(const MethodSummary& s) {
  const auto tenths = [](double count) { return std::round(10 * count) / 10; };
  return Figures(std::isnan(s.trials)
                     ? ""
                     : fmt::format("{:g}/{:g}/{:g}", tenths(s.trials),
                                   tenths(s.terminated_early),
                                   tenths(s.out_of_memory)));
}

// The checkpoints before the end; a terminal has one column for two of them.
void AddCheckpoints(const MethodSummary& s, const View& view, Row& row) {
  for (std::size_t c = 0; c < kEnd; ++c) {
    const std::string count = CheckpointName(c);
    const bool shares_column = view.terminal() && count == "10";
    const double value = s.shares[c].mean.value;
    Cell mean = Interval(s.shares[c].mean, 1, 100.0);
    mean.text = Percent(value).text;
    if (shares_column && !std::isnan(value)) {
      mean.text = Percent(s.shares[c - 1].mean.value).text + " " + mean.text;
    }
    row.emplace_back("ratio_after_" + count + "_mean",
                     shares_column     ? "at 5, 10"
                     : view.terminal() ? ""
                                       : "after " + count,
                     mean,
                     shares_column ? "mean of the same after 5 and 10 trials"
                     : count == "1"
                         ? "mean of the same after 1 trial, and so on"
                         : "");
    row.emplace_back("ratio_after_" + count + "_median", "",
                     s.shares[c].median.value);
  }
}

// All columns, for programs and for people. A terminal has room for 120
// characters, so that it has fewer.
Row RowOf(const SummaryLine& line, const View& view) {
  const MethodSummary& s = line.method;
  const Share& end = s.shares[kEnd];
  const std::string per(view.valuation.names().column);
  const auto title = [&](const char* document, const char* terminal = "") {
    return std::string(view.terminal() ? terminal : document);
  };
  const std::string reach_meaning =
      "minutes/trials until it reaches 95% of the optimum (runs that do); - "
      "unless more than half of the runs do";
  Row row = {
      {"problem", "", s.problem},
      {"method", "", s.method},
      {"label", "method", s.label},
      {"family", "", s.family},
      {"repeats", "", s.repeats},
      {"runs", "", s.runs},
      {"", "runs", Runs(s)},
      {"finished", "", s.finished},
      {"throughput_median" + per,
       std::string(view.terminal() ? view.valuation.unit()
                                   : view.valuation.quantity()),
       Throughput(s, view), std::string(view.valuation.names().measured)},
      {"throughput_q1" + per, "", s.throughput.q1},
      {"throughput_q3" + per, "", s.throughput.q3},
      {"throughput_halfway" + per, title("halfway"),
       Fixed(s.throughput_halfway, view.decimals),
       "throughput after half of the search time"},
      {"ratio_mean", "of optimum (%)", Interval(end.mean, 1, 100.0),
       "noise-free throughput of the configuration returned over that of the "
       "best of all, mean over repeats"},
      {"ratio_median", title("median (%)"), Interval(end.median, 1, 100.0),
       "median of the same"},
      {"", title("", "median"), Percent(end.median.value),
       "median of the same"},
      {"ratio_q1", "", end.q1},
      {"ratio_q3", "", end.q3},
      {"", title("quartiles (%)"),
       Figures(view.repeats == 1 || std::isnan(end.q1)
                   ? ""
                   : Percent(end.q1).text + ", " + Percent(end.q3).text),
       "its quartiles over repeats"}};
  AddCheckpoints(s, view, row);
  for (const auto& [percent, to] :
       {std::pair("95", s.reach_95), {"99", s.reach_99}}) {
    row.emplace_back(fmt::format("time_to_{}_s", percent), "", to.time_s);
    row.emplace_back(fmt::format("trials_to_{}", percent), "", to.trials);
    row.emplace_back(fmt::format("runs_to_{}", percent), "", to.runs);
  }
  const Row rest = {
      {"", title("95%: min/trials (runs)", "to 95%"), To(s.reach_95),
       reach_meaning},
      {"", title("99%: min/trials (runs)"), To(s.reach_99)},
      {"", title("", "all/early/OOM"), Counts(s),
       "trials, those terminated early and out of memory"},
      {"trials", title("trials"), Rounded(s.trials, 2)},
      {"terminated_early", title("early"), Rounded(s.terminated_early, 2),
       "trials terminated early"},
      {"out_of_memory", title("OOM"), Rounded(s.out_of_memory, 2),
       "trials out of memory"},
      {"thinking_s_per_trial", "pick (ms)", Rounded(s.thinking_s, 2, 1000.0),
       "the method's own time per suggestion"},
      {"best" + per, "", s.best_steps_per_s},
      {"best_config", "", s.best_config},
      {"optimum" + per, "", line.info.optimum_steps_per_s},
      {"optimum_config", "", line.info.optimum_config},
      {"backend", "", line.info.backend}};
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
Table MethodTable(const std::vector<MethodSummary>& methods, View view) {
  view.decimals = Decimals(methods);
  view.ratios = std::any_of(methods.begin(), methods.end(), [](const auto& s) {
    return !std::isnan(s.shares[kEnd].mean.value);
  });
  Table table = TableOf(methods, [&](const MethodSummary& s) {
    return RowOf(SummaryLine{s, {}}, view);
  });
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

// The optimum, and the best configuration of each method.
Table ConfigTable(const ProblemSummary& problem) {
  const bool exact = std::any_of(problem.methods.begin(), problem.methods.end(),
                                 [](const auto& s) { return s.best_is_exact; });
  Table table;
  const auto add = [&](const std::string& name, double value,
                       const std::string& config) {
    table.Add({{"best configuration", name},
               {fmt::format("{}{}", exact ? "noise-free " : "",
                            problem.info.valuation().unit()),
                Rounded(value, 4)},
               {"configuration", config}});
  };
  if (problem.info.optimum_steps_per_s > 0.0) {
    add("exhaustive optimum", problem.info.optimum_steps_per_s,
        problem.info.optimum_config);
  }
  for (const MethodSummary& s : problem.methods) {
    if (!s.best_config.empty()) {
      add(s.label, s.best_steps_per_s, s.best_config);
    }
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

// A line if there are runs, but no trial of them completed.
std::string NothingRan(const ProblemSummary& problem) {
  bool any_run = false;
  for (const MethodSummary& s : problem.methods) {
    any_run = any_run || s.runs > 0;
    if (!s.best_config.empty()) {
      return "";
    }
  }
  return any_run ? "no configuration ran: no trial completed\n" : "";
}

std::string BestFound(const ProblemSummary& problem) {
  const auto best =
      std::max_element(problem.methods.begin(), problem.methods.end(),
                       [](const MethodSummary& a, const MethodSummary& b) {
                         return std::isnan(a.best_steps_per_s) ||
                                a.best_steps_per_s < b.best_steps_per_s;
                       });
  if (best == problem.methods.end() || best->best_config.empty()) {
    return NothingRan(problem);
  }
  return fmt::format("best found, {}: {} {}: {} ({})\n",
                     best->best_is_exact ? "noise-free" : "measured",
                     Rounded(best->best_steps_per_s, 4).text,
                     problem.info.valuation().unit(), best->best_config,
                     best->label);
}

std::string Lines(const std::string& legend) {
  constexpr std::size_t kWidth = 116;
  return fmt::format("{}\n", fmt::join(Wrap(legend, kWidth), "\n"));
}

std::string MeanTitle(const MeanSummary& mean,
                      const trials::ExperimentInfo& info) {
  const std::string half =
      mean.name == "(mean)" ? "" : mean.name.substr(sizeof("(mean"));
  return fmt::format(
      "Mean over {} of {} problems{}, {} repeat{}", mean.problems.size(),
      info.problems.size(),
      half.empty() ? "" : ": " + half.substr(0, half.size() - 1) + " half",
      info.repeats, info.repeats == 1 ? "" : "s");
}

// Which problems are held out, if any; a line.
std::string Halves(const trials::ExperimentInfo& info) {
  if (!info.held_out.has_value()) {
    return "";
  }
  if (!RunsHeldOut(info)) {
    return fmt::format(
        "Development half: {} problems; {} held-out are left out.\n",
        info.problems.size(), info.held_out->size());
  }
  return fmt::format(
      "Held-out half, whose results must not be used to choose settings: {}.\n",
      fmt::join(*info.held_out, ", "));
}

// The parts of a summary for one reader.
class Document {
 public:
  Document(const Summary& summary, const std::vector<ComparisonSet>& sets,
           const trials::ExperimentInfo& info, Reader reader)
      : summary_(summary), sets_(sets), info_(info), reader_(reader) {
    if (info.repeats != 1) {
      legend_ =
          "[95% intervals] are bootstrap intervals over repeats within the "
          "problems shown.";
    }
  }

  std::string Text() {
    std::string text =
        Heading("#", info_.title.empty() ? info_.name : info_.title);
    const std::string halves = Halves(info_);
    text += halves + (halves.empty() || terminal() ? "" : "\n");
    for (const MeanSummary& mean : summary_.means) {
      text += Heading(
          "##",
          MeanTitle(mean, info_) +
              (terminal()
                   ? fmt::format(
                         " ({})",
                         BackendName(summary_.problems.front().info.backend))
                   : ""));
      text += (terminal() ? "\n" : "") + Methods(mean.methods);
      text += Comparisons(mean.name) + "\n";
    }
    if (!summary_.means.empty()) {
      text += Render(RatioTable(summary_)) + (terminal() ? "" : "\n");
    }
    if (summary_.means.empty() || !terminal()) {
      for (const ProblemSummary& problem : summary_.problems) {
        text += Problem(problem);
      }
    }
    return text + Lines(legend_);
  }

 private:
  [[nodiscard]] bool terminal() const { return reader_ == Reader::kTerminal; }

  [[nodiscard]] std::string Heading(std::string_view level,
                                    const std::string& title) const {
    return terminal() ? title + "\n" : fmt::format("{} {}\n\n", level, title);
  }

  // The table; the meaning of each of its columns is added to the legend once.
  std::string Render(const Table& table) {
    for (const Field& column : table.columns) {
      const std::string entry =
          fmt::format("{0}{1}{0}: {2}.", terminal() ? "" : "`", column.title,
                      column.meaning);
      if (!column.title.empty() && !column.meaning.empty() &&
          legend_.find(entry) == std::string::npos) {
        legend_ += (legend_.empty() ? "" : " ") + entry;
      }
    }
    return terminal() ? plots::ToText(table) : plots::ToMarkdown(table);
  }

  std::string Methods(const std::vector<MethodSummary>& methods) {
    return Render(MethodTable(methods, {.valuation = ValuationOf(summary_),
                                        .reader = reader_,
                                        .repeats = info_.repeats}));
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
        text += table.rows.empty() ? "" : "\n" + Render(table);
      }
      text += "\n" + Lines(Describe(set));
    }
    return text;
  }

  std::string Problem(const ProblemSummary& problem) {
    std::string text;
    if (!problem.info.name.empty()) {
      text += (terminal() ? "\n" : "") + Heading("##", problem.info.name);
    }
    text += Describe(problem) + "\n" + Methods(problem.methods);
    text += summary_.means.empty() ? Comparisons(problem.info.name) : "";
    if (terminal()) {
      return text + BestFound(problem);
    }
    const std::string nothing = NothingRan(problem);
    return text + "\n" +
           (nothing.empty() ? Render(ConfigTable(problem)) : nothing) + "\n";
  }

  const Summary& summary_;
  const std::vector<ComparisonSet>& sets_;
  const trials::ExperimentInfo& info_;
  Reader reader_;
  std::string legend_;
};

}  // namespace

std::string ToCsv(const Summary& summary) {
  std::vector<SummaryLine> lines;
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      lines.push_back({s, problem.info});
    }
  }
  for (const MeanSummary& mean : summary.means) {
    for (const MethodSummary& s : mean.methods) {
      lines.push_back({s, {}});
    }
  }
  const View view{.valuation = ValuationOf(summary)};
  return ToCsv(TableOf(
      lines, [&](const SummaryLine& line) { return RowOf(line, view); }));
}

std::string ToMarkdown(const Summary& summary,
                       const std::vector<ComparisonSet>& comparisons,
                       const trials::ExperimentInfo& info) {
  return Document(summary, comparisons, info, Reader::kDocument).Text();
}

std::string ToText(const Summary& summary,
                   const std::vector<ComparisonSet>& comparisons,
                   const trials::ExperimentInfo& info) {
  return Document(summary, comparisons, info, Reader::kTerminal).Text();
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
