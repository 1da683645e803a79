// Runs of an experiment, for the verbs that start them.

#ifndef CLI_RUN_H_
#define CLI_RUN_H_

#include "cli/verb_options.h"

namespace cli {

struct RunVerbOptions {
  int jobs = 0;  // runs at a time; 0: one per core
  bool no_report = false;
  bool wait = false;  // with Slurm: until the end
};

// Completes all runs of the experiment, then writes the report. Returns the
// exit code of `oppa run`: 128 + the signal if one stopped it.
// Errors: throws InputError, before anything is written, for a manifest or
// records that cannot be used.
[[nodiscard]] int RunExperiment(const VerbOptions& options,
                                const RunVerbOptions& run_options);

}  // namespace cli

#endif  // CLI_RUN_H_
