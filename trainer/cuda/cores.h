// The cores that a process runs on.

#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

#include <sched.h>

namespace trainer::cuda {

// Keeps the calling thread, and those that it starts, on the cores of a list of
// Linux ("0-3,8") that it may use. No change if it may use none of them.
inline void KeepToCores(const std::string& list) {
  cpu_set_t allowed;
  cpu_set_t kept;
  CPU_ZERO(&kept);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const int last =
        std::atoi(range.c_str() + (dash == std::string::npos ? 0 : dash + 1));
    for (int core = std::atoi(range.c_str()); core <= last; ++core) {
      if (core < CPU_SETSIZE && CPU_ISSET(core, &allowed)) {
        CPU_SET(core, &kept);
      }
    }
  }
  if (CPU_COUNT(&kept) > 0) {
    sched_setaffinity(0, sizeof(kept), &kept);
  }
}

}  // namespace trainer::cuda
