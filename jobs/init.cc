#include "jobs/init.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "jobs/job_draft.h"
#include "trials/knobs.h"
#include "trials/programs/adapter.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using trials::BuiltInKnobs;
using trials::Knob;

std::string QuotedList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) {
    quoted.push_back(TomlString(text));
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
                                    knob.name, knob.Default());
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
    text += fmt::format("{}{} = {}{}\n", changed ? "" : "# ", knob.name,
                        NumberList(values),
                        changed ? "  # with your present value" : "");
  }
  return text;
}

bool IsPredicted(const InitOptions& options, const JobDraft& draft) {
  return !options.cluster.empty() || draft.like.has_value();
}

std::string ClusterText(const InitOptions& options, const JobDraft& draft) {
  if (!options.cluster.empty()) {
    return fmt::format("file = {}\ngpus = {}\n",
                       TomlString(FromManifest(options, options.cluster)),
                       draft.machine.size.gpus());
  }
  return fmt::format(
      "# Detected: {}.\nnodes = {}\ngpus_per_node = {}\nmemory_gib = {:.2f}  # "
      "of "
      "one device\n{}",
      draft.machine.source, draft.machine.size.nodes,
      draft.machine.size.gpus_per_node, draft.machine.memory_gib,
      draft.like
          ? fmt::format("like = {}  # links and speed, for predictions{}\n",
                        TomlString(draft.like->cluster), draft.like->note)
          : "");
}

// The framework of predictions, where no adapter names one.
std::string PredictionsText(const InitOptions& options, const JobDraft& draft) {
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
  const JobDraft draft = DraftJob(options);
  const std::string start =
      draft.present
          ? fmt::format("start = [{}]  # your present configuration\n",
                        TomlString(trials::ToString(*draft.present)))
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
      IsPredicted(options, draft) ? "oppa-sim" : "oppa", start, notes,
      options.framework.empty()
          ? ""
          : fmt::format(
                "framework = {}\n",
                TomlString(options.framework.ends_with(".toml")
                               ? FromManifest(options, options.framework)
                               : options.framework)),
      TomlString(folder.empty() ? "." : folder), QuotedList(options.command),
      options.step_time.empty()
          ? ""
          : fmt::format("[backend.log]\nstep_time_s = {}\n\n",
                        TomlString(options.step_time)),
      TomlString(FromManifest(options, options.model)),
      draft.job.workload.batch_size, draft.job.workload.sequence_length,
      ClusterText(options, draft), PredictionsText(options, draft),
      SpaceText(varied, draft.adapter, draft.job, draft.present),
      options.minutes, options.trials, options.steps);
}

}  // namespace jobs
