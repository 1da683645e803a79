// RANDOM: random configurations until the budget is spent; and the random
// trials that all methods share.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "methods/history.h"
#include "methods/method.h"
#include "methods/options.h"
#include "trials/search_space.h"

namespace methods {

// The distribution of a random trial.
enum class DrawLaw {
  // All untried candidates are equally likely. Source: OPPA App. H.2.
  kUniform,
  // First one of the (dp, tp, pp) cells that still have an untried candidate,
  // all equally likely, then one of its untried candidates, all equally likely.
  // With kUniform, nearly every draw comes from the few cells that have most of
  // the candidates. Source: OPPA App. E.1.
  kCell,
};

// Draws an untried candidate. The draw is a function of the law, the seed, the
// number of the trial and the tried candidates, so a run resumes by replaying
// its journal, and methods with the same law and seed have the same random
// trials. Returns -1 when nothing is untried.
[[nodiscard]] int Draw(DrawLaw law, const trials::SearchSpace& space,
                       const std::vector<char>& tried, std::uint64_t seed,
                       int trial);

// The next random trial of a method.
[[nodiscard]] Suggestion SuggestRandom(const Problem& problem,
                                       const History& history, DrawLaw law,
                                       std::uint64_t seed);

// The same among those that are not excluded. [N]
[[nodiscard]] Suggestion SuggestRandom(const Problem& problem,
                                       const History& history, DrawLaw law,
                                       std::uint64_t seed,
                                       const std::vector<char>& excluded);

// The option `draw` of a method.
[[nodiscard]] Option DrawOption(DrawLaw& law, const std::string& reference);

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
