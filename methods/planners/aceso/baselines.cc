#include "methods/planners/aceso/baselines.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "common/units.h"
#include "methods/planners/aceso/uniform_plan.h"

namespace methods {
namespace {

using common::kInfinity;

// The best parts of the model from an operator to its end, by operator and
// GPUs, for a number of stages.
struct Part {
  double slowest_ms = kInfinity;
  double sum_ms = kInfinity;
  int end = 0;   // of its first stage
  int gpus = 0;  // of its first stage
  [[nodiscard]] std::pair<double, double> score() const {
    return {slowest_ms, sum_ms};
  }
};

class StageProgram {
 public:
  StageProgram(const OperatorModel& model,
               const DynamicProgrammingOptions& options, int micro_batch,
               BaselineResult& result)
      : model_(model),
        options_(options),
        micro_batch_(micro_batch),
        result_(result) {
    for (int op = 0; op < model.operators(); op += options.cut_every) {
      cuts_.push_back(op);
    }
    cuts_.push_back(model.operators());
  }

  void Run() {
    const int gpus = model_.job().gpus;
    const int most = std::min(options_.most_stages, gpus);
    for (int behind = 0; behind < most; ++behind) {
      parts_.emplace_back(cuts_.size() * static_cast<std::size_t>(gpus + 1));
      for (std::size_t begin = 0; begin + 1 < cuts_.size(); ++begin) {
        Extend(behind, begin);
      }
      if (std::isfinite(At(behind, 0, gpus).slowest_ms)) {
        result_.Keep(model_, Rebuilt(behind));
      }
    }
  }

 private:
  Part& At(int behind, std::size_t cut, int gpus) {
    return parts_[behind]
                 [cut * static_cast<std::size_t>(model_.job().gpus + 1) +
                  static_cast<std::size_t>(gpus)];
  }

  // The first stage of a part begins at this cut and ends at any later one, if
  // its share of the operators is near its share of the GPUs.
  void Extend(int behind, std::size_t begin) {
    for (std::size_t end = begin + 1; end < cuts_.size(); ++end) {
      if ((behind == 0) != (end + 1 == cuts_.size())) {
        continue;
      }
      for (int gpus = 1; gpus <= model_.job().gpus; gpus *= 2) {
        const double share = static_cast<double>(cuts_[end] - cuts_[begin]) /
                             model_.operators() * model_.job().gpus / gpus;
        if (share > options_.most_operators ||
            share < 1.0 / options_.most_operators) {
          continue;
        }
        const StageCost cost = Stage(begin, end, behind, gpus).second;
        if (cost.memory_mb <= model_.job().memory_limit_mb) {
          Join(behind, begin, end, gpus, cost.total_ms());
        }
      }
    }
  }

  void Join(int behind, std::size_t begin, std::size_t end, int gpus,
            double ms) {
    for (int all = gpus; all <= model_.job().gpus; ++all) {
      Part part{ms, ms, static_cast<int>(end), gpus};
      if (behind > 0) {
        const Part& rest = At(behind - 1, end, all - gpus);
        part.slowest_ms = std::max(ms, rest.slowest_ms);
        part.sum_ms = ms + rest.sum_ms;
      } else if (all != gpus) {
        break;
      }
      Part& best = At(behind, begin, all);
      if (part.score() < best.score()) {
        best = part;
      }
    }
  }

  // The stage alone, with its best sizes.
  std::pair<OperatorPlan, StageCost> Stage(std::size_t begin, std::size_t end,
                                           int behind, int gpus) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    plan.first.assign(static_cast<std::size_t>(behind) + 2, cuts_[end]);
    plan.first[0] = cuts_[begin];
    plan.choices.resize(model_.operators());
    ++result_.explored;
    if (!ChooseSizes(model_, plan, 0, gpus)) {
      return {plan, {.compute_ms = kInfinity, .memory_mb = kInfinity}};
    }
    const StageCost cost = model_.Cost(model_.ViewOf(plan, 0));
    return {std::move(plan), cost};
  }

  OperatorPlan Rebuilt(int behind) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    plan.choices.resize(model_.operators());
    std::size_t begin = 0;
    int gpus = model_.job().gpus;
    for (; behind >= 0; --behind) {
      const Part& part = At(behind, begin, gpus);
      const auto end = static_cast<std::size_t>(part.end);
      const OperatorPlan stage = Stage(begin, end, behind, part.gpus).first;
      plan.first.push_back(cuts_[begin]);
      std::copy(stage.choices.begin() + cuts_[begin],
                stage.choices.begin() + cuts_[end],
                plan.choices.begin() + cuts_[begin]);
      begin = end;
      gpus -= part.gpus;
    }
    plan.first.push_back(model_.operators());
    return plan;
  }

  const OperatorModel& model_;
  const DynamicProgrammingOptions& options_;
  int micro_batch_;
  BaselineResult& result_;
  std::vector<int> cuts_;
  std::vector<std::vector<Part>> parts_;  // by stages behind the first
};

// All plans of stages with `gpus` GPUs each.
void TryStages(const OperatorModel& model, int gpus, OperatorPlan plan,
               BaselineResult& result) {
  for (int tp = 1; tp <= gpus; tp *= 2) {
    const int dp = gpus / tp;
    for (const int each : model.table().micro_batches()) {
      plan.micro_batch = each * dp;
      if (model.job().batch % plan.micro_batch != 0) {
        continue;
      }
      for (const auto recomputation :
           {trials::kRecomputeNothing, trials::kRecomputeFull}) {
        SetSizes(model, tp, dp, recomputation, plan);
        ++result.explored;
        result.Keep(model, plan);
      }
    }
  }
}

}  // namespace

void BaselineResult::Keep(const OperatorModel& model, OperatorPlan plan) {
  CostedPlan costed = Costed(model, std::move(plan));
  if (Fits(model, costed.cost) &&
      (!best || costed.cost.iteration_ms < best->cost.iteration_ms)) {
    best = std::move(costed);
  }
}

BaselineResult MegatronGrid(const OperatorModel& model) {
  BaselineResult result;
  const int count = static_cast<int>(LayersOf(model).size());
  const int gpus = model.job().gpus;
  for (int stages = 1; stages <= std::min(gpus, count); ++stages) {
    if (gpus % stages != 0 || count % stages != 0 ||
        !std::has_single_bit(static_cast<unsigned>(gpus / stages))) {
      continue;
    }
    TryStages(model, gpus / stages, EqualStages(model, stages), result);
  }
  return result;
}

BaselineResult DynamicProgramming(const OperatorModel& model,
                                  const DynamicProgrammingOptions& options) {
  BaselineResult result;
  int micro_batch = model.table().micro_batches().front();
  for (; micro_batch <= 2 * model.table().micro_batches().back() &&
         model.job().batch % micro_batch == 0;
       micro_batch *= 2) {
    StageProgram(model, options, micro_batch, result).Run();
  }
  return result;
}

}  // namespace methods
