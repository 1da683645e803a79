#include "harness/records/inputs.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "common/secrets.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/provenance.h"
#include "harness/records/lease.h"
#include "harness/registry.h"
#include "harness/testbeds/problem_parts.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

using common::TomlTable;
using trials::RunInfo;
using trials::RunInput;

constexpr std::size_t kLongestValue = 80;

std::string HashText(std::string_view text) {
  return fmt::format("{:016x}", common::DeriveSeed(text, 0));
}

// The inputs of one run, in the order in which they are added.
class Inputs {
 public:
  void Add(std::string name, std::string value) {
    const auto same =
        std::ranges::count_if(inputs_, [&name](const RunInput& input) {
          return input.name == name || input.name.starts_with(name + " #");
        });
    if (same > 0) {
      name += fmt::format(" #{}", same + 1);
    }
    inputs_.push_back({std::move(name), std::move(value)});
  }

  // The lines "key = value" of a table, but for those with one of the keys.
  void Add(std::string_view heading, const TomlTable& table,
           std::initializer_list<std::string_view> left_out = {}) {
    const std::string text = table.CanonicalText();
    for (const std::string_view line : common::Split(text, '\n')) {
      const std::size_t equals = line.find(" = ");
      if (equals == std::string_view::npos ||
          common::Contains(left_out, line.substr(0, equals))) {
        continue;
      }
      Add(fmt::format("{}.{}", heading, line.substr(0, equals)),
          std::string(line.substr(equals + 3)));
    }
  }

  // Without secrets, with a hash for each long value.
  std::vector<RunInput> Take() {
    // The words of a program follow each other.
    std::vector<std::string> values = common::WithoutSecrets(common::Map(
        inputs_, [](const RunInput& input) { return input.value; }));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      RunInput& input = inputs_[i];
      input.value = std::move(values[i]);
      if (input.value.size() > kLongestValue) {
        input.value = "text with hash " + HashText(input.value);
      }
    }
    return std::move(inputs_);
  }

 private:
  std::vector<RunInput> inputs_;
};

// What happened to the input since the records of a run were made.
struct Difference {
  std::vector<std::string> changes;
  trials::SearchBounds before;  // the limits of the records
  bool grows = false;           // the run ended, and may go on under today's

  [[nodiscard]] bool None() const { return changes.empty() && !grows; }
};

Difference DifferenceOf(const RunInfo& on_record, const RunInfo& now) {
  Difference difference{{}, on_record.bounds.value_or(*now.bounds)};
  if (on_record.inputs) {
    difference.changes = Changes(*on_record.inputs, *now.inputs);
  } else {
    difference.changes = {
        "the records are of a version that did not store which input they "
        "depend on"};
  }
  // Whether a search of other input ends where it did is for the search to say.
  difference.grows =
      on_record.finished &&
      (!difference.changes.empty() ||
       Grows(on_record.finish_reason, difference.before, *now.bounds));
  return difference;
}

[[noreturn]] void Refuse(const fs::path& folder,
                         const std::vector<std::string>& changes) {
  throw common::InputError(fmt::format(
      "{}: these records were made from other input: {}; give "
      "--accept-changed to continue the search with their trials as "
      "observations, or another --results folder or experiment.name to search "
      "from the start",
      folder.string(), fmt::join(changes, "; ")));
}

// What is on record of the run in a folder; nothing without a run.json.
std::optional<RunInfo> OnRecord(const fs::path& folder) {
  return common::EntryExists(folder / "run.json")
             ? std::optional(trials::ReadRunInfo(folder))
             : std::nullopt;
}

RecordedRun Summary(const std::optional<RunInfo>& info) {
  return info ? RecordedRun{info->finished, info->commit} : RecordedRun{};
}

// Records that the run at `folder`, of which `info` is on record, goes on under
// the input `now`, whose `accepted` gets the changes.
void Apply(const Difference& difference, const fs::path& folder, RunInfo info,
           RunInfo& now) {
  trials::RequireWhole(folder, info);
  const Lease lease(folder);
  if (!difference.changes.empty()) {
    if (!now.accepted) {
      now.accepted.emplace();
    }
    const auto trials = trials::ReadTrials(folder).size();
    now.accepted->push_back({static_cast<int>(trials), difference.changes});
    info.accepted = now.accepted;
    info.inputs = now.inputs;
    info.manifest_hash = now.manifest_hash;
  }
  if (difference.grows) {
    info.SetUnfinished();
  }
  info.bounds = difference.grows ? *now.bounds : difference.before;
  lease.Publish("run.json", ToJson(info));
}

