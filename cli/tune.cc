// tune, init.

#include "jobs/tune.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line.h"
#include "cli/page.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "jobs/init.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct TuneVerbOptions {
  fs::path manifest;
  jobs::InitOptions job;
  std::string name;
  int finalists = 3;
  bool accept_changed = false;
};

Options JobOptions(jobs::InitOptions& job) {
  return {
      Bind("--framework NAME",
           "adapter (`oppa adapters`), or the path of your own", job.framework),
      Bind("--model FILE", "config.json of the model", job.model),
      Bind("--gpus NODESxGPUS", "machine, such as 2x8 (default: as detected)",
           job.gpus),
      Bind("--gpu NAME",
           "GPU, such as h100, for predictions (default: as detected)",
           job.gpu),
      Bind("--memory-gib N", "memory of a device (default: as detected)",
           job.memory_gib),
      Bind("--cluster FILE", "cluster file, for predictions with its links",
           job.cluster),
      Bind("--batch N",
           "sequences of a step over all ranks (default: as the command says)",
           job.batch),
      Bind("--seq N", "tokens of a sequence (default: as the command says)",
           job.sequence),
      Bind("--start CONFIG",
           "your present configuration (default: as the adapter reads it)",
           job.start),
      Bind("--step-time REGEX",
           "where your log has the seconds of a step: 'took ([0-9.]+) s' "
           "(default: as the adapter reads them)",
           job.step_time),
      Bind("--minutes N", "budget of the search", job.minutes),
      Bind("--trials N", "most trials", job.trials),
      Bind("--steps N", "steps of a trial", job.steps)};
}

// Writes the manifest unless it has this content already.
void WriteManifest(const jobs::InitOptions& job) {
  const std::string text = jobs::ManifestText(job);
  if (common::ReadFileIfExists(job.manifest) != text) {
    common::CreateFolders(fs::absolute(job.manifest).parent_path());
    common::ReplaceFile(job.manifest, text);
  }
}

int RunTune(TuneVerbOptions& options, const Words& command,
            const Words& words) {
  options.job.command = command;
  options.job.folder = fs::current_path();
  if (options.manifest.empty()) {
    const std::string name = options.name.empty() ? "tune" : options.name;
    options.job.manifest =
        options.job.folder / "oppa-results" / (name + ".toml");
    WriteManifest(options.job);
    options.manifest = options.job.manifest;
    fmt::print("manifest: {}\n", common::Printable(options.manifest.string()));
  } else if (!command.empty()) {
    throw common::InputError(
        "tune: give a manifest or a command line after --, not both");
  }
  return jobs::Tune({.manifest = options.manifest,
                     .command = fmt::format("{}", fmt::join(words, " ")),
                     .accept_changed = options.accept_changed,
                     .finalists = options.finalists,
                     .write_page = [](const fs::path& folder) {
                       return WriteSearchPage(folder, {});
                     }});
}

int RunInit(TuneVerbOptions& options, const Words& command) {
  options.job.command = command;
  options.job.folder = fs::current_path();
  options.job.manifest =
      options.manifest.empty() ? fs::path("tune.toml") : options.manifest;
  if (fs::exists(options.job.manifest)) {
    throw common::InputError(
        fmt::format("{} exists; name another file with --output",
                    options.job.manifest.string()));
  }
  WriteManifest(options.job);
  fmt::print("{} written; `oppa tune {}` runs it\n",
             options.job.manifest.string(), options.job.manifest.string());
  return 0;
}

}  // namespace

Verbs TuneVerbs() {
  const auto tune = std::make_shared<TuneVerbOptions>();
  const auto init = std::make_shared<TuneVerbOptions>();
  const auto tune_command = std::make_shared<Words>();
  const auto init_command = std::make_shared<Words>();
  return {
      {.group = kJobs,
       .name = "tune",
       .summary = "find a faster configuration of your training job",
       .description =
           "Runs the job as it is for two steps, searches from its present "
           "configuration with one trial at a time, measures the best "
           "configurations again, and prints the command line to use. The "
           "words after -- are your command line. Results are in "
           "oppa-results/; rerun the same command to resume.",
       .options =
           Options{Bind("FILE",
                        "manifest that `oppa init` wrote, instead of a "
                        "command line",
                        tune->manifest)} +
           JobOptions(tune->job) +
           Options{
               Bind("--name NAME", "of the search (default: tune)", tune->name),
               Bind("--finalists N", "configurations measured again at the end",
                    tune->finalists)},
       .examples = {"oppa tune --framework hf-trainer --model config.json "
                    "--batch 64 --seq 2048 -- torchrun --nproc-per-node=8 "
                    "run_clm.py ...",
                    "oppa tune tune.toml"},
       .command = tune_command,
       .run =
           [tune, tune_command](const Words& words) {
             return RunTune(*tune, *tune_command, words);
           }},
      {.group = kJobs,
       .name = "init",
       .summary = "write the manifest of a search for your training job",
       .description = "The manifest has comments and is for `oppa tune`. The "
                      "words after -- are your command line.",
       .options = JobOptions(init->job) +
                  Options{Bind("--output FILE", "(default: tune.toml)",
                               init->manifest)},
       .examples = {"oppa init --framework megatron-lm --model config.json -- "
                    "torchrun --nproc-per-node=8 pretrain_gpt.py ..."},
       .command = init_command,
       .run = [init, init_command](const Words&) {
         return RunInit(*init, *init_command);
       }}};
}

}  // namespace cli
