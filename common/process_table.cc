#include "common/process_table.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "common/files.h"
#include "common/text.h"

namespace common {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string ProcessSpace() {
  std::error_code none;
  const fs::path space = fs::read_symlink("/proc/self/ns/pid", none);
  return std::string(Trim(ReadProcFile("/proc/sys/kernel/random/boot_id"))) +
         " " + space.string();
}

std::optional<ProcessEntry> FindProcess(pid_t pid) {
  const std::string stat =
      ReadProcFile(fs::path("/proc") / std::to_string(pid) / "stat");
  const std::size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos || after_name + 2 > stat.size()) {
    return std::nullopt;
  }
  const std::string after = stat.substr(after_name + 2);
  const auto cells = Split(after, ' ');
  // proc(5), counted from the state, which is field 3.
  constexpr std::size_t kState = 0;
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kSession = 3;
  constexpr std::size_t kStart = 19;
  if (cells.size() <= kStart || cells[kState] == "Z" || cells[kState] == "X") {
    return std::nullopt;
  }
  return ProcessEntry{.parent = ParseInt(cells[kParent]).value_or(0),
                      .session = ParseInt(cells[kSession]).value_or(0),
                      .start = std::string(cells[kStart])};
}

std::map<pid_t, ProcessEntry> ListProcesses() {
  std::map<pid_t, ProcessEntry> processes;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const auto pid = ParseInt(entry.path().filename().string());
    if (!pid) {
      continue;
    }
    if (auto process = FindProcess(*pid)) {
      processes.emplace(*pid, *std::move(process));
    }
  }
  return processes;
}

}  // namespace common
