// tune, init.

#include "jobs/tune/tune.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/page.h"
#include "cli/run.h"
#include "cli/slurm.h"
#include "cli/tone.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/output.h"
#include "common/process.h"
#include "common/secrets.h"
#include "harness/names.h"
#include "harness/provenance.h"
#include "harness/records/inputs.h"
#include "jobs/tune/init.h"
#include "jobs/tune/profile.h"
#include "jobs/tune/tune_job.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct TuneVerbOptions {
  jobs::InitOptions job;
  std::string name = "tune";
  int finalists = 3;
  bool accept_changed = false;
  fs::path profile;
};

Options JobOptions(jobs::InitOptions& job) {
  return {
      Bind("--framework NAME",
           "adapter (`oppa adapters`), or the path of your own", job.framework),
      Bind("--model FILE", "config.json of the model", job.model),
      TrainingOption(job.training),
      Bind("--gpus NODESxGPUS", "machine, such as 2x8 (default: as detected)",
           job.gpus),
      Bind("--gpu NAME",
           "GPU, such as h100, for predictions (default: as detected)",
           job.gpu),
      Bind("--memory-gib N", "memory of a device (default: as detected)",
           job.memory_gib),
      Bind("--cluster FILE", "cluster file, for predictions with its links",
           job.cluster),
      Bind("--calibration FILE",
           "corrects predictions; `oppa plan --save-calibration` writes it",
           job.calibration),
      BindEach("--from RESULTS",
               "start from the trials of an earlier search, of any number of "
               "GPUs, batch or model (repeatable)",
               job.from),
      Bind("--accept-foreign",
           "take a --calibration, or the results of --from, that scale "
           "computation as those of another job would",
           job.accept_foreign),
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
      Choice("--slurm WHAT",
             "submit jobs from a login node: one for the whole search (search) "
             "or one for each trial (trial)",
             {"search", "trial"},
             [&job](const auto& text) { job.nodes.slurm = text; }),
      Bind("--sbatch OPTIONS",
           "options of these jobs: \"--partition=a100 --time=4:00:00\"",
           job.nodes.sbatch),
      Bind("--hostfile FILE",
           "hosts on which ssh starts the command, one on each line",
           job.nodes.hostfile),
      BindEach(
          "--vary KNOB[=V1,V2,...]",
          "vary only this parameter and others so named, with these values",
          job.vary),
      BindEach("--fix KNOB=VALUE", "do not vary this parameter", job.fix),
      Bind("--price PRICE", "USD of a GPU hour, for the cost of a step",
           job.price),
      Bind("--power WATTS", "power of a GPU, for the energy of a step",
           job.power_w),
      Bind("--minutes N",
           "budget of the search and of the repeated measurements",
           job.minutes),
      Bind("--trials N", "most trials", job.trials),
      Bind("--steps N", "steps of a trial", job.steps)};
}

constexpr const char* kCheck = "# check ";
constexpr unsigned kOwnerOnly = 0600;  // command lines may have secrets

// With a last line that shows whether the text was edited.
std::string Checked(const std::string& text) {
  return fmt::format("{}{}{:016x}: an edited file is not replaced\n", text,
                     kCheck, common::Hash(text));
}

// Writes the manifest of a command line unless it has this content already.
// Returns what it replaced.
// Errors: throws InputError if it would replace what the user wrote.
std::optional<std::string> WriteManifest(const jobs::InitOptions& job) {
  const std::string text = Checked(ToText(jobs::DraftManifest(job)));
  auto old = common::ReadFileIfExists(job.manifest);
  if (old == text) {
    return old;
  }
  if (old && Checked(old->substr(0, old->rfind(kCheck))) != *old) {
    throw common::InputError(fmt::format(
        "{0}: it was edited, or another version wrote it: `oppa tune {0}` runs "
        "it; for this command line, give another --name",
        job.manifest.string()));
  }
  common::ReplaceFile(job.manifest, text, kOwnerOnly);
  return old;
}

