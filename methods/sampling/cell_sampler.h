// The random trials that all methods share.

#ifndef METHODS_SAMPLING_CELL_SAMPLER_H_
#define METHODS_SAMPLING_CELL_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "methods/history.h"
#include "methods/method.h"
#include "trials/search_space.h"

namespace methods {

// Draws an untried candidate: first one of the (dp, tp, pp) cells that still
// have one, all equally likely, then one of its untried candidates, all
// equally likely. Without the first step nearly every draw would come from the
// cells with the most parameters.
//
// The draw is a function of the seed, the number of the trial and the tried
// candidates, so a run resumes by replaying its journal, and methods with the
// same seed have the same random trials.
//
// Source: OPPA App. E.1. Returns -1 when nothing is untried.
[[nodiscard]] int DrawFromCells(const trials::SearchSpace& space,
                                const std::vector<char>& tried,
                                std::uint64_t seed,
                                int trial);

// The next random trial of a method.
[[nodiscard]] Suggestion SuggestRandom(const Problem& problem,
                                       const History& history,
                                       std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_SAMPLING_CELL_SAMPLER_H_
