#include "harness/backends.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/entries.h"
#include "harness/noise.h"
#include "harness/prediction_sources.h"
#include "harness/provenance.h"
#include "trials/command/adapter.h"
#include "trials/command/command_runner.h"
#include "trials/custom_knobs.h"
#include "trials/data_folder.h"
#include "trials/inert_lists.h"
#include "trials/replay/replay_runner.h"
#include "trials/replay/replay_table.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/simulator.h"
#include "trials/table_path.h"
#include "trials/wrappers/landscape_runner.h"
#include "trials/wrappers/noisy_runner.h"
#include "trials/wrappers/time_limited_runner.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;
using trials::TrialRunner;

// The framework of a simulator whose manifest names none.
constexpr std::string_view kDefaultFramework = "colossalai";

// The keys of [noise] that change the noise-free times of the simulator.
trials::LandscapeOptions ReadLandscape(const TomlTable& table) {
  trials::LandscapeOptions options;
  options.pairs = GetNotNegative(table, "landscape", options.pairs);
  options.independent =
      GetNotNegative(table, "landscape_independent", options.independent);
  options.seed = static_cast<std::uint64_t>(table.GetInt("landscape_seed", 1));
  return options;
}

// The runner with noise and, outermost, the time limit around it.
std::unique_ptr<trials::TrialRunner> Wrap(
    std::unique_ptr<trials::TrialRunner> runner, const TomlTable& noise) {
  const trials::NoiseOptions options = ReadNoise(noise);
  try {
    runner = std::make_unique<trials::NoisyRunner>(std::move(runner), options);
  } catch (const InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("{}: [noise]: {}", noise.Where(), e.what()));
  }
  return std::make_unique<trials::TimeLimitedRunner>(std::move(runner));
}

// The file that a key names, relative to the manifest.
std::filesystem::path NamedFile(const TomlTable& table, std::string_view key) {
  return table.Folder() / table.RequireString(key);
}

// The sizes of a cluster on which nothing is simulated.
trials::Cluster ReadSizes(const TomlTable& table) {
  trials::Cluster cluster;
  cluster.name = "this cluster";
  cluster.nodes = table.GetIntIn("nodes", 1, 1);
  cluster.gpus_per_node = table.RequireIntIn("gpus_per_node", 1);
  if (table.Has("gpu")) {
    try {
      cluster.gpu = trials::FindGpu(table.RequireString("gpu"), table.Folder());
    } catch (const InputError& e) {
      table.Fail("gpu", e.what());
    }
    return cluster;
  }
  constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
  cluster.gpu.name = "devices";
  cluster.gpu.memory_bytes = kGibi * table.RequirePositive("memory_gib");
  return cluster;
}

// The cluster that [cluster] names: file = "clusters/a5000-8.toml". With
// gpus = 32, it has as many of the file's hosts as that takes.
trials::Cluster ReadCluster(const TomlTable& table) {
  const std::filesystem::path file = NamedFile(table, "file");
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    table.Fail("file",
               fmt::format("no such cluster file: {} (paths are relative to "
                           "the manifest)",
                           file.string()));
  }
  trials::Cluster cluster = trials::ReadCluster(file);
  if (table.Has("gpus")) {
    const int gpus = table.RequireIntIn("gpus", 1);
    if (gpus > cluster.gpus_per_node && gpus % cluster.gpus_per_node != 0) {
      table.Fail("gpus",
                 fmt::format("{} GPUs do not fill hosts of {}: use a multiple "
                             "of {}",
                             gpus,
                             cluster.gpus_per_node,
                             cluster.gpus_per_node));
    }
    try {
      return trials::WithGpus(std::move(cluster), gpus);
    } catch (const std::invalid_argument& e) {
      table.Fail("gpus", e.what());
    }
  }
  return cluster;
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
  return cluster;
}

// The machine of a problem whose framework is not known. `inputs`: files that
// its predictions depend on and its trials do not.
Machine DefaultMachine(const trials::Cluster& cluster,
                       std::vector<std::filesystem::path> inputs = {}) {
  return {cluster,
          std::make_shared<trials::Framework>(),
          std::string(kDefaultFramework),
          std::move(inputs)};
}

