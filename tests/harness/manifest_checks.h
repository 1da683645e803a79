// What the tests of manifests read from one: errors, and hashes of runs.

#pragma once

#include <cstddef>
#include <string>

#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/error_of.h"

namespace harness {

using fakes::ErrorOf;

// The hash of the run of a method of the manifest on its last problem.
inline std::string HashOf(const Manifest& manifest, std::size_t method = 0) {
  const ProblemSpec& problem = manifest.problems.back();
  return RunHash(InputsOf(manifest, problem, manifest.methods.at(method),
                          MakeTestbed(problem)),
                 BoundsOf(manifest.budget));
}

}  // namespace harness
