// Seals: what the files of a run contained when it finished.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "common/files.h"
#include "common/hash.h"
#include "trials/record.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

SealedFile Seal(const std::string& name, const std::string& text) {
  constexpr int kHeaderLines = 2;
  const auto lines = static_cast<int>(std::ranges::count(text, '\n'));
  return {name, lines - kHeaderLines,
          fmt::format("{:016x}", common::Hash(text))};
}

// A file of a run, and a function that reads all its rows and returns its text.
struct RunFile {
  std::string name;
  std::string (*read)(const fs::path& folder);
};

template <typename Record>
RunFile FileFor() {
  return {FileOf<Record>().name,
          [](const fs::path& folder) { return ReadRows<Record>(folder).text; }};
}

std::vector<RunFile> RunFiles() {
  return {FileFor<Trial>(), FileFor<StepRecord>(), FileFor<FitRecord>(),
          FileFor<SuggestionTime>(), FileFor<PlanRecord>()};
}

[[noreturn]] void Fail(const fs::path& path, const std::string& reason) {
  throw common::InputError(
      fmt::format("{}: {}; restore it, or move {} away to repeat the run",
                  path.string(), reason, path.parent_path().string()));
}

void RequireFile(const fs::path& path, const SealedFile* sealed) {
  const std::optional<std::string> text = common::ReadFileIfExists(path);
  if (sealed == nullptr) {
    if (text) {
      Fail(path, "the finished run had no such file");
    }
    return;
  }
  if (!text) {
    Fail(path, fmt::format("missing; the finished run had it with {} rows",
                           sealed->rows));
  }
  const SealedFile found = Seal(sealed->name, *text);
  if (found.rows != sealed->rows) {
    Fail(path, fmt::format("{} rows; the finished run had {}",
                           std::max(found.rows, 0), sealed->rows));
  }
  if (found.hash != sealed->hash) {
    Fail(path, "its content has changed since the run finished");
  }
}

// The run that the path names: [<problem>/]<method>/<repeat>.
void RequireIdentity(const fs::path& run_folder, const RunInfo& info) {
  fs::path folder = fs::absolute(run_folder).lexically_normal();
  if (!folder.has_filename()) {
    folder = folder.parent_path();
  }
  const fs::path method = folder.parent_path();
  const fs::path problem = method.parent_path().filename();
  if (folder.filename() != std::to_string(info.repeat) ||
      method.filename() != info.method ||
      (!info.problem.empty() && problem != info.problem)) {
    Fail(run_folder / "run.json",
         fmt::format("describes repeat {} of method {}{}{}, which is another "
                     "run",
                     info.repeat, info.method,
                     info.problem.empty() ? "" : ", problem ", info.problem));
  }
}

}  // namespace

std::vector<SealedFile> SealFiles(const fs::path& run_folder) {
  std::vector<SealedFile> files;
  for (const auto& [name, read] : RunFiles()) {
    if (fs::exists(run_folder / name)) {
      files.push_back(Seal(name, read(run_folder)));
    }
  }
  return files;
}

void RequireWhole(const fs::path& run_folder, const RunInfo& info) {
  RequireIdentity(run_folder, info);
  if (!info.finished || !info.files) {
    return;
  }
  for (const auto& [name, read] : RunFiles()) {
    const auto sealed = std::ranges::find(*info.files, name, &SealedFile::name);
    RequireFile(run_folder / name,
                sealed == info.files->end() ? nullptr : &*sealed);
  }
}

}  // namespace trials
