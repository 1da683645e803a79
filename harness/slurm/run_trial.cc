#include "harness/slurm/run_trial.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include <fmt/format.h>

#include "common/error.h"
#include "harness/backends.h"
#include "harness/manifest.h"
#include "harness/slurm/run_task.h"
#include "harness/slurm/trial_files.h"
#include "harness/stop.h"

namespace harness {
namespace {

const ProblemSpec& FindProblem(const Manifest& manifest,
                               const std::string& name) {
  for (const ProblemSpec& problem : manifest.problems) {
    if (problem.name == name) {
      return problem;
    }
  }
  throw common::InputError(fmt::format(
      "{}: the experiment has no problem '{}' any more: it was changed while "
      "a trial waited in the queue",
      manifest.path.string(),
      name));
}

trials::Measurement Measure(const std::filesystem::path& folder,
                            TrialTask& task) {
  const Manifest manifest = ReadManifest(task.manifest);
  const Backend backend = MakeBackend(FindProblem(manifest, task.problem));
  if (backend.keep_logs) {
    backend.keep_logs(folder);
  }
  if (!FindBackend(backend.type)->simulated && task.time_minutes > 0) {
    task.request.time_limit_s = std::min(task.request.time_limit_s,
                                         SecondsBeforeLimit(task.time_minutes));
  }
  task.request.interrupted = [] { return StopSignal() != 0; };
  return backend.runner->Run(task.request);
}

}  // namespace

int RunTrial(const std::filesystem::path& folder) {
  CatchStopSignals();
  TrialTask task = ReadTrialTask(folder);
  TrialResult result;
  try {
    result.measurement = Measure(folder, task);
  } catch (const trials::TrialInterrupted&) {
    return kStoppedEarly;  // Slurm's word has to do
  } catch (const std::exception& e) {
    result.refusal = e.what();
    WriteTrialResult(folder, result);
    throw;
  }
  WriteTrialResult(folder, result);
  return 0;
}

}  // namespace harness
