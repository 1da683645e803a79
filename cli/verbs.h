// The verbs of the command line. Each returns the program's exit code: 0, or 1
// when something that was asked for did not succeed. Bad input is thrown.

#ifndef CLI_VERBS_H_
#define CLI_VERBS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "harness/manifest.h"
#include "harness/slurm/run_task.h"
#include "studies/charts.h"

namespace cli {

// What several verbs are told.
struct VerbOptions {
  std::filesystem::path manifest;
  std::filesystem::path results = "results";
  harness::ManifestOverrides overrides;
  std::string problem;  // only this one; empty: all
  bool json = false;
  bool csv = false;
  bool slurm = false;               // --dispatch slurm
  bool requeue_until_done = false;  // with it: go on after a time limit
  bool trial_per_job = false;       // with it: the search stays here

  [[nodiscard]] studies::StudyOptions Study() const {
    return {manifest, results, overrides};
  }
};

// results/<experiment>.
[[nodiscard]] inline std::filesystem::path ExperimentFolder(
    const VerbOptions& options, const harness::Manifest& manifest) {
  return options.results / manifest.name;
}

// plan: the run matrix, what each run may spend, and what is done already.
[[nodiscard]] int Plan(const VerbOptions& options);

struct RunVerbOptions {
  int jobs = 0;  // runs at a time; 0: one per core
  bool no_report = false;
  bool wait = false;    // with Slurm: until the end
  std::string command;  // the command line, for run.json
};

// run: everything that is not done yet, then the report.
[[nodiscard]] int Run(const VerbOptions& options, const RunVerbOptions& run);

// run-one: one run, in this process. What `run` starts.
struct RunOneOptions {
  std::string method;
  int repeat = 1;
  int parent = 0;             // process id: end when it ends; 0: stand alone
  double lease_s = 20.0;      // see lease.h
  double stop_after_s = 0.0;  // stop before the next trial; 0: never
  std::string command;
};
[[nodiscard]] int RunOneVerb(const VerbOptions& options,
                             const RunOneOptions& run);

// run-task: what a job of Slurm calls; see run_task.h.
[[nodiscard]] int RunTaskVerb(const std::filesystem::path& submission_folder,
                              const std::string& which,
                              const harness::CallSelf& call);

// cancel: takes the experiment's jobs out of Slurm's queue.
[[nodiscard]] int CancelVerb(const VerbOptions& options);

// logs: the end of the last output of a run, by its name in `plan`.
[[nodiscard]] int Logs(const VerbOptions& options, const std::string& run_name);

// status: how far each run is; `all` lists the runs.
[[nodiscard]] int Status(const VerbOptions& options, bool all);

// report: tables and figures from the records there are.
[[nodiscard]] int Report(const VerbOptions& options,
                         const std::vector<std::string>& figures);

// space: what may be tried.
struct SpaceOptions {
  bool count = false;
  bool why = false;  // what each rule dropped
};
[[nodiscard]] int Space(const VerbOptions& options, const SpaceOptions& space);

// simulate: trials without noise.
struct SimulateOptions {
  std::string config;  // "dp=4,pp=2,...": the parts of one step
  bool all = false;    // every candidate
};
[[nodiscard]] int Simulate(const VerbOptions& options,
                           const SimulateOptions& simulate);

struct MethodsOptions {
  std::string name;  // a method, "": list all
  bool json = false;
  bool markdown = false;  // docs/methods.md
};

// methods: the methods that a manifest may name, and their options.
[[nodiscard]] int Methods(const MethodsOptions& options);

}  // namespace cli

#endif  // CLI_VERBS_H_
