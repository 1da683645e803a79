#include "plots/page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/secrets.h"
#include "common/text.h"
#include "common/units.h"
#include "plots/figure_files.h"
#include "plots/figures/panels.h"
#include "plots/page/assets.h"
#include "plots/pareto.h"
#include "trials/record_list.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

using trials::Outcome;
using trials::Trial;

// "dp=8" and so on, a part for each parameter of the configuration.
std::vector<std::string> ConfigParts(const Trial& trial) {
  const std::string label = trials::CandidateLabel(trial);
  const std::vector<std::string_view> parts = common::Split(label, ',');
  return {parts.begin(), parts.end()};
}

// "25%"; "" stays what it is.
Cell With(const std::string& unit, Cell number) {
  number.text += number.text.empty() ? "" : unit;
  return number;
}

// "12 s", "3.4 min"; "" if it is not known.
Cell Duration(double seconds) {
  return seconds < 90.0     ? With(" s", Rounded(seconds, 3))
         : seconds < 5400.0 ? With(" min", Rounded(seconds, 3, 1.0 / 60.0))
                            : With(" h", Rounded(seconds, 3, 1.0 / 3600.0));
}

// The free share of a GPU's memory; NaN if it is not known.
double Headroom(const PageRun& run, const Trial& trial) {
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return capacity && trial.measurement.peak_memory_bytes
             ? 1.0 - *trial.measurement.peak_memory_bytes / *capacity
             : trials::kUnknown;
}

