#include "jobs/init.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "jobs/machine_detection.h"
#include "jobs/machine_presets.h"
#include "trials/adapters/adapter.h"
#include "trials/knobs.h"
#include "trials/workload.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using trials::BuiltInKnobs;
using trials::Knob;

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

std::string QuotedList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) {
    quoted.push_back(Quoted(text));
  }
  return fmt::format("[{}]", fmt::join(quoted, ", "));
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

// The sequences of a step: of the option, of the adapter's setting, or of the
// microbatches of all ranks.
int BatchSize(const InitOptions& options,
              const std::optional<trials::Adapter>& adapter,
              const trials::AdapterJob& job) {
  if (options.batch > 0) {
    return options.batch;
  }
  if (adapter) {
    const auto number = [&](std::string_view expression) {
      return adapter->PresentNumber(job, expression);
    };
    if (const auto batch = number("$batch_size"); batch && *batch >= 1.0) {
      return static_cast<int>(*batch);
    }
    const auto micro = number("$micro_batch_size");
    if (micro && *micro >= 1.0) {
      const double others = number("$tp").value_or(1.0) *
                            number("$pp").value_or(1.0) *
                            number("$cp").value_or(1.0);
      return static_cast<int>(*micro * number("$microbatches").value_or(1.0) *
                              job.cluster.gpus() / others);
    }
  }
  throw InputError(
      "the command line does not say how many sequences a step has: give "
      "--batch N (over all ranks)");
}

int SequenceLength(const InitOptions& options,
                   const std::optional<trials::Adapter>& adapter,
                   const trials::AdapterJob& job) {
  if (options.sequence > 0) {
    return options.sequence;
  }
  const auto length =
      adapter ? adapter->PresentNumber(job, "$sequence_length") : std::nullopt;
  if (length && *length >= 1.0) {
    return static_cast<int>(*length);
  }
  throw InputError(
      "the command line does not say how long a sequence is: give --seq N "
      "(tokens)");
}

// The parameters that are placeholders in the command line.
std::vector<std::string> PlaceholdersOf(
    const std::vector<std::string>& command) {
  std::vector<std::string> names = {"dp"};
  for (const Knob& knob : BuiltInKnobs()) {
    const bool named =
        std::any_of(command.begin(), command.end(), [&](const auto& word) {
          return word.find("{" + knob.name + "}") != std::string::npos;
        });
    if (named) {
      names.push_back(knob.group == trials::KnobGroup::kFixed ? "microbatches"
                                                              : knob.name);
    }
  }
  return names;
}

