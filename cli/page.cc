#include "cli/page.h"

#include <cstdio>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "cli/verb_options.h"
#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "harness/stop.h"
#include "studies/fits.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct PageVerbOptions {
  plots::PageOptions page;
  bool watch = false;
};

// The folder of an experiment: the argument itself, or that of a manifest.
fs::path FolderOf(const VerbOptions& options) {
  std::error_code error;
  if (fs::is_directory(options.manifest, error)) {
    if (!fs::exists(options.manifest / "experiment.json", error)) {
      throw common::InputError(
          fmt::format("{}: this folder has no experiment.json: give "
                      "results/<experiment>, or a manifest",
                      options.manifest.string()));
    }
    return options.manifest;
  }
  return OpenExperiment(options).folder;
}

int WriteOrWatch(const VerbOptions& options, const PageVerbOptions& own) {
  const fs::path folder = FolderOf(options);
  plots::PageOptions page = own.page;
  page.problem = options.problem;
  fmt::print("{}\n", WriteSearchPage(folder, page).string());
  if (!own.watch) {
    return 0;
  }
  std::fflush(stdout);
  harness::CatchStopSignals();
  while (harness::StopSignal() == 0 &&
         !plots::LoadPageRun(folder, page).info.finished) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    (void)WriteSearchPage(folder, page);
  }
  return 0;
}

}  // namespace

fs::path WriteSearchPage(const fs::path& experiment_folder,
                         plots::PageOptions options) {
  options.learned = studies::LearnedNumbers;
  return plots::WritePage(experiment_folder, options);
}

Verbs PageVerbs() {
  const auto all = std::make_shared<Bound<PageVerbOptions>>();
  PageVerbOptions& own = all->own;
  Option file =
      Required(Bind("FILE", "manifest, or a folder results/<experiment>",
                    all->verb.manifest));
  return {
      {.group = kExperiments,
       .name = "page",
       .summary = "write the result page of a search as one HTML file",
       .description =
           "Writes page.html into the folder of the experiment: trials, best "
           "configuration, predictions, memory, and what the search learned. "
           "The page needs no network. While the search runs, it reloads "
           "itself; --watch writes it again until the end.",
       .options =
           Options{file, ResultsOption(all->verb), SetOption(all->verb),
                   ProblemOption(all->verb),
                   Bind("--method NAME",
                        "the method to show (default: oppa, or the first)",
                        own.page.method),
                   Bind("--repeat N", "the repeat to show", own.page.repeat),
                   Bind("--watch", "write it again every 2 s", own.watch)},
       .examples = {"oppa page experiments/smoke.toml",
                    "oppa page results/tune --watch"},
       .run = [all](const Words&) {
         return WriteOrWatch(all->verb, all->own);
       }}};
}

}  // namespace cli
