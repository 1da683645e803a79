#include "jobs/tune/init.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "jobs/job.h"
#include "jobs/machine.h"
#include "jobs/tune/tune_job.h"
#include "trials/adapters/adapter.h"
#include "trials/adapters/command_words.h"
#include "trials/adapters/placeholders.h"
#include "trials/constraints.h"
#include "trials/knobs.h"
#include "trials/objective.h"
#include "trials/programs/rank_launch.h"
#include "trials/programs/trial_rendering.h"

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
  trials::FileSettings file;     // of the command, and the file it names
  std::optional<Likeness> like;  // without a cluster file
  // Frameworks without a setting for sequence parallelism turn it on with
  // tensor parallelism.
  bool implies_sp = false;

  [[nodiscard]] bool names_framework() const {
    return adapter && !adapter->framework().empty();
  }
};

// The number that the command line has for an expression of the adapter's
// settings.
double NumberOf(const JobDraft& draft, std::string_view expression,
                double otherwise) {
  return draft.adapter ? draft.adapter->PresentNumber(draft.job, expression)
                             .value_or(otherwise)
                       : otherwise;
}

// The sequences of a step: of the option, or of the command line.
int BatchSize(const InitOptions& options, const JobDraft& draft) {
  if (options.batch > 0) {
    return options.batch;
  }
  if (const auto batch = draft.adapter ? PresentBatch(*draft.adapter, draft.job,
                                                      draft.machine.size.gpus())
                                       : std::nullopt) {
    return static_cast<int>(*batch);
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
    machine.size = ParseMachineSizes(options.gpus, {8}).front();
  }
  if (!options.gpu.empty()) {
    const trials::Gpu gpu = FindMachine({.gpu = options.gpu}).gpu;
    if (machine.product.empty()) {  // a login node: the job runs elsewhere
      machine.memory_gib = gpu.memory_bytes / common::kGibi;
      machine.source = "--gpu " + options.gpu;
    }
    machine.product = options.gpu;
  }
  for (const auto& [flag, devices_of] :
       {std::pair("--nproc-per-node", machine.size.gpus_per_node),
        {"--num_processes", machine.size.gpus()}}) {
    const auto launched = common::ParseInt(
        trials::FlagValue(options.command, flag, true).value_or(""), 1,
        1 << 16);
    if (!options.gpus.empty() && launched && *launched != devices_of) {
      throw InputError(
          fmt::format("--gpus {}: {} in the command is {}: correct one of them",
                      options.gpus, flag, *launched));
    }
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

// The parameters that the adapter sets, or that are placeholders in the command
// line.
std::vector<std::string> VariedBy(const InitOptions& options,
                                  const JobDraft& draft) {
  if (draft.adapter) {
    std::vector<std::string> names = draft.adapter->Parameters(draft.job);
    if (draft.implies_sp) {
      names.emplace_back("sp");
    }
    return names;
  }
  const std::string microbatches_knob = "microbatches";
  std::vector<std::string> names = {"dp"};
  for (const Knob& knob : BuiltInKnobs()) {
    const std::string& name =
        knob.group == trials::KnobGroup::kFixed ? microbatches_knob : knob.name;
    if (!common::Contains(names, name) &&
        std::ranges::any_of(options.command, [&](const std::string& word) {
          return word.find("{" + knob.name + "}") != std::string::npos;
        })) {
      names.push_back(name);
    }
  }
  if (names.size() == 1) {
    try {
      for (const std::string& word : options.command) {
        static_cast<void>(
            trials::Expand(word, trials::Placeholders({}, {}, {})));
      }
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("nothing can vary: {}", e.what()));
    }
    throw InputError(
        "nothing can vary: name the adapter of your framework with --framework "
        "(`oppa adapters`; docs/adapters.md for one of your own), or write "
        "placeholders where your command line has values, as in --batch "
        "{micro_batch_size} --accumulate {microbatches} --steps {max_steps}");
  }
  return names;
}

// The configuration of --start; nothing without that option.
std::optional<trials::ParallelConfig> ReadStart(const InitOptions& options) {
  if (options.start.empty()) {
    return std::nullopt;
  }
  try {
    return trials::Canonical(trials::ParseParallelConfig(options.start));
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("--start: {}", e.what()));
  }
}

