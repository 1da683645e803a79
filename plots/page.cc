#include "plots/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "plots/page_parts.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

using trials::Outcome;
using trials::Trial;

constexpr double kGb = 1e9;
constexpr double kNormal95 = 1.96;

// "dp=8" and so on, a part for each knob.
std::vector<std::string> Parts(const Trial& trial) {
  std::vector<std::string> parts;
  const std::string label = CandidateLabel(trial);
  for (const std::string_view part : common::Split(label, ',')) {
    parts.emplace_back(part);
  }
  return parts;
}

std::string Duration(double seconds) {
  if (std::isnan(seconds)) {
    return "–";
  }
  return seconds < 90.0 ? fmt::format("{} s", PageNumber(seconds, 3))
         : seconds < 5400.0
             ? fmt::format("{} min", PageNumber(seconds / 60, 3))
             : fmt::format("{} h", PageNumber(seconds / 3600, 3));
}

// The free share of a GPU's memory in percent; NaN if it is not known.
double HeadroomPercent(const PageRun& run, const Trial& trial) {
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return capacity && trial.measurement.peak_memory_bytes
             ? 100.0 * (1.0 - *trial.measurement.peak_memory_bytes / *capacity)
             : trials::kUnknown;
}

std::string SpeedUpText(const SpeedUp& speed) {
  return fmt::format("{:.2f}×", speed.ratio);
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

class Page {
 public:
  Page(const PageRun& run, const PageOptions& options)
      : run_(run), options_(options) {}

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
        kPageStyle,
        run_.info.finished ? "" : " data-live");
    html += Header(title) + NothingRan() + Cards() + Recommendation() +
            Throughput() + Memory() + Table() + Learned() + Provenance();
    return html + fmt::format("</main><script>{}</script></body></html>\n",
                              kPageScript);
  }

 private:
  static std::string Section(const std::string& heading,
                             const std::string& content,
                             const std::string& attributes = "") {
    return content.empty() ? ""
                           : fmt::format("<section{}><h2>{}</h2>{}</section>\n",
                                         attributes,
                                         heading,
                                         content);
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
        title,
        EscapeHtml(info.description),
        EscapeHtml(run_.method->label),
        EscapeHtml(info.backend),
        info.name.empty() ? "" : ", problem ",
        EscapeHtml(info.name),
        info.candidates,
        state);
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
    return Section("No configuration has completed",
                   "<ul>" + list + "</ul>",
                   " class=\"warn\"");
  }

  static std::string Card(const std::string& name,
                          const std::string& value,
                          const std::string& note,
                          const char* style = "") {
    return fmt::format(
        "<div class=\"card{}\"><span class=\"name\">{}</span><b>{}</b>"
        "<span>{}</span></div>",
        style,
        name,
        value,
        note);
  }

  [[nodiscard]] std::string Cards() const {
    std::string cards;
    if (run_.best >= 0) {
      cards += BestCard() + SpeedUpCard() + MemoryCard();
    }
    std::map<Outcome, int> counts;
    for (const Trial& trial : run_.trials) {
      ++counts[trial.measurement.outcome];
    }
    std::string outcomes;
    for (const auto& [outcome, count] : counts) {
      outcomes += fmt::format("{}{} {}",
                              outcomes.empty() ? "" : ", ",
                              count,
                              OutcomeWords(outcome));
    }
    cards += Card("Trials", std::to_string(run_.trials.size()), outcomes);
    cards +=
        Card("Search time",
             Duration(run_.trials.empty() ? 0.0 : run_.trials.back().elapsed_s),
             run_.problem->info.backend == "command" ? "on the machine"
                                                     : "on a virtual clock");
    return "<div class=\"cards\">" + cards + "</div>\n";
  }

  [[nodiscard]] std::string BestCard() const {
    const double rate = run_.Best().throughput.steps_per_s;
    const auto& tokens = run_.problem->info.tokens_per_step;
    return Card("Best throughput",
                PageNumber(rate) + " <small>steps/s</small>",
                fmt::format("{} per step{}, trial {}",
                            Duration(1.0 / rate),
                            tokens ? fmt::format(", {} tokens/s",
                                                 Thousands(*tokens * rate))
                                   : "",
                            run_.Best().number),
                " lead");
  }

  [[nodiscard]] std::string SpeedUpCard() const {
    const bool given = run_.First().chosen_by == trials::ChosenBy::kGiven;
    const std::string reference =
        given ? "the present configuration"
              : "the first configuration that ran" + GivenThatFailed(run_);
    if (run_.first == run_.best) {
      return Card("Speed-up", "none", "over " + reference);
    }
    const SpeedUp speed = SpeedUpOf(run_.Best(), run_.First());
    return Card(
        "Speed-up",
        SpeedUpText(speed),
        fmt::format(
            "[{:.2f}, {:.2f}] over {}", speed.low, speed.high, reference));
  }

  [[nodiscard]] std::string MemoryCard() const {
    const auto& peak = run_.Best().measurement.peak_memory_bytes;
    if (!peak) {
      return "";
    }
    const double headroom = HeadroomPercent(run_, run_.Best());
    const auto& capacity = run_.problem->info.memory_capacity_bytes;
    return Card("Peak memory",
                PageNumber(*peak / kGb, 3) + " <small>GB</small>",
                std::isnan(headroom)
                    ? std::string("of a GPU")
                    : fmt::format("of {} GB, {:.0f}% free{}",
                                  PageNumber(*capacity / kGb, 3),
                                  headroom,
                                  headroom < 10.0 ? ": little to spare" : ""));
  }

  // The best configuration; what differs from the first one is marked.
  [[nodiscard]] std::string Recommendation() const {
    if (run_.best < 0) {
      return "";
    }
    const std::vector<std::string> first = Parts(run_.First());
    std::string chips;
    bool moved_any = false;
    for (const std::string& part : Parts(run_.Best())) {
      const bool moved =
          std::find(first.begin(), first.end(), part) == first.end();
      moved_any = moved_any || moved;
      chips += fmt::format(
          "<li{}>{}</li>", moved ? " class=\"moved\"" : "", EscapeHtml(part));
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
    return Section("Best configuration", content);
  }

  static std::string LegendItem(const std::string& mark,
                                const std::string& text) {
    return fmt::format(
        "<li><svg viewBox=\"0 0 18 14\" aria-hidden=\"true\">{}</svg>{}</li>",
        mark,
        text);
  }

  [[nodiscard]] std::string Legend() const {
    std::set<std::pair<Outcome, bool>> seen;
    std::string items;
    for (const Trial& trial : run_.trials) {
      const bool imported = trial.chosen_by == trials::ChosenBy::kImported;
      const Outcome outcome = trial.measurement.outcome;
      if (seen.insert({outcome, imported && outcome == Outcome::kCompleted})
              .second) {
        items += LegendItem(
            OutcomeMark(trial, 9, 7),
            OutcomeWords(outcome) + (imported && outcome == Outcome::kCompleted
                                         ? ", imported"
                                         : ""));
      }
    }
    if (run_.best >= 0) {
      items += LegendItem("<path class=\"inc\" d=\"M0 7H18\"/>", "best so far");
    }
    if (std::any_of(run_.predicted_steps_per_s.begin(),
                    run_.predicted_steps_per_s.end(),
                    [](double value) { return !std::isnan(value); })) {
      items += LegendItem("<path class=\"pred\" d=\"M9 0V14\"/>",
                          "predicted before the trial (95%)");
    }
    return "<ul class=\"legend\">" + items + "</ul>";
  }

  static std::string Chart(std::string (*draw)(const PageRun&, int),
                           const PageRun& run) {
    constexpr int kWide = 1000;
    constexpr int kNarrow = 380;
    const std::string wide = draw(run, kWide);
    return wide.empty() ? ""
                        : fmt::format(
                              "<figure><div class=\"wide\">{}</div><div "
                              "class=\"narrow\">{}</div></figure>",
                              wide,
                              draw(run, kNarrow));
  }

  [[nodiscard]] std::string Throughput() const {
    if (run_.trials.empty()) {
      return Section("Throughput of each trial",
                     "<p class=\"soft\">No trial has ended yet.</p>");
    }
    return Section("Throughput of each trial",
                   Legend() + Chart(ThroughputChart, run_) +
                       "<p class=\"small soft\">Trials without throughput are "
                       "below the axis.</p>");
  }

  [[nodiscard]] std::string Memory() const {
    return Section("Peak memory of a GPU", Chart(MemoryChart, run_));
  }

  // The knobs that differ between trials, as text; "fixed" gets the others.
  [[nodiscard]] std::string Varying(const Trial& trial) const {
    std::string text;
    for (const std::string& part : Parts(trial)) {
      if (!fixed_.contains(part)) {
        text += (text.empty() ? "" : ", ") + part;
      }
    }
    return text.empty() ? "as below" : text;
  }

  static std::string NumberCell(double value, const std::string& text) {
    return fmt::format("<td class=\"n\" data-v=\"{}\">{}</td>",
                       std::isnan(value) ? "" : common::ExactText(value),
                       text);
  }

  [[nodiscard]] std::string Row(const Trial& trial, std::size_t i) const {
    const auto& measured = trial.measurement;
    const double rate =
        trial.HasThroughput() ? trial.throughput.steps_per_s : trials::kUnknown;
    const double predicted = run_.predicted_steps_per_s[i];
    const double peak = measured.peak_memory_bytes.value_or(trials::kUnknown);
    const double headroom = HeadroomPercent(run_, trial);
    const double ratio = run_.first >= 0 && !std::isnan(rate)
                             ? SpeedUpOf(trial, run_.First()).ratio
                             : trials::kUnknown;
    std::string row = fmt::format(
        "<tr{}>", static_cast<int>(i) == run_.best ? " class=\"best\"" : "");
    row += NumberCell(trial.number, std::to_string(trial.number));
    row += fmt::format("<td class=\"o-{}\">{}</td>",
                       ToString(measured.outcome),
                       OutcomeWords(measured.outcome));
    row += NumberCell(rate, PageNumber(rate));
    row += NumberCell(ratio,
                      std::isnan(ratio) ? "–" : fmt::format("{:.2f}×", ratio));
    row += NumberCell(
        predicted,
        std::isnan(predicted)
            ? "–"
            : fmt::format("{} ± {}",
                          PageNumber(predicted, 3),
                          PageNumber(kNormal95 * run_.predicted_stddev[i], 2)));
    row += NumberCell(peak, PageNumber(peak / kGb, 3));
    row += NumberCell(
        headroom,
        std::isnan(headroom) ? "–" : fmt::format("{:.0f}%", headroom));
    row += NumberCell(measured.duration_s, Duration(measured.duration_s));
    row += fmt::format("<td class=\"cfg\">{}{}</td>",
                       EscapeHtml(Varying(trial)),
                       measured.message.empty()
                           ? ""
                           : fmt::format("<p class=\"msg\">{}</p>",
                                         EscapeHtml(measured.message)));
    return row + fmt::format("<td>{}</td></tr>\n", ToString(trial.chosen_by));
  }

  std::string Table() {
    if (run_.trials.empty()) {
      return "";
    }
    FindFixed();
    const std::vector<std::pair<const char*, const char*>> heads = {
        {"n", "#"},
        {"", "Outcome"},
        {"n big", "steps/s"},
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
          style,
          name[0] == '#' ? "ascending" : "none",
          name);
    }
    html += "</tr></thead><tbody>\n";
    for (std::size_t i = 0; i < run_.trials.size(); ++i) {
      html += Row(run_.trials[i], i);
    }
    html += "</tbody></table></div>";
    if (!fixed_.empty()) {
      html +=
          fmt::format("<p class=\"small soft\">In all trials: {}.</p>",
                      EscapeHtml(fmt::format("{}", fmt::join(fixed_, ", "))));
    }
    return Section("Trials", html);
  }

  // What all configurations have in common.
  void FindFixed() {
    std::map<std::string, std::size_t> counts;
    for (const Trial& trial : run_.trials) {
      for (const std::string& part : Parts(trial)) {
        ++counts[part];
      }
    }
    for (const auto& [part, count] : counts) {
      if (count == run_.trials.size() && run_.trials.size() > 1) {
        fixed_.insert(part);
      }
    }
  }

  [[nodiscard]] std::string Learned() const {
    if (options_.learned.empty()) {
      return "";
    }
    std::string html =
        "<div class=\"scroll\"><table><thead><tr><th>Quantity</th><th "
        "class=\"n\">Value</th><th>Unit</th><th "
        "class=\"n\">95%</th><th>Meaning</th></tr></thead><tbody>";
    for (const LearnedNumber& number : options_.learned) {
      html += fmt::format(
          "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td "
          "class=\"n\">{}</td><td>{}</td></tr>",
          EscapeHtml(number.name),
          EscapeHtml(number.value),
          EscapeHtml(number.unit),
          EscapeHtml(number.interval),
          EscapeHtml(number.meaning));
    }
    return Section(
        "What the search learned",
        html +
            "</tbody></table></div><p class=\"small soft\">Effective "
            "numbers: communication that overlaps with computation "
            "costs nothing.</p>");
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
    add("Program", info.version);
    add("Commit", info.commit + (info.dirty ? " (modified)" : ""));
    add("Host", info.host);
    add("Input hash", info.manifest_hash);
    for (const trials::AcceptedChange& change :
         info.accepted.value_or(std::vector<trials::AcceptedChange>())) {
      add("Changed",
          fmt::format("after trial {}: {}",
                      change.after_trial,
                      fmt::join(change.changes, "; ")));
    }
    for (const std::string& failure : run_.experiment.failures) {
      add("Problem", failure);
    }
    return Section("Provenance", "<dl>" + list + "</dl>");
  }

  const PageRun& run_;
  const PageOptions& options_;
  std::set<std::string> fixed_;  // parts of all configurations
};

}  // namespace

std::string PageHtml(const PageRun& run, const PageOptions& options) {
  return Page(run, options).Html();
}

fs::path WritePage(const fs::path& experiment_folder,
                   const PageOptions& options) {
  PageOptions complete = options;
  if (complete.command.empty()) {
    complete.command =
        common::ReadFileIfExists(experiment_folder / "best.sh").value_or("");
  }
  fs::path path = experiment_folder / "page.html";
  common::StoreFile(
      path, PageHtml(LoadPageRun(experiment_folder, complete), complete));
  return path;
}

}  // namespace plots