// The files of [workload], [cluster] and [space].
std::vector<std::filesystem::path> ProblemFiles(const ProblemSpec& problem) {
  std::vector<std::filesystem::path> files = {
      NamedFile(problem.workload, "model")};
  if (problem.cluster.Has("file")) {
    files.push_back(NamedFile(problem.cluster, "file"));
  }
  for (const std::string& name : problem.space.GetStrings("rule_sets")) {
    for (const auto& path : {problem.rules_folder / (name + ".rules"),
                             problem.space.Folder() / name}) {
      std::error_code error;
      if (std::filesystem::is_regular_file(path, error)) {
        files.push_back(path);
      }
    }
  }
  return files;
}

// Adds the rule sets of a framework to the space, except those that the
// manifest names. They are in the folder rules/ next to that of the framework's
// file, or in the project's.
void AddFrameworkRules(const ProblemSpec& problem,
                       const std::filesystem::path& framework,
                       const std::vector<std::string>& names,
                       SimulatorSetup& setup) {
  const std::vector<std::string> named = problem.space.GetStrings("rule_sets");
  for (const std::string& name : names) {
    if (std::find(named.begin(), named.end(), name) != named.end()) {
      continue;
    }
    const std::string file = name + ".rules";
    std::filesystem::path path =
        framework.parent_path().parent_path() / "rules" / file;
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      path = trials::ExperimentsFolder() / "rules" / file;
    }
    const std::vector<trials::Rule> rules =
        trials::ReadRuleSet(path, setup.space.knobs);
    // Before the rules of the manifest: what cannot run is no candidate.
    setup.space.rules.insert(
        setup.space.rules.begin(), rules.begin(), rules.end());
    setup.inputs.push_back(path);
  }
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
                           framework,
                           fmt::join(tables, ", "));
}

// A backend that trains the workload on the whole cluster, without its runner.
Backend BackendOn(const trials::Workload& workload,
                  const trials::Cluster& cluster,
                  const trials::SearchSpaceOptions& space) {
  Backend backend;
  backend.warning = workload.model.note;
  backend.gpus = cluster.gpus();
  backend.gpus_per_node = cluster.gpus_per_node;
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(
      trials::SearchSpace::Enumerate(workload, cluster.gpus(), space));
  const std::string inert = trials::InertLists(space, *backend.space);
  if (!inert.empty()) {
    backend.warning += (backend.warning.empty() ? "" : "; ") + inert;
  }
  return backend;
}

// How far measurements of comparable runs are from a report; "" without the
// file of bands.
std::string ErrorBandsOf(const trials::Cluster& cluster,
                         const std::string& framework,
                         const trials::ParallelConfig& config,
                         const trials::StepReport& report) {
  const std::filesystem::path file = trials::ErrorBandsPath();
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return "";
  }
  const trials::ErrorBands bands = trials::ReadErrorBands(file);
  return "\n" + FormatBands(bands,
                            bands.RegimeOf(cluster.gpu.architecture,
                                           framework,
                                           cluster.nodes,
                                           config.zero_stage),
                            report);
}