// "[####------] trial 3/20; step 2/20": the bar takes what the text leaves of
// the line.
std::string StatusLine(const std::string& text, double share,
                       std::size_t columns) {
  constexpr std::size_t kLeast = 8;  // with brackets and a space
  constexpr std::size_t kMost = 23;
  const std::size_t left = columns - std::min(columns, text.size());
  if (text.empty() || left < kLeast) {
    return text.substr(0, columns);
  }
  const std::size_t cells = std::min(left, kMost) - 3;
  const auto done = static_cast<std::size_t>(static_cast<double>(cells) *
                                             std::clamp(share, 0.0, 1.0));
  return fmt::format("[{:-<{}}] {}", std::string(done, '#'), cells, text);
}

// Shows a status only on a terminal, and colors only where they are wanted.
jobs::Reporter Terminal() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line at once, also when piped
  const auto print = [](const std::string& text, jobs::Tone tone) {
    PrintIn(tone, text);
  };
  const auto status = [](const std::string& text, double share) {
    const common::Display display = common::StandardDisplay();
    if (display.live) {
      const std::size_t columns = display.columns - 1;
      common::WriteControl(stdout, "\r" + std::string(columns, ' ') + "\r");
      fmt::print("{}", StatusLine(text, share, columns));
      std::fflush(stdout);
    }
  };
  return {print, status, common::StandardDisplay().columns};
}

int TuneHere(const TuneVerbOptions& options, const Words& words) {
  jobs::TuneOptions tune{
      .manifest = options.job.manifest,
      .command = common::ShellLine(common::WithoutSecrets(words)),
      .finalists = options.finalists,
      .accept_changed = options.accept_changed,
      .profile = options.profile,
      .write_page =
          [](const fs::path& folder) { return WriteSearchPage(folder, {}); },
      .reporter = Terminal()};
  if (options.job.nodes.slurm == "trial") {
    tune.trial_jobs = [](const jobs::TuneJob& job, const auto& check) {
      return MakeTrialJobs(job.experiment(), job.run(), check);
    };
  }
  return jobs::Tune(tune);
}

// Submits the search as a job, unless it is in the queue or has ended.
int TuneInAJob(const TuneVerbOptions& options, const Words& words) {
  harness::Manifest read = harness::ReadManifest(options.job.manifest);
  const fs::path folder = jobs::TuneFolder(read.path, read.name);
  const harness::Experiment experiment(std::move(read), folder);
  const harness::Manifest& manifest = experiment.manifest;
  harness::CheckManifest(experiment);
  const auto recorded =
      harness::PrepareRecords(experiment, options.accept_changed);
  if (recorded.front().finished &&
      fs::exists(experiment.folder / "best.json")) {
    return TuneHere(options, words);  // nothing is left to measure
  }
  harness::WriteExperiment(experiment);
  const harness::RunSpec& run = experiment.runs.front();
  std::vector<std::string> command = {
      harness::ProgramPath(), "tune", fs::absolute(manifest.path).string(),
      "--finalists", std::to_string(options.finalists)};
  if (!options.profile.empty()) {
    command.insert(command.end(),
                   {"--profile", fs::absolute(options.profile).string()});
  }
  const int code =
      SubmitRuns({}, {.no_report = true}, experiment,
                 {{.name = run.Name(),
                   .command = std::move(command),
                   .log = run.Folder(experiment.folder) / "log.txt"}});
  fmt::print(
      "oppa status, logs and cancel take {}; rerun the same command for the "
      "result, or to resume\n",
      manifest.path.string());
  return code;
}

int TuneManifest(const TuneVerbOptions& options, const Words& words) {
  return (options.job.nodes.slurm == "search" ? TuneInAJob : TuneHere)(options,
                                                                       words);
}

