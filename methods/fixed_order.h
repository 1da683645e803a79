// A method that tries candidates in an order that no trial changes.

#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "trials/candidate.h"

namespace methods {

// Suggests the first candidate outside the space, then the first one of
// `order`, that was not tried. Candidates that are not in it are never tried;
// one may be in it several times.
class FixedOrder final : public Method {
 public:
  FixedOrder(const Problem& problem, std::vector<int> order,
             std::vector<trials::Candidate> outside = {})
      : Method(problem),
        order_(std::move(order)),
        outside_(std::move(outside)) {}

  std::optional<Suggestion> Suggest() override {
    for (const trials::Candidate& other : outside_) {
      if (!history_.HasTried(-1, other.Label())) {
        return Suggestion{.outside = other,
                          .chosen_by = trials::ChosenBy::kModel};
      }
    }
    const auto next = std::ranges::find_if(order_, [this](int candidate) {
      return history_.tried()[candidate] == 0;
    });
    if (next == order_.end()) {
      return std::nullopt;
    }
    Suggestion suggestion;
    suggestion.candidate = *next;
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  std::vector<int> order_;
  std::vector<trials::Candidate> outside_;
};

}  // namespace methods
