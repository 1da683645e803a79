#include "trials/seal.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "common/files.h"
#include "common/hash.h"
#include "trials/record.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr int kHeaderLines = 2;

int CountRows(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n')) -
         kHeaderLines;
}

SealedFile Seal(const std::string& name, const std::string& text) {
  return {name, CountRows(text), fmt::format("{:016x}", common::Hash(text))};
}

template <typename Record>
void AddSeal(const fs::path& folder, std::vector<SealedFile>& files) {
  const std::string& name = FileOf<Record>().name;
  if (fs::exists(folder / name)) {
    files.push_back(Seal(name, ReadRows<Record>(folder).text));
  }
}

std::vector<std::string> FileNames() {
  return {FileOf<Trial>().name, FileOf<StepRecord>().name,
          FileOf<FitRecord>().name, FileOf<SuggestionTime>().name,
          FileOf<PlanRecord>().name};
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
  AddSeal<Trial>(run_folder, files);
  AddSeal<StepRecord>(run_folder, files);
  AddSeal<FitRecord>(run_folder, files);
  AddSeal<SuggestionTime>(run_folder, files);
  AddSeal<PlanRecord>(run_folder, files);
  return files;
}

void RequireWhole(const fs::path& run_folder, const RunInfo& info) {
  RequireIdentity(run_folder, info);
  if (!info.finished || !info.files) {
    return;
  }
  for (const std::string& name : FileNames()) {
    const auto sealed =
        std::find_if(info.files->begin(), info.files->end(),
                     [&](const SealedFile& file) { return file.name == name; });
    RequireFile(run_folder / name,
                sealed == info.files->end() ? nullptr : &*sealed);
  }
}

}  // namespace trials
