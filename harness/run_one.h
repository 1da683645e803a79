// Executes one run from its start, or resumes it.

#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harness/clock.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/records/lease.h"
#include "harness/search.h"
#include "harness/testbeds/testbeds.h"
#include "methods/method.h"
#include "trials/record.h"
#include "trials/trial_runner.h"

namespace harness {

// Conditions of a run that are not its input.
struct RunConditions {
  std::string command;         // that started it, for run.json
  std::function<bool()> stop;  // called before every trial; empty: never
  // What the user wants tried next, after the starts; see SearchInput::queue.
  std::deque<methods::Suggestion>* queue = nullptr;
  std::function<void(const trials::Trial&)> on_record;  // see SearchInput
  std::function<double()> run_variance;  // see SearchInput; empty: 0
  double lease_timeout_s = Lease::kTimeoutSeconds;
  // Makes a runner that runs the trials in other processes; empty: the testbed
  // runs them here.
  std::function<std::unique_ptr<trials::TrialRunner>()> make_remote_runner;
  // Makes a clock that runs several trials of this runner at once, or where a
  // client runs them; empty: one at a time, or on a virtual clock.
  std::function<std::unique_ptr<Clock>(trials::TrialRunner&)> make_clock;
};

// Executes one run and writes its records. Does nothing for a finished run.
// Returns false if `stop` or the end of its trial stopped it early.
// Errors: as Journal and Search; InputError if the folder contains records that
// were made from other input.
bool RunOne(const Experiment& experiment, const RunSpec& run,
            const RunConditions& conditions);

// Threads that a suggestion of this process may use: OPPA_THREADS, else
// SLURM_CPUS_PER_TASK, else 1. Records do not depend on it.
// Errors: throws InputError unless the variable is an integer from 1 to 1024.
[[nodiscard]] int SuggestionThreads();

// Lists finished runs that .runs does not, such as those that were copied.
void NoteFinishedRuns(const Experiment& experiment);

}  // namespace harness
