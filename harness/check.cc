#include "harness/check.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "harness/records/journal.h"
#include "harness/slurm/submission.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

void CheckRun(const fs::path& folder, CheckSummary& summary) {
  const trials::RunInfo info = trials::ReadRunInfo(folder);
  trials::RequireWhole(folder, info);
  if (!info.finished) {
    for (const std::string& note : CheckJournal(folder)) {
      summary.notes.push_back(fmt::format("{}: {}", folder.string(), note));
    }
    ++summary.unfinished;
  } else if (info.files) {
    ++summary.finished;
  } else {
    (void)trials::SealFiles(folder);  // reads every row
    ++summary.unsealed;
  }
}

// Not so if it is in a closed folder.
bool IsGone(const fs::path& path) {
  std::error_code none;
  return fs::symlink_status(path, none).type() == fs::file_type::not_found;
}

// Nothing if its description is damaged, which the run itself shows.
std::optional<trials::RunInfo> FinishedRun(const fs::path& run_folder) {
  try {
    trials::RunInfo info = trials::ReadRunInfo(run_folder);
    return info.finished ? std::optional(std::move(info)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Calls it, and adds the message of an error to the damage.
void Try(CheckSummary& summary, const auto& check) {
  try {
    check();
  } catch (const std::exception& e) {
    summary.damage.emplace_back(e.what());
  }
}

// What is listed in the folder of an experiment is there.
void CheckList(const fs::path& folder, CheckSummary& summary) {
  const trials::RecordList list(folder);
  bool has_runs = false;
  for (const std::string& name : list.names()) {
    const fs::path file = list.FileOf(name);
    const bool is_run = file != folder / name;
    has_runs = has_runs || is_run;
    if (IsGone(file)) {
      summary.damage.push_back(
          is_run
              ? fmt::format("{}: the records of this run are gone: restore "
                            "them, or rerun the command of the experiment to "
                            "repeat it",
                            (folder / name).string())
              : fmt::format("{}: missing: restore it, or rerun the command of "
                            "the experiment; to go on without it, remove its "
                            "lines from {}",
                            file.string(), list.File(folder).string()));
    }
  }
  if (has_runs && IsGone(folder / "experiment.json")) {
    throw common::InputError(fmt::format(
        "{}: missing: restore it, or rerun the command of the experiment",
        (folder / "experiment.json").string()));
  }
}

// Notes the runs that the experiment has and that left no records.
void CheckExperiment(const fs::path& folder, CheckSummary& summary) {
  const trials::ExperimentInfo info = trials::ReadExperimentInfo(folder);
  const trials::RecordList list(folder);
  Try(summary, [&] { list.RequireFile("experiment.json"); });
  std::vector<std::string> missing;
  for (const std::string& problem : info.problems) {
    const fs::path described =
        trials::ProblemFolder(folder, problem) / "problem.json";
    if (IsGone(described)) {  // it is written before experiment.json
      summary.damage.push_back(fmt::format(
          "{}: missing: restore it, or rerun the command of the experiment",
          described.string()));
    } else {
      Try(summary,
          [&] { list.RequireFile(described.lexically_relative(folder)); });
    }
    for (const auto& method : info.methods) {
      for (int repeat = 1; repeat <= info.repeats; ++repeat) {
        const fs::path run =
            trials::RunFolder(folder, problem, method.name, repeat);
        const std::string name = run.lexically_relative(folder);
        if (IsGone(run / "run.json")) {
          missing.push_back(name);
        } else if (const auto finished = FinishedRun(run)) {
          if (!list.names().contains(name)) {
            // It is listed before it finishes.
            summary.damage.push_back(fmt::format(
                "{}: does not list the run {}: restore the file, or rerun the "
                "command of the experiment",
                list.File(folder).string(), name));
          }
          Try(summary, [&] { list.Require(*finished); });
        }
      }
    }
  }
  if (!missing.empty()) {
    constexpr std::size_t kMost = 5;
    const std::size_t count = missing.size();
    missing.resize(std::min(count, kMost));
    summary.notes.push_back(fmt::format(
        "{}: {} of its runs have no records: {}{}", folder.string(), count,
        fmt::join(missing, ", "), count > kMost ? ", ..." : ""));
  }
}

// One of the files that describe runs and submissions, or a run without one.
void CheckFile(const fs::path& path, CheckSummary& summary) {
  const fs::path folder = path.parent_path();
  const std::string name = path.filename();
  if (name == "run.json") {
    CheckRun(folder, summary);
  } else if (name == "trials.csv") {
    if (folder.filename() != trials::kFigureFolder &&
        !common::EntryExists(folder / "run.json") &&
        !trials::ReadTrials(folder).empty()) {
      throw common::InputError(fmt::format("{}: missing; the folder has trials",
                                           (folder / "run.json").string()));
    }
  } else if (name == "problem.json") {
    (void)trials::ReadProblemInfo(folder);
  } else if (name == "experiment.json") {
    CheckExperiment(folder, summary);
  } else if (path == trials::RecordList::File(folder)) {
    CheckList(folder, summary);
  } else if (name == "finals.json" || name == "best.json" ||
             name == "preflight.json") {
    (void)trials::ReadRecord(path);
  } else if (name == "best.sh") {
    if (!trials::RecordList(folder).Allows(name, common::ReadFile(path))) {
      summary.notes.push_back(
          fmt::format("{}: edited since it was written", path.string()));
    }
  } else if (name == "submission.json") {
    (void)ReadSubmission(folder);
  } else if (name == "tasks.jsonl") {
    (void)ReadTasks(folder);
  }
}

void CheckBelow(const fs::path& folder, CheckSummary& summary) {
  Try(summary, [&] {
    for (const fs::path& path : common::ListFolder(folder)) {
      // A folder with the name of a file, too.
      Try(summary, [&] { CheckFile(path, summary); });
      std::error_code error;
      const fs::file_status status = fs::symlink_status(path, error);
      if (error) {
        summary.damage.push_back(
            fmt::format("{}: {}", path.string(), error.message()));
      } else if (fs::is_directory(status)) {
        CheckBelow(path, summary);
      }
    }
  });
}

}  // namespace

CheckSummary CheckRecordsBelow(const fs::path& results) {
  std::error_code none;
  if (!fs::is_directory(results, none)) {
    throw common::InputError(
        fmt::format("{}: no such folder", results.string()));
  }
  CheckSummary summary;
  CheckBelow(results, summary);
  return summary;
}

}  // namespace harness