void RequireCommand(const InitOptions& options) {
  if (options.command.empty()) {
    throw InputError(
        "your command line is missing: give it after --, as in `... -- "
        "torchrun train.py`");
  }
  if (options.model.empty()) {
    throw InputError("--model FILE is missing: the config.json of your model");
  }
}

// Sets the present configuration that --start or the command line has.
void SetPresent(const InitOptions& options, JobDraft& draft) {
  if (draft.present) {
    try {
      trials::RequireWholeMicrobatches(*draft.present,
                                       draft.job.workload.batch_size);
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("--start {}: {}", options.start, e.what()));
    }
  } else if (draft.adapter) {
    const trials::PresentConfig present = draft.adapter->Present(draft.job);
    draft.present = present.config;
    draft.notes = present.notes;
  }
  if (draft.names_framework()) {
    const std::vector<std::string> set = draft.adapter->Parameters(draft.job);
    draft.implies_sp =
        common::Contains(set, "tp") && !common::Contains(set, "sp");
  }
  if (draft.present && draft.implies_sp) {
    draft.present->sp = draft.present->tp;
  }
}

// Errors: throws InputError if the command trains another model.
void RequireModel(const InitOptions& options, const JobDraft& draft) {
  const auto wrong = draft.adapter ? draft.adapter->Contradictions(draft.job)
                                   : std::vector<std::string>();
  if (!wrong.empty()) {
    throw InputError(
        fmt::format("the command trains another model than --model {}: {}: "
                    "correct one of them",
                    options.model, fmt::join(wrong, "; ")));
  }
}

// Reads what the command line says of the training, which predictions are for.
void ReadCommand(const InitOptions& options, JobDraft& draft) {
  draft.file = draft.adapter->ReadCommand(draft.job);
  for (const std::string& setting : draft.file.defaults) {
    if (std::ranges::any_of(options.training, [&](const std::string& own) {
          return own.starts_with(setting.substr(0, setting.find('=') + 1));
        })) {  // as the program does, whatever its options
      std::erase(draft.file.training, setting);
    }
    trials::Workload changed = draft.job.workload;
    SetTraining({}, {setting}, changed);
    if (common::Contains(draft.file.training, setting) &&
        changed != draft.job.workload) {
      draft.file.notes.push_back(fmt::format(
          "the command does not say otherwise: predictions are for {}, the "
          "default of {}; --training changes that",
          setting, draft.adapter->name()));
    }
  }
  if (!draft.file.unread.empty()) {
    draft.file.notes.push_back(fmt::format(
        "predictions do not count what {} changes; --training may say it",
        fmt::join(draft.file.unread, ", ")));
  }
}

JobDraft DraftJob(const InitOptions& options) {
  RequireCommand(options);
  JobDraft draft;
  draft.present = ReadStart(options);
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
  } else {
    static_cast<void>(VariedBy(options, draft));  // fails before sizes do
  }
  draft.job.words =
      draft.machine.size.nodes > 1 ? OnNodes(options.command) : options.command;
  draft.job.folder = options.folder;
  draft.job.cluster.nodes = draft.machine.size.nodes;
  draft.job.cluster.gpus_per_node = draft.machine.size.gpus_per_node;
  const int batch = BatchSize(options, draft);
  draft.job.workload = MakeWorkload(
      trials::ReadModel(fs::absolute(options.folder / options.model),
                        options.model_options),
      batch, SequenceLength(options, draft));
  if (draft.adapter) {
    ReadCommand(options, draft);
  }
  SetTraining(draft.file, options.training, draft.job.workload);
  RequireModel(options, draft);
  SetPresent(options, draft);
  draft.notes.insert(draft.notes.end(), draft.file.notes.begin(),
                     draft.file.notes.end());
  return draft;
}

// A path of the user's as a string in TOML, relative to the folder of the
// manifest.
std::string FromManifest(const InitOptions& options, const fs::path& path) {
  const fs::path target = fs::absolute(options.folder / path);
  const fs::path from = fs::absolute(options.manifest).parent_path();
  const fs::path relative = target.lexically_proximate(from);
  return TomlString(relative.empty() || relative.begin()->string() == ".."
                        ? target.lexically_normal().string()
                        : relative.string());
}

// The values of a parameter that a manifest does not list.
std::vector<int> GridOf(const JobDraft& draft, const Knob& knob) {
  if (draft.adapter && draft.adapter->space().Has(knob.name)) {
    const auto listed = draft.adapter->space().GetInts(knob.name);
    return {listed.begin(), listed.end()};
  }
  return knob.grid.values
             ? knob.grid.values(draft.job.workload, draft.job.cluster.gpus())
             : std::vector<int>{knob.Default()};
}

