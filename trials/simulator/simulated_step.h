// What happens on every stage during a step, for pictures and traces.

#pragma once

#include <vector>

#include "trials/simulator/pipeline.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/step.h"
#include "trials/simulator/step_report.h"

namespace trials {

// One rank of a stage; all are alike.
struct SimulatedStage {
  TimeBreakdown time;      // of the step, until the stage ends
  MemoryBreakdown memory;  // at its peak
  std::vector<ActionRecord> actions;
  // The parts of an action of each chunk; a split backward pass counts the
  // gradients of weights to backward.
  std::vector<TimeBreakdown> forward;
  std::vector<TimeBreakdown> backward;
  AfterPipeline after;
};

// Times are seconds since the step began.
struct SimulatedStep {
  StepReport report;  // that of Simulator::Simulate
  PipelineShape shape;
  int critical_stage = 0;  // that ends last
  std::vector<SimulatedStage> stages;
  PlacedGroups groups;
};

// Without groups. Shapes: stages [pp]. `report`: of these stages.
[[nodiscard]] SimulatedStep RecordStep(const Problem& problem,
                                       const ParallelConfig& shared,
                                       const StepReport& report,
                                       const std::vector<StageContext>& stages,
                                       const PlanLinks& links);

}  // namespace trials
