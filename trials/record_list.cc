#include "trials/record_list.h"

#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/text.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "record";
constexpr std::size_t kHashLength = 16;

std::string NameOf(const RunInfo& info) {
  return RunFolder("", info.problem, info.method, info.repeat);
}

bool IsContent(std::string_view line) {
  return line.size() > kHashLength && line[kHashLength] == ' ' &&
         line.find_first_not_of("0123456789abcdef") == kHashLength;
}

}  // namespace

RecordList::RecordList(fs::path experiment_folder)
    : folder_(std::move(experiment_folder)) {
  const std::string text = common::ReadFileIfExists(File(folder_)).value_or("");
  std::vector<std::string_view> lines = common::Split(text, '\n');
  lines.pop_back();  // what a kill cut, or nothing
  for (const std::string_view line : lines) {
    if (IsContent(line)) {
      contents_.emplace(line);
      known_.emplace(line.substr(kHashLength + 1));
    } else {
      names_.emplace(line);
    }
  }
}

void RecordList::Add(const fs::path& experiment_folder,
                     const std::string& line) {
  common::CreateFolders(experiment_folder);
  const fs::path path = File(experiment_folder);
  const common::Descriptor file =
      common::OpenFile(path, O_WRONLY | O_APPEND | O_CREAT);
  if (!file.ok()) {
    common::ThrowErrno(path, "open");
  }
  (void)::flock(file.get(), LOCK_EX);  // until it is closed
  const std::string text = "\n" + common::ReadFile(path);
  if (text.find("\n" + line + "\n") != text.npos) {
    return;
  }
  if (text.back() != '\n') {
    // What a full disk cut would become part of this line.
    if (::ftruncate(file.get(), static_cast<off_t>(text.rfind('\n'))) != 0) {
      common::ThrowErrno(path, "write");
    }
  }
  common::WriteAll(file.get(), path, line + "\n");
  if (::fdatasync(file.get()) != 0) {
    common::ThrowErrno(path, "write");
  }
  if (text.size() == 1) {
    common::SyncFolder(experiment_folder);
  }
}

fs::path RecordList::File(const fs::path& experiment_folder) {
  return experiment_folder / ".runs";
}

fs::path RecordList::FileOf(const std::string& name) const {
  return fs::path(name).has_extension() ? folder_ / name
                                        : folder_ / name / "run.json";
}

bool RecordList::Allows(const std::string& name, std::string_view text) const {
  return !known_.contains(name) || contents_.contains(ContentLine(name, text));
}

void RecordList::Require(const std::string& name, std::string_view text,
                         bool is_listed) const {
  if (!Allows(name, text) || (is_listed && !known_.contains(name))) {
    const fs::path file = FileOf(name);
    throw common::InputError(fmt::format(
        "{}: {} does not list this content: it was edited, or another "
        "experiment wrote it; restore it, or move {} away",
        file.string(), File(folder_).string(),
        fs::path(name).has_extension() ? "it" : file.parent_path().string()));
  }
}

void RecordList::Require(const RunInfo& info) const {
  if (info.finished && info.files) {
    Require(NameOf(info), SealText(info));
  }
}

void RecordList::RequireFile(const std::string& name) const {
  Require(name, common::ReadFile(folder_ / name));
}

std::string SealText(const RunInfo& info) {
  return common::ToText(common::ToJson(info.files));
}

std::string ContentLine(const std::string& name, std::string_view text) {
  return fmt::format("{:016x} {}", common::Hash(text), name);
}

void WriteListed(const fs::path& file, std::string_view text, unsigned mode) {
  const fs::path folder = file.parent_path();
  const std::string name = file.filename();
  RecordList::Add(folder, ContentLine(name, text));
  common::ReplaceFile(file, text, mode);
  RecordList::Add(folder, name);
}

void WriteRecord(const fs::path& file, common::Json json) {
  json[kRecord] = file.filename().string();
  WriteListed(file, common::SealedText(std::move(json)));
}

common::Json ReadRecord(const fs::path& file) {
  const std::optional<std::string> text = common::ReadFileIfExists(file);
  if (!text) {
    return {};
  }
  common::Json json = common::ParseJson(*text, file.string());
  if (!common::Unseal(json, file.string())) {
    return {};
  }
  RecordList(file.parent_path())
      .Require(file.filename(), *text, json.contains(kRecord));
  return json;
}

}  // namespace trials
