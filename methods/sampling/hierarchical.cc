#include "methods/sampling/hierarchical.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "common/hash.h"
#include "common/ranges.h"
#include "methods/sampling/nearest.h"
#include "methods/sampling/random.h"
#include "trials/knobs.h"

namespace methods {
namespace {

using trials::ParallelConfig;
using trials::SearchSpace;

// The levels after the first, in order. Each varies some knobs besides the
// sizes; the last, all of them.
enum class Level { kMemory, kPipeline, kAll };
constexpr std::array kLevels = {Level::kMemory, Level::kPipeline, Level::kAll};

bool Varies(Level level, const trials::Knob& knob,
            const trials::KnobSet& knobs) {
  switch (level) {
    case Level::kMemory:
      return knob.decides_memory;
    case Level::kPipeline: {
      const trials::Knob* const varied =
          knob.inverse.knob.empty() ? &knob : knobs.Find(knob.inverse.knob);
      return varied->group == trials::KnobGroup::kPipeline;
    }
    case Level::kAll:
      break;
  }
  return true;
}

bool SameSizes(const ParallelConfig& a, const ParallelConfig& b) {
  return a.dp == b.dp && a.tp == b.tp && a.pp == b.pp;
}

// Whether two configurations differ only in knobs that the level varies.
bool DifferIn(Level level, const ParallelConfig& a, const ParallelConfig& b,
              const trials::KnobSet& knobs) {
  return std::ranges::all_of(knobs, [&](const trials::Knob& knob) {
    return knob.Get(a) == knob.Get(b) || Varies(level, knob, knobs);
  });
}

class Hierarchical final : public Method {
 public:
  Hierarchical(const Problem& problem, const HierarchicalOptions& options,
               std::uint64_t seed)
      : Method(problem),
        problem_(problem),
        options_(options),
        seed_(seed),
        first_(Representatives()) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    const int candidate = Next();
    if (candidate < 0) {
      return SuggestRandom(problem_, history_, DrawLaw::kUniform, seed_);
    }
    Suggestion suggestion;
    suggestion.candidate = candidate;
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  [[nodiscard]] const SearchSpace& space() const { return *problem_.space; }
  [[nodiscard]] bool Tried(int candidate) const {
    return history_.tried()[candidate] != 0;
  }

  // One candidate of each cell, in random order.
  [[nodiscard]] std::vector<int> Representatives() const {
    std::vector<int> chosen;
    for (const std::vector<int>& cell : space().cells()) {
      std::vector<int> microbatches = common::Map(
          cell, [&](int candidate) { return space()[candidate].microbatches; });
      std::nth_element(microbatches.begin(),
                       microbatches.begin() +
                           static_cast<std::ptrdiff_t>(microbatches.size() / 2),
                       microbatches.end());
      ParallelConfig goal = space()[cell[0]];
      goal.microbatches = microbatches[microbatches.size() / 2];
      goal.grad_checkpoint = trials::kRecomputeFull;
      goal.zero_stage = 3;
      chosen.push_back(*std::ranges::min_element(cell, [&](int a, int b) {
        return Distance(space()[a], goal, space().knobs()) <
               Distance(space()[b], goal, space().knobs());
      }));
    }
    std::mt19937_64 random(
        common::DeriveSeed("hierarchical/" + std::to_string(seed_)));
    for (std::size_t i = chosen.size(); i > 1; --i) {
      std::swap(chosen[i - 1], chosen[random() % i]);
    }
    return chosen;
  }

  // The next candidate of the current level; -1 after the last one. A level
  // without a throughput has nothing to vary.
  [[nodiscard]] int Next() const {
    int left = history_.turn();
    const int parallelisms =
        std::min(options_.parallelism_trials, static_cast<int>(first_.size()));
    if (left < parallelisms) {
      const auto open =
          std::ranges::find_if(first_, [&](int c) { return !Tried(c); });
      return open == first_.end() ? -1 : *open;
    }
    const int best = Best();
    if (best < 0) {
      return -1;
    }
    left -= parallelisms;
    for (const Level level : kLevels) {
      if (left < options_.trials_per_level) {
        const int candidate = Neighbor(best, level);
        if (candidate >= 0) {
          return candidate;
        }
      }
      left = std::max(0, left - options_.trials_per_level);
    }
    return -1;
  }

  [[nodiscard]] int Best() const {
    int best = -1;
    double highest = 0.0;
    for (const trials::Trial& trial : history_.trials()) {
      const double value = history_.ValueOf(trial).value;
      if (trial.HasThroughput() && value > highest) {
        best = trial.candidate;
        highest = value;
      }
    }
    return best;
  }

  // The untried candidate nearest to the best one that differs from it only in
  // knobs of the level.
  [[nodiscard]] int Neighbor(int best, Level level) const {
    std::vector<char> excluded = history_.tried();
    for (int i = 0; i < space().size(); ++i) {
      if (!SameSizes(space()[i], space()[best]) ||
          !DifferIn(level, space()[i], space()[best], space().knobs())) {
        excluded[i] = 1;
      }
    }
    return NearestUntried(space(), excluded, space()[best]);
  }

  Problem problem_;
  HierarchicalOptions options_;
  std::uint64_t seed_;
  std::vector<int> first_;
};

}  // namespace

std::vector<Option> OptionsOf(HierarchicalOptions& o) {
  return {
      {"parallelism_trials", Integer{&o.parallelism_trials, 1},
       "Trials of the first level, each with other sizes."},
      {"trials_per_level", Integer{&o.trials_per_level, 0},
       "The most trials of each later level."},
  };
}

std::unique_ptr<Method> MakeHierarchical(const Problem& problem,
                                         const HierarchicalOptions& options,
                                         std::uint64_t seed) {
  return std::make_unique<Hierarchical>(problem, options, seed);
}

}  // namespace methods
