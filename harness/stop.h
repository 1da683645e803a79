// Requests to stop: Ctrl-C, SIGTERM, a time limit.

#pragma once

namespace harness {

// From now on, SIGINT and SIGTERM are recorded and do not end the process.
void CatchStopSignals();

// From now on, the end of this time is recorded, too: as SIGALRM.
void StopAfter(double seconds);

// The signal that was received; 0 if none was.
[[nodiscard]] int StopSignal();

}  // namespace harness
