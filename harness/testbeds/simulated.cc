#include "harness/testbeds/simulated.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/ranges.h"
#include "common/toml_table.h"
#include "harness/spec.h"
#include "harness/testbeds/noise.h"
#include "harness/testbeds/problem_parts.h"
#include "trials/data_folder.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/simulator.h"
#include "trials/wrappers/landscape_runner.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;
using trials::TrialRunner;

// The keys of [noise] that change the noise-free times of the simulator.
trials::LandscapeOptions ReadLandscape(const TomlTable& table) {
  trials::LandscapeOptions options;
  options.pairs = table.GetNotNegative("landscape", options.pairs);
  options.independent =
      table.GetNotNegative("landscape_independent", options.independent);
  options.seed = static_cast<std::uint64_t>(table.GetInt("landscape_seed", 1));
  return options;
}

// The cluster with its constants multiplied by factors of [cluster]: rates and
// memory of its GPUs, bandwidths within hosts, and between them.
trials::Cluster WithFactors(trials::Cluster cluster, const TomlTable& table) {
  const double speed = table.GetPositive("gpu_speed_factor", 1.0);
  cluster.gpu.half_flop_per_s *= speed;
  cluster.gpu.single_flop_per_s *= speed;
  cluster.gpu.fp8_flop_per_s *= speed;
  cluster.gpu.memory_bandwidth_bytes_per_s *= speed;
  cluster.gpu.memory_bytes *= table.GetPositive("gpu_memory_factor", 1.0);
  return trials::WithBandwidths(
      std::move(cluster), table.GetPositive("intra_bandwidth_factor", 1.0),
      table.GetPositive("inter_bandwidth_factor", 1.0));
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

// The GPU types by the numbers that plans have.
std::string TypesOf(const std::vector<trials::Cluster>& gpu_types) {
  std::string text;
  for (std::size_t i = 0; i < gpu_types.size(); ++i) {
    text += fmt::format("gpu_type {}: {} ({} x {})\n", i, gpu_types[i].name,
                        gpu_types[i].gpus(), gpu_types[i].gpu.name);
  }
  return text;
}

// What runs the trials, as predictions see it: with several GPU types, as many
// GPUs of each as the machine has, behind the network that joins them.
PredictedJob PredictedJobOf(const SimulatorSetup& setup, int gpus) {
  PredictedJob job{setup.workload, {}, true};
  for (const trials::Cluster& gpu_type : setup.gpu_types) {
    System& system = job.systems.emplace_back(
        System{gpu_type, setup.framework, setup.FrameworkName(), {}});
    if (setup.mixed()) {
      system.cluster.inter = gpu_type.OuterLink();
      system.cluster = trials::WithGpus(system.cluster, gpus);
    }
  }
  return job;
}

SimulatorSetup ReadSimulatorSetup(const ProblemSpec& problem) {
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
        WithFactors(std::move(gpu_type), problem.cluster));
  }
  setup.space =
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder);
  CheckParts(problem.space, setup.gpu_types, setup.space);
  trials::Framework framework;
  setup.inputs = ProblemFiles(problem);
  for (const trials::Cluster& gpu_type : setup.gpu_types) {
    for (std::filesystem::path& file : trials::PartFiles(gpu_type)) {
      if (!common::Contains(setup.inputs, file)) {
        setup.inputs.push_back(std::move(file));
      }
    }
  }
  if (problem.backend.Has("framework")) {
    const std::filesystem::path file =
        trials::FindDataFile("frameworks", problem.backend, "framework");
    framework = trials::ReadFramework(file);
    setup.framework_name = file.stem().string();
    for (std::filesystem::path& each : trials::FrameworkFiles(file)) {
      setup.inputs.push_back(std::move(each));
    }
    AddFrameworkRules(problem, file, framework.rule_sets, setup.space,
                      setup.inputs);
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
  framework.launch.setup_factor = problem.backend.GetNotNegative(
      "setup_factor", framework.launch.setup_factor);
  setup.framework = std::make_shared<const trials::Framework>(framework);
  return setup;
}

}  // namespace

std::string SimulatorSetup::FrameworkName() const {
  return framework_name.empty() ? std::string(kDefaultFramework)
                                : framework_name;
}

// The simulators of a machine, one for each of its sizes.
class StepModel::Parts final : public TrialRunner {
 public:
  Parts(const SimulatorSetup& setup, const std::vector<int>& sizes) {
    for (const int gpus : sizes) {
      std::vector<trials::Cluster> gpu_types = setup.gpu_types;
      if (!setup.mixed()) {
        gpu_types.front() = WithGpus(std::move(gpu_types.front()), gpus);
      }
      parts_.emplace(gpus, std::make_unique<trials::Simulator>(
                               setup.workload, std::move(gpu_types),
                               trials::Simulator::Options{*setup.framework}));
    }
  }

  // Plans are of the whole machine, which has one size where they are tried.
  // The largest part rejects a configuration of another number of GPUs.
  [[nodiscard]] trials::Simulator& Of(
      const trials::Candidate& candidate) const {
    const auto found = parts_.find(trials::GpusOf(candidate.config()));
    return *(found == parts_.end() ? *parts_.rbegin() : *found).second;
  }
  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override {
    return Of(request.candidate).Run(request);
  }
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& candidate) const override {
    return Of(candidate).ExactThroughput(candidate);
  }

 private:
  // By number of GPUs.
  std::map<int, std::unique_ptr<trials::Simulator>> parts_;
};

