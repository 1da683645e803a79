#include "harness/testbeds/simulated.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "harness/testbeds/noise.h"
#include "harness/testbeds/prediction_settings.h"
#include "harness/testbeds/predictions.h"
#include "harness/testbeds/problem_parts.h"
#include "trials/data_folder.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/simulator.h"
#include "trials/wrappers/landscape_runner.h"
#include "trials/wrappers/sized_runner.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;
using trials::TrialRunner;

// The keys of [noise] that change the noise-free times of the simulator.
trials::LandscapeOptions ReadLandscape(const TomlTable& table) {
  trials::LandscapeOptions options;
  options.pairs = GetNotNegative(table, "landscape", options.pairs);
  options.independent =
      GetNotNegative(table, "landscape_independent", options.independent);
  options.seed = static_cast<std::uint64_t>(table.GetInt("landscape_seed", 1));
  return options;
}

// The cluster with the bandwidths of its links multiplied by factors of
// [cluster]: within hosts, and between them.
trials::Cluster WithLinkFactors(trials::Cluster cluster,
                                const TomlTable& table) {
  const double intra = table.GetPositive("intra_bandwidth_factor", 1.0);
  const double inter = table.GetPositive("inter_bandwidth_factor", 1.0);
  cluster.intra.bandwidth_bytes_per_s *= intra;
  cluster.uplink.bandwidth_bytes_per_s *= intra;
  cluster.inter.bandwidth_bytes_per_s *= inter;
  cluster.outer.bandwidth_bytes_per_s *= inter;
  return cluster;
}

// "nanotron: compared with ultrascale".
std::string ValidationLine(const std::string& framework,
                           const std::vector<std::string>& tables) {
  return tables.empty()
             ? fmt::format(
                   "{}: not validated (no comparison with published "
                   "measurements)",
                   framework)
             : fmt::format("{}: compared with published measurements ({})",
                           framework, fmt::join(tables, ", "));
}

// "a100-8x4 (32 x A100)", with several numbers of GPUs "a100-8x4 (8, 16, 32 x
// A100)", or all groups: "slow (8 x A100) + fast (8 x H100)".
std::string NameOf(const std::vector<trials::Cluster>& gpu_types,
                   const trials::Machine& machine) {
  std::string name;
  for (const trials::Cluster& gpu_type : gpu_types) {
    name += fmt::format(
        "{}{} ({} x {})", name.empty() ? "" : " + ", gpu_type.name,
        machine.mixed() ? std::to_string(gpu_type.gpus())
                        : fmt::format("{}", fmt::join(machine.sizes(), ", ")),
        gpu_type.gpu.name);
  }
  return name;
}

// A line for each GPU type: with which measurements it was compared.
std::string ValidationOf(const std::vector<trials::Cluster>& gpu_types) {
  std::string text;
  for (const trials::Cluster& gpu_type : gpu_types) {
    const std::string& validated = gpu_type.gpu.validated;
    text += fmt::format("{}: {}\n", gpu_type.gpu.name,
                        validated.empty()
                            ? "not validated: its constants are estimates"
                            : "validated with " + validated);
  }
  return text;
}

// The GPU types by the numbers that plans have.
std::string TypesOf(const std::vector<trials::Cluster>& gpu_types) {
  std::string text;
  for (std::size_t i = 0; i < gpu_types.size(); ++i) {
    text += fmt::format("gpu_type {}: {} ({} x {})\n", i, gpu_types[i].name,
                        gpu_types[i].gpus(), gpu_types[i].gpu.name);
  }
  return text;
}

// Predictions for trials on several GPU types describe a machine with one, and
// none of these types may make them the ground truth.
PredictionsByName HeterogeneousPredictions(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::Workload& workload, const System& own,
    const std::vector<trials::Cluster>& gpu_types,
    const trials::Machine& machine) {
  std::vector<PredictionsByName> by_type;
  for (const trials::Cluster& gpu_type : gpu_types) {
    System system = own;
    system.cluster = gpu_type;
    system.cluster.inter = gpu_type.OuterLink();
    system.cluster = trials::WithGpus(system.cluster, machine.gpus());
    by_type.push_back(
        SimulatedPredictions(problem, space, workload, system, true, machine));
  }
  return [=](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    if (settings.clusters.empty()) {
      throw InputError(fmt::format(
          "{}: the trials have several GPU types; predictions describe one: "
          "add cluster = \"NAME\" to [predictions], or planner = \"astra\"",
          settings.table.Where()));
    }
    for (std::size_t i = 1; i < by_type.size(); ++i) {
      (void)by_type[i](name);
    }
    return by_type.front()(name);
  };
}

}  // namespace