// A run and what is on record of it.
struct ComparedRun {
  fs::path folder;
  std::optional<RunInfo> on_record;
  RunInfo now;  // this and the next are set for a run on record
  Difference difference;
};

// The runs of RunMatrix.
std::vector<ComparedRun> Compare(const Experiment& experiment,
                                 bool accept_changed) {
  // Repeats share the input, which is read once.
  std::map<std::pair<const ProblemSpec*, const MethodSpec*>, RunInfo> described;
  std::vector<ComparedRun> compared;
  for (const RunSpec& run : experiment.runs) {
    const fs::path folder = run.Folder(experiment.folder);
    ComparedRun& each = compared.emplace_back(
        ComparedRun{.folder = folder, .on_record = OnRecord(folder)});
    if (!each.on_record) {
      continue;
    }
    RunInfo& now = described[{run.problem, run.method}];
    if (!now.inputs) {
      now = DescribeRun(experiment, run, "");
    }
    each.now = now;
    each.difference = DifferenceOf(*each.on_record, now);
    if (!each.difference.changes.empty() && !accept_changed) {
      Refuse(folder, each.difference.changes);
    }
  }
  return compared;
}

}  // namespace

RunInfo DescribeRun(const Experiment& experiment, const RunSpec& run,
                    const std::string& command) {
  const Manifest& manifest = experiment.manifest;
  const Testbed& testbed = experiment.testbeds.Of(*run.problem);
  RunInfo info;
  info.experiment = manifest.name;
  info.problem = run.problem->name;
  info.method = run.method->name;
  info.repeat = run.repeat;
  info.seed = manifest.MethodSeed(*run.problem, run.repeat);
  info.manifest = manifest.path.string();
  if (!manifest.settings.empty()) {
    info.settings = manifest.settings;
  }
  info.backend = testbed.type;
  info.commit = BuildCommit().hash;
  info.dirty = BuildCommit().dirty;
  info.host = HostName();
  info.version = Version();
  info.command = command;
  info.inputs = InputsOf(manifest, *run.problem, *run.method, testbed);
  info.bounds = BoundsOf(manifest.budget);
  info.manifest_hash = RunHash(*info.inputs, *info.bounds);
  return info;
}

bool IsFinished(const fs::path& run_folder) {
  return common::EntryExists(run_folder / "run.json") &&
         trials::ReadRunInfo(run_folder).finished;
}

std::vector<RunInput> InputsOf(const Manifest& manifest,
                               const ProblemSpec& problem,
                               const MethodSpec& method,
                               const Testbed& testbed) {
  const ConfiguredMethod configured =
      Configure(method, ProblemOf(testbed, manifest.budget.q_max));
  Inputs inputs;
  inputs.Add("experiment.seed", std::to_string(manifest.seed));
  for (const std::string& start : manifest.starts.configs) {
    inputs.Add("experiment.start", start);
  }
  if (manifest.starts.common > 0) {
    inputs.Add("experiment.common_starts",
               std::to_string(manifest.starts.common));
  }
  if (problem.objective != trials::Objective::kTime) {
    inputs.Add("experiment.objective",
               std::string(ToString(problem.objective)));
  }
  if (manifest.budget.in_flight > 1) {
    inputs.Add("budget.in_flight", std::to_string(manifest.budget.in_flight));
  }
  inputs.Add("budget.q_max", std::to_string(manifest.budget.q_max));
  inputs.Add("budget.charge_thinking",
             manifest.budget.charge_thinking ? "true" : "false");
  inputs.Add("method", method.base);
  inputs.Add("method." + method.name, method.options, {"label", "base"});
  // Limits of a trial on a real clock, and what is kept of its output.
  inputs.Add("backend", problem.backend,
             {"timeout_s", "silence_s", "patience_s", "log_bytes"});
  inputs.Add("noise", problem.noise);
  const std::string predictions =
      configured.predictions
          ? testbed.predictions(*configured.predictions).identity
          : "";
  const bool is_read =
      testbed.workload && FindMethod(method.base)->reads_workload;
  if (testbed.trains_workload || !predictions.empty() || is_read) {
    inputs.Add("workload", problem.workload);
  }
  inputs.Add("cluster", problem.cluster);
  inputs.Add("space", problem.space);
  std::vector<fs::path> files = testbed.inputs;
  if (is_read && !testbed.trains_workload) {
    files.push_back(NamedFile(problem.workload, "model"));
  }
  files.insert(files.end(), configured.files.begin(), configured.files.end());
  for (const fs::path& file : files) {
    inputs.Add("file " + file.filename().string(),
               HashText(common::ReadFile(file)));
  }
  if (!predictions.empty()) {
    inputs.Add("predictions", HashText(predictions));
  }
  return inputs.Take();
}

