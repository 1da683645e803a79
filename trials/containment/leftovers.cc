#include "trials/containment/leftovers.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <random>
#include <stdexcept>
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
#include "common/units.h"

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

// "OPPA_PROCESS=<process space>.<runner>.<its start>.<random>". Only this user
// can read it in an environment, so nobody else writes a record that has it.
std::string NewMark() {
  std::random_device random;
  const auto self = common::FindProcess(::getpid());
  return fmt::format("{}{}.{}.{}.{:08x}{:08x}", kVariable, SpaceHash(),
                     ::getpid(), self ? self->start : "0", random(), random());
}

double SecondsOn(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) / common::kGiga;
}

// When a file was created, as the kernel counts the starts of processes; less
// what its clocks may differ by. Nobody can choose it, so a record from
// elsewhere, an unpacked one, is younger than the processes that it names.
std::optional<std::int64_t> TicksAtBirth(int file) {
  constexpr double kSlackSeconds = 0.1;
  struct statx info {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_BTIME, &info) != 0 ||
      (info.stx_mask & STATX_BTIME) == 0) {
    return std::nullopt;
  }
  const double age_s =
      SecondsOn(CLOCK_REALTIME) - static_cast<double>(info.stx_btime.tv_sec) -
      static_cast<double>(info.stx_btime.tv_nsec) / common::kGiga;
  return static_cast<std::int64_t>(
      (SecondsOn(CLOCK_BOOTTIME) - age_s - kSlackSeconds) *
      static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

// Whether the runner of this mark exists; nothing if it is not of this host.
std::optional<bool> HasRunner(std::string_view mark, const std::string& space) {
  const auto parts = common::Split(mark, '.');
  if (parts.size() != 4 || parts[0] != std::string(kVariable) + space) {
    return std::nullopt;
  }
  const auto runner =
      common::FindProcess(common::ParseInt(parts[1]).value_or(0));
  return runner && runner->start == parts[2];
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
  Append(fmt::format("{}\n{}\n", common::ProcessSpace(), mark_));
}

void ProcessRecord::Track(pid_t supervisor) {
  const Processes all = common::ListProcesses();
  std::string lines;
  for (const auto& [pid, process] : all) {
    if (IsBelow(all, pid, supervisor) &&
        std::exchange(seen_[pid], process.start) != process.start) {
      lines += fmt::format("{} {}\n", pid, process.start);
    }
  }
  if (!lines.empty()) {
    Append(lines);
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
    common::Remove(path_);
  }
}

void ProcessRecord::Append(const std::string& text) {
  try {
    if (!path_.empty() && !file_.ok()) {
      file_ = common::CreateFile(path_, O_WRONLY | O_APPEND);
      ::fchmod(file_.get(), 0600);
    }
    if (file_.ok()) {
      common::WriteAll(file_.get(), path_, text);
    }
  } catch (const std::runtime_error&) {
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
  const auto has_runner = HasRunner(lines[1], SpaceHash());
  if (has_runner.value_or(false)) {
    return std::nullopt;  // a copy of the folder of a run that goes on
  }
  ProcessRecord record;
  record.path_ = path;
  record.mark_ = has_runner ? lines[1] : "";  // which no process has
  const std::optional<std::int64_t> created = TicksAtBirth(file.get());
  for (std::size_t i = 2; created && i + 1 < lines.size(); ++i) {
    const auto cells = common::Split(lines[i], ' ');
    const auto pid = common::ParseInt(cells.front()).value_or(0);
    const std::string_view start = cells.back();
    if (pid > 1 && common::ParseInt64(start).value_or(0) >= *created) {
      record.seen_[pid] = start;
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
    return KillMarked([&](const std::string& mark) {
      return !HasRunner(mark, space).value_or(true);
    });
  });
}

}  // namespace trials