Backend MakeSimulator(const ProblemSpec& problem) {
  SimulatorSetup setup = ReadSimulatorSetup(problem);
  const trials::Workload& workload = setup.workload;
  const trials::Cluster& cluster = setup.cluster;
  Backend backend = BackendOn(workload, cluster, setup.space);
  backend.inputs = std::move(setup.inputs);
  backend.description =
      fmt::format("{}, batch {} x {}, on {} ({} x {}){}{}",
                  workload.name,
                  workload.batch_size,
                  workload.sequence_length,
                  cluster.name,
                  cluster.gpus(),
                  cluster.gpu.name,
                  setup.framework_name.empty() ? "" : ", framework ",
                  setup.framework_name);
  const std::string framework_name = setup.framework_name.empty()
                                         ? std::string(kDefaultFramework)
                                         : setup.framework_name;
  backend.validation = ValidationLine(framework_name, setup.compared_with);
  const trials::LandscapeOptions landscape = ReadLandscape(problem.noise);
  const auto deviations = landscape.pairs > 0.0 || landscape.independent > 0.0
                              ? std::make_shared<const trials::Landscape>(
                                    landscape, backend.space->configs())
                              : nullptr;
  const auto make_exact = [workload,
                           cluster,
                           framework = setup.framework,
                           deviations]() -> std::unique_ptr<TrialRunner> {
    auto simulator = std::make_unique<trials::Simulator>(
        workload, cluster, trials::Simulator::Options{*framework});
    if (deviations == nullptr) {
      return simulator;
    }
    return std::make_unique<trials::LandscapeRunner>(std::move(simulator),
                                                     deviations);
  };
  backend.clone_exact_runner = make_exact;
  const auto simulator = std::make_shared<trials::Simulator>(
      workload, cluster, trials::Simulator::Options{*setup.framework});
  backend.expect =
      [simulator, deviations, log_stddev = setup.framework->memory_log_stddev](
          const trials::ParallelConfig& config) {
        const trials::StepReport report = simulator->Simulate(config);
        const double factor =
            deviations == nullptr ? 1.0 : deviations->TimeFactor(config);
        return Expectation{
            factor * report.step_time_s,
            report.peak_memory_bytes,
            trials::FitProbability(
                report.peak_memory_bytes, report.capacity_bytes, log_stddev)};
      };
  backend.explain = [simulator, deviations, cluster, framework_name](
                        const trials::ParallelConfig& config) {
    const trials::StepReport report = simulator->Simulate(config);
    const std::string& validated = cluster.gpu.validated;
    return FormatReport(config, report) +
           ErrorBandsOf(cluster, framework_name, config, report) +
           fmt::format("{}: {}\n",
                       cluster.gpu.name,
                       validated.empty()
                           ? "not validated: its constants are estimates"
                           : "validated with " + validated) +
           (deviations == nullptr
                ? ""
                : fmt::format("[noise] landscape: step time x {:.4f}\n",
                              deviations->TimeFactor(config)));
  };
  std::unique_ptr<TrialRunner> exact = make_exact();
  backend.exact = exact.get();
  backend.runner = Wrap(std::move(exact), problem.noise);
  backend.predictions = SimulatedPredictions(
      problem,
      *backend.space,
      workload,
      {cluster,
       setup.framework,
       setup.framework_name.empty() ? std::string(kDefaultFramework)
                                    : setup.framework_name,
       {}},
      true);
  backend.rank_order = setup.framework->pipeline_outermost
                           ? trials::RankOrder::kPipelineOutermost
                           : trials::RankOrder::kDataOutermost;
  return backend;
}

std::filesystem::path ReplayTablePath(const TomlTable& table) {
  try {
    return trials::ResolveTablePath(table.RequireString("table"),
                                    table.Folder());
  } catch (const InputError& e) {
    table.Fail("table", e.what());
  }
}

trials::ReplayTable ReadTable(const TomlTable& table,
                              const std::filesystem::path& path,
                              const trials::KnobSet& knobs) {
  try {
    return trials::ReplayTable::Read(
        path, table.RequireString("scenarios"), knobs);
  } catch (const InputError& e) {
    table.Fail("scenarios", e.what());
  }
}

Backend MakeReplay(const ProblemSpec& problem) {
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  const std::filesystem::path path = ReplayTablePath(problem.backend);
  const trials::KnobSet knobs = trials::ReadCustomKnobs(problem.space);
  const trials::ReplayTable table = ReadTable(problem.backend, path, knobs);
  trials::ReplayRunner::Options options;
  options.setup_s =
      GetNotNegative(problem.backend, "setup_s", options.setup_s) *
      GetNotNegative(problem.backend, "setup_factor", 1.0);
  options.failure_s = FailureTime(problem, options.failure_s);
  Backend backend;
  backend.inputs = {NamedFile(problem.cluster, "file"), path};
  if (const auto noise = NoiseFile(problem.noise)) {
    backend.inputs.push_back(*noise);
  }
  backend.warning = table.Warning();
  backend.description = fmt::format("measured {} on {} GPUs like {}",
                                    table.scenario(),
                                    table.gpus(),
                                    cluster.gpu.name);
  backend.gpus = table.gpus();
  backend.gpus_per_node = std::min(cluster.gpus_per_node, table.gpus());
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(table.configs(), knobs);
  backend.predictions =
      problem.workload.Keys().empty()
          ? TablePredictions(
                problem, *backend.space, table, path, cluster.gpu.architecture)
          : SimulatedPredictions(
                problem,
                *backend.space,
                trials::ReadWorkload(problem.workload),
                DefaultMachine(WithGpus(cluster, table.gpus()),
                               {NamedFile(problem.workload, "model")}),
                false);
  backend.trains_workload = false;
  auto replay = std::make_unique<trials::ReplayRunner>(table, options);
  backend.exact = replay.get();
  backend.runner = Wrap(std::move(replay), problem.noise);
  return backend;
}