// Writes the manifest of a command line and runs it. Where bad input ends that,
// the manifest is as it was.
int TuneCommand(TuneVerbOptions& options, const Words& words) {
  jobs::InitOptions& job = options.job;
  if (!harness::IsSafeName(options.name)) {
    throw common::InputError(fmt::format(
        "--name '{}': use letters, digits, '.', '_' and '-', a letter or digit "
        "first",
        options.name));
  }
  job.folder = fs::current_path();
  const fs::path results = job.folder / "oppa-results";
  common::GuardFolder(results);
  job.manifest = results / (options.name + ".toml");
  const auto old = WriteManifest(job);
  try {
    if (!options.profile.empty()) {
      const jobs::TuneJob written(job.manifest);
      if (const auto next = jobs::Profile(options.profile, written).Fastest()) {
        job.next = written.Text(*next);
        WriteManifest(job);
      }
    }
    return TuneManifest(options, words);
  } catch (const common::InputError&) {
    if (old) {
      common::ReplaceFile(job.manifest, *old, kOwnerOnly);
    } else {
      common::Remove(job.manifest);
    }
    throw;
  }
}

int RunTune(TuneVerbOptions& options, const Words& words) {
  const fs::path& manifest = options.job.manifest;
  if (manifest.empty()) {
    return TuneCommand(options, words);
  }
  if (manifest.extension() != ".toml" &&
      common::ReadFileIfExists(manifest).value_or("").find("[experiment]") ==
          std::string::npos) {
    throw common::InputError(
        fmt::format("tune: '{}' is not a manifest: write `oppa tune JOB.toml`, "
                    "or your command line after --, `oppa tune ... -- COMMAND`",
                    manifest.string()));
  }
  if (!options.job.command.empty()) {
    throw common::InputError(
        "tune: give a manifest or a command line after --, not both");
  }
  return TuneManifest(options, words);
}

int RunInit(jobs::InitOptions& job) {
  job.folder = fs::current_path();
  if (fs::exists(job.manifest)) {
    throw common::InputError(fmt::format(
        "{} exists; name another file with --output", job.manifest.string()));
  }
  common::ReplaceFile(job.manifest, ToText(jobs::DraftManifest(job)),
                      kOwnerOnly);
  fmt::print("{} written; `oppa tune {}` runs it\n", job.manifest.string(),
             job.manifest.string());
  return 0;
}

}  // namespace

Verbs TuneVerbs() {
  const auto tune = std::make_shared<TuneVerbOptions>();
  const auto init = std::make_shared<jobs::InitOptions>();
  init->manifest = "tune.toml";
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
                        tune->job.manifest)} +
           JobOptions(tune->job) + ModelOptionsOf(tune->job.model_options) +
           Options{
               Bind("--name NAME", "of the search (default: tune)", tune->name),
               Bind("--finalists N", "configurations measured again at the end",
                    tune->finalists),
               Bind("--accept-changed",
                    "continue although the program or the manifest changed",
                    tune->accept_changed),
               Bind("--profile FILE",
                    "trace of your present job by PyTorch's profiler: what it "
                    "says is slow is tried first",
                    tune->profile),
               ColorOption()},
       .examples = {"oppa tune --framework hf-trainer --model config.json "
                    "--batch 64 --seq 2048 -- torchrun --nproc-per-node=8 "
                    "run_clm.py ...",
                    "oppa tune tune.toml",
                    "oppa tune --slurm search --sbatch \"--partition=a100 "
                    "--time=4:00:00\" --gpus 2x8 --gpu a100 --framework "
                    "megatron-lm --model config.json -- torchrun "
                    "--nproc-per-node=8 pretrain_gpt.py ..."},
       .command = std::shared_ptr<Words>(tune, &tune->job.command),
       .run = [tune](const Words& words) { return RunTune(*tune, words); }},
      {.group = kJobs,
       .name = "init",
       .summary = "write the manifest of a search for your training job",
       .description = "The manifest has comments and is for `oppa tune`. The "
                      "words after -- are your command line.",
       .options = JobOptions(*init) + ModelOptionsOf(init->model_options) +
                  Options{Bind("--output FILE", "(default: tune.toml)",
                               init->manifest)},
       .examples = {"oppa init --framework megatron-lm --model config.json -- "
                    "torchrun --nproc-per-node=8 pretrain_gpt.py ..."},
       .command = std::shared_ptr<Words>(init, &init->command),
       .run = [init](const Words&) { return RunInit(*init); }}};
}

}  // namespace cli
