// An experiment: its manifest, its run matrix and its records.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/manifest/manifest.h"
#include "harness/testbeds/testbeds.h"
#include "methods/method.h"
#include "trials/record.h"
#include "trials/search_space.h"

namespace harness {

// The starts of a repeat, in their order: the configurations that the manifest
// names, then `common_starts` others, drawn from all candidates with equal
// probability. They do not depend on the method. A named configuration may
// leave out parameters (see trials::Complete).
// Errors: throws InputError with the place in the manifest for text that cannot
// be parsed, for a configuration that is not a candidate of this problem or is
// named twice, and for more starts than candidates.
[[nodiscard]] std::vector<methods::Suggestion> StartsOf(
    const Manifest& manifest, const ProblemSpec& problem, int repeat,
    const trials::SearchSpace& space);

// One run: one repeat of a method on a problem. It is the unit of dispatch and
// of resume.
struct RunSpec {
  const ProblemSpec* problem = nullptr;  // of the manifest
  const MethodSpec* method = nullptr;
  int repeat = 1;

  // "qwen/oppa/3"; "oppa/3" if there is only one problem.
  [[nodiscard]] std::string Name() const;
  // The run's folder below results/<experiment>.
  [[nodiscard]] std::filesystem::path Folder(
      const std::filesystem::path& experiment_folder) const;
};

// All runs, repeat by repeat, so that all methods advance together and an
// interrupted matrix is still a fair comparison. The manifest must outlive the
// result.
[[nodiscard]] std::vector<RunSpec> RunMatrix(const Manifest& manifest);

// What the functions that run, resume and describe an experiment share. Runs
// and testbeds point into the manifest.
struct Experiment {
  // NOLINTNEXTLINE(google-explicit-constructor): checks need only a manifest
  Experiment(Manifest its_manifest, std::filesystem::path its_folder = {});
  Experiment(Experiment&&) = default;

  Manifest manifest;
  std::filesystem::path folder;  // of its records: results/<experiment>
  std::vector<RunSpec> runs;     // RunMatrix
  Testbeds testbeds;
};

// The run of that problem, method and repeat.
// Errors: throws InputError that lists the known ones.
[[nodiscard]] RunSpec FindRun(const Manifest& manifest,
                              const std::string& problem,
                              const std::string& method, int repeat);

// Makes every testbed and every method once, so that errors in a manifest are
// found before anything is written. Returns what is known about each problem
// except the optimum.
// Errors: throws InputError with the place in the manifest.
std::vector<trials::ProblemInfo> CheckManifest(const Experiment& experiment);

// Writes experiment.json and each problem's problem.json, with the exhaustive
// optimum if the testbed can compute exact throughputs.
void WriteExperiment(const Experiment& experiment);

}  // namespace harness