ManifestLine When(bool applies, const ManifestLine& line) {
  return applies ? line : ManifestLine();
}

// The parameters that vary, with their values.
class SpaceDraft {
 public:
  SpaceDraft(const InitOptions& options, const JobDraft& draft)
      : draft_(draft),
        varied_(VariedBy(options, draft)),
        only_listed_(!options.vary.empty()) {
    for (const std::string& text : options.vary) {
      Add("--vary", text);
    }
    for (const std::string& text : options.fix) {
      if (Add("--fix", text) != 1) {
        throw InputError(
            fmt::format("--fix {}: give one value, as in tp=2", text));
      }
    }
  }

  [[nodiscard]] ManifestSection Section() const {
    std::vector<ManifestLine> lines = {When(
        draft_.implies_sp, {"rules", TomlList({"$tp > 1 && $sp != $tp"})})};
    for (const Knob& knob : BuiltInKnobs()) {
      lines.push_back(Line(knob));
    }
    return {"space", "The parameters that vary, with their values.", lines};
  }

  // Whether a search can begin with the present configuration.
  [[nodiscard]] bool HasPresent() const {
    return std::ranges::all_of(lists_, [this](const auto& list) {
      return list.second.empty() || HasPresentValue(*list.first, list.second);
    });
  }

 private:
  // Reads "tp", "tp=2" or "tp=1,2"; returns the number of values.
  std::size_t Add(std::string_view option, const std::string& text) {
    try {
      const std::size_t equals = text.find('=');
      const Knob* knob = &BuiltInKnobs().Require(text.substr(0, equals));
      const std::string& other = knob->inverse.knob;  // that it follows from
      if (!common::Contains(varied_, other.empty() ? knob->name : other)) {
        throw std::invalid_argument(
            fmt::format("the command line does not set {}; it sets {}",
                        knob->name, fmt::join(varied_, ", ")));
      }
      if (equals == std::string::npos) {
        knob = other.empty() ? knob : &BuiltInKnobs().Require(other);
        lists_[knob];
        return 0;
      }
      std::vector<int>& values = lists_[knob];
      for (const std::string_view value :
           common::Split(std::string_view(text).substr(equals + 1), ',')) {
        trials::ParallelConfig config;
        knob->SetChecked(config, value);
        values.push_back(knob->Get(config));
      }
      return values.size();
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("{} {}: {}", option, text, e.what()));
    }
  }

  [[nodiscard]] int PresentValue(const Knob& knob) const {
    return trials::ValueOf(knob,
                           draft_.present.value_or(trials::ParallelConfig()),
                           draft_.job.workload.batch_size);
  }

  // Or needs none.
  [[nodiscard]] bool HasPresentValue(const Knob& knob,
                                     const std::vector<int>& values) const {
    return !draft_.present || !trials::HasEffect(knob, *draft_.present) ||
           common::Contains(values, PresentValue(knob));
  }

  // Empty for a parameter that the manifest does not name.
  [[nodiscard]] ManifestLine Line(const Knob& knob) const {
    const auto line = [&knob](const std::vector<int>& values,
                              const std::string& comment = "",
                              bool holds = true) {
      return ManifestLine{knob.name,
                          fmt::format("[{}]", fmt::join(values, ", ")), comment,
                          holds};
    };
    const auto list = lists_.find(&knob);
    if (list != lists_.end() && !list->second.empty()) {
      return line(list->second);
    }
    if (knob.group == trials::KnobGroup::kFixed ||
        std::ranges::any_of(lists_, [&knob](const auto& other) {
          return other.first->inverse.knob == knob.name;
        })) {
      return {};  // it follows from others
    }
    if (!common::Contains(varied_, knob.name)) {
      return When(!draft_.adapter,
                  line({knob.Default()}, "not in your command line"));
    }
    if (only_listed_ && list == lists_.end() && knob.name != "dp") {
      return line({PresentValue(knob)});
    }
    const std::vector<int> grid = GridOf(draft_, knob);
    std::vector<int> values = grid;
    if (!draft_.adapter || !draft_.adapter->space().Has(knob.name)) {
      Adapt(knob, values);
    }
    const bool added = !HasPresentValue(knob, values);
    if (added) {
      values.push_back(PresentValue(knob));
      std::ranges::sort(values);
    }
    return line(values, added ? "with your present value" : "", values != grid);
  }

  // Gives a parameter the values that a plan has, or that fit this job.
  void Adapt(const Knob& knob, std::vector<int>& values) const {
    const trials::Workload& workload = draft_.job.workload;
    const int gpus = draft_.job.cluster.gpus();
    if (knob.name == "cp") {
      values = ContextSizes(workload, gpus);
    } else if (knob.name == "sp") {
      values = DivisorsUpTo(gpus, gpus);
    } else if (knob.name == "microbatches" &&
               !std::has_single_bit(
                   static_cast<unsigned>(workload.batch_size))) {
      values = DivisorsUpTo(workload.batch_size, workload.batch_size);
    } else if (knob.name.ends_with("_bucket_mb")) {
      DropLargerBuckets(knob, values);
    }
  }

  // A bucket that is larger than all gradients (of 4 bytes) is one bucket, as
  // the next larger one is: keeps the present one of them, else the smallest.
  void DropLargerBuckets(const Knob& knob, std::vector<int>& values) const {
    const double all_mb =
        4.0 * static_cast<double>(ParameterCount(draft_.job.workload.model)) /
        common::kMebi;
    const bool present = draft_.present &&
                         trials::HasEffect(knob, *draft_.present) &&
                         PresentValue(knob) >= all_mb;
    const auto one =
        std::ranges::find_if(values, [all_mb](int mb) { return mb >= all_mb; });
    values.erase(one == values.end() || present ? one : one + 1, values.end());
  }

  const JobDraft& draft_;
  std::vector<std::string> varied_;
  bool only_listed_ = false;
  // Of --vary and --fix; no values: the usual ones.
  std::map<const Knob*, std::vector<int>> lists_;
};

