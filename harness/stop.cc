#include "harness/stop.h"

#include <algorithm>
#include <atomic>
#include <csignal>

#include <unistd.h>

namespace harness {
namespace {

std::atomic<int> stop_signal{0};

extern "C" void OnStopSignal(int signal) { stop_signal = signal; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGALRM, &action, nullptr);
}

void StopAfter(double seconds) {
  ::alarm(static_cast<unsigned int>(std::max(1.0, seconds)));
}

int StopSignal() { return stop_signal; }

}  // namespace harness
