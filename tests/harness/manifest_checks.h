// What the tests of manifests read from one: errors, and hashes of runs.

#pragma once

#include <cstddef>
#include <string>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/testbed.h"

namespace harness {

// The message of the InputError of a call; "no error" without one.
template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    (void)call();
  } catch (const common::InputError& e) {
    return e.what();
  }
  return "no error";
}

// The hash of the run of a method of the manifest on its last problem.
inline std::string HashOf(const Manifest& manifest, std::size_t method = 0) {
  const ProblemSpec& problem = manifest.problems.back();
  return RunHash(InputsOf(manifest, problem, manifest.methods.at(method),
                          MakeTestbed(problem)),
                 BoundsOf(manifest.budget));
}

}  // namespace harness
