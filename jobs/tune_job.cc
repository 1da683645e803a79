#include "jobs/tune_job.h"

#include <system_error>

#include <fmt/format.h>

#include "harness/search.h"
#include "harness/stop.h"
#include "trials/trial_runner.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;

constexpr const char* kResults = "oppa-results";

harness::Manifest ReadSearch(const fs::path& path) {
  harness::Manifest manifest = harness::ReadManifest(path);
  if (manifest.problems.size() != 1 || manifest.methods.size() != 1 ||
      manifest.repeats != 1 ||
      harness::IsSimulated(manifest.problems.front())) {
    throw InputError(fmt::format(
        "{}: `oppa tune` takes one search with a training program (one "
        "problem, one method, repeats = 1, type = \"command\"); `oppa run` "
        "takes all others",
        path.string()));
  }
  return manifest;
}

}  // namespace

TuneJob::TuneJob(const fs::path& manifest)
    : manifest_(ReadSearch(manifest)),
      folder_(TuneFolder(manifest, manifest_.name)),
      run_(harness::RunMatrix(manifest_).front()),
      run_folder_(run_.Folder(folder_)),
      backend_(harness::MakeBackend(*run_.problem)) {
  backend_.keep_logs(folder_ / "checks");
  tokens_ = static_cast<double>(
      batch_size() * run_.problem->workload.RequireInt("sequence_length"));
}

int TuneJob::batch_size() const {
  return static_cast<int>(run_.problem->workload.RequireInt("batch_size"));
}

std::vector<trials::Trial> TuneJob::Recorded() const {
  std::error_code error;
  if (!fs::exists(run_folder_ / "trials.csv", error)) {
    return {};
  }
  std::vector<trials::Trial> trials = trials::ReadTrials(run_folder_);
  for (trials::Trial& trial : trials) {
    if (const auto candidate = harness::FindCandidate(trial, *backend_.space)) {
      trial.config = (*backend_.space)[*candidate];
    }
  }
  return trials;
}

std::optional<trials::ParallelConfig> TuneJob::Present() const {
  if (manifest_.starts.configs.empty()) {
    return std::nullopt;
  }
  return trials::Complete(manifest_.starts.configs.front(), *backend_.space)
      .config;
}

trials::Measurement TuneJob::Measure(
    const std::optional<trials::ParallelConfig>& config, int steps) {
  trials::TrialRequest request;
  request.candidate = config.value_or(Present().value_or((*backend_.space)[0]));
  request.max_steps = steps;
  request.seed = manifest_.seed;
  request.interrupted = [] { return harness::StopSignal() != 0; };
  const bool as_given = !config && backend_.run_as_given;
  if (as_given) {
    backend_.run_as_given(true);
  }
  struct Restore {
    harness::Backend& backend;
    bool as_given;
    ~Restore() {
      if (as_given) {
        backend.run_as_given(false);
      }
    }
  } restore{backend_, as_given};
  return backend_.runner->Run(request);
}

std::string TuneJob::Text(const trials::ParallelConfig& config) const {
  return trials::ToString(config, backend_.space->knobs());
}

fs::path TuneJob::LogOf(const trials::ParallelConfig& config) const {
  return folder_ / "checks" / (Text(config) + ".log");
}

fs::path TuneFolder(const fs::path& manifest, const std::string& name) {
  const fs::path beside =
      fs::absolute(manifest).lexically_normal().parent_path();
  return beside.filename() == kResults ? beside / name
                                       : beside / kResults / name;
}

}  // namespace jobs
