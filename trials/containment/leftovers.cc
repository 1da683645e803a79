#include "trials/containment/leftovers.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/hash.h"
#include "common/process.h"
#include "common/text.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::ProcessEntry;
using Processes = std::map<pid_t, ProcessEntry>;

constexpr std::string_view kVariable = "OPPA_PROCESS=";
constexpr int kRounds = 1000;
constexpr int kLookMicroseconds = 10000;

std::string SpaceHash() {
  return fmt::format("{:016x}", common::DeriveSeed(common::ProcessSpace()));
}

// "OPPA_PROCESS=<process space>.<runner>.<its start>.<count>".
std::string NewMark() {
  static std::atomic<int> count{0};
  const auto self = common::FindProcess(::getpid());
  return fmt::format("{}{}.{}.{}.{}", kVariable, SpaceHash(), ::getpid(),
                     self ? self->start : "0", ++count);
}

// Whether a mark is that of a runner of this host that no longer exists.
bool IsOrphan(std::string_view mark, const std::string& space) {
  mark.remove_prefix(kVariable.size());
  const auto parts = common::Split(mark, '.');
  if (parts.size() != 4 || parts[0] != space) {
    return false;
  }
  const auto runner =
      common::FindProcess(common::ParseInt(parts[1]).value_or(0));
  return !runner || runner->start != parts[2];
}

// The marks in the environment of a process: its own, and that of a trial
// around it.
std::vector<std::string> MarksOf(pid_t pid) {
  const std::string environment =
      common::ReadProcFile(fs::path("/proc") / std::to_string(pid) / "environ");
  std::vector<std::string> marks;
  for (const std::string_view variable : common::Split(environment, '\0')) {
    if (variable.starts_with(kVariable)) {
      marks.emplace_back(variable);
    }
  }
  return marks;
}

bool IsBelow(const Processes& all, pid_t pid, pid_t ancestor) {
  // A listing is not atomic, so parents may form a cycle.
  for (std::size_t i = 0; i < all.size() && pid > 1; ++i) {
    const auto found = all.find(pid);
    if (found == all.end()) {
      return false;
    }
    pid = found->second.parent;
    if (pid == ancestor) {
      return true;
    }
  }
  return false;
}

// The recorded processes that live, what is below them, and what is
// in a session that one of them led.
std::vector<pid_t> FindRecorded(const std::map<pid_t, std::string>& seen) {
  std::vector<pid_t> found;
  if (seen.empty()) {
    return found;
  }
  const Processes all = common::ListProcesses();
  for (const auto& [pid, process] : all) {
    if (pid == ::getpid()) {
      continue;
    }
    const auto recorded = seen.find(pid);
    const auto leader = seen.find(process.session);
    // A process id is not reused while it names a session.
    const bool in_session = leader != seen.end() &&
                            common::ParseInt64(process.start) >=
                                common::ParseInt64(leader->second) &&
                            (!all.contains(process.session) ||
                             all.at(process.session).start == leader->second);
    bool is_ours = in_session || (recorded != seen.end() &&
                                  recorded->second == process.start);
    for (auto it = seen.begin(); !is_ours && it != seen.end(); ++it) {
      const auto ancestor = all.find(it->first);
      is_ours = ancestor != all.end() && ancestor->second.start == it->second &&
                IsBelow(all, pid, it->first);
    }
    if (is_ours) {
      found.push_back(pid);
    }
  }
  return found;
}

// Kills the processes with a mark that `is_ours` accepts. Returns whether there
// were any.
template <typename Predicate>
bool KillMarked(const Predicate& is_ours) {
  bool found = false;
  for (const auto& [pid, process] : common::ListProcesses()) {
    const auto marks = MarksOf(pid);
    if (pid != ::getpid() && std::ranges::any_of(marks, is_ours)) {
      found = ::kill(pid, SIGKILL) == 0 || found;
    }
  }
  return found;
}

// Until nothing is found, or what is found does not die.
template <typename KillOnce>
void Repeat(const KillOnce& kill_once) {
  for (int round = 0; round < kRounds && kill_once(); ++round) {
    ::usleep(kLookMicroseconds);
  }
}

}  // namespace

ProcessRecord::ProcessRecord(fs::path path)
    : path_(std::move(path)), mark_(NewMark()) {
  Store();
}

void ProcessRecord::Track(pid_t supervisor) {
  const Processes all = common::ListProcesses();
  bool is_new = false;
  for (const auto& [pid, process] : all) {
    if (IsBelow(all, pid, supervisor)) {
      std::string& start = seen_[pid];
      is_new = is_new || start != process.start;
      start = process.start;
    }
  }
  if (is_new) {
    Store();
  }
}

bool ProcessRecord::KillOnce() const {
  bool found =
      KillMarked([this](const std::string& mark) { return mark == mark_; });
  for (const pid_t pid : FindRecorded(seen_)) {
    found = ::kill(pid, SIGKILL) == 0 || found;
  }
  return found;
}

void ProcessRecord::Kill() {
  Repeat([this] { return KillOnce(); });
}

void ProcessRecord::Remove() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
}

// The file has the process space and the mark, one per line, and then a line
// "pid start" per process.
void ProcessRecord::Store() const {
  if (path_.empty()) {
    return;
  }
  std::string text = fmt::format("{}\n{}\n", common::ProcessSpace(), mark_);
  for (const auto& [pid, start] : seen_) {
    text += fmt::format("{} {}\n", pid, start);
  }
  try {
    const fs::path temporary = common::WriteTemporaryFile(path_, text);
    ::chmod(temporary.c_str(), 0600);
    fs::rename(temporary, path_);
  } catch (const std::exception&) {
    // The disk is full: the mark remains.
  }
}

std::optional<ProcessRecord> ProcessRecord::Read(const fs::path& path) {
  const common::Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() || (info.st_mode & 0022U) != 0) {
    return std::nullopt;  // somebody else may have written it
  }
  const std::string text =
      common::ReadProcFile(fmt::format("/proc/self/fd/{}", file.get()));
  const auto lines = common::Split(text, '\n');
  if (lines.size() < 2 || lines[0] != common::ProcessSpace()) {
    return std::nullopt;  // of another host, or before this one was restarted
  }
  ProcessRecord record;
  record.path_ = path;
  record.mark_ = lines[1];
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const std::size_t space = lines[i].find(' ');
    const auto pid = common::ParseInt(lines[i].substr(0, space)).value_or(0);
    if (pid > 1 && space != std::string_view::npos) {
      record.seen_[pid] = lines[i].substr(space + 1);
    }
  }
  return record;
}

void EndLeftovers(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == kProcessRecordExtension) {
      if (auto record = ProcessRecord::Read(entry.path())) {
        record->Kill();
        record->Remove();
      }
    }
  }
  Repeat([space = SpaceHash()] {
    return KillMarked(
        [&](const std::string& mark) { return IsOrphan(mark, space); });
  });
}

}  // namespace trials