SimulatorSetup ReadSimulatorSetup(const ProblemSpec& problem) {
  const std::string type = problem.backend.RequireString("type");
  if (type != "simulator") {
    problem.backend.Fail(
        "type",
        fmt::format("this needs the backend 'simulator', not '{}'", type));
  }
  if (problem.space.Has("custom")) {
    problem.space.Fail("custom",
                       "the simulator has no knobs of one's own, so they "
                       "would have no effect: use the backend 'command', or "
                       "'replay' with a column for each");
  }
  SimulatorSetup setup;
  setup.workload = trials::ReadWorkload(problem.workload);
  for (trials::Cluster& gpu_type : ReadClusters(problem.cluster)) {
    setup.gpu_types.push_back(
        WithLinkFactors(std::move(gpu_type), problem.cluster));
  }
  setup.space =
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder);
  CheckParts(problem.space, setup.gpu_types, setup.space);
  trials::Framework framework;
  setup.inputs = ProblemFiles(problem);
  for (const trials::Cluster& gpu_type : setup.gpu_types) {
    for (std::filesystem::path& file : trials::GpuFiles(gpu_type.gpu)) {
      if (std::find(setup.inputs.begin(), setup.inputs.end(), file) ==
          setup.inputs.end()) {
        setup.inputs.push_back(std::move(file));
      }
    }
  }
  if (problem.backend.Has("framework")) {
    const std::string name = problem.backend.RequireString("framework");
    std::filesystem::path file;
    try {
      file = trials::FindDataFile("frameworks", name, problem.backend.Folder());
    } catch (const InputError& e) {
      problem.backend.Fail("framework", e.what());
    }
    framework = trials::ReadFramework(file);
    setup.framework_name = file.stem().string();
    setup.inputs.push_back(file);
    const trials::FrameworkNotes notes = trials::ReadFrameworkNotes(file);
    AddFrameworkRules(problem, file, notes.rule_sets, setup.space,
                      setup.inputs);
    setup.compared_with = notes.compared_with;
  }
  setup.noise = ReadNoise(problem);
  if (setup.noise.file) {
    setup.inputs.push_back(*setup.noise.file);
  }
  framework.launch.failure_s =
      setup.noise.costs.failure_s.value_or(framework.launch.failure_s);
  framework.launch.launch_process_s =
      setup.noise.costs.launch_process_s.value_or(
          framework.launch.launch_process_s);
  framework.launch.setup_factor = GetNotNegative(
      problem.backend, "setup_factor", framework.launch.setup_factor);
  setup.framework = std::make_shared<const trials::Framework>(framework);
  return setup;
}

std::string SimulatorSetup::FrameworkName() const {
  return framework_name.empty() ? std::string(kDefaultFramework)
                                : framework_name;
}

StepModel::StepModel(const SimulatorSetup& setup,
                     const trials::Machine& machine,
                     std::shared_ptr<const trials::Landscape> deviations)
    : setup_(setup), deviations_(std::move(deviations)) {
  for (const int gpus : machine.sizes()) {
    simulators_.emplace(gpus, SimulatorOf(gpus));
  }
}

std::unique_ptr<trials::Simulator> StepModel::SimulatorOf(int gpus) const {
  std::vector<trials::Cluster> gpu_types = setup_.gpu_types;
  if (!setup_.mixed()) {
    gpu_types.front() = WithGpus(std::move(gpu_types.front()), gpus);
  }
  return std::make_unique<trials::Simulator>(
      setup_.workload, std::move(gpu_types),
      trials::Simulator::Options{*setup_.framework});
}

std::unique_ptr<TrialRunner> StepModel::MakeRunner() const {
  std::map<int, std::unique_ptr<TrialRunner>> parts;
  for (const auto& [gpus, simulator] : simulators_) {
    parts.emplace(gpus, SimulatorOf(gpus));
  }
  std::unique_ptr<TrialRunner> runner =
      parts.size() == 1
          ? std::move(parts.begin()->second)
          : std::make_unique<trials::SizedRunner>(std::move(parts));
  if (deviations_ != nullptr) {
    runner = std::make_unique<trials::LandscapeRunner>(std::move(runner),
                                                       deviations_);
  }
  return runner;
}

