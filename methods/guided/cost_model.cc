#include "methods/guided/cost_model.h"

#include <limits>

#include "methods/history.h"
#include "methods/read_options.h"
#include "methods/sampling/cell_sampler.h"
#include "methods/surrogate_pair.h"

namespace methods {
namespace {

SurrogatePair MakePair(const Problem& problem,
                       const CostModelOptions& options,
                       std::uint64_t seed) {
  const surrogates::ClusterShape shape{problem.gpus, problem.gpus_per_node};
  SurrogatePair::Options pair;
  pair.fit.mean_only = true;
  pair.fit.starts = options.fit_starts;
  pair.fit.seed = seed;
  return {problem,
          surrogates::ThroughputPrior(*problem.space, shape, options.form),
          surrogates::MemoryPrior(
              *problem.space, shape, options.form, pair.out_of_memory_value),
          pair};
}

class CostModel final : public Method {
 public:
  CostModel(const Problem& problem,
            const CostModelOptions& options,
            std::uint64_t seed)
      : Method(problem.space->size()),
        problem_(problem),
        options_(options),
        seed_(seed),
        surrogates_(MakePair(problem, options, seed)) {}

  std::optional<Suggestion> Suggest() override {
    if (done_ || history_.exhausted()) {
      return std::nullopt;
    }
    const bool nothing_learned =
        history_.failures_in_a_row() == history_.size();
    if (history_.size() < options_.random_trials || nothing_learned) {
      return SuggestRandom(problem_, history_, seed_);
    }
    done_ = true;
    Suggestion suggestion;
    suggestion.fits = surrogates_.Fit(history_);
    suggestion.candidate = PredictedBest();
    suggestion.chosen_by = trials::ChosenBy::kModel;
    const bool tried =
        suggestion.candidate >= 0 &&
        history_.tried()[static_cast<std::size_t>(suggestion.candidate)] != 0;
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

CostModelOptions ReadCostModelOptions(const common::TomlTable& table) {
  CostModelOptions options;
  options.random_trials =
      ReadInt(table, "random_trials", options.random_trials, 1);
  options.fit_starts = ReadInt(table, "fit_starts", options.fit_starts, 1);
  const std::string form = table.GetString("form", "physical");
  if (form == "printed") {
    options.form = surrogates::CostModelForm::kPrinted;
  } else if (form != "physical") {
    table.Fail("form",
               fmt::format("unknown form '{}': physical or printed", form));
  }
  return options;
}

std::unique_ptr<Method> MakeCostModel(const Problem& problem,
                                      const CostModelOptions& options,
                                      std::uint64_t seed) {
  return std::make_unique<CostModel>(problem, options, seed);
}

}  // namespace methods
