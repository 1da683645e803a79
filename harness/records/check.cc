#include "harness/records/check.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "harness/records/journal.h"
#include "harness/slurm/submission.h"
#include "trials/record.h"

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

// One of the files that describe runs and submissions.
void CheckFile(const fs::path& path, CheckSummary& summary) {
  try {
    if (path.filename() == "run.json") {
      CheckRun(path.parent_path(), summary);
    } else if (path.filename() == "problem.json") {
      (void)trials::ReadProblemInfo(path.parent_path());
    } else if (path.filename() == "experiment.json") {
      (void)trials::ReadExperimentInfo(path.parent_path());
    } else if (path.filename() == "submission.json") {
      (void)ReadSubmission(path.parent_path());
    } else if (path.filename() == "tasks.jsonl") {
      (void)ReadTasks(path.parent_path());
    }
  } catch (const common::InputError& e) {
    summary.damage.emplace_back(e.what());
  }
}

}  // namespace

CheckSummary CheckRecordsBelow(const fs::path& results) {
  std::error_code error;
  fs::recursive_directory_iterator entry(results, error);
  if (error) {
    throw common::InputError(
        fmt::format("{}: {}", results.string(), error.message()));
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& file : entry) {
    files.push_back(file.path());
  }
  std::ranges::sort(files);
  CheckSummary summary;
  for (const fs::path& file : files) {
    CheckFile(file, summary);
  }
  return summary;
}

}  // namespace harness
