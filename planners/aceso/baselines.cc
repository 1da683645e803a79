#include "planners/aceso/baselines.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "common/units.h"
#include "planners/aceso/conversions.h"
#include "planners/operators/pipeline_program.h"

namespace planners {
namespace {

using common::kInfinity;

// The best plans with a microbatch size, one for each number of stages.
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
    PipelineProgram program(PipelineProgram::Least::kSlowestThenSum,
                            static_cast<int>(cuts_.size()) - 1, gpus);
    const int most = std::min(options_.most_stages, gpus);
    for (int stages = 1; stages <= most; ++stages) {
      program.Solve(stages, [&](const PipelineStage& stage) {
        return IsBalanced(stage) ? TimeOf(stage, stages - 1) : kInfinity;
      });
      if (std::isfinite(program.Best(stages).slowest_ms)) {
        result_.Keep(model_, PlanOfStages(program.StagesOf(stages)));
      }
    }
  }

 private:
  // Whether its share of the operators is near its share of the GPUs.
  [[nodiscard]] bool IsBalanced(const PipelineStage& stage) const {
    const double share =
        static_cast<double>(cuts_[stage.end] - cuts_[stage.begin]) /
        model_.operators() * model_.job().gpus / stage.gpus;
    return share <= options_.most_operators &&
           share >= 1.0 / options_.most_operators;
  }

  // With its best sizes; infinite where it does not fit.
  double TimeOf(const PipelineStage& stage, int behind) {
    const std::optional<OperatorPlan> plan = Solved(stage, behind);
    if (!plan) {
      return kInfinity;
    }
    const StageCost cost = model_.Cost(model_.ViewOf(*plan, 0));
    return cost.memory_mb <= model_.job().memory_limit_mb ? cost.total_ms()
                                                          : kInfinity;
  }

  // The stage alone, with its best sizes.
  std::optional<OperatorPlan> Solved(const PipelineStage& stage, int behind) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    plan.first.assign(static_cast<std::size_t>(behind) + 2, cuts_[stage.end]);
    plan.first[0] = cuts_[stage.begin];
    plan.choices.resize(model_.operators());
    ++result_.explored;
    return ChooseSizes(model_, plan, 0, stage.gpus) ? std::optional(plan)
                                                    : std::nullopt;
  }

  OperatorPlan PlanOfStages(const std::vector<PipelineStage>& stages) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    auto behind = static_cast<int>(stages.size());
    for (const PipelineStage& stage : stages) {
      const OperatorPlan alone = *Solved(stage, --behind);
      plan.Append(cuts_[stage.begin],
                  std::span(alone.choices)
                      .subspan(cuts_[stage.begin],
                               cuts_[stage.end] - cuts_[stage.begin]));
    }
    plan.first.push_back(model_.operators());
    return plan;
  }

  const OperatorModel& model_;
  const DynamicProgrammingOptions& options_;
  int micro_batch_;
  BaselineResult& result_;
  std::vector<int> cuts_;
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

// Where the stages of a pipeline begin: equally many layers in each. Of an
// encoder and a decoder, each has its own stages, all ways to share them out.
std::vector<OperatorPlan> EqualPipelines(const OperatorModel& model,
                                         int stages) {
  const std::vector<int> encoder = LayersOf(model);
  std::vector<int> decoder;
  for (int op = 0; op < model.operators(); ++op) {
    if (model.table().names()[model.NameOf(op)] == "dec-1st-layernorm") {
      decoder.push_back(op);
    }
  }
  const auto divides = [](int parts, const std::vector<int>& layers) {
    return parts > 0 && layers.size() % static_cast<std::size_t>(parts) == 0;
  };
  // The layers of a convolutional model differ: any number of stages will do.
  const bool alike = model.job().layers > 1;
  std::vector<OperatorPlan> plans;
  if (decoder.empty() || stages == 1) {
    if (!alike || divides(stages, encoder)) {
      plans.push_back(EqualStages(model, stages));
    }
    return plans;
  }
  for (int before = 1; before < stages; ++before) {
    const int after = stages - before;
    if (!divides(before, encoder) || !divides(after, decoder)) {
      continue;
    }
    OperatorPlan& plan = plans.emplace_back();
    for (int s = 0; s < before; ++s) {
      plan.first.push_back(s == 0 ? 0 : encoder[s * encoder.size() / before]);
    }
    for (int s = 0; s < after; ++s) {
      // The decoder's embedding is in its first stage.
      plan.first.push_back(decoder[s * decoder.size() / after] -
                           (s == 0 ? 1 : 0));
    }
    plan.first.push_back(model.operators());
    plan.choices.resize(model.operators());
  }
  return plans;
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
    if (gpus % stages != 0 ||
        !std::has_single_bit(static_cast<unsigned>(gpus / stages))) {
      continue;
    }
    for (OperatorPlan& plan : EqualPipelines(model, stages)) {
      TryStages(model, gpus / stages, std::move(plan), result);
    }
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

}  // namespace planners
