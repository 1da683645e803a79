#include "methods/sampling/random.h"

#include <random>
#include <utility>

#include "common/hash.h"
#include "common/ranges.h"

namespace methods {
namespace {

template <typename T>
const T& OneOf(const std::vector<T>& from, std::mt19937_64& engine) {
  return from[std::uniform_int_distribution<std::size_t>(
      0, from.size() - 1)(engine)];
}

// The untried candidates in groups: one of all of them, or one per cell.
std::vector<std::vector<int>> Groups(DrawLaw law,
                                     const trials::SearchSpace& space,
                                     const std::vector<char>& tried) {
  std::vector<std::vector<int>> groups;
  const auto add = [&](const std::vector<int>& candidates) {
    std::vector<int> untried;
    for (const int candidate : candidates) {
      if (tried[candidate] == 0) {
        untried.push_back(candidate);
      }
    }
    if (!untried.empty()) {
      groups.push_back(std::move(untried));
    }
  };
  if (law == DrawLaw::kUniform) {
    add(common::Indices(space.size()));
    return groups;
  }
  for (const std::vector<int>& cell : space.cells()) {
    add(cell);
  }
  return groups;
}

class Random final : public Method {
 public:
  Random(const Problem& problem, const RandomOptions& options,
         std::uint64_t seed)
      : Method(problem), problem_(problem), options_(options), seed_(seed) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    return SuggestRandom(problem_, history_, options_.draw, seed_);
  }

 private:
  Problem problem_;
  RandomOptions options_;
  std::uint64_t seed_;
};

}  // namespace

int Draw(DrawLaw law, const trials::SearchSpace& space,
         const std::vector<char>& tried, std::uint64_t seed, int trial) {
  const std::vector<std::vector<int>> groups = Groups(law, space, tried);
  if (groups.empty()) {
    return -1;
  }
  std::mt19937_64 engine(common::DeriveSeed(std::to_string(seed),
                                            static_cast<std::uint64_t>(trial)));
  return OneOf(OneOf(groups, engine), engine);
}

Suggestion SuggestRandom(const Problem& problem, const History& history,
                         DrawLaw law, std::uint64_t seed) {
  return SuggestRandom(problem, history, law, seed, history.tried());
}

Suggestion SuggestRandom(const Problem& problem, const History& history,
                         DrawLaw law, std::uint64_t seed,
                         const std::vector<char>& excluded) {
  return {
      .candidate = Draw(law, *problem.space, excluded, seed, history.turn()),
      .chosen_by = trials::ChosenBy::kRandom};
}

Option DrawOption(DrawLaw& law, const std::string& reference) {
  return {
      "draw",
      ChoiceOf(law, {{"uniform", DrawLaw::kUniform}, {"cell", DrawLaw::kCell}}),
      "Distribution of random trials: uniform over the untried "
      "configurations, or first over the (dp, tp, pp) that have one and then "
      "over their untried configurations.",
      reference};
}

std::unique_ptr<Method> MakeRandom(const Problem& problem,
                                   const RandomOptions& options,
                                   std::uint64_t seed) {
  return std::make_unique<Random>(problem, options, seed);
}

}  // namespace methods
