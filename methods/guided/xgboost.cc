#include "methods/guided/xgboost.h"

#include <limits>
#include <random>
#include <string>

#include "common/hash.h"
#include "methods/history.h"

namespace methods {
namespace {

class Xgboost final : public Method {
 public:
  Xgboost(const Problem& problem, const XgboostOptions& options,
          std::uint64_t seed)
      : Method(problem),
        problem_(problem),
        options_(options),
        seed_(seed),
        trees_(*problem.space, options.trees) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    if (history_.size() < options_.random_trials) {
      return SuggestRandom(problem_, history_, options_.draw, seed_);
    }
    Suggestion suggestion;
    suggestion.fits.push_back(
        {"throughput", trees_.Fit(history_.ScoreObservations())});
    trees_.Predict(prediction_);
    suggestion.candidate = DrawBest();
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  // One of the untried candidates with the highest prediction.
  [[nodiscard]] int DrawBest() const {
    std::vector<int> best;
    double best_value = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < problem_.space->size(); ++i) {
      if (history_.tried()[i] != 0) {
        continue;
      }
      if (prediction_.mean[i] > best_value) {
        best_value = prediction_.mean[i];
        best.clear();
      }
      if (prediction_.mean[i] == best_value) {
        best.push_back(i);
      }
    }
    std::mt19937_64 engine(
        common::DeriveSeed("ties of " + std::to_string(seed_),
                           static_cast<std::uint64_t>(history_.turn())));
    return best[std::uniform_int_distribution<std::size_t>(
        0, best.size() - 1)(engine)];
  }

  Problem problem_;
  XgboostOptions options_;
  std::uint64_t seed_;
  surrogates::BoostedTrees trees_;
  surrogates::Prediction prediction_;
};

}  // namespace

std::vector<Option> OptionsOf(XgboostOptions& o) {
  using surrogates::TreeObjective;
  surrogates::BoostedTrees::Options& trees = o.trees;
  return {{"random_trials", Integer{&o.random_trials, 1},
           "Random trials before the first fit.", "App. H.2"},
          DrawOption(o.draw, ""),
          {"objective",
           ChoiceOf(trees.objective,
                    {{"rank", TreeObjective::kPairwiseRanking},
                     {"squared_error", TreeObjective::kSquaredError}}),
           "What the trees learn: the order of pairs of trials, as in "
           "DeepSpeed's autotuner, or their throughputs.",
           "App. H.2"}};
}

std::unique_ptr<Method> MakeXgboost(const Problem& problem,
                                    const XgboostOptions& options,
                                    std::uint64_t seed) {
  return std::make_unique<Xgboost>(problem, options, seed);
}

}  // namespace methods
