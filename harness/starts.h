// The trials that all methods of an experiment run first.

#ifndef HARNESS_STARTS_H_
#define HARNESS_STARTS_H_

#include <vector>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "methods/method.h"
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

}  // namespace harness

#endif  // HARNESS_STARTS_H_