trials::StepReport StepModel::Simulate(
    const trials::ParallelConfig& config) const {
  const auto found = simulators_.find(trials::GpusOf(config));
  return (found == simulators_.end() ? *simulators_.rbegin() : *found)
      .second->Simulate(config);
}

Expectation StepModel::Expect(const trials::ParallelConfig& config) const {
  const trials::StepReport report = Simulate(config);
  const double factor =
      deviations_ == nullptr ? 1.0 : deviations_->TimeFactor(config);
  return {
      factor * report.step_time_s, report.peak_memory_bytes,
      trials::FitProbability(report.peak_memory_bytes, report.capacity_bytes,
                             setup_.framework->allocator.memory_log_stddev)};
}

std::string StepModel::Explain(const trials::ParallelConfig& config) const {
  const trials::StepReport report = Simulate(config);
  return FormatReport(ToString(config), report) + ErrorBands(config, report) +
         ValidationOf(setup_.gpu_types) +
         (deviations_ == nullptr
              ? ""
              : fmt::format("[noise] landscape: step time x {:.4f}\n",
                            deviations_->TimeFactor(config)));
}

std::string StepModel::Explain(const trials::Plan& plan) const {
  return FormatReport(ToString(plan),
                      simulators_.begin()->second->Simulate(plan)) +
         (setup_.mixed() ? TypesOf(setup_.gpu_types) : "");
}

std::string StepModel::Validation() const {
  return ValidationLine(setup_.FrameworkName(), setup_.compared_with);
}

// How far measurements of comparable runs are from a report; nothing without
// the file of bands, and with several GPU types, which no measurement has.
std::string StepModel::ErrorBands(const trials::ParallelConfig& config,
                                  const trials::StepReport& report) const {
  if (setup_.mixed()) {
    return "\n";
  }
  const std::filesystem::path file = trials::ErrorBandsPath();
  if (!common::IsFile(file)) {
    return "";
  }
  const trials::ErrorBands bands = trials::ReadErrorBands(file);
  const trials::Cluster cluster =
      WithGpus(setup_.cluster(), trials::GpusOf(config));
  return "\n" + FormatBands(bands,
                            bands.RegimeOf(cluster.gpu.architecture,
                                           setup_.FrameworkName(),
                                           cluster.nodes, config.zero_stage),
                            report);
}

Testbed MakeSimulator(const ProblemSpec& problem) {
  const SimulatorSetup setup = ReadSimulatorSetup(problem);
  const trials::Workload& workload = setup.workload;
  Testbed testbed = TestbedOn(workload, setup.gpu_types, setup.space);
  testbed.inputs = setup.inputs;
  testbed.description = fmt::format(
      "{}, batch {} x {}, on {}{}{}", workload.name, workload.batch_size,
      workload.sequence_length, NameOf(setup.gpu_types, testbed.machine),
      setup.framework_name.empty() ? "" : ", framework ", setup.framework_name);
  const trials::LandscapeOptions landscape = ReadLandscape(problem.noise);
  auto deviations = landscape.pairs > 0.0 || landscape.independent > 0.0
                        ? std::make_shared<const trials::Landscape>(
                              landscape, testbed.space->configs())
                        : nullptr;
  testbed.model =
      std::make_shared<StepModel>(setup, testbed.machine, deviations);
  testbed.runs_plans = !testbed.machine.resizable() && deviations == nullptr;
  std::unique_ptr<TrialRunner> exact = testbed.model->MakeRunner();
  testbed.exact = exact.get();
  testbed.runner =
      WithNoise(std::move(exact), setup.noise, problem.noise.Where());
  const System own = {
      setup.cluster(), setup.framework, setup.FrameworkName(), {}};
  testbed.predictions =
      setup.mixed()
          ? HeterogeneousPredictions(problem, *testbed.space, workload, own,
                                     setup.gpu_types, testbed.machine)
          : SimulatedPredictions(problem, *testbed.space, workload, own, true,
                                 testbed.machine);
  testbed.rank_order = setup.framework->pipeline.pipeline_outermost
                           ? trials::RankOrder::kPipelineOutermost
                           : trials::RankOrder::kDataOutermost;
  return testbed;
}

}  // namespace harness
