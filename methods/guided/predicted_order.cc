#include "methods/guided/predicted_order.h"

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
    suggestion.candidate = order_[static_cast<std::size_t>(history_.size())];
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