// The machine that the predictions of an adapter's framework describe. Adds the
// framework's rule sets to the space, and both files to the inputs.
Machine AdaptedMachine(const ProblemSpec& problem,
                       const trials::Adapter& adapter,
                       SimulatorSetup& setup) {
  setup.inputs.push_back(adapter.file());
  if (adapter.framework().empty()) {
    return DefaultMachine(setup.cluster);
  }
  const std::filesystem::path file =
      trials::FindDataFile("frameworks", adapter.framework());
  AddFrameworkRules(
      problem, file, trials::ReadFrameworkNotes(file).rule_sets, setup);
  return {setup.cluster,
          std::make_shared<trials::Framework>(trials::ReadFramework(file)),
          adapter.framework(),
          {file}};
}

// A parameter that no setting of the adapter depends on has its default value,
// and the others have the grids of the adapter, unless the manifest lists
// values.
void FixOtherParameters(const ProblemSpec& problem,
                        const trials::CommandOptions& options,
                        const trials::Cluster& cluster,
                        trials::SearchSpaceOptions& space) {
  const trials::Adapter& adapter = *options.adapter;
  const std::vector<std::string> varied =
      adapter.Parameters(JobOf(options, cluster));
  const trials::SearchSpaceOptions grids = trials::ReadSearchSpaceOptions(
      adapter.space(), problem.rules_folder, space.knobs);
  for (const auto& [name, values] : grids.values) {
    space.values.emplace(name, values);
  }
  for (const trials::Knob& knob : space.knobs) {
    const bool built_in = trials::BuiltInKnobs().Find(knob.name) != nullptr;
    if (built_in && knob.group != trials::KnobGroup::kFixed &&
        std::find(varied.begin(), varied.end(), knob.name) == varied.end()) {
      space.values.emplace(knob.name, std::vector<int>{knob.Default()});
    }
  }
}

Backend MakeCommand(const ProblemSpec& problem) {
  const trials::Workload workload = trials::ReadWorkload(problem.workload);
  const bool simulates = problem.cluster.Has("file");
  const trials::Cluster cluster =
      simulates ? ReadCluster(problem.cluster) : ReadSizes(problem.cluster);
  const trials::SearchSpaceOptions space =
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder);
  auto options = trials::ReadCommandOptions(problem.backend, space.knobs);
  options.rank_wrapper = {ProgramPath(), "contain", "--"};
  options.workload = workload;
  SimulatorSetup setup{workload, cluster, space, nullptr};
  Machine machine = DefaultMachine(cluster);
  if (options.adapter != nullptr) {
    machine = AdaptedMachine(problem, *options.adapter, setup);
    FixOtherParameters(problem, options, cluster, setup.space);
  }
  Backend backend = BackendOn(workload, cluster, setup.space);
  backend.inputs = ProblemFiles(problem);
  backend.inputs.insert(
      backend.inputs.end(), setup.inputs.begin(), setup.inputs.end());
  // The program and the scripts among its arguments.
  constexpr std::uintmax_t kLargestScript = 1 << 20;
  for (const std::string& word : problem.backend.GetStrings("program")) {
    const auto file = options.folder / word;
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error) &&
        std::filesystem::file_size(file, error) <= kLargestScript) {
      backend.inputs.push_back(file);
    }
  }
  backend.description = fmt::format(
      "{}, batch {} x {}, by {} on {} ({} x {})",
      workload.name,
      workload.batch_size,
      workload.sequence_length,
      std::filesystem::path(options.program.front()).filename().string(),
      cluster.name,
      cluster.gpus(),
      cluster.gpu.name);
  if (simulates) {
    backend.predictions =
        SimulatedPredictions(problem, *backend.space, workload, machine, false);
  } else {
    backend.predictions = [where = problem.cluster.Where()](
                              const std::string& /*name*/) -> PredictionSource {
      throw InputError(fmt::format(
          "{}: predictions need a cluster with a file: [cluster] file = "
          "\"clusters/...\" (docs/cluster_format.md), or the method oppa",
          where));
    };
  }
  auto runner = std::make_unique<trials::CommandRunner>(options, cluster);
  backend.exact = runner.get();
  backend.keep_logs = [runner =
                           runner.get()](const std::filesystem::path& folder) {
    runner->KeepLogs(folder);
  };
  if (options.adapter != nullptr) {
    backend.run_as_given = [runner = runner.get()](bool as_given) {
      runner->RunAsGiven(as_given);
    };
  }
  backend.render = [options, cluster](const trials::ParallelConfig& config,
                                      const std::filesystem::path& files) {
    return trials::RenderJob(options, cluster, config, files);
  };
  backend.runner = std::move(runner);
  return backend;
}

