#include "methods/sampling/cell_sampler.h"

#include <random>
#include <string>

#include "common/hash.h"

namespace methods {
namespace {

template <typename T>
const T& Draw(const std::vector<T>& from, std::mt19937_64& engine) {
  return from[std::uniform_int_distribution<std::size_t>(
      0, from.size() - 1)(engine)];
}

}  // namespace

int DrawFromCells(const trials::SearchSpace& space,
                  const std::vector<char>& tried,
                  std::uint64_t seed,
                  int trial) {
  std::vector<std::vector<int>> open;  // untried candidates by cell
  for (const std::vector<int>& cell : space.cells()) {
    std::vector<int> untried;
    for (const int candidate : cell) {
      if (tried[static_cast<std::size_t>(candidate)] == 0) {
        untried.push_back(candidate);
      }
    }
    if (!untried.empty()) {
      open.push_back(std::move(untried));
    }
  }
  if (open.empty()) {
    return -1;
  }
  std::mt19937_64 engine(common::DeriveSeed(std::to_string(seed),
                                            static_cast<std::uint64_t>(trial)));
  return Draw(Draw(open, engine), engine);
}

Suggestion SuggestRandom(const Problem& problem,
                         const History& history,
                         std::uint64_t seed) {
  Suggestion suggestion;
  suggestion.candidate =
      DrawFromCells(*problem.space, history.tried(), seed, history.size());
  suggestion.chosen_by = trials::ChosenBy::kRandom;
  return suggestion;
}

}  // namespace methods