std::string RunHash(const std::vector<RunInput>& inputs,
                    const trials::SearchBounds& bounds) {
  std::string text = fmt::format("{} {} {}\n",
                                 common::ExactText(bounds.time_s.value_or(
                                     std::numeric_limits<double>::infinity())),
                                 bounds.trials, bounds.stop_when.value_or(""));
  for (const RunInput& input : inputs) {
    text += fmt::format("{} = {}\n", input.name, input.value);
  }
  return fmt::format("{:016x}{:016x}", common::DeriveSeed(text, 0),
                     common::DeriveSeed(text + "\n", 1));
}

trials::SearchBounds BoundsOf(const Budget& budget) {
  trials::SearchBounds bounds{.trials = budget.trials};
  if (std::isfinite(budget.time_s)) {
    bounds.time_s = budget.time_s;
  }
  if (budget.stop_when) {
    bounds.stop_when = budget.stop_when->ToString();
  }
  return bounds;
}

std::vector<std::string> Changes(const std::vector<RunInput>& before,
                                 const std::vector<RunInput>& now) {
  const auto find = [](const std::vector<RunInput>& inputs,
                       const std::string& name) {
    return std::ranges::find_if(
        inputs, [&](const auto& input) { return input.name == name; });
  };
  std::vector<std::string> changes;
  for (const RunInput& was : before) {
    const auto is = find(now, was.name);
    if (is == now.end()) {
      changes.push_back(was.name + " is gone");
    } else if (is->value != was.value) {
      changes.push_back(was.name.starts_with("file ") ||
                                was.name == "predictions"
                            ? fmt::format("{} has other content", was.name)
                            : fmt::format("{} was {}, is {}", was.name,
                                          was.value, is->value));
    }
  }
  for (const RunInput& is : now) {
    if (find(before, is.name) == before.end()) {
      changes.push_back(is.name.starts_with("file ")
                            ? is.name + " is new"
                            : fmt::format("{} = {} is new", is.name, is.value));
    }
  }
  return changes;
}

bool Grows(trials::FinishReason reason, const trials::SearchBounds& before,
           const trials::SearchBounds& now) {
  switch (reason) {
    case trials::FinishReason::kTimeBudget:
      return !now.time_s || (before.time_s && *now.time_s > *before.time_s);
    case trials::FinishReason::kTrialBudget:
      return now.trials == 0 || now.trials > before.trials;
    case trials::FinishReason::kStopCondition:
      return now.stop_when != before.stop_when;
    default:
      return false;
  }
}

void Reopen(const fs::path& run_folder) {
  const Lease lease(run_folder);
  RunInfo info = trials::ReadRunInfo(run_folder);
  trials::RequireWhole(run_folder, info);
  info.SetUnfinished();
  lease.Publish("run.json", ToJson(info));
}

void PrepareRun(const fs::path& folder, RunInfo& now) {
  std::optional<RunInfo> info = OnRecord(folder);
  if (!info) {
    return;
  }
  const Difference difference = DifferenceOf(*info, now);
  if (!difference.changes.empty()) {
    Refuse(folder, difference.changes);
  }
  now.accepted = info->accepted;
  if (difference.grows) {
    Apply(difference, folder, *std::move(info), now);
  }
}

std::vector<RecordedRun> CheckRecords(const Experiment& experiment) {
  std::vector<RecordedRun> recorded;
  for (const ComparedRun& run : Compare(experiment, false)) {
    recorded.push_back(Summary(run.on_record));
  }
  return recorded;
}

std::vector<RecordedRun> PrepareRecords(const Experiment& experiment,
                                        bool accept_changed) {
  std::vector<RecordedRun> recorded;
  // All runs are compared before the first is changed.
  for (ComparedRun& run : Compare(experiment, accept_changed)) {
    recorded.push_back(Summary(run.on_record));
    if (run.difference.grows) {
      recorded.back().finished = false;
    }
    if (!run.difference.None()) {
      run.now.accepted = run.on_record->accepted;
      Apply(run.difference, run.folder, *std::move(run.on_record), run.now);
    }
  }
  try {
    common::CreateFolders(experiment.folder);
  } catch (const std::runtime_error& e) {
    throw common::InputError(fmt::format(
        "{}; results need a folder in which you can write", e.what()));
  }
  return recorded;
}

}  // namespace harness
