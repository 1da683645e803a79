#include "methods/guided/cost_model.h"

#include <limits>

#include "methods/history.h"

namespace methods {
namespace {

class CostModel final : public Method {
 public:
  CostModel(const Problem& problem, const CostModelOptions& options,
            std::uint64_t seed)
      : Method(problem),
        problem_(problem),
        options_(options),
        seed_(seed),
        surrogates_(problem, options.surrogates) {}

  std::optional<Suggestion> Suggest() override {
    if (done_ || history_.exhausted()) {
      return std::nullopt;
    }
    const bool nothing_learned =
        history_.failures_in_a_row() == history_.size();
    if (history_.turn() < options_.random_trials ||
        (nothing_learned && history_.running().empty())) {
      return SuggestRandom(problem_, history_, options_.draw, seed_);
    }
    if (!history_.running().empty()) {
      return std::nullopt;  // it fits once, to all of them
    }
    done_ = true;
    Suggestion suggestion;
    suggestion.fits = surrogates_.Fit(history_);
    suggestion.candidate = PredictedBest();
    suggestion.chosen_by = trials::ChosenBy::kModel;
    const bool tried = suggestion.candidate >= 0 &&
                       history_.tried()[suggestion.candidate] != 0;
    if (suggestion.candidate < 0 || tried) {
      return std::nullopt;
    }
    return suggestion;
  }

 private:
  // The fastest candidate that is predicted to fit; -1 if none is.
  [[nodiscard]] int PredictedBest() const {
    surrogates::Prediction throughput;
    surrogates::Prediction memory;
    surrogates_.Predict(throughput, memory);
    int best = -1;
    double best_value = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < problem_.space->size(); ++i) {
      if (memory.mean[i] <= 1.0 && throughput.mean[i] > best_value) {
        best = i;
        best_value = throughput.mean[i];
      }
    }
    return best;
  }

  Problem problem_;
  CostModelOptions options_;
  std::uint64_t seed_;
  SurrogatePair surrogates_;
  bool done_ = false;
};

}  // namespace

std::vector<Option> OptionsOf(CostModelOptions& o) {
  using surrogates::CostModelForm;
  SurrogatePair::Options& pair = o.surrogates;
  Choice form =
      ChoiceOf(pair.throughput_prior, {{"printed", CostModelForm::kPrinted},
                                       {"physical", CostModelForm::kPhysical}});
  form.choose = [&pair, choose = form.choose](std::size_t i) {
    choose(i);
    pair.memory_prior = pair.throughput_prior;
  };
  return {{"random_trials", Integer{&o.random_trials, 1},
           "Random trials before the cost model is fitted.",
           "App. H.2, \"several\""},
          DrawOption(o.draw, "App. H.2"),
          {"form", form,
           "Form of the cost model: as the paper prints it, or with terms that "
           "depend on every size.",
           "App. D"},
          ComputeTimeOption(pair)};
}

std::unique_ptr<Method> MakeCostModel(const Problem& problem,
                                      const CostModelOptions& options,
                                      std::uint64_t seed) {
  CostModelOptions seeded = options;
  seeded.surrogates.fit.seed = seed;
  return std::make_unique<CostModel>(problem, seeded, seed);
}

}  // namespace methods
