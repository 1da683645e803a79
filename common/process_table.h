// The processes of this host, as listed in /proc.

#ifndef COMMON_PROCESS_TABLE_H_
#define COMMON_PROCESS_TABLE_H_

#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

namespace common {

// A process id is reused after the end of its process; with the time of the
// start, it is unique in a ProcessSpace().
struct ProcessEntry {
  pid_t parent = 0;
  pid_t session = 0;
  std::string start;  // in clock ticks since the boot
};

// Where a process id means one process: a PID namespace of a boot. Containers
// of one host may have namespaces of their own.
[[nodiscard]] std::string ProcessSpace();

// Nothing for a process that does not exist or has ended (a zombie).
[[nodiscard]] std::optional<ProcessEntry> FindProcess(pid_t pid);

// All processes that have not ended.
[[nodiscard]] std::map<pid_t, ProcessEntry> ListProcesses();

}  // namespace common

#endif  // COMMON_PROCESS_TABLE_H_