ManifestSection ExperimentSection(const InitOptions& options,
                                  const JobDraft& draft,
                                  const SpaceDraft& space, bool predicted) {
  std::vector<std::string> starts = {draft.present ? ToString(*draft.present)
                                                   : "dp=4"};
  if (draft.present && !options.next.empty()) {
    starts.push_back(options.next);
  }
  std::string notes;
  for (const std::string& note : draft.notes) {
    notes += fmt::format("Note: {}.\n", note);
  }
  return {.header = "experiment",
          .lines = {{"methods", TomlList({predicted ? "oppa-sim" : "oppa"})},
                    {"start", TomlList(starts), "your present configuration",
                     draft.present && space.HasPresent()},
                    {.comment = notes}}};
}

ManifestSection BackendSection(const InitOptions& options,
                               const JobDraft& draft) {
  const std::string& framework = options.framework;
  const std::string folder =
      fs::absolute(options.folder)
          .lexically_proximate(fs::absolute(options.manifest).parent_path())
          .string();
  const std::string& hosts = options.nodes.hostfile;
  return {
      .header = "backend",
      .lines = {
          {"type", "\"command\""},
          When(!framework.empty(),
               {"framework", framework.ends_with(".toml")
                                 ? FromManifest(options, framework)
                                 : TomlString(framework)}),
          {"folder", TomlString(folder.empty() ? "." : folder),
           "in which the program starts"},
          {"program", TomlList(draft.job.words)},
          hosts.empty() ? RanksLine(options.command, draft.machine.size.nodes)
                        : ManifestLine{"hostfile", FromManifest(options, hosts),
                                       "ssh starts the program on its hosts"},
          {"timeout_s", "1800", "of a trial"},
          {"silence_s", "600 ", "a trial without a step for this long hangs"}}};
}

ManifestSection ClusterSection(const InitOptions& options,
                               const JobDraft& draft) {
  const Machine& machine = draft.machine;
  const Likeness like = draft.like.value_or(Likeness());
  std::vector<ManifestLine> lines = {
      {.comment = "Detected: " + machine.source + "."},
      {"nodes", std::to_string(machine.size.nodes)},
      {"gpus_per_node", std::to_string(machine.size.gpus_per_node)},
      {"memory_gib", fmt::format("{:.2f}", machine.memory_gib),
       "of one device"},
      When(draft.like.has_value(),
           {"like", TomlString(like.cluster),
            "links and speed, for predictions" + like.note})};
  if (!options.cluster.empty()) {
    lines = {{"file", FromManifest(options, options.cluster)},
             {"gpus", std::to_string(machine.size.gpus())}};
  }
  lines.push_back(
      When(options.price > 0.0,
           {"price_per_gpu_hour", fmt::to_string(options.price), "USD"}));
  lines.push_back(When(options.power_w > 0.0,
                       {"power_per_gpu_w", fmt::to_string(options.power_w)}));
  return {.header = "cluster", .lines = lines};
}

