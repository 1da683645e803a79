#include "harness/testbeds/simulator_backend.h"

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
#include "harness/testbeds/prediction_sources.h"
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

// How far measurements of comparable runs are from a report; nothing without
// the file of bands, and with several GPU types, which no measurement has.
std::string ErrorBandsOf(const std::vector<trials::Cluster>& gpu_types,
                         const std::string& framework,
                         const trials::ParallelConfig& config,
                         const trials::StepReport& report) {
  if (gpu_types.size() > 1) {
    return "\n";
  }
  const std::filesystem::path file = trials::ErrorBandsPath();
  if (!common::IsFile(file)) {
    return "";
  }
  const trials::ErrorBands bands = trials::ReadErrorBands(file);
  const trials::Cluster cluster =
      WithGpus(gpu_types.front(), trials::GpusOf(config));
  return "\n" + FormatBands(bands,
                            bands.RegimeOf(cluster.gpu.architecture, framework,
                                           cluster.nodes, config.zero_stage),
                            report);
}

// "a100-8x4 (32 x A100)", with several numbers of GPUs "a100-8x4 (8, 16, 32 x
// A100)", or all groups: "slow (8 x A100) + fast (8 x H100)".
std::string NameOf(const std::vector<trials::Cluster>& gpu_types,
                   const std::vector<int>& sizes) {
  std::string name;
  for (const trials::Cluster& gpu_type : gpu_types) {
    name +=
        fmt::format("{}{} ({} x {})", name.empty() ? "" : " + ", gpu_type.name,
                    sizes.empty() ? std::to_string(gpu_type.gpus())
                                  : fmt::format("{}", fmt::join(sizes, ", ")),
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

// The GPU types by the numbers that plans have; "" if there is one.
std::string TypesOf(const std::vector<trials::Cluster>& gpu_types) {
  std::string text;
  for (std::size_t i = 0; gpu_types.size() > 1 && i < gpu_types.size(); ++i) {
    text += fmt::format("gpu_type {}: {} ({} x {})\n", i, gpu_types[i].name,
                        gpu_types[i].gpus(), gpu_types[i].gpu.name);
  }
  return text;
}

// Predictions for trials on several GPU types describe a machine with one, and
// none of these types may make them the ground truth.
PredictionsByName HeterogeneousPredictions(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::Workload& workload, const Machine& own,
    const std::vector<trials::Cluster>& gpu_types) {
  std::vector<PredictionsByName> by_type;
  for (const trials::Cluster& gpu_type : gpu_types) {
    Machine machine = own;
    machine.cluster = gpu_type;
    machine.cluster.inter = gpu_type.OuterLink();
    machine.cluster =
        trials::WithGpus(machine.cluster, trials::GpusOf(gpu_types));
    by_type.push_back(
        SimulatedPredictions(problem, space, workload, machine, true));
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

// Makes the simulator of so many GPUs.
using MakeSimulatorOf =
    std::function<std::unique_ptr<trials::Simulator>(int gpus)>;

// Runs configurations of every size, with the deviations of a landscape if
// there is one.
std::unique_ptr<TrialRunner> ExactRunner(
    const MakeSimulatorOf& make_simulator, const std::vector<int>& sizes,
    const std::shared_ptr<const trials::Landscape>& deviations) {
  std::unique_ptr<TrialRunner> runner;
  if (sizes.size() == 1) {
    runner = make_simulator(sizes.front());
  } else {
    std::map<int, std::unique_ptr<TrialRunner>> parts;
    for (const int gpus : sizes) {
      parts.emplace(gpus, make_simulator(gpus));
    }
    runner = std::make_unique<trials::SizedRunner>(std::move(parts));
  }
  if (deviations != nullptr) {
    runner = std::make_unique<trials::LandscapeRunner>(std::move(runner),
                                                       deviations);
  }
  return runner;
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
  setup.cluster = setup.gpu_types.front();
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
  if (const auto noise = NoiseFile(problem.noise)) {
    setup.inputs.push_back(*noise);
  }
  framework.launch.failure_s = FailureTime(problem, framework.launch.failure_s);
  framework.launch.launch_process_s =
      LaunchTime(problem, framework.launch.launch_process_s);
  framework.launch.setup_factor = GetNotNegative(
      problem.backend, "setup_factor", framework.launch.setup_factor);
  setup.framework = std::make_shared<const trials::Framework>(framework);
  return setup;
}

Backend MakeSimulator(const ProblemSpec& problem) {
  SimulatorSetup setup = ReadSimulatorSetup(problem);
  const trials::Workload& workload = setup.workload;
  const trials::Cluster& cluster = setup.cluster;
  const std::vector<trials::Cluster>& gpu_types = setup.gpu_types;
  Backend backend = BackendOn(workload, gpu_types, setup.space);
  backend.inputs = std::move(setup.inputs);
  backend.description = fmt::format(
      "{}, batch {} x {}, on {}{}{}", workload.name, workload.batch_size,
      workload.sequence_length, NameOf(gpu_types, backend.sizes),
      setup.framework_name.empty() ? "" : ", framework ", setup.framework_name);
  const std::string framework_name = setup.framework_name.empty()
                                         ? std::string(kDefaultFramework)
                                         : setup.framework_name;
  backend.validation = ValidationLine(framework_name, setup.compared_with);
  const trials::LandscapeOptions landscape = ReadLandscape(problem.noise);
  const auto deviations = landscape.pairs > 0.0 || landscape.independent > 0.0
                              ? std::make_shared<const trials::Landscape>(
                                    landscape, backend.space->configs())
                              : nullptr;
  const MakeSimulatorOf make_simulator =
      [workload, gpu_types, framework = setup.framework](int gpus) {
        const trials::Simulator::Options simulator_options{*framework};
        return gpu_types.size() > 1
                   ? std::make_unique<trials::Simulator>(workload, gpu_types,
                                                         simulator_options)
                   : std::make_unique<trials::Simulator>(
                         workload, WithGpus(gpu_types.front(), gpus),
                         simulator_options);
      };
  const std::vector<int> sizes =
      backend.sizes.empty() ? std::vector<int>{backend.gpus} : backend.sizes;
  const auto make_exact = [make_simulator, sizes, deviations] {
    return ExactRunner(make_simulator, sizes, deviations);
  };
  backend.clone_exact_runner = make_exact;
  // Of each number of GPUs; the largest one rejects other configurations.
  std::map<int, std::shared_ptr<const trials::Simulator>> simulators;
  for (const int gpus : sizes) {
    simulators.emplace(gpus, make_simulator(gpus));
  }
  const auto simulate = [simulators](const trials::ParallelConfig& config) {
    const auto found = simulators.find(trials::GpusOf(config));
    return (found == simulators.end() ? *simulators.rbegin() : *found)
        .second->Simulate(config);
  };
  backend.expect = [simulate, deviations,
                    log_stddev = setup.framework->allocator.memory_log_stddev](
                       const trials::ParallelConfig& config) {
    const trials::StepReport report = simulate(config);
    const double factor =
        deviations == nullptr ? 1.0 : deviations->TimeFactor(config);
    return Expectation{
        factor * report.step_time_s, report.peak_memory_bytes,
        trials::FitProbability(report.peak_memory_bytes, report.capacity_bytes,
                               log_stddev)};
  };
  backend.explain = [simulate, deviations, gpu_types,
                     framework_name](const trials::ParallelConfig& config) {
    const trials::StepReport report = simulate(config);
    return FormatReport(ToString(config), report) +
           ErrorBandsOf(gpu_types, framework_name, config, report) +
           ValidationOf(gpu_types) +
           (deviations == nullptr
                ? ""
                : fmt::format("[noise] landscape: step time x {:.4f}\n",
                              deviations->TimeFactor(config)));
  };
  if (sizes.size() == 1) {
    backend.explain_plan = [simulator = simulators.begin()->second,
                            gpu_types](const trials::Plan& plan) {
      return FormatReport(ToString(plan), simulator->Simulate(plan)) +
             TypesOf(gpu_types);
    };
    backend.runs_plans = deviations == nullptr;
  }
  std::unique_ptr<TrialRunner> exact = make_exact();
  backend.exact = exact.get();
  backend.runner = WithNoise(std::move(exact), problem.noise);
  const Machine own = {cluster, setup.framework, framework_name, {}};
  backend.predictions =
      gpu_types.size() > 1
          ? HeterogeneousPredictions(problem, *backend.space, workload, own,
                                     gpu_types)
          : SimulatedPredictions(problem, *backend.space, workload, own, true,
                                 backend.sizes);
  backend.rank_order = setup.framework->pipeline.pipeline_outermost
                           ? trials::RankOrder::kPipelineOutermost
                           : trials::RankOrder::kDataOutermost;
  return backend;
}

}  // namespace harness
