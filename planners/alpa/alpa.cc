#include "planners/alpa/alpa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "planners/aceso/conversions.h"
#include "planners/operators/pipeline_program.h"

namespace planners {
namespace {

using common::kInfinity;

class InterOperator {
 public:
  InterOperator(const OperatorModel& model, int micro_batch, bool recompute,
                BaselineResult& result)
      : model_(model),
        micro_batch_(micro_batch),
        recompute_(recompute),
        result_(result) {
    const std::vector<int> layers = LayersOf(model);
    const int count = static_cast<int>(layers.size());
    const int clusters = std::min(count, kClusters);
    for (int i = 0; i < clusters; ++i) {
      cuts_.push_back(i == 0 ? 0 : layers[i * count / clusters]);
    }
    cuts_.push_back(model.operators());
  }

  void Run() {
    FillStages();
    std::vector<double> bounds;
    for (const SolvedStage& stage : stages_) {
      if (std::isfinite(stage.ms)) {
        bounds.push_back(stage.ms);
      }
    }
    std::ranges::sort(bounds);
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    const OperatorJob& job = model_.job();
    const int microbatches = job.batch / micro_batch_;
    // Pipelines of lower bounds obey the higher ones, too.
    PipelineProgram program(PipelineProgram::Least::kSum, Clusters(), job.gpus);
    OperatorPlan best;
    double best_ms = kInfinity;
    for (const double bound : bounds) {
      // Every stage takes at most the bound, and one takes as long: no later
      // bound is better.
      if (microbatches * bound >= best_ms) {
        break;
      }
      for (int stages = 1; stages <= Clusters(); ++stages) {
        program.Solve(stages, [&](const PipelineStage& place) {
          const SolvedStage& stage = At(place);
          return stage.ms <= bound &&
                         stage.MemoryMb(stages - 1) <= job.memory_limit_mb
                     ? stage.ms
                     : kInfinity;
        });
        const double ms =
            program.Best(stages).sum_ms + (microbatches - 1) * bound;
        if (ms < best_ms) {
          best_ms = ms;
          best = PlanOfStages(program.StagesOf(stages));
        }
      }
    }
    if (!best.choices.empty()) {
      result_.Keep(model_, best);
    }
  }

 private:
  static constexpr int kClusters = 16;  // groups of layers

  [[nodiscard]] int Clusters() const {
    return static_cast<int>(cuts_.size()) - 1;
  }
  [[nodiscard]] SolvedStage& At(const PipelineStage& place) {
    const auto end = static_cast<int>(cuts_.size());
    const auto gpus_log2 = std::countr_zero(static_cast<unsigned>(place.gpus));
    return stages_[(gpus_log2 * end + place.begin) * end + place.end];
  }

  [[nodiscard]] StageView ViewOf(const PipelineStage& place) const {
    // Smaller stages are taken to be within a host, where their place is open.
    const bool whole_host = place.gpus >= model_.job().gpus_per_node;
    return {.begin = cuts_[place.begin],
            .end = cuts_[place.end],
            .micro_batch = micro_batch_,
            .input_between_hosts = whole_host && place.begin > 0,
            .output_between_hosts = whole_host || place.end == Clusters()};
  }

  // On submeshes that divide a host or are whole hosts.
  void FillStages() {
    const int all = model_.job().gpus;
    const int host = model_.job().gpus_per_node;
    stages_.resize(
        cuts_.size() * cuts_.size() *
        static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(all))));
    for (int gpus = 1; gpus <= all; gpus *= 2) {
      for (int begin = 0; begin < Clusters(); ++begin) {
        for (int end = begin + 1; end <= Clusters(); ++end) {
          if (gpus <= host || gpus % host == 0) {
            const PipelineStage place{begin, end, gpus};
            ++result_.explored;
            At(place) = SolveStage(model_, ViewOf(place), gpus, recompute_);
          }
        }
      }
    }
  }

  OperatorPlan PlanOfStages(const std::vector<PipelineStage>& stages) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    for (const PipelineStage& place : stages) {
      plan.Append(cuts_[place.begin], At(place).choices);
    }
    plan.first.push_back(model_.operators());
    return plan;
  }

  const OperatorModel& model_;
  int micro_batch_;
  bool recompute_;
  BaselineResult& result_;
  std::vector<int> cuts_;            // operators, the end included
  std::vector<SolvedStage> stages_;  // by GPUs, begin, end
};

}  // namespace

BaselineResult AlpaPlan(const OperatorModel& model) {
  BaselineResult result;
  for (int micro_batch = model.table().micro_batches().front();
       micro_batch <= model.table().micro_batches().back() * model.job().gpus &&
       model.job().batch % micro_batch == 0;
       micro_batch *= 2) {
    for (const bool recompute : {false, true}) {
      InterOperator(model, micro_batch, recompute, result).Run();
    }
  }
  return result;
}

}  // namespace planners