ManifestSection PredictionsSection(const InitOptions& options,
                                   const JobDraft& draft, bool predicted) {
  const std::string& calibration = options.calibration;
  const ManifestLine accept =
      When(options.accept_foreign, {"accept_foreign", "true"});
  if (!options.from.empty()) {
    if (!calibration.empty()) {
      throw InputError(
          "--calibration corrects the simulator, and --from predicts without "
          "it: leave one out");
    }
    const auto folders =
        common::Map(options.from, [&](const std::string& folder) {
          return FromManifest(options, folder);
        });
    return {"predictions",
            "Trials of earlier jobs predict every configuration, and the "
            "search corrects\nthese predictions by its own trials.",
            {{"from", fmt::format("[{}]", fmt::join(folders, ", "))}, accept}};
  }
  if (!predicted && !calibration.empty()) {
    throw InputError(fmt::format(
        "--calibration {}: nothing is predicted without a machine: give --gpu "
        "or --cluster",
        calibration));
  }
  if (!predicted || (draft.names_framework() && calibration.empty())) {
    return {};
  }
  return {"predictions",
          "The simulator predicts every configuration, and the search corrects "
          "its\npredictions by trials. Frameworks: experiments/frameworks.",
          {When(!draft.names_framework(), {"framework", "\"generic\""}),
           When(!calibration.empty(),
                {"calibration", FromManifest(options, calibration)}),
           accept}};
}

ManifestSection WorkloadSection(const InitOptions& options,
                                const JobDraft& draft) {
  const trials::Workload& workload = draft.job.workload;
  const auto own = trials::TrainingKeys(options.training);
  std::vector<ManifestLine> lines = {
      {"model", FromManifest(options, options.model)},
      When(!options.model_options.as.empty(),
           {"as", TomlString(options.model_options.as)}),
      When(!options.model_options.parameters.empty(),
           {"parameters", TomlString(options.model_options.parameters)}),
      {"batch_size", std::to_string(workload.batch_size),
       "sequences of a step over all ranks"},
      {"sequence_length", std::to_string(workload.sequence_length)}};
  for (const auto& [key, value] : trials::TrainingKeys(draft.file.training)) {
    if (std::ranges::find(own, key, [](const auto& each) {
          return each.first;
        }) == own.end()) {
      lines.push_back({key, value, "as your job says"});
    }
  }
  for (const auto& [key, value] : own) {
    lines.push_back({key, value});
  }
  return {.header = "workload", .lines = lines};
}

}  // namespace

ManifestDraft DraftManifest(const InitOptions& options) {
  const JobDraft draft = DraftJob(options);
  const SpaceDraft space(options, draft);
  const bool predicted =
      !options.from.empty() || !options.cluster.empty() || draft.like;
  const bool without_gpus =
      draft.machine.product.empty() && options.cluster.empty();
  return {
      "A search for the fastest configuration of a training job, for `oppa "
      "tune`.\nKeys: docs/manifest_format.md, docs/external-trials.md.",
      {ExperimentSection(options, draft, space, predicted),
       BackendSection(options, draft),
       {.header = options.step_time.empty() ? "" : "backend.log",
        .lines = {{"step_time_s", TomlString(options.step_time)}}},
       WorkloadSection(options, draft),
       ClusterSection(options, draft),
       PredictionsSection(options, draft, predicted),
       space.Section(),
       {.header = "budget",
        .lines = {{"time_minutes",
                   fmt::format("{:g}", kSearchShare * options.minutes),
                   "half as many more for the repeated measurements"},
                  {"trials", std::to_string(options.trials)},
                  {"q_max", std::to_string(options.steps), "steps of a trial"},
                  {"stop_when", "\"gain < 1% and p_found_5 > 75%\"",
                   "expected of the best untried configuration, and the "
                   "probability that one within 5% of the best was tried"}}},
       SlurmSection(options.nodes,
                    without_gpus ? draft.machine.size.gpus_per_node : 0)}};
}

}  // namespace jobs
