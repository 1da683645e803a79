#include "trials/simulator/simulated_step.h"

#include <cstddef>
#include <utility>

#include "trials/simulator/sharding.h"
#include "trials/simulator/stage_cost.h"
#include "trials/simulator/stage_memory.h"

namespace trials {

SimulatedStep RecordStep(const Problem& problem, const ParallelConfig& shared,
                         const StepReport& report,
                         const std::vector<StageContext>& stages,
                         const PlanLinks& links) {
  const ActionTimes actions = ActionsOf(stages, links);
  const std::vector<StageCost> costs = ComputeStageCosts(stages, links);
  const std::vector<StageSync> syncs =
      SynchronizeStages(problem, shared, costs);
  const ShardingBehavior behavior = BehaviorOf(problem.framework, shared);
  PipelineRecord pipeline = RecordPipeline(actions.shape, actions.times);
  SimulatedStep record{.report = report, .shape = actions.shape};
  double last_s = 0.0;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    SimulatedStage stage;
    stage.after = AfterPipelineOf(problem, shared, costs, syncs[s], s);
    stage.time = TimeOf(costs[s], stage.after);
    // Every stage ends as late as its allocator lets the fullest one.
    stage.after.overhead_s += report.retry_s;
    stage.time.overhead_s += report.retry_s;
    if (const double end_s = stage.time.Total(); end_s > last_s) {
      last_s = end_s;
      record.critical_stage = static_cast<int>(s);
    }
    MemoryReport memory;
    AddPeak(problem, shared, behavior, costs[s].memory, true, memory);
    stage.memory = memory.memory;
    for (std::size_t v = s; v < actions.forward.size(); v += costs.size()) {
      stage.forward.push_back(actions.forward[v]);
      stage.backward.push_back(actions.backward[v]);
    }
    record.stages.push_back(std::move(stage));
  }
  const int critical = record.critical_stage;
  const bool waits = record.stages[critical].after.wait_s > 0.0;
  const int last = actions.shape.stages - 1;
  MarkCriticalPath(actions.shape, waits ? last - critical : critical, pipeline);
  for (std::size_t s = 0; s < costs.size(); ++s) {
    record.stages[s].actions = std::move(pipeline[s]);
  }
  return record;
}

}  // namespace trials
