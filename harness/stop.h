// Being asked to stop: Ctrl-C, SIGTERM, a time limit.

#ifndef HARNESS_STOP_H_
#define HARNESS_STOP_H_

namespace harness {

// From now on SIGINT and SIGTERM are remembered instead of ending the process.
void CatchStopSignals();

// The signal that came, 0 if none did.
[[nodiscard]] int StopSignal();

}  // namespace harness

#endif  // HARNESS_STOP_H_
