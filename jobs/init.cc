#include "jobs/init.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/units.h"
#include "jobs/job.h"
#include "jobs/machine.h"
#include "trials/knobs.h"
#include "trials/objective.h"
#include "trials/programs/adapter.h"
#include "trials/programs/rank_launch.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using trials::BuiltInKnobs;
using trials::Knob;

// A job before its manifest is written.
struct JobDraft {
  Machine machine;
  trials::AdapterJob job;
  std::optional<trials::Adapter> adapter;
  std::optional<trials::ParallelConfig> present;
  std::vector<std::string> notes;
  std::optional<Likeness> like;  // without a cluster file
};

// The number that the command line has for an expression of the adapter's
// settings.
double NumberOf(const JobDraft& draft, std::string_view expression,
                double otherwise) {
  return draft.adapter ? draft.adapter->PresentNumber(draft.job, expression)
                             .value_or(otherwise)
                       : otherwise;
}

// The sequences of a step: of the option, of the adapter's setting, or of the
// microbatches of all ranks.
int BatchSize(const InitOptions& options, const JobDraft& draft) {
  if (options.batch > 0) {
    return options.batch;
  }
  if (const double batch = NumberOf(draft, "$batch_size", 0.0); batch >= 1.0) {
    return static_cast<int>(batch);
  }
  const double micro = NumberOf(draft, "$micro_batch_size", 0.0);
  if (micro >= 1.0) {
    const double others = NumberOf(draft, "$tp", 1.0) *
                          NumberOf(draft, "$pp", 1.0) *
                          NumberOf(draft, "$cp", 1.0);
    return static_cast<int>(micro * NumberOf(draft, "$microbatches", 1.0) *
                            draft.machine.size.gpus() / others);
  }
  throw InputError(
      "the command line does not say how many sequences a step has: give "
      "--batch N (over all ranks)");
}

int SequenceLength(const InitOptions& options, const JobDraft& draft) {
  const double length = options.sequence > 0
                            ? options.sequence
                            : NumberOf(draft, "$sequence_length", 0.0);
  if (length >= 1.0) {
    return static_cast<int>(length);
  }
  throw InputError(
      "the command line does not say how long a sequence is: give --seq N "
      "(tokens)");
}

// The machine as detected, with the sizes that the options give. Ranks on a CPU
// are as many as the present configuration has.
Machine MachineOf(const InitOptions& options,
                  const std::optional<trials::ParallelConfig>& present) {
  const int devices = present ? trials::GpusOf(*present) : 0;
  Machine machine = DetectMachine(options.command, devices);
  if (!options.nodes.hostfile.empty()) {
    machine.size.nodes = static_cast<int>(
        trials::ReadHosts(options.folder / options.nodes.hostfile).size());
  }
  if (!options.gpus.empty()) {
    machine.size = ParseMachineSizes(options.gpus, 8).front();
  }
  if (!options.gpu.empty()) {
    const trials::Gpu gpu = FindMachine({.gpu = options.gpu}).gpu;
    if (machine.product.empty()) {  // a login node: the job runs elsewhere
      machine.memory_gib = gpu.memory_bytes / common::kGibi;
      machine.source = "--gpu " + options.gpu;
    }
    machine.product = options.gpu;
  }
  if (options.memory_gib > 0.0) {
    machine.memory_gib = options.memory_gib;
  }
  if (devices > 0 && devices != machine.size.gpus()) {
    throw InputError(fmt::format(
        "--start {}: dp * tp * pp * cp is {}, but the machine has {} x {} "
        "devices ({}): correct it, or give --gpus NODESxGPUS",
        options.start, devices, machine.size.nodes, machine.size.gpus_per_node,
        options.gpus.empty() ? machine.source : "--gpus"));
  }
  return machine;
}

