// What is tried of the plans of a planner.

#ifndef METHODS_PLANNERS_JUDGE_H_
#define METHODS_PLANNERS_JUDGE_H_

#include <string>
#include <string_view>

#include "methods/options.h"

namespace methods {

// A configuration of the search space, the nearest one to the plan, or the plan
// itself.
enum class Judge { kNearest, kPlan };

// The option `judge`; trials must be able to run plans for Judge::kPlan.
[[nodiscard]] inline Option JudgeOption(Judge& judge,
                                        std::string_view meaning) {
  return {
      "judge",
      ChoiceOf(judge, {{"nearest", Judge::kNearest}, {"plan", Judge::kPlan}}),
      std::string(meaning),
      "",
      {},
      [&judge](const Problem& problem) -> std::string {
        return judge == Judge::kPlan && !problem.runs_plans
                   ? "the trials of this problem cannot run plans, only "
                     "the simulator without a landscape and tables with a "
                     "column `plan` can; use \"nearest\""
                   : "";
      }};
}

}  // namespace methods

#endif  // METHODS_PLANNERS_JUDGE_H_
