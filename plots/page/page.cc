#include "plots/page.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "plots/page/parts.h"
#include "plots/pareto.h"
#include "plots/table.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

using trials::Outcome;
using trials::Trial;

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
            Figures() + Front() + Section("Trials", TrialTable(run_)) +
            Learned() + Provenance();
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
      const bool moved =
          std::find(first.begin(), first.end(), part) == first.end();
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
    return Section("Best configuration", content);
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
                   Scrolling(ParetoTable(*run_.problem)) +
                       "<p class=\"small soft\">Over all runs of the "
                       "problem.</p>");
  }

  [[nodiscard]] std::string Learned() const {
    if (options_.learned.rows.empty()) {
      return "";
    }
    return Section("What the search learned",
                   Scrolling(options_.learned) +
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
  PageOptions complete = options;
  if (complete.command.empty()) {
    complete.command =
        common::ReadFileIfExists(experiment_folder / "best.sh").value_or("");
  }
  fs::path path = experiment_folder / "page.html";
  const PageRun run = LoadPageRun(experiment_folder, complete);
  common::StoreFile(path,
                    Page(run, complete, experiment_folder / "figures").Html());
  return path;
}

}  // namespace plots