JobDraft DraftJob(const InitOptions& options) {
  JobDraft draft;
  if (options.command.empty()) {
    throw InputError(
        "your command line is missing: give it after --, as in `... -- "
        "torchrun train.py`");
  }
  if (options.model.empty()) {
    throw InputError("--model FILE is missing: the config.json of your model");
  }
  if (!options.start.empty()) {
    try {
      draft.present =
          trials::Canonical(trials::ParseParallelConfig(options.start));
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("--start: {}", e.what()));
    }
  }
  if (!options.nodes.slurm.empty() && options.gpus.empty()) {
    throw InputError(
        "--slurm: give --gpus NODESxGPUS, such as 2x8: trials do not run on "
        "this machine");
  }
  draft.machine = MachineOf(options, draft.present);
  if (options.cluster.empty()) {
    draft.like = LikenessOf(draft.machine);
  }
  if (!options.framework.empty()) {
    draft.adapter = trials::Adapter::Find(options.framework, options.folder);
  }
  draft.job.words =
      draft.machine.size.nodes > 1 ? OnNodes(options.command) : options.command;
  draft.job.folder = options.folder;
  draft.job.cluster.nodes = draft.machine.size.nodes;
  draft.job.cluster.gpus_per_node = draft.machine.size.gpus_per_node;
  const int batch = BatchSize(options, draft);
  draft.job.workload = MakeWorkload(
      trials::ReadModel(fs::absolute(options.folder / options.model)), batch,
      SequenceLength(options, draft));
  if (!draft.present && draft.adapter) {
    const trials::PresentConfig present = draft.adapter->Present(draft.job);
    draft.present = present.config;
    draft.notes = present.notes;
  }
  return draft;
}

// The text as a string of a manifest, with its quotes.
std::string TomlString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

// A path of the user's, relative to the folder of the manifest.
std::string FromManifest(const InitOptions& options, const fs::path& path) {
  const fs::path target = fs::absolute(options.folder / path);
  const fs::path from = fs::absolute(options.manifest).parent_path();
  const fs::path relative = target.lexically_proximate(from);
  return relative.empty() || relative.begin()->string() == ".."
             ? target.lexically_normal().string()
             : relative.string();
}

// The parameters that are placeholders in the command line.
std::vector<std::string> PlaceholdersOf(
    const std::vector<std::string>& command) {
  std::vector<std::string> names = {"dp"};
  for (const Knob& knob : BuiltInKnobs()) {
    if (std::ranges::any_of(command, [&](const std::string& word) {
          return word.find("{" + knob.name + "}") != std::string::npos;
        })) {
      names.push_back(knob.group == trials::KnobGroup::kFixed ? "microbatches"
                                                              : knob.name);
    }
  }
  return names;
}

// The lines of [space].
std::string SpaceText(const InitOptions& options, const JobDraft& draft) {
  const std::vector<std::string> varied =
      draft.adapter ? draft.adapter->Parameters(draft.job)
                    : PlaceholdersOf(options.command);
  std::string text;
  for (const Knob& knob : BuiltInKnobs()) {
    if (knob.group == trials::KnobGroup::kFixed) {
      continue;
    }
    if (std::ranges::find(varied, knob.name) == varied.end()) {
      text += draft.adapter
                  ? ""
                  : fmt::format("{} = [{}]  # not in your command line\n",
                                knob.name, knob.Default());
      continue;
    }
    std::vector<int> values = {knob.Default()};
    if (draft.adapter && draft.adapter->space().Has(knob.name)) {
      const auto listed = draft.adapter->space().GetInts(knob.name);
      values = {listed.begin(), listed.end()};
    } else if (knob.grid.values) {
      values = knob.grid.values(draft.job.workload, draft.job.cluster.gpus());
    }
    const bool added =
        draft.present && trials::HasEffect(knob, *draft.present) &&
        std::ranges::find(values, knob.Get(*draft.present)) == values.end();
    if (added) {
      values.push_back(knob.Get(*draft.present));
      std::ranges::sort(values);
    }
    text += fmt::format("{}{} = [{}]{}\n", added ? "" : "# ", knob.name,
                        fmt::join(values, ", "),
                        added ? "  # with your present value" : "");
  }
  return text;
}

std::string ClusterText(const InitOptions& options, const JobDraft& draft) {
  const Machine& machine = draft.machine;
  if (!options.cluster.empty()) {
    return fmt::format("file = {}\ngpus = {}\n",
                       TomlString(FromManifest(options, options.cluster)),
                       machine.size.gpus());
  }
  return fmt::format(
      "# Detected: {}.\nnodes = {}\ngpus_per_node = {}\nmemory_gib = {:.2f}  # "
      "of one device\n{}",
      machine.source, machine.size.nodes, machine.size.gpus_per_node,
      machine.memory_gib,
      draft.like
          ? fmt::format("like = {}  # links and speed, for predictions{}\n",
                        TomlString(draft.like->cluster), draft.like->note)
          : "");
}

constexpr const char* kManifest =
    R"(# A search for the fastest configuration of a training job, for `oppa tune`.