std::string NumberList(const std::vector<int>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

// The lines of [space].
std::string SpaceText(const std::vector<std::string>& varied,
                      const std::optional<trials::Adapter>& adapter,
                      const trials::AdapterJob& job,
                      const std::optional<trials::ParallelConfig>& present) {
  std::string text;
  for (const Knob& knob : BuiltInKnobs()) {
    if (knob.group == trials::KnobGroup::kFixed) {
      continue;
    }
    const bool varies =
        std::find(varied.begin(), varied.end(), knob.name) != varied.end();
    if (!varies) {
      text += adapter ? ""
                      : fmt::format("{} = [{}]  # not in your command line\n",
                                    knob.name,
                                    knob.Default());
      continue;
    }
    std::vector<int> values = {knob.Default()};
    if (adapter && adapter->space().Has(knob.name)) {
      values.clear();
      for (const std::int64_t value : adapter->space().GetInts(knob.name)) {
        values.push_back(static_cast<int>(value));
      }
    } else if (knob.grid.values) {
      values = knob.grid.values(job.workload, job.cluster.gpus());
    }
    bool changed = false;
    if (present && trials::HasEffect(knob, *present) &&
        std::find(values.begin(), values.end(), knob.Get(*present)) ==
            values.end()) {
      values.push_back(knob.Get(*present));
      std::sort(values.begin(), values.end());
      changed = true;
    }
    text += fmt::format("{}{} = {}{}\n",
                        changed ? "" : "# ",
                        knob.name,
                        NumberList(values),
                        changed ? "  # with your present value" : "");
  }
  return text;
}

// What is known of the job before its manifest is written.
struct Draft {
  Machine machine;
  trials::AdapterJob job;
  std::optional<trials::Adapter> adapter;
  std::optional<trials::ParallelConfig> present;
  std::vector<std::string> notes;
};

// The machine as detected, with the sizes that the options give. Ranks on a CPU
// are as many as the present configuration has.
Machine MachineOf(const InitOptions& options,
                  const std::optional<trials::ParallelConfig>& present) {
  const int devices =
      present ? present->dp * present->tp * present->pp * present->cp : 0;
  Machine machine = DetectMachine(options.command, devices);
  if (!options.gpus.empty()) {
    machine.size = ParseMachineSizes(options.gpus, 8).front();
  }
  if (options.memory_gib > 0.0) {
    machine.memory_gib = options.memory_gib;
  }
  if (!options.gpu.empty()) {
    (void)FindMachine({.gpu = options.gpu, .cluster = ""});
    machine.product = options.gpu;
  }
  if (devices > 0 && devices != machine.size.gpus()) {
    throw InputError(fmt::format(
        "--start {}: dp * tp * pp * cp is {}, but the machine has {} x {} "
        "devices ({}): correct it, or give --gpus NODESxGPUS",
        options.start,
        devices,
        machine.size.nodes,
        machine.size.gpus_per_node,
        options.gpus.empty() ? machine.source : "--gpus"));
  }
  return machine;
}

Draft Inspect(const InitOptions& options) {
  Draft draft;
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
  draft.machine = MachineOf(options, draft.present);
  if (!options.framework.empty()) {
    draft.adapter = trials::Adapter::Find(options.framework, options.folder);
  }
  draft.job.words = options.command;
  draft.job.folder = options.folder;
  draft.job.cluster.nodes = draft.machine.size.nodes;
  draft.job.cluster.gpus_per_node = draft.machine.size.gpus_per_node;
  const int batch = BatchSize(options, draft.adapter, draft.job);
  const int sequence = SequenceLength(options, draft.adapter, draft.job);
  draft.job.workload = trials::ReadWorkload(common::TomlTable::ParseString(
      fmt::format("model = {}\nbatch_size = {}\nsequence_length = {}\n",
                  Quoted(fs::absolute(options.folder / options.model).string()),
                  batch,
                  sequence),
      "the command line"));
  if (!draft.present && draft.adapter) {
    const trials::PresentConfig present = draft.adapter->Present(draft.job);
    draft.present = present.config;
    draft.notes = present.notes;
  }
  return draft;
}

// The cluster that predictions are for, a name of experiments/clusters: the
// usual one of the GPU, or, for an unknown GPU or number of hosts, another one.
// Nothing if the simulator has none for the devices.
struct Likeness {
  std::string cluster;
  std::string note;  // for the manifest; may be empty
};

std::optional<Likeness> LikenessOf(const Machine& machine) {
  const auto usual = UsualCluster(machine.product);
  const bool cpu = machine.product.empty();
  std::vector<Likeness> choices;
  if (usual) {
    choices.push_back({*usual, ""});
  } else if (cpu) {
    choices.push_back({"cpu-2", ""});
  }
  if (!cpu) {
    choices.push_back({"a100-selene", "; in place of this machine"});
  }
  for (const Likeness& choice : choices) {
    try {
      (void)WithSize(FindMachine({.gpu = "", .cluster = choice.cluster}),
                     machine.size);
      return choice;
    } catch (const InputError&) {
      continue;  // it cannot have this size
    }
  }
  return std::nullopt;
}

// Whether the simulator predicts the configurations of the job.
bool IsPredicted(const InitOptions& options, const Draft& draft) {
  return !options.cluster.empty() || LikenessOf(draft.machine).has_value();
}

std::string ClusterText(const InitOptions& options, const Draft& draft) {
  if (!options.cluster.empty()) {
    return fmt::format("file = {}\ngpus = {}\n",
                       Quoted(FromManifest(options, options.cluster)),
                       draft.machine.size.gpus());
  }
  const std::optional<Likeness> like = LikenessOf(draft.machine);
  return fmt::format(
      "# From {}.\nnodes = {}\ngpus_per_node = {}\nmemory_gib = {:.2f}  # of "
      "one device\n{}",
      draft.machine.source,
      draft.machine.size.nodes,
      draft.machine.size.gpus_per_node,
      draft.machine.memory_gib,
      like ? fmt::format("like = {}  # links and speed, for predictions{}\n",
                         Quoted(like->cluster),
                         like->note)
           : "");
}

// The framework of predictions, where no adapter names one.
std::string PredictionsText(const InitOptions& options, const Draft& draft) {
  const bool named = draft.adapter && !draft.adapter->framework().empty();
  return named || !IsPredicted(options, draft)
             ? ""
             : "# The simulator predicts every configuration, and the search "
               "corrects its\n# predictions by trials. Frameworks: "
               "experiments/frameworks.\n"
               "[predictions]\nframework = \"generic\"\n\n";
}

}  // namespace

