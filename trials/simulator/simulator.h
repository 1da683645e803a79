// A GPU cluster in software: the default backend.

#ifndef TRIALS_SIMULATOR_SIMULATOR_H_
#define TRIALS_SIMULATOR_SIMULATOR_H_

#include <memory>
#include <optional>
#include <vector>

#include "trials/cluster.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/plan.h"
#include "trials/simulator/step_report.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace trials {

// Simulates training steps of a workload on a cluster from the operators,
// collectives and pipeline schedule of a configuration. It is deterministic;
// noise is a wrapper (trials/wrappers/noisy_runner.h).
//
// Configurations share what they can: layer costs, collectives and pipeline
// schedules are memoised inside the object, so evaluating a whole space costs
// about as much as its distinct schedules, and a configuration of known parts
// allocates nothing. Because of that memory one object must not be used by two
// threads at once; objects share nothing.
//
// Source: docs/simulator.md.
// Errors: Simulate throws std::invalid_argument for a configuration that breaks
// one of Constraints(), of which it relaxes two (trials/constraints.cc), and
// for a plan that CheckPlan refuses.
class Simulator final : public TrialRunner {
 public:
  struct Options {
    Framework framework;
  };

  // A cluster per GPU type; configurations run on the first one, plans on all.
  Simulator(Workload workload, std::vector<Cluster> pools, Options options);
  Simulator(Workload workload, Cluster cluster, Options options);
  Simulator(Workload workload, Cluster cluster);
  ~Simulator() override;
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  [[nodiscard]] StepReport Simulate(const ParallelConfig& config) const;
  // The same for stages that differ. UniformPlan(config) gives the same report
  // as the configuration, to the last bit.
  [[nodiscard]] StepReport Simulate(const Plan& plan) const;

  // Time from launch to the first step: processes, communicators, weights.
  [[nodiscard]] double SetupTime() const;

  // Every step takes the same time. Out of memory: no steps and no peak (a
  // framework cannot tell what it would have needed); the duration is the
  // set-up, the part of the first step up to the failure when the model's
  // states fit, and Framework::failure_s. Ignores request.seed and
  // request.time_limit_s (see wrappers/time_limited_runner.h).
  [[nodiscard]] Measurement Run(const TrialRequest& request) override;

  [[nodiscard]] std::optional<double> ExactThroughput(
      const ParallelConfig& config) const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_SIMULATOR_H_
