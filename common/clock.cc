#include "common/clock.h"

#include <ctime>

namespace common {
namespace {

double Read(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double SteadySeconds() { return Read(CLOCK_MONOTONIC); }

double CpuSeconds() { return Read(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace common
