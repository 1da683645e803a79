#include "harness/stop.h"

#include <atomic>
#include <csignal>

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
}

int StopSignal() { return stop_signal; }

}  // namespace harness
