#include "harness/stop.h"

#include <atomic>
#include <chrono>
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

double SteadySeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace harness
