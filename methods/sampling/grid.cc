#include "methods/sampling/grid.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>

namespace methods {
namespace {

using trials::ParallelConfig;
using trials::Trial;

// Nothing, the core of attention, or everything.
int RecomputationRank(int value) {
  return value == trials::kRecomputeNothing     ? 0
         : value == trials::kRecomputeSelective ? 1
                                                : 2;
}

class Grid final : public Method {
 public:
  Grid(const Problem& problem, const GridOptions& options)
      : Method(problem), problem_(problem), options_(options) {
    for (const std::vector<int>& cell : problem.space->cells()) {
      order_.insert(order_.end(), cell.begin(), cell.end());
      std::stable_sort(
          order_.end() - static_cast<std::ptrdiff_t>(cell.size()), order_.end(),
          [&](int a, int b) { return SavingsOf(a) > SavingsOf(b); });
    }
  }

  std::optional<Suggestion> Suggest() override {
    for (const int i : order_) {
      if (history_.tried()[i] == 0 && !Pruned(i)) {
        Suggestion suggestion;
        suggestion.candidate = i;
        suggestion.chosen_by = trials::ChosenBy::kModel;
        return suggestion;
      }
    }
    return std::nullopt;
  }

 private:
  // Recomputation, ZeRO stage, microbatches: more of each needs less memory.
  [[nodiscard]] std::tuple<int, int, int> SavingsOf(int candidate) const {
    const ParallelConfig& config = (*problem_.space)[candidate];
    return {RecomputationRank(config.grad_checkpoint), config.zero_stage,
            config.microbatches};
  }

  [[nodiscard]] bool Pruned(int candidate) const {
    const std::vector<Trial>& trials = history_.trials();
    return options_.prune &&
           std::ranges::any_of(trials, [&](const Trial& trial) {
             return trial.measurement.outcome ==
                        trials::Outcome::kOutOfMemory &&
                    NeedsMore((*problem_.space)[candidate],
                              (*problem_.space)[trial.candidate]);
           });
  }

  Problem problem_;
  GridOptions options_;
  std::vector<int> order_;
};

}  // namespace

bool NeedsMore(const ParallelConfig& config, const ParallelConfig& failed) {
  ParallelConfig alike = config;
  alike.microbatches = failed.microbatches;
  alike.zero_stage = failed.zero_stage;
  alike.grad_checkpoint = failed.grad_checkpoint;
  return alike == failed && config.microbatches <= failed.microbatches &&
         config.zero_stage <= failed.zero_stage &&
         RecomputationRank(config.grad_checkpoint) <=
             RecomputationRank(failed.grad_checkpoint);
}

std::vector<Option> OptionsOf(GridOptions& o) {
  return {{"prune", Boolean{&o.prune},
           "Leave out what needs at least the memory of a failed trial."}};
}

std::unique_ptr<Method> MakeGrid(const Problem& problem,
                                 const GridOptions& options,
                                 std::uint64_t /*seed*/) {
  return std::make_unique<Grid>(problem, options);
}

}  // namespace methods