# Keys: docs/manifest_format.md, docs/external-trials.md.

[experiment]
methods = ["{method}"]
{start}  # your present configuration
{notes}
[backend]
type = "command"
{framework}folder = {folder}  # in which the program starts
program = [{program}]
{ranks}timeout_s = 1800  # of a trial
silence_s = 600   # a trial without a step for this long hangs

{log}[workload]
model = {model}
batch_size = {batch}  # sequences of a step over all ranks
sequence_length = {sequence}

[cluster]
{cluster}
{predictions}# The parameters that vary, with their values.
[space]
{space}
[budget]
time_minutes = {minutes}
trials = {trials}
q_max = {steps}  # steps of a trial
stop_when = "gain < 1%"  # expected of the best untried configuration
{slurm})";

// The framework of predictions, where no adapter names one.
constexpr const char* kPredictions =
    R"(# The simulator predicts every configuration, and the search corrects its
# predictions by trials. Frameworks: experiments/frameworks.
[predictions]
{framework}{calibration}
)";

std::string PredictionsText(const InitOptions& options, bool predicted,
                            bool names_framework) {
  if (!predicted && !options.calibration.empty()) {
    throw InputError(fmt::format(
        "--calibration {}: nothing is predicted without a machine: give --gpu "
        "or --cluster",
        options.calibration));
  }
  if (!predicted || (names_framework && options.calibration.empty())) {
    return "";
  }
  return fmt::format(
      kPredictions,
      fmt::arg("framework", names_framework ? "" : "framework = \"generic\"\n"),
      fmt::arg("calibration",
               options.calibration.empty()
                   ? ""
                   : fmt::format("calibration = {}\n",
                                 TomlString(FromManifest(
                                     options, options.calibration)))));
}

}  // namespace

std::string ManifestText(const InitOptions& options) {
  const JobDraft draft = DraftJob(options);
  std::string notes;
  for (const std::string& note : draft.notes) {
    notes += fmt::format("# Note: {}.\n", note);
  }
  std::vector<std::string> program;
  for (const std::string& word : draft.job.words) {
    program.push_back(TomlString(word));
  }
  std::string framework = options.framework;
  if (framework.ends_with(".toml")) {
    framework = FromManifest(options, framework);
  }
  const std::string folder =
      fs::absolute(options.folder)
          .lexically_proximate(fs::absolute(options.manifest).parent_path())
          .string();
  const bool predicted = !options.cluster.empty() || draft.like.has_value();
  const bool names_framework =
      draft.adapter && !draft.adapter->framework().empty();
  const std::string ranks =
      options.nodes.hostfile.empty()
          ? RanksText(options.command, draft.machine.size.nodes)
          : fmt::format(
                "hostfile = {}  # ssh starts the program on its hosts\n",
                TomlString(FromManifest(options, options.nodes.hostfile)));
  return fmt::format(
      kManifest, fmt::arg("method", predicted ? "oppa-sim" : "oppa"),
      fmt::arg("start", draft.present
                            ? fmt::format("start = [{}]",
                                          TomlString(ToString(*draft.present)))
                            : "# start = [\"dp=4\"]"),
      fmt::arg("notes", notes),
      fmt::arg("framework",
               framework.empty()
                   ? ""
                   : fmt::format("framework = {}\n", TomlString(framework))),
      fmt::arg("folder", TomlString(folder.empty() ? "." : folder)),
      fmt::arg("program", fmt::join(program, ", ")), fmt::arg("ranks", ranks),
      fmt::arg("slurm",
               SlurmText(options.nodes, draft.machine.product.empty() &&
                                                options.cluster.empty()
                                            ? draft.machine.size.gpus_per_node
                                            : 0)),
      fmt::arg("log", options.step_time.empty()
                          ? ""
                          : fmt::format("[backend.log]\nstep_time_s = {}\n\n",
                                        TomlString(options.step_time))),
      fmt::arg("model", TomlString(FromManifest(options, options.model))),
      fmt::arg("batch", draft.job.workload.batch_size),
      fmt::arg("sequence", draft.job.workload.sequence_length),
      fmt::arg("cluster", ClusterText(options, draft)),
      fmt::arg("predictions",
               PredictionsText(options, predicted, names_framework)),
      fmt::arg("space", SpaceText(options, draft)),
      fmt::arg("minutes", options.minutes), fmt::arg("trials", options.trials),
      fmt::arg("steps", options.steps));
}

}  // namespace jobs
