#include "methods/planners/operators/operator_plan.h"

#include <string_view>

#include "common/hash.h"

namespace methods {

std::uint64_t HashOf(const OperatorPlan& plan) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(values[0]));
  };
  static_assert(sizeof(OperatorChoice) == 4);  // no padding
  const std::uint64_t choices = common::Hash(bytes(plan.choices));
  return common::DeriveSeed(
      bytes(plan.first),
      choices + static_cast<std::uint64_t>(plan.micro_batch));
}

}  // namespace methods