StepModel::StepModel(const SimulatorSetup& setup,
                     const trials::Machine& machine,
                     std::shared_ptr<const trials::Landscape> deviations)
    : setup_(setup),
      sizes_(machine.sizes()),
      deviations_(std::move(deviations)),
      parts_(std::make_shared<const Parts>(setup_, sizes_)) {}

std::unique_ptr<TrialRunner> StepModel::MakeRunner() const {
  std::unique_ptr<TrialRunner> runner = std::make_unique<Parts>(setup_, sizes_);
  if (deviations_ != nullptr) {
    runner = std::make_unique<trials::LandscapeRunner>(std::move(runner),
                                                       deviations_);
  }
  return runner;
}

Expectation StepModel::Expect(const trials::ParallelConfig& config) const {
  const trials::StepReport report = parts_->Of(config).Simulate(config);
  const double factor =
      deviations_ == nullptr ? 1.0 : deviations_->TimeFactor(config);
  return {
      factor * report.step_time_s, report.peak_memory_bytes,
      trials::FitProbability(report.peak_memory_bytes, report.capacity_bytes,
                             setup_.framework->allocator.memory_log_stddev)};
}

std::string StepModel::Explain(const trials::ParallelConfig& config) const {
  const trials::StepReport report = parts_->Of(config).Simulate(config);
  std::string validation;
  for (const trials::Cluster& gpu_type : setup_.gpu_types) {
    validation += ValidationOf(gpu_type.gpu);
  }
  return FormatReport(ToString(config), report) + ErrorBands(report) +
         validation +
         (deviations_ == nullptr
              ? ""
              : fmt::format("[noise] landscape: step time x {:.4f}\n",
                            deviations_->TimeFactor(config)));
}

std::string StepModel::Explain(const trials::Plan& plan) const {
  return FormatReport(ToString(plan), parts_->Of(plan).Simulate(plan)) +
         (setup_.mixed() ? TypesOf(setup_.gpu_types) : "");
}

std::vector<trials::Guess> StepModel::Guesses() const {
  return trials::GuessesOf(setup_.workload, setup_.cluster().gpu,
                           *setup_.framework);
}

std::string StepModel::Validation() const {
  return GuessText(Guesses()) +
         ValidationOf(setup_.FrameworkName(), setup_.framework->compared_with);
}

// Nothing with several GPU types, which no measurement has.
std::string StepModel::ErrorBands(const trials::StepReport& report) const {
  if (setup_.mixed()) {
    return "\n";
  }
  const std::string bands = ErrorBandsOf(*setup_.framework, Guesses(), report);
  return bands.empty() ? "" : "\n" + bands;
}

std::string ValidationOf(const std::string& framework,
                         const std::vector<std::string>& tables) {
  return tables.empty()
             ? fmt::format(
                   "{}: not validated (no comparison with published "
                   "measurements)",
                   framework)
             : fmt::format("{}: compared with published measurements ({})",
                           framework, fmt::join(tables, ", "));
}

std::string ValidationOf(const trials::Gpu& gpu) {
  return fmt::format("{}: {}\n", gpu.name,
                     gpu.validated.empty()
                         ? "not validated: its constants are estimates"
                         : "validated with " + gpu.validated);
}

std::string GuessText(const std::vector<trials::Guess>& guesses) {
  return guesses.empty()
             ? ""
             : fmt::format(
                   "a guess: no or few measurements to compare with: {}; the "
                   "ranges are wider\n",
                   fmt::join(common::Map(guesses, &trials::Guess::what), ", "));
}

std::string JobStatesOf(const trials::Cluster& cluster) {
  const TomlTable states = TomlTable::ParseFile(
      trials::ErrorBandsPath().parent_path() / "job_states.toml");
  if (cluster.nodes == 1 || !states.Has(cluster.name)) {
    return "";
  }
  const TomlTable row = states.RequireTable(cluster.name);
  return fmt::format(
      "on such a cluster, {:.0f}% of {} jobs on several hosts were 2 to 10 "
      "times slower than forecast and {:.0f}% slower still ({}): the "
      "forecast is of the others\n",
      100.0 * row.RequireDouble("slow"), row.RequireIntIn("jobs", 1),
      100.0 * row.RequireDouble("stalled"), row.RequireString("source"));
}

std::string ErrorBandsOf(const trials::Framework& framework,
                         const std::vector<trials::Guess>& guesses,
                         const trials::StepReport& report) {
  const std::filesystem::path file = trials::ErrorBandsPath();
  if (!common::IsFile(file)) {
    return "";
  }
  return FormatBands(trials::Widened(trials::ReadErrorBands(file), guesses),
                     framework.kind, report);
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
  testbed.runs_plans = deviations == nullptr;
  std::unique_ptr<TrialRunner> exact = testbed.model->MakeRunner();
  testbed.exact = exact.get();
  testbed.runner =
      WithNoise(std::move(exact), setup.noise, problem.noise.Where());
  testbed.predicted = PredictedJobOf(setup, testbed.machine.gpus());
  testbed.rank_order = setup.framework->pipeline.pipeline_outermost
                           ? trials::RankOrder::kPipelineOutermost
                           : trials::RankOrder::kDataOutermost;
  return testbed;
}

}  // namespace harness
