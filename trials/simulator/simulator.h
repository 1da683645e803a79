// A GPU cluster in software: the default backend.

#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trials/cluster.h"
#include "trials/plan.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/simulated_step.h"
#include "trials/simulator/step.h"
#include "trials/simulator/step_report.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace trials {

// Simulates training steps of a workload on a cluster from the operators,
// collectives and pipeline schedule of a plan. It is deterministic; noise is a
// wrapper (trials/wrappers/noisy_runner.h).
//
// Layer costs, links, pipelines and synchronization are memoized in the object,
// so evaluating a whole space costs about as much as its distinct pipelines,
// and a configuration whose costs are memoized allocates nothing. Therefore two
// threads must not use one object at the same time; objects share nothing but
// Options::grids.
//
// Source: docs/simulator.md.
// Errors: Simulate throws InvalidPlan for a configuration that breaks one of
// Constraints() (two of them are relaxed, trials/constraints.cc), and for a
// plan that CheckPlan rejects.
class Simulator final : public TrialRunner {
 public:
  struct Options {
    Framework framework;
    // Those of other simulators of these GPUs; null: its own.
    std::shared_ptr<PlacedGrids> grids;
  };

  // One cluster per GPU type. The stages of a configuration fill them in their
  // order; each stage has GPUs of one type.
  // Errors: throws std::invalid_argument without a cluster.
  Simulator(const Workload& workload, std::vector<Cluster> gpu_types,
            const Options& options);
  Simulator(const Workload& workload, Cluster cluster, const Options& options);
  Simulator(const Workload& workload, Cluster cluster);

  [[nodiscard]] StepReport Simulate(const Plan& plan) const;
  // Simulates the plan of a configuration, with memoization of everything
  // except the end of the step. The report is bit-identical to that of the
  // plan.
  [[nodiscard]] StepReport Simulate(const ParallelConfig& config) const;
  [[nodiscard]] StepReport Simulate(const Candidate& candidate) const {
    return candidate.Visit([this](const auto& what) { return Simulate(what); });
  }

  // The same step with what happens on every stage, which takes longer.
  // Precondition: GPUs of one type.
  [[nodiscard]] SimulatedStep Record(const ParallelConfig& config) const;

  // The memory of Simulate(config) alone, without the time: it needs no run of
  // the pipeline.
  [[nodiscard]] MemoryReport PeakMemory(const ParallelConfig& config) const;
  // At most the bytes of the peak: the model states, gradients and buffers of
  // the stage with the largest ones, without what microbatches need. It needs
  // neither links nor a schedule.
  // Precondition: GPUs of one type; the configuration is one that Simulate
  // accepts.
  [[nodiscard]] double LeastMemory(const ParallelConfig& config) const;
  // At most the time of a step, without a run of the pipeline.
  [[nodiscard]] double LeastStepTime(const ParallelConfig& config) const;
  // Errors: throws InvalidPlan as Simulate does.
  void CheckConfig(const ParallelConfig& config) const;

  // The plan of a configuration, with layers as the framework distributes them;
  // its stages fill the GPU types in their order (FillTypes).
  [[nodiscard]] Plan PlanOf(const ParallelConfig& config) const;

  // The time and memory of a plan's stages up to the end of the pipeline.
  // Layers and links are memoized: plans share them.
  [[nodiscard]] std::vector<StageCost> StageCosts(const Plan& plan) const;

  // Time from launch to the first step: processes, communicators, weights.
  [[nodiscard]] double SetupTime() const;

  // Every step takes the same time. Out of memory: no steps and no peak (a
  // framework cannot report what it would have needed); the duration is the
  // set-up, the first step if the model states fit, and
  // Framework::launch.failure_s. Ignores request.seed and request.time_limit_s
  // (see wrappers/time_limited_runner.h).
  [[nodiscard]] Measurement Run(const TrialRequest& request) override;

  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  using Knobs = ParallelConfig;
  Simulator(const Simulator& base, const Knobs& knobs);
  // Spreads the configurations of a space. Equality compares every knob, so a
  // knob that is missing here costs time only.
  struct Hash {
    std::size_t operator()(const Knobs& knobs) const;
  };
  template <typename Value>
  using Memo = std::unordered_map<Knobs, Value, Hash>;

  [[nodiscard]] PlacementOptions PlacementOf() const;
  [[nodiscard]] const LayerCosts& Layers(const Plan& plan, int stage,
                                         double sequences) const;
  // Calls visit(stages [pp], links) for a plan that is placed on the machine.
  template <typename Visit>
  auto WithStages(const Plan& plan, const Visit& visit) const;

  // The simulator of the framework as it trains with a configuration
  // (ForConfig): this one, or one of those below.
  [[nodiscard]] const Simulator& For(const ParallelConfig& config) const;

  Problem problem_;
  Knobs knobs_ = {};  // FrameworkKnobs of problem_.framework
  mutable std::list<Simulator> others_;
  mutable std::map<std::pair<int, Shard>, LayerCosts> layers_;  // by GPU type
  std::shared_ptr<PlacedGrids> grids_;
  mutable std::map<StageGrid, const PlanLinks*> links_;  // of grids_
  mutable Memo<std::vector<StageCost>> stages_;
  mutable Memo<std::vector<StageSync>> syncs_;
  mutable Memo<std::vector<StageMemory>> memories_;
  mutable Memo<double> least_;    // LeastMemory
  mutable Memo<double> least_s_;  // LeastStepTime
};

}  // namespace trials
