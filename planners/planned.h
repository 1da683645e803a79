// PLANNED: a planner's first suggestions, then another method.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "planners/plan_moves.h"

namespace planners {

// The first `top` trials are those that the method `planner` suggests; `then`
// takes over after them, with their results in its history, as after common
// starts. Starts of the experiment count. Where the planner suggests plans,
// their throughputs count for the incumbent of `then`, whose surrogates learn
// from configurations only.
//
// With `moves`, every second trial after them may be one of PlanMoves.
struct PlannedOptions {
  std::string planner = "predicted-order";
  std::string then = "oppa";
  int top = 3;
  bool moves = false;
};

[[nodiscard]] inline std::vector<methods::Option> OptionsOf(PlannedOptions& o) {
  return {
      {"planner", methods::Text{&o.planner, "the name of a method"},
       "The method whose first suggestions are tried first; its options are "
       "in the table planner_options."},
      {"then", methods::Text{&o.then, "the name of a method"},
       "The method that continues; its options are in the table "
       "then_options."},
      {"top", methods::Integer{&o.top, 0}, "Trials that the planner chooses."},
      {"moves", methods::Boolean{&o.moves},
       "Try local moves on the best plans, where trials can run plans."},
  };
}

class Planned final : public methods::Method {
 public:
  Planned(const methods::Problem& problem, const PlannedOptions& options,
          std::unique_ptr<methods::Method> planner,
          std::unique_ptr<methods::Method> then)
      : methods::Method(problem, then->history().throughput_options()),
        options_(options),
        planner_(std::move(planner)),
        then_(std::move(then)) {
    if (options.moves && problem.runs_plans && problem.workload != nullptr) {
      moves_.emplace(problem);
    }
  }

  std::optional<methods::Suggestion> Suggest() override {
    planner_->Follow(history_);
    then_->Follow(history_);
    const int turn = history_.turn_with_plans();
    if (turn < options_.top) {
      if (auto suggestion = planner_->Suggest()) {
        return suggestion;
      }
    }
    std::optional<methods::Suggestion> next = then_->Suggest();
    if (moves_ && next && turn % 2 != 0 &&
        next->chosen_by == trials::ChosenBy::kModel) {
      if (std::optional<methods::Suggestion> move =
              moves_->Suggest(history_, *next)) {
        return move;
      }
    }
    return next;
  }

  [[nodiscard]] bool EstimatesRemaining() const override {
    return then_->EstimatesRemaining();
  }

 private:
  PlannedOptions options_;
  std::optional<PlanMoves> moves_;
  std::unique_ptr<methods::Method> planner_;
  std::unique_ptr<methods::Method> then_;
};

}  // namespace planners
