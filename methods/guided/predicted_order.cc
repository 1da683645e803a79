#include "methods/guided/predicted_order.h"

#include <algorithm>
#include <cstddef>

#include "trials/predictions.h"

namespace methods {
namespace {

class PredictedOrder final : public Method {
 public:
  PredictedOrder(const Problem& problem, const PredictedOrderOptions& options)
      : Method(problem.space->size()),
        order_(Order(problem.predict(options.predictions),
                     problem.memory_capacity_bytes)) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    Suggestion suggestion;
    suggestion.candidate =
        *std::find_if(order_.begin(), order_.end(), [this](int candidate) {
          return history_.tried()[static_cast<std::size_t>(candidate)] == 0;
        });
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  std::vector<int> order_;
};

}  // namespace

std::vector<Option> OptionsOf(PredictedOrderOptions& o) {
  return {PredictionsOption(o.predictions)};
}

std::unique_ptr<Method> MakePredictedOrder(const Problem& problem,
                                           const PredictedOrderOptions& options,
                                           std::uint64_t /*seed*/) {
  return std::make_unique<PredictedOrder>(problem, options);
}

}  // namespace methods
