#include "trials/programs/leftovers.h"

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
#include <unistd.h>

#include "common/files.h"
#include "common/hash.h"
#include "common/process_table.h"
#include "common/text.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::ProcessEntry;
using Processes = std::map<pid_t, ProcessEntry>;

constexpr std::string_view kVariable = "OPPA_PROCESS=";
constexpr std::string_view kCgroupPrefix = "oppa-";
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

// The cgroup of this process if this process may create others in it.
fs::path OwnCgroup() {
  std::string mount;
  const std::string mounts = common::ReadProcFile("/proc/self/mounts");
  for (const std::string_view line : common::Split(mounts, '\n')) {
    const auto cells = common::Split(line, ' ');
    if (cells.size() > 2 && cells[2] == "cgroup2") {
      mount = cells[1];
      break;
    }
  }
  const std::string groups = common::ReadProcFile("/proc/self/cgroup");
  for (const std::string_view line : common::Split(groups, '\n')) {
    if (!mount.empty() && line.starts_with("0::/")) {
      // Without a slash at its end: to append to such a path, libstdc++ 12
      // frees what it has not built if an allocation fails.
      std::string_view group = line.substr(3);
      if (group == "/") {
        group = "";
      }
      const fs::path path = mount + std::string(group);
      return ::access((path / "cgroup.procs").c_str(), W_OK) == 0 ? path
                                                                  : fs::path();
    }
  }
  return {};
}

std::string CgroupName(std::string_view mark) {
  return fmt::format("{}{}", kCgroupPrefix, mark.substr(kVariable.size()));
}

fs::path NewCgroup(std::string_view mark) {
  const fs::path own = OwnCgroup();
  std::error_code error;
  fs::path path = own / CgroupName(mark);
  return !own.empty() && fs::create_directory(path, error) ? path : fs::path();
}

// Kills the processes of a cgroup, if the system can do that.
void KillCgroup(const fs::path& cgroup) {
  const int fd = ::open((cgroup / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  (void)!::write(fd, "1", 1);
  ::close(fd);
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

// Of the recorded processes, those that live, what is below them, and what is
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
    if (pid != ::getpid() && std::any_of(marks.begin(), marks.end(), is_ours)) {
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
    : path_(std::move(path)), mark_(NewMark()), cgroup_(NewCgroup(mark_)) {
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
  if (!cgroup_.empty()) {
    KillCgroup(cgroup_);
    found =
        found ||
        common::ReadProcFile(cgroup_ / "cgroup.events").find("populated 1") !=
            std::string::npos;
  }
  return found;
}

void ProcessRecord::Kill() {
  Repeat([this] { return KillOnce(); });
}

void ProcessRecord::Remove() {
  if (!cgroup_.empty()) {
    ::rmdir(cgroup_.c_str());
  }
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
}

// The file has the process space, the mark and the cgroup, one per line, and
// then a line "pid start" per process.
void ProcessRecord::Store() const {
  if (path_.empty()) {
    return;
  }
  std::string text = fmt::format("{}\n{}\n{}\n", common::ProcessSpace(), mark_,
                                 cgroup_.string());
  for (const auto& [pid, start] : seen_) {
    text += fmt::format("{} {}\n", pid, start);
  }
  try {
    common::ReplaceFile(path_, text);
  } catch (const std::exception&) {
    // The disk is full: the mark and the cgroup remain.
  }
}

std::optional<ProcessRecord> ProcessRecord::Read(const fs::path& path) {
  const std::string text = common::ReadFileIfExists(path).value_or("");
  const auto lines = common::Split(text, '\n');
  if (lines.size() < 3 || lines[0] != common::ProcessSpace()) {
    return std::nullopt;  // of another host, or before this one was restarted
  }
  ProcessRecord record;
  record.path_ = path;
  record.mark_ = lines[1];
  // A file of another origin must not name any other cgroup.
  if (record.mark_.starts_with(kVariable) &&
      fs::path(lines[2]).filename() == CgroupName(record.mark_)) {
    record.cgroup_ = lines[2];
  }
  for (std::size_t i = 3; i < lines.size(); ++i) {
    const std::size_t space = lines[i].find(' ');
    const auto pid = common::ParseInt(lines[i].substr(0, space)).value_or(0);
    if (pid > 1 && space != std::string_view::npos) {
      record.seen_[pid] = lines[i].substr(space + 1);
    }
  }
  return record;
}

std::vector<ProcessRecord> ProcessRecord::OrphanedCgroups() {
  const fs::path own = OwnCgroup();
  std::vector<ProcessRecord> records;
  if (own.empty()) {
    return records;
  }
  std::error_code none;
  const std::string space = SpaceHash();
  for (const auto& entry : fs::directory_iterator(own, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kCgroupPrefix)) {
      continue;
    }
    ProcessRecord record;
    record.mark_ = std::string(kVariable) + name.substr(kCgroupPrefix.size());
    record.cgroup_ = entry.path();
    if (IsOrphan(record.mark_, space)) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

void EndLeftovers(const fs::path& folder) {
  std::vector<ProcessRecord> records = ProcessRecord::OrphanedCgroups();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == kProcessRecordExtension) {
      if (auto record = ProcessRecord::Read(entry.path())) {
        records.push_back(*std::move(record));
      }
    }
  }
  for (ProcessRecord& record : records) {
    record.Kill();
    record.Remove();
  }
  Repeat([space = SpaceHash()] {
    return KillMarked(
        [&](const std::string& mark) { return IsOrphan(mark, space); });
  });
}

}  // namespace trials