std::vector<BackendEntry> ListBackends() {
  return {
      {"simulator", "a GPU cluster in software", MakeSimulator},
      {"replay", "a table of measured configurations", MakeReplay},
      {"command", "a training program of your own", MakeCommand, false},
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
  SimulatorSetup setup{
      trials::ReadWorkload(problem.workload),
      WithLinkFactors(ReadCluster(problem.cluster), problem.cluster),
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder)};
  trials::Framework framework;
  setup.inputs = ProblemFiles(problem);
  for (std::filesystem::path& file : trials::GpuFiles(setup.cluster.gpu)) {
    setup.inputs.push_back(std::move(file));
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
    AddFrameworkRules(problem, file, notes.rule_sets, setup);
    setup.compared_with = notes.compared_with;
  }
  if (const auto noise = NoiseFile(problem.noise)) {
    setup.inputs.push_back(*noise);
  }
  framework.failure_s = FailureTime(problem, framework.failure_s);
  framework.setup_factor =
      GetNotNegative(problem.backend, "setup_factor", framework.setup_factor);
  setup.framework = std::make_shared<const trials::Framework>(framework);
  return setup;
}

const std::vector<BackendEntry>& Backends() {
  static const std::vector<BackendEntry> backends = ListBackends();
  return backends;
}

const BackendEntry* FindBackend(std::string_view name) {
  return FindByName(Backends(), name);
}

bool IsSimulated(const ProblemSpec& problem) {
  const BackendEntry* entry =
      FindBackend(problem.backend.GetString("type", ""));
  return entry == nullptr || entry->simulated;
}

Backend MakeBackend(const ProblemSpec& problem) {
  const std::string type = problem.backend.RequireString("type");
  const BackendEntry* entry = FindBackend(type);
  if (entry == nullptr) {
    std::vector<std::string> known;
    for (const BackendEntry& backend : Backends()) {
      known.push_back(backend.name);
    }
    problem.backend.Fail("type",
                         fmt::format("unknown backend '{}'{}; known: {}",
                                     type,
                                     common::DidYouMean(type, known),
                                     fmt::join(known, ", ")));
  }
  Backend backend = WithPlace(
      problem.backend, "backend", [&] { return entry->make(problem); });
  backend.type = type;
  backend.simulated = entry->simulated;
  backend.predictions = Memoized(std::move(backend.predictions));
  for (const std::string& name : PredictionNames(problem.predictions)) {
    (void)ReadPredictionSettings(problem.predictions, name);
  }
  for (const TomlTable* table : {&problem.backend,
                                 &problem.noise,
                                 &problem.workload,
                                 &problem.cluster,
                                 &problem.space,
                                 &problem.predictions}) {
    table->RejectUnknownKeys();
  }
  return backend;
}

}  // namespace harness
