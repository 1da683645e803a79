#include "jobs/tune/init.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "jobs/job.h"
#include "jobs/machine.h"
#include "jobs/tune/tune_job.h"
#include "trials/adapters/adapter.h"
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
  std::optional<Likeness> like;  // without a cluster file
  // Frameworks without a setting for sequence parallelism turn it on with
  // tensor parallelism.
  bool implies_sp = false;
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
    const double ranks =
        draft.machine.size.gpus() /
        (NumberOf(draft, "$tp", 1.0) * NumberOf(draft, "$pp", 1.0) *
         NumberOf(draft, "$cp", 1.0));
    return static_cast<int>(
        micro * NumberOf(draft, "$dp * $microbatches",
                         ranks * NumberOf(draft, "$microbatches", 1.0)));
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
      trials::ReadModel(fs::absolute(options.folder / options.model)), batch,
      SequenceLength(options, draft));
  if (draft.present) {
    try {
      trials::RequireWholeMicrobatches(*draft.present, batch);
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("--start {}: {}", options.start, e.what()));
    }
  }
  if (!draft.present && draft.adapter) {
    const trials::PresentConfig present = draft.adapter->Present(draft.job);
    draft.present = present.config;
    draft.notes = present.notes;
  }
  if (draft.adapter && !draft.adapter->framework().empty()) {
    const std::vector<std::string> set = draft.adapter->Parameters(draft.job);
    draft.implies_sp =
        common::Contains(set, "tp") && !common::Contains(set, "sp");
  }
  if (draft.present && draft.implies_sp) {
    draft.present->sp = draft.present->tp;
  }
  return draft;
}

// The text as a string of a manifest, with its quotes.
std::string TomlString(const std::string& text) {
  try {
    std::string quoted = common::Json(text).dump();
    for (std::size_t at = 0; (at = quoted.find('\x7f', at)) != quoted.npos;) {
      quoted.replace(at, 1, "\\u007f");
    }
    return quoted;
  } catch (const common::Json::exception&) {
    throw InputError(fmt::format("'{}' is not UTF-8 text", text));
  }
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

  // The lines of [space].
  [[nodiscard]] std::string Text() const {
    std::string text =
        draft_.implies_sp ? "rules = [\"$tp > 1 && $sp != $tp\"]\n" : "";
    for (const Knob& knob : BuiltInKnobs()) {
      text += Line(knob);
    }
    return text;
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

  [[nodiscard]] std::string Line(const Knob& knob) const {
    const auto list = lists_.find(&knob);
    if (list != lists_.end() && !list->second.empty()) {
      return fmt::format("{} = [{}]\n", knob.name,
                         fmt::join(list->second, ", "));
    }
    if (knob.group == trials::KnobGroup::kFixed ||
        std::ranges::any_of(lists_, [&knob](const auto& other) {
          return other.first->inverse.knob == knob.name;
        })) {
      return "";  // it follows from others
    }
    if (!common::Contains(varied_, knob.name)) {
      return draft_.adapter
                 ? ""
                 : fmt::format("{} = [{}]  # not in your command line\n",
                               knob.name, knob.Default());
    }
    if (only_listed_ && list == lists_.end() && knob.name != "dp") {
      return fmt::format("{} = [{}]\n", knob.name, PresentValue(knob));
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
    return fmt::format("{}{} = [{}]{}\n", values == grid ? "# " : "", knob.name,
                       fmt::join(values, ", "),
                       added ? "  # with your present value" : "");
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

std::string ClusterText(const InitOptions& options, const JobDraft& draft) {
  const Machine& machine = draft.machine;
  std::string price =
      options.price > 0.0
          ? fmt::format("price_per_gpu_hour = {}  # USD\n", options.price)
          : "";
  if (options.power_w > 0.0) {
    price += fmt::format("power_per_gpu_w = {}\n", options.power_w);
  }
  if (!options.cluster.empty()) {
    return fmt::format("file = {}\ngpus = {}\n{}",
                       TomlString(FromManifest(options, options.cluster)),
                       machine.size.gpus(), price);
  }
  return fmt::format(
      "# Detected: {}.\nnodes = {}\ngpus_per_node = {}\nmemory_gib = {:.2f}  # "
      "of one device\n{}{}",
      machine.source, machine.size.nodes, machine.size.gpus_per_node,
      machine.memory_gib,
      draft.like
          ? fmt::format("like = {}  # links and speed, for predictions{}\n",
                        TomlString(draft.like->cluster), draft.like->note)
          : "",
      price);
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
time_minutes = {minutes:g}  # half as many more for the repeated measurements
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

// Predictions by earlier jobs.
constexpr const char* kEarlierJobs =
    R"(# Trials of earlier jobs predict every configuration, and the search corrects
# these predictions by its own trials.
[predictions]
from = [{}]

)";

std::string PredictionsText(const InitOptions& options, bool predicted,
                            bool names_framework) {
  if (!options.from.empty()) {
    if (!options.calibration.empty()) {
      throw InputError(
          "--calibration corrects the simulator, and --from predicts without "
          "it: leave one out");
    }
    const auto folders =
        common::Map(options.from, [&](const std::string& folder) {
          return TomlString(FromManifest(options, folder));
        });
    return fmt::format(kEarlierJobs, fmt::join(folders, ", "));
  }
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
  const SpaceDraft space(options, draft);
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
  const bool predicted = !options.from.empty() || !options.cluster.empty() ||
                         draft.like.has_value();
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
      fmt::arg(
          "start",
          draft.present
              ? fmt::format(
                    "{}start = [{}{}]", space.HasPresent() ? "" : "# ",
                    TomlString(ToString(*draft.present)),
                    options.next.empty() ? "" : ", " + TomlString(options.next))
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
      fmt::arg("space", space.Text()),
      fmt::arg("minutes", kSearchShare * options.minutes),
      fmt::arg("trials", options.trials), fmt::arg("steps", options.steps));
}

}  // namespace jobs
