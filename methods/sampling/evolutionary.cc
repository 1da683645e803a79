#include "methods/sampling/evolutionary.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>

#include "common/hash.h"
#include "methods/sampling/nearest.h"
#include "methods/sampling/random.h"
#include "trials/knobs.h"

namespace methods {
namespace {

using trials::ParallelConfig;
using trials::Trial;

class Evolutionary final : public Method {
 public:
  Evolutionary(const Problem& problem, const EvolutionaryOptions& options,
               std::uint64_t seed)
      : Method(problem), problem_(problem), options_(options), seed_(seed) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    if (history_.size() < options_.population) {
      return SuggestRandom(problem_, history_, DrawLaw::kUniform, seed_);
    }
    Suggestion suggestion;
    suggestion.candidate =
        NearestUntried(*problem_.space, history_.tried(), Child());
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  // The best trials, best first; failures after all others.
  [[nodiscard]] std::vector<const Trial*> Population() const {
    std::vector<const Trial*> members;
    for (const Trial& trial : history_.trials()) {
      members.push_back(&trial);
    }
    const auto value = [this](const Trial* trial) {
      return trial->HasThroughput() ? history_.ValueOf(*trial).value : 0.0;
    };
    std::ranges::stable_sort(members, [&](const Trial* a, const Trial* b) {
      return value(a) > value(b);
    });
    members.resize(std::min(members.size(),
                            static_cast<std::size_t>(options_.population)));
    return members;
  }

  [[nodiscard]] ParallelConfig Child() const {
    std::mt19937_64 random(
        common::DeriveSeed("evolutionary/" + std::to_string(seed_),
                           static_cast<std::uint64_t>(history_.turn())));
    const std::vector<const Trial*> members = Population();
    const auto below = [&](std::size_t n) { return random() % n; };
    const auto parent = [&] {  // members are sorted: the least index is best
      std::size_t best = members.size() - 1;
      for (int i = 0; i < options_.tournament; ++i) {
        best = std::min(best, static_cast<std::size_t>(below(members.size())));
      }
      return (*problem_.space)[members[best]->candidate];
    };
    const ParallelConfig a = parent();
    const ParallelConfig b = parent();
    ParallelConfig child = a;
    for (const trials::Knob& knob : problem_.space->knobs()) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      if (u < options_.mutation) {
        const auto any = static_cast<int>(
            below(static_cast<std::size_t>(problem_.space->size())));
        knob.Set(child, knob.Get((*problem_.space)[any]));
      } else if (below(2) == 0) {
        knob.Set(child, knob.Get(b));
      }
    }
    return child;
  }

  Problem problem_;
  EvolutionaryOptions options_;
  std::uint64_t seed_;
};

}  // namespace

std::vector<Option> OptionsOf(EvolutionaryOptions& o) {
  return {
      {"population", Integer{&o.population, 2},
       "Random trials at the start, and trials that may be parents."},
  };
}

std::unique_ptr<Method> MakeEvolutionary(const Problem& problem,
                                         const EvolutionaryOptions& options,
                                         std::uint64_t seed) {
  return std::make_unique<Evolutionary>(problem, options, seed);
}

}  // namespace methods
