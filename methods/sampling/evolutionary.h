// EVOLUTIONARY: crossover and mutation of the best configurations.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"

namespace methods {

// The first `population` trials are random. After them, each trial is a child
// of two parents, which are the best of `tournament` random members of the
// `population` fastest trials: every knob comes from one of the parents, and
// with probability `mutation` from a random candidate. The child is repaired:
// the nearest untried candidate replaces it, because crossover breaks the
// product of sizes and other constraints. Failed trials have no throughput and
// are parents only while fewer trials ran.
//
// Source: "Configuration search" (textbook), evolutionary search: tournaments
// of 3, mutation 0.1, repair of the number of GPUs. Its generations are
// replaced by one child per trial.
struct EvolutionaryOptions {
  int population = 10;
  int tournament = 3;
  double mutation = 0.1;
};

[[nodiscard]] std::vector<Option> OptionsOf(EvolutionaryOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeEvolutionary(
    const Problem& problem, const EvolutionaryOptions& options,
    std::uint64_t seed);

}  // namespace methods
