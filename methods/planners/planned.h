// PLANNED: a planner's first suggestions, then another method.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"

namespace methods {

// The first `top` trials are those that the method `planner` suggests; `then`
// takes over after them, with their results in its history, as after common
// starts. Starts of the experiment count. Where the planner suggests plans,
// their throughputs count for the incumbent of `then`, whose surrogates learn
// from configurations only.
struct PlannedOptions {
  std::string planner = "predicted-order";
  std::string then = "oppa";
  int top = 3;
};

[[nodiscard]] inline std::vector<Option> OptionsOf(PlannedOptions& o) {
  return {
      {"planner", Text{&o.planner, "the name of a method"},
       "The method whose first suggestions are tried first; its options are "
       "in the table planner_options."},
      {"then", Text{&o.then, "the name of a method"},
       "The method that continues; its options are in the table "
       "then_options."},
      {"top", Integer{&o.top, 0}, "Trials that the planner chooses."},
  };
}

class Planned final : public Method {
 public:
  Planned(const Problem& problem, int top, std::unique_ptr<Method> planner,
          std::unique_ptr<Method> then)
      : Method(problem, then->history().throughput_options()),
        top_(top),
        planner_(std::move(planner)),
        then_(std::move(then)) {}

  std::optional<Suggestion> Suggest() override {
    PassOn(history_.plans(), seen_plans_);
    PassOn(history_.trials(), seen_);
    for (Method* method : {planner_.get(), then_.get()}) {
      method->StartAll(history_);
    }
    if (history_.started() + std::ssize(history_.plans()) +
            std::ssize(history_.running_plans()) <
        top_) {
      if (auto suggestion = planner_->Suggest()) {
        return suggestion;
      }
    }
    return then_->Suggest();
  }

  [[nodiscard]] bool EstimatesRemaining() const override {
    return then_->EstimatesRemaining();
  }

 private:
  void PassOn(const std::vector<trials::Trial>& trials, std::size_t& seen) {
    for (; seen < trials.size(); ++seen) {
      planner_->Observe(trials[seen]);
      then_->Observe(trials[seen]);
    }
  }

  int top_;
  std::unique_ptr<Method> planner_;
  std::unique_ptr<Method> then_;
  std::size_t seen_ = 0;
  std::size_t seen_plans_ = 0;
};

}  // namespace methods