Figure FigureOf(const PageRun& run) {
  const trials::ExperimentInfo& info = run.experiment.info;
  Figure figure{
      .name = "search",
      .title = info.title.empty() ? info.name : info.title,
      .panels = {TrialPanel(run.trials, run.problem->info, run.predictions,
                            run.finals.is_null() ? -1 : run.best)}};
  figure.caption = figure.panels.front().note;
  Panel memory = MemoryPanel(run.trials, run.problem->info);
  const bool any_known = std::ranges::any_of(memory.series, [](const auto& s) {
    return std::ranges::any_of(
        s.band.y, [](const auto& y) { return !std::isnan(y.median); });
  });
  if (any_known) {
    figure.panels.push_back(std::move(memory));
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

// Why the present configuration is not the reference of speed-ups; "" if it is,
// or if it is unknown.
std::string PresentThatFailed(const PageRun& run) {
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

// The result of repeated measurements.
std::string FinalCards(const common::Json& finals) {
  const bool keep = finals["config"] == kYours;
  const double step_s = finals["step_time_s"].get<double>();
  std::string cards =
      Card(keep ? "Yours, measured again" : "Best, measured again",
           Rounded(step_s, 4).text + " <small>s per step</small>",
           fmt::format("{} tokens/s, {} steps",
                       common::Thousands(finals["tokens_per_s"].get<double>()),
                       finals["steps"].get<int>()),
           " lead");
  if (finals.contains("speed_up")) {
    const common::Json& speed = finals["speed_up"];
    const double p = speed["p"].get<double>();
    cards += Card(
        keep ? "Speed-up of the best other" : "Speed-up",
        fmt::format("{:.2f}×", speed["value"].get<double>()),
        fmt::format("[{:.2f}, {:.2f}] over yours, {}{}",
                    speed["low"].get<double>(), speed["high"].get<double>(),
                    p < 0.001 ? "p &lt; 0.001" : fmt::format("p = {:.2g}", p),
                    keep ? ": keep yours" : ""));
  }
  if (finals.contains("loss") && finals["loss"]["moved"].get<bool>()) {
    const common::Json& loss = finals["loss"];
    cards += Card(
        "Changes more than speed",
        fmt::format("loss {:.4g}", loss["value"].get<double>()),
        fmt::format("yours {:.4g}, mean of {} steps, noise {:.1g}",
                    loss["present"].get<double>(), loss["steps"].get<int>(),
                    loss["noise"].get<double>()));
  }
  return cards;
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
      fmt::format("{} per step{}, trial {}", Duration(1.0 / rate).text,
                  tokens ? fmt::format(", {} tokens/s",
                                       common::Thousands(*tokens * rate))
                         : "",
                  run.Best().number),
      " lead");
}

std::string SpeedUpCard(const PageRun& run) {
  const bool is_present = run.First().chosen_by == trials::ChosenBy::kGiven;
  const std::string reference =
      is_present ? "the present configuration"
                 : "the first configuration that ran" + PresentThatFailed(run);
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
  return text.empty() ? "what all have" : text;
}

// One speed-up of a configuration: where some were measured again, of those
// alone.
double SpeedUpIn(const PageRun& run, const Trial& trial) {
  if (run.again.empty()) {
    return run.first >= 0 && trial.HasThroughput()
               ? SpeedUpOf(trial, run.First()).value
               : trials::kUnknown;
  }
  const std::string label = trials::CandidateLabel(trial);
  for (const MeasuredAgain& one : run.again) {
    if (one.config == label || (one.config == kYours && run.first >= 0 &&
                                label == trials::CandidateLabel(run.First()))) {
      return one.speed_up;
    }
  }
  return trials::kUnknown;
}

// What was measured again, fastest first.
Table RoundsTable(const PageRun& run) {
  std::vector<MeasuredAgain> ranked = run.again;
  std::ranges::stable_sort(ranked, {}, &MeasuredAgain::step_s);
  std::size_t rounds = 0;
  for (const MeasuredAgain& one : ranked) {
    rounds = std::max(rounds, one.rounds_s.size());
  }
  Table table;
  for (MeasuredAgain& one : ranked) {
    one.rounds_s.resize(rounds, trials::kUnknown);
    Row row = {{"Configuration", one.config}};
    std::size_t failed = 0;
    for (std::size_t i = 0; i < rounds; ++i) {
      const std::string name = fmt::format("Round {} (s)", i + 1);
      if (std::isnan(one.rounds_s[i]) && failed < one.failures.size()) {
        row.emplace_back(name, OutcomeWords(one.failures[failed++]));
      } else {
        row.emplace_back(name, Rounded(one.rounds_s[i], 4));
      }
    }
    row.emplace_back("All steps (s)", Rounded(one.step_s, 4));
    row.emplace_back("Speed-up", With("×", Fixed(one.speed_up, 2)));
    for (Field& field : row) {
      field.cell.style = one.config == run.finals["config"] ? "best" : "";
    }
    row.front().cell.style += " cfg";
    table.Add(std::move(row));
  }
  return table;
}

// The i-th trial of the run.
Row RowOf(const PageRun& run, std::size_t i,
          const std::set<std::string>& fixed) {
  const Trial& trial = run.trials[i];
  const auto& measured = trial.measurement;
  const common::Quartiles& predicted = run.predictions[i];
  const double rate =
      trial.HasThroughput() ? trial.throughput.steps_per_s : trials::kUnknown;
  Row row = {
      {"#", trial.number},
      {"Outcome", OutcomeWords(measured.outcome)},
      {std::string(run.problem->info.valuation().unit()), Rounded(rate, 4)},
      {"Speed-up", With("×", Fixed(SpeedUpIn(run, trial), 2))},
      {"Predicted (95%)",
       With(" ± " + Rounded(predicted.q3 - predicted.median, 2).text,
            Rounded(predicted.median, 3))},
      {"Peak GB", Rounded(measured.peak_memory_bytes.value_or(trials::kUnknown),
                          3, 1.0 / common::kGiga)},
      {"Free", With("%", Fixed(Headroom(run, trial), 0, 100.0))},
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

// Throughput and memory of each trial as an inline SVG, by the same code as the
// figures of a report, which writes search.{svg,csv,gp} into `folder`; or a
// paragraph with the reason why there is none.
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

// The numbers at the top of the page.
std::string PageCards(const PageRun& run) {
  std::string cards;
  if (run.best >= 0) {
    cards += (run.finals.is_null() ? BestCard(run) + SpeedUpCard(run)
                                   : FinalCards(run.finals)) +
             MemoryCard(run);
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
      common::Contains(std::array{"simulator", "replay"},
                       run.problem->info.backend)
          ? "on a virtual clock"
          : "on the machine");
  return "<div class=\"cards\">" + cards + "</div>\n";
}

// The trials, whose columns the page's script sorts; "" without any.
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

class Page {
 public:
  Page(const PageRun& run, const PageOptions& options, fs::path figures)
      : run_(run), options_(options), figures_(std::move(figures)) {}

  std::string Html() {
    const std::string title = EscapeHtml(run_.experiment.info.title);
    std::string html = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\">"
        "<title>{}</title>{}<style>{}</style></head><body{}><main>",
        title,
        run_.info.finished ? ""
                           : "<noscript><meta http-equiv=\"refresh\" "
                             "content=\"5\"></noscript>",
        kPageStyle, run_.info.finished ? "" : " data-live");
    html += Header(title) + NothingRan() + PageCards(run_) + Recommendation() +
            Rounds() + Figures() + Front() +
            Section("Trials", TrialTable(run_)) + Learned() + Provenance();
    return html + fmt::format("</main><script>{}</script></body></html>\n",
                              kPageScript);
  }

 private:
  static std::string Section(const std::string& heading,
                             const std::string& content,
                             const std::string& attributes = "") {
    return content.empty() ? ""
                           : fmt::format("<section{}><h2>{}</h2>{}</section>\n",
                                         attributes, heading, content);
  }

  static std::string Scrolling(const Table& table) {
    return "<div class=\"scroll\">" + ToHtml(table) + "</div>";
  }

  [[nodiscard]] std::string Header(const std::string& title) const {
    const trials::ProblemInfo& info = run_.problem->info;
    const std::string state =
        run_.info.finished
            ? fmt::format(
                  "<span class=\"pill\">finished{}{}</span>",
                  run_.info.finish_reason == trials::FinishReason::kUnfinished
                      ? ""
                      : ": ",
                  ToString(run_.info.finish_reason))
            : "<span class=\"pill live\">running, reloads by itself</span>";
    return fmt::format(
        "<header><div><h1>{}</h1><p class=\"soft\">{}</p><p class=\"soft "
        "small\">{} on the backend {}{}{}, {} "
        "candidates</p></div>{}</header>\n",
        title, EscapeHtml(info.description), EscapeHtml(run_.method->label),
        EscapeHtml(info.backend), info.name.empty() ? "" : ", problem ",
        EscapeHtml(info.name), info.candidates, state);
  }

  // Why there is no result.
  [[nodiscard]] std::string NothingRan() const {
    if (run_.best >= 0 || run_.trials.empty()) {
      return "";
    }
    std::map<std::string, int> messages;
    for (const Trial& trial : run_.trials) {
      ++messages[OutcomeWords(trial.measurement.outcome) +
                 (trial.measurement.message.empty() ? "" : ": ") +
                 trial.measurement.message];
    }
    std::string list;
    for (const auto& [message, count] : messages) {
      list += fmt::format("<li>{} × {}</li>", count, EscapeHtml(message));
    }
    return Section("No configuration has completed", "<ul>" + list + "</ul>",
                   " class=\"warn\"");
  }

  // The best configuration; what differs from the first one is marked.
  [[nodiscard]] std::string Recommendation() const {
    if (run_.best < 0) {
      return "";
    }
    const std::vector<std::string> first = ConfigParts(run_.First());
    std::string chips;
    bool moved_any = false;
    for (const std::string& part : ConfigParts(run_.Best())) {
      const bool moved = !common::Contains(first, part);
      moved_any = moved_any || moved;
      chips += fmt::format("<li{}>{}</li>", moved ? " class=\"moved\"" : "",
                           EscapeHtml(part));
    }
    std::string content = "<ul class=\"config\">" + chips + "</ul>";
    if (!options_.command.empty()) {
      content += fmt::format(
          "<button class=\"copy\" id=\"copy\" type=\"button\">Copy</button>"
          "<p class=\"small soft\">Command line</p><pre "
          "id=\"command\">{}</pre>",
          EscapeHtml(options_.command));
    }
    if (moved_any) {
      content +=
          "<p class=\"small soft\">Outlined: different from the "
          "configuration that the speed-up refers to.</p>";
    }
    return Section(run_.finals.is_object() && run_.finals["config"] == kYours
                       ? "Keep your configuration"
                       : "Best configuration",
                   content);
  }

  [[nodiscard]] std::string Rounds() const {
    return run_.again.empty()
               ? ""
               : Section("Measured again",
                         Scrolling(RoundsTable(run_)) +
                             "<p class=\"small soft\">Mean step time of each "
                             "round, in which the configurations took turns. "
                             "These measurements decide, and speed-ups are "
                             "theirs.</p>");
  }

  [[nodiscard]] std::string Figures() const {
    return Section("Throughput and memory of each trial",
                   run_.trials.empty()
                       ? "<p class=\"soft\">No trial has ended yet.</p>"
                       : TrialFigure(run_, figures_));
  }

  // Step time and money, over all runs of the problem.
  [[nodiscard]] std::string Front() const {
    if (!HasParetoFront(run_.problem->info)) {
      return "";
    }
    return Section(std::string(trials::kCost.title),
                   Scrolling(ParetoTable({run_.problem, 1})) +
                       "<p class=\"small soft\">Over all runs of the "
                       "problem.</p>");
  }

  [[nodiscard]] std::string Learned() const {
    const Table learned =
        options_.learned ? options_.learned(run_.folder) : Table();
    if (learned.rows.empty()) {
      return "";
    }
    return Section("What the search learned",
                   Scrolling(learned) +
                       "<p class=\"small soft\">Effective numbers: "
                       "communication that overlaps with computation costs "
                       "nothing.</p>");
  }

  [[nodiscard]] std::string Provenance() const {
    const trials::RunInfo& info = run_.info;
    std::string list;
    const auto add = [&list](const char* name, const std::string& value) {
      if (!value.empty()) {
        list += fmt::format("<dt>{}</dt><dd>{}</dd>", name, EscapeHtml(value));
      }
    };
    add("Run", fmt::format("{}, repeat {}", info.method, info.repeat));
    add("Manifest", info.manifest);
    add("Command", info.command);
    if ((info.command + options_.command).find(common::kHidden) !=
        std::string::npos) {
      add("Hidden", fmt::format("{} is a word that looks like a key, a token "
                                "or a password; only best.sh has it",
                                common::kHidden));
    }
    add("Program", info.version);
    add("Commit", info.commit + (info.dirty ? " (modified)" : ""));
    add("Host", info.host);
    add("Input hash", info.manifest_hash);
    for (const trials::AcceptedChange& change :
         info.accepted.value_or(std::vector<trials::AcceptedChange>())) {
      add("Changed", fmt::format("after trial {}: {}", change.after_trial,
                                 fmt::join(change.changes, "; ")));
    }
    for (const std::string& failure : run_.experiment.failures) {
      add("Problem", failure);
    }
    return Section("Provenance", "<dl>" + list + "</dl>");
  }

  const PageRun& run_;
  const PageOptions& options_;
  fs::path figures_;  // the folder
};

}  // namespace

fs::path WritePage(const fs::path& experiment_folder,
                   const PageOptions& options) {
  common::GuardFolder(experiment_folder.parent_path());
  common::RemoveAbandoned(experiment_folder);
  PageOptions complete = options;
  if (complete.command.empty()) {
    const auto script = common::ReadFileIfExists(experiment_folder / "best.sh");
    // One that was edited is not what was measured.
    if (script &&
        trials::RecordList(experiment_folder).Allows("best.sh", *script)) {
      complete.command = common::WithoutSecrets(*script);
    }
  }
  fs::path path = experiment_folder / "page.html";
  const PageRun run = LoadPageRun(experiment_folder, complete);
  common::StoreFile(path,
                    Page(run, complete, experiment_folder / "figures").Html());
  return path;
}

}  // namespace plots
