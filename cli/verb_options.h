// The options that the verbs that read a manifest share.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "harness/experiment.h"
#include "studies/output.h"
#include "trials/model.h"

namespace cli {

struct VerbOptions {
  std::filesystem::path manifest;
  std::filesystem::path results = "results";
  harness::ManifestOverrides overrides;
  std::string problem;          // only this one; empty: all
  bool accept_changed = false;  // continue records of other input
  std::vector<std::filesystem::path> imports;  // tables of earlier trials
  bool json = false;
  bool csv = false;
  bool slurm = false;               // --dispatch slurm
  bool requeue_until_done = false;  // with it: continue after a time limit
  bool trial_per_job = false;       // with it: the search stays here

  [[nodiscard]] studies::StudyOptions Study() const {
    return {manifest, results, overrides};
  }
};

// The experiment of the manifest, in results/<experiment>; in the folder of
// `oppa tune` where that has the records of this manifest and results/ has
// none. Errors: as ReadManifest; throws InputError where that cannot be a
// folder because `results` is a file or is below one.
[[nodiscard]] harness::Experiment OpenExperiment(const VerbOptions& options);

// Their options on the command line.
[[nodiscard]] Option ManifestArgument(VerbOptions& options);
[[nodiscard]] Option ResultsOption(VerbOptions& options);
[[nodiscard]] Option SetOption(VerbOptions& options);
// The manifest, the results folder, and the overrides of the manifest.
[[nodiscard]] Options RecordOptions(VerbOptions& options);
[[nodiscard]] Option ProblemOption(VerbOptions& options);
[[nodiscard]] Options GrowthOptions(VerbOptions& options);
[[nodiscard]] Option JsonFlag(VerbOptions& options);
[[nodiscard]] Options DispatchOptions(VerbOptions& options);
[[nodiscard]] Option TrainingOption(std::vector<std::string>& training);
// --as and --parameters.
[[nodiscard]] Options ModelOptionsOf(trials::ModelOptions& model);

// The values that the options of a verb are bound to: those that verbs share,
// and its own.
template <typename Own>
struct Bound {
  VerbOptions verb;
  Own own;
};

}  // namespace cli
