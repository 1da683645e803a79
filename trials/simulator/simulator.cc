#include "trials/simulator/simulator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trials/constraints.h"
#include "trials/simulator/step.h"

namespace trials {
namespace {

// Throws unless the configuration is one of this problem.
void Check(const Problem& problem, const ParallelConfig& config) {
  const std::string broken = ConfigProblem(
      config, {.workload = problem.workload,
               .gpus = GpusOf(problem.gpu_types),
               .replicated_kv_heads = true,
               .unfilled_stages =
                   problem.framework.pipeline.full_pipeline ? 1 : config.pp});
  if (!broken.empty()) {
    throw InvalidPlan(ToString(config), broken);
  }
}

}  // namespace

Simulator::Simulator(const Workload& workload, std::vector<Cluster> gpu_types,
                     Options options)
    : model_(workload, std::move(gpu_types), options.framework) {}
Simulator::Simulator(const Workload& workload, Cluster cluster, Options options)
    : Simulator(workload, std::vector<Cluster>{std::move(cluster)}, options) {}
Simulator::Simulator(const Workload& workload, Cluster cluster)
    : Simulator(workload, std::move(cluster), Options{}) {}

StepReport Simulator::Simulate(const Plan& plan) const {
  CheckPlan(plan, problem().workload, problem().GpusOfTypes());
  const std::vector<StageCost> stages = model_.StageCosts(plan);
  return FinishStep(problem(), plan.shared, stages,
                    SynchronizeStages(problem(), plan.shared, stages));
}

StepReport Simulator::Simulate(const ParallelConfig& config) const {
  Check(problem(), config);
  const std::vector<StageCost>& stages =
      Memoized(stages_, StageCostKnobs(config), [&](const Knobs& knobs) {
        return model_.StageCosts(model_.PlanOf(knobs));
      });
  const std::vector<StageSync>& syncs = Memoized(
      syncs_, StageSyncKnobs(framework(), config), [&](const Knobs& knobs) {
        return SynchronizeStages(problem(), knobs, stages);
      });
  return FinishStep(problem(), config, stages, syncs);
}

double Simulator::SetupTime() const {
  // Hosts start their processes at the same time.
  const int gpus_per_node =
      std::ranges::max_element(problem().gpu_types, {}, &Cluster::gpus_per_node)
          ->gpus_per_node;
  const double weights =
      4.0 * static_cast<double>(ParameterCount(problem().workload.model));
  return framework().launch.setup_factor *
         (framework().launch.launch_process_s +
          framework().launch.launch_per_local_rank_s * gpus_per_node +
          framework().launch.group_init_s +
          framework().launch.group_init_per_rank_s *
              GpusOf(problem().gpu_types) +
          weights / framework().launch.weights_bytes_per_s);
}

Measurement Simulator::Run(const TrialRequest& request) {
  const StepReport report = Simulate(request.candidate);
  Measurement measurement;
  measurement.setup_s = SetupTime();
  measurement.duration_s = measurement.setup_s;
  if (!report.fits) {
    measurement.outcome = Outcome::kOutOfMemory;
    measurement.message = fmt::format(
        "out of memory {}: rank {} needs {:.2f} GB of {:.2f} GB, most of it "
        "for {}",
        report.model_states_fit ? "in the first step" : "during set-up",
        report.peak_rank, report.peak_memory_bytes / 1e9,
        report.capacity_bytes / 1e9, LargestComponent(report.memory));
    measurement.duration_s +=
        (report.model_states_fit ? report.step_time_s : 0.0) +
        framework().launch.failure_s;
    return measurement;
  }
  measurement.outcome = Outcome::kCompleted;
  measurement.peak_memory_bytes = report.peak_memory_bytes;
  for (int step = 0; step < request.max_steps; ++step) {
    measurement.step_times_s.push_back(report.step_time_s);
    measurement.duration_s += report.step_time_s;
    if (request.on_step && !request.on_step(report.step_time_s) &&
        step + 1 < request.max_steps) {
      measurement.outcome = Outcome::kTerminatedEarly;
      break;
    }
  }
  measurement.duration_s += framework().launch.teardown_s;
  return measurement;
}

std::optional<double> Simulator::ExactThroughput(
    const Candidate& candidate) const {
  const StepReport report = Simulate(candidate);
  return report.fits ? 1.0 / report.step_time_s : 0.0;
}

}  // namespace trials
