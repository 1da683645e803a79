#include "methods/guided/predicted_order.h"

#include "methods/fixed_order.h"
#include "trials/predictions.h"

namespace methods {

std::vector<Option> OptionsOf(PredictedOrderOptions& o) {
  return {PredictionsOption(o.predictions)};
}

std::unique_ptr<Method> MakePredictedOrder(const Problem& problem,
                                           const PredictedOrderOptions& options,
                                           std::uint64_t /*seed*/) {
  return std::make_unique<FixedOrder>(
      problem, Order(Weighted(problem, problem.predict(options.predictions)),
                     problem.machine.memory_bytes()));
}

}  // namespace methods
