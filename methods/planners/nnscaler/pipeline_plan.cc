#include "methods/planners/nnscaler/pipeline_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/units.h"
#include "methods/planners/nnscaler/stage_table.h"

namespace methods {
namespace {

using common::kInfinity;

// The best rest of a pipeline from a layer on.
struct Rest {
  double slowest_ms = kInfinity;
  int end = 0;   // layer after its first stage
  int gpus = 0;  // of its first stage
};

// The pipelines of so many GPUs and microbatches.
class PipelineSearch {
 public:
  PipelineSearch(const OperatorModel& model, const PlanConstraints& constraints,
                 StageTable& table, int gpus, int microbatches, double limit_mb)
      : table_(table),
        gpus_(gpus),
        microbatches_(microbatches),
        limit_mb_(limit_mb),
        most_gpus_of_stage_(std::min(
            {constraints.most_gpus_of_stage, model.job().gpus_per_node, gpus})),
        most_stages_(std::min(MostStages(constraints, microbatches, gpus),
                              table.layers())),
        rests_(
            static_cast<std::size_t>(most_stages_) + 1,
            std::vector<std::vector<Rest>>(
                static_cast<std::size_t>(gpus) + 1,
                std::vector<Rest>(static_cast<std::size_t>(table.layers())))) {}

  // The plan of one pipeline, and its time; infinite if there is none.
  std::pair<OperatorPlan, double> Best() {
    double best_ms = kInfinity;
    int best_stages = 0;
    for (int stages = 1; stages <= most_stages_; ++stages) {
      Solve(stages);
      const double ms =
          (microbatches_ + stages - 1) * RestOf(stages, gpus_, 0).slowest_ms;
      if (ms < best_ms) {
        best_ms = ms;
        best_stages = stages;
      }
    }
    return {Rebuilt(best_stages), best_ms};
  }

  [[nodiscard]] std::int64_t joins() const { return joins_; }

 private:
  [[nodiscard]] Rest& RestOf(int stages, int gpus, int begin) {
    return rests_[stages][gpus][begin];
  }

  // The best rests of exactly so many stages.
  void Solve(int stages) {
    for (int begin = 0; begin < table_.layers(); ++begin) {
      for (int end = begin + 1; end <= table_.layers(); ++end) {
        if ((stages == 1) != (end == table_.layers())) {
          continue;
        }
        for (int gpus = 1; gpus <= most_gpus_of_stage_; gpus *= 2) {
          if (table_.StatesMb(begin, end, gpus) > limit_mb_ ||
              !table_.IsBalancedStage(begin, end, gpus, gpus_)) {
            continue;
          }
          const SolvedStage& stage = table_.StageOf(begin, end, gpus);
          if (stage.MemoryMb(stages - 1) <= limit_mb_) {
            Join(stages, begin, end, gpus, stage.ms);
          }
        }
      }
    }
  }

  // Where each stage of a rest is balanced, so is the rest as a whole.
  void Join(int stages, int begin, int end, int gpus, double ms) {
    const int least = gpus + stages - 1;
    const int most = std::min(gpus_, gpus + (stages - 1) * most_gpus_of_stage_);
    for (int all = least; all <= most; ++all) {
      if (!table_.IsBalancedStage(begin, table_.layers(), all, gpus_)) {
        continue;
      }
      ++joins_;
      const double slowest_ms =
          stages == 1
              ? ms
              : std::max(ms, RestOf(stages - 1, all - gpus, end).slowest_ms);
      Rest& rest = RestOf(stages, all, begin);
      if (slowest_ms < rest.slowest_ms) {
        rest = {slowest_ms, end, gpus};
      }
    }
  }

  OperatorPlan Rebuilt(int stages) {
    OperatorPlan plan;
    int begin = 0;
    int gpus = gpus_;
    for (; stages > 0; --stages) {
      const Rest& rest = RestOf(stages, gpus, begin);
      const auto& choices = table_.StageOf(begin, rest.end, rest.gpus).choices;
      plan.first.push_back(table_.Operator(begin));
      plan.choices.insert(plan.choices.end(), choices.begin(), choices.end());
      begin = rest.end;
      gpus -= rest.gpus;
    }
    plan.first.push_back(table_.Operator(begin));
    return plan;
  }

  StageTable& table_;
  int gpus_;
  int microbatches_;
  double limit_mb_;
  int most_gpus_of_stage_;
  int most_stages_;
  std::vector<std::vector<std::vector<Rest>>> rests_;
  std::int64_t joins_ = 0;
};

// Replicas of a pipeline are data parallelism of every operator.
void Replicate(int replicas, OperatorPlan& plan) {
  const int log2 = std::countr_zero(static_cast<unsigned>(replicas));
  plan.micro_batch *= replicas;
  for (OperatorChoice& choice : plan.choices) {
    choice.dp_log2 = static_cast<std::uint8_t>(choice.dp_log2 + log2);
  }
}

}  // namespace

double PipelineMs(const std::vector<double>& stage_ms, int microbatches) {
  return (microbatches + static_cast<int>(stage_ms.size()) - 1) *
         *std::max_element(stage_ms.begin(), stage_ms.end());
}

ConstrainedSearch SearchUnderConstraints(const OperatorModel& model,
                                         const PlanConstraints& constraints,
                                         bool fit) {
  const OperatorJob& job = model.job();
  const double limit_mb = fit ? job.memory_limit_mb : kInfinity;
  ConstrainedSearch result;
  const int most = job.gpus * model.table().micro_batches().back();
  for (int micro_batch = 1; micro_batch <= most; micro_batch *= 2) {
    for (const bool recompute : {false, true}) {
      StageTable table(model, constraints, micro_batch, recompute);
      for (int replicas = 1; replicas <= job.gpus; replicas *= 2) {
        if (job.gpus % replicas != 0 ||
            job.batch % (replicas * micro_batch) != 0) {
          continue;
        }
        PipelineSearch search(model, constraints, table, job.gpus / replicas,
                              job.batch / (replicas * micro_batch), limit_mb);
        auto [plan, ms] = search.Best();
        result.joins += search.joins();
        if (std::isfinite(ms)) {
          plan.micro_batch = micro_batch;
          Replicate(replicas, plan);
          const double memory_mb = model.Cost(plan).memory_mb;
          result.plans.push_back({std::move(plan), ms, memory_mb});
        }
      }
      result.stages += table.solved();
    }
  }
  std::stable_sort(result.plans.begin(), result.plans.end(),
                   [](const auto& a, const auto& b) {
                     return a.iteration_ms < b.iteration_ms;
                   });
  return result;
}

}  // namespace methods