std::string ManifestText(const InitOptions& options) {
  const Draft draft = Inspect(options);
  const std::string start =
      draft.present
          ? fmt::format("start = [{}]  # your present configuration\n",
                        Quoted(trials::ToString(*draft.present)))
          : "# start = [\"dp=4\"]  # your present configuration\n";
  std::string notes;
  for (const std::string& note : draft.notes) {
    notes += fmt::format("# Note: {}.\n", note);
  }
  const fs::path here = fs::absolute(options.manifest).parent_path();
  const std::string folder =
      fs::absolute(options.folder).lexically_proximate(here).string();
  const std::vector<std::string> varied =
      draft.adapter ? draft.adapter->Parameters(draft.job)
                    : PlaceholdersOf(options.command);
  return fmt::format(
      "# A search for the fastest configuration of a training job, for `oppa "
      "tune`.\n"
      "# Keys: docs/manifest_format.md, docs/external-trials.md.\n\n"
      "[experiment]\n"
      "methods = [\"{}\"]\n{}{}\n"
      "[backend]\n"
      "type = \"command\"\n"
      "{}"
      "folder = {}  # in which the program starts\n"
      "program = {}\n"
      "timeout_s = 1800  # of a trial\n"
      "silence_s = 600   # a trial without a step for this long hangs\n\n"
      "{}"
      "[workload]\n"
      "model = {}\n"
      "batch_size = {}  # sequences of a step over all ranks\n"
      "sequence_length = {}\n\n"
      "[cluster]\n{}\n"
      "{}"
      "# The parameters that vary, with their values.\n"
      "[space]\n{}\n"
      "[budget]\n"
      "time_minutes = {}\n"
      "trials = {}\n"
      "q_max = {}  # steps of a trial\n"
      "stop_when = \"gain < 1%\"  # expected of the best untried "
      "configuration\n",
      IsPredicted(options, draft) ? "oppa-sim" : "oppa",
      start,
      notes,
      options.framework.empty()
          ? ""
          : fmt::format("framework = {}\n",
                        Quoted(options.framework.ends_with(".toml")
                                   ? FromManifest(options, options.framework)
                                   : options.framework)),
      Quoted(folder.empty() ? "." : folder),
      QuotedList(options.command),
      options.step_time.empty()
          ? ""
          : fmt::format("[backend.log]\nstep_time_s = {}\n\n",
                        Quoted(options.step_time)),
      Quoted(FromManifest(options, options.model)),
      draft.job.workload.batch_size,
      draft.job.workload.sequence_length,
      ClusterText(options, draft),
      PredictionsText(options, draft),
      SpaceText(varied, draft.adapter, draft.job, draft.present),
      options.minutes,
      options.trials,
      options.steps);
}

}  // namespace jobs
