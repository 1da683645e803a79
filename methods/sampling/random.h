// RANDOM: random configurations until the budget is spent.

#ifndef METHODS_SAMPLING_RANDOM_H_
#define METHODS_SAMPLING_RANDOM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/sampling/draw.h"

namespace methods {

// Each trial is drawn among the untried candidates, runs all q_max steps and is
// never repeated.
//
// Source: OPPA App. H.2.
struct RandomOptions {
  DrawLaw draw = DrawLaw::kUniform;
};

[[nodiscard]] inline std::vector<Option> OptionsOf(RandomOptions& options) {
  return {DrawOption(options.draw, "App. H.2")};
}

[[nodiscard]] std::unique_ptr<Method> MakeRandom(const Problem& problem,
                                                 const RandomOptions& options,
                                                 std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_SAMPLING_RANDOM_H_
