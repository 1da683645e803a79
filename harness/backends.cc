#include "harness/backends.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/entries.h"
#include "harness/provenance.h"
#include "trials/command/command_runner.h"
#include "trials/data_folder.h"
#include "trials/replay/replay_runner.h"
#include "trials/replay/replay_table.h"
#include "trials/simulator/predict.h"
#include "trials/simulator/simulator.h"
#include "trials/table_path.h"
#include "trials/wrappers/noisy_runner.h"
#include "trials/wrappers/time_limited_runner.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

// The framework of a simulator whose manifest names none.
constexpr std::string_view kDefaultFramework = "colossalai";

// The options of the step noise: a key per field of NoiseOptions.
trials::NoiseOptions ReadNoise(const TomlTable& table) {
  using trials::NoiseOptions;
  constexpr std::array<std::pair<std::string_view, double NoiseOptions::*>, 10>
      kFields = {{
          {"offset", &NoiseOptions::offset},
          {"jitter", &NoiseOptions::jitter},
          {"drift", &NoiseOptions::drift},
          {"drift_steps", &NoiseOptions::drift_steps},
          {"outlier_probability", &NoiseOptions::outlier_probability},
          {"outlier_size", &NoiseOptions::outlier_size},
          {"first_step_share", &NoiseOptions::first_step_share},
          {"first_step_s", &NoiseOptions::first_step_s},
          {"first_step_spread", &NoiseOptions::first_step_spread},
          {"setup_jitter", &NoiseOptions::setup_jitter},
      }};
  NoiseOptions options;
  for (const auto& [key, field] : kFields) {
    options.*field = table.GetDouble(key, options.*field);
    if (!std::isfinite(options.*field)) {
      table.Fail(key,
                 fmt::format(
                     "{} is {}: must be a finite number", key, options.*field));
    }
  }
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
    if (gpus < cluster.gpus_per_node) {
      cluster.gpus_per_node = gpus;
    }
    if (gpus % cluster.gpus_per_node != 0) {
      table.Fail("gpus",
                 fmt::format("{} GPUs do not fill hosts of {}: use a multiple "
                             "of {}",
                             gpus,
                             cluster.gpus_per_node,
                             cluster.gpus_per_node));
    }
    cluster.nodes = gpus / cluster.gpus_per_node;
  }
  return cluster;
}

// A part with all candidates of the space.
std::vector<SimulatedPart> WholeSpace(const trials::SearchSpace& space,
                                      const trials::Workload& workload,
                                      const Machine& machine) {
  SimulatedPart part;
  part.candidates.resize(static_cast<std::size_t>(space.size()));
  std::iota(part.candidates.begin(), part.candidates.end(), 0);
  part.training = std::make_shared<trials::SimulatedTraining>(
      workload, machine.cluster, *machine.framework, space.configs());
  return {std::move(part)};
}

// The files of [workload], [cluster] and [space].
std::vector<std::filesystem::path> ProblemFiles(const ProblemSpec& problem) {
  std::vector<std::filesystem::path> files = {
      NamedFile(problem.workload, "model"), NamedFile(problem.cluster, "file")};
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

// A backend that trains the workload on the whole cluster, without its runner.
Backend BackendOn(const trials::Workload& workload,
                  const trials::Cluster& cluster,
                  const trials::SearchSpaceOptions& space) {
  Backend backend;
  backend.gpus = cluster.gpus();
  backend.gpus_per_node = cluster.gpus_per_node;
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(
      trials::SearchSpace::Enumerate(workload, cluster.gpus(), space));
  return backend;
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
  backend.clone_exact_runner =
      [workload, cluster, framework = setup.framework] {
        return std::make_unique<trials::Simulator>(
            workload, cluster, trials::Simulator::Options{*framework});
      };
  auto simulator = std::make_unique<trials::Simulator>(
      workload, cluster, trials::Simulator::Options{*setup.framework});
  backend.exact = simulator.get();
  backend.explain =
      [simulator = simulator.get()](const trials::ParallelConfig& config) {
        return FormatReport(config, simulator->Simulate(config));
      };
  backend.runner = Wrap(std::move(simulator), problem.noise);
  backend.predictions = [problem,
                         space = backend.space.get(),
                         workload,
                         truth = Machine{cluster,
                                         setup.framework,
                                         setup.framework_name.empty()
                                             ? std::string(kDefaultFramework)
                                             : setup.framework_name,
                                         {}}](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    const Machine machine = PredictedMachine(settings, truth);
    RejectGroundTruth(settings, machine, truth);
    return SimulatedSource(settings,
                           problem.name,
                           *space,
                           machine,
                           WholeSpace(*space, workload, machine));
  };
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
                              const std::filesystem::path& path) {
  try {
    return trials::ReplayTable::Read(path, table.RequireString("scenarios"));
  } catch (const InputError& e) {
    table.Fail("scenarios", e.what());
  }
}

Backend MakeReplay(const ProblemSpec& problem) {
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  const std::filesystem::path path = ReplayTablePath(problem.backend);
  const trials::ReplayTable table = ReadTable(problem.backend, path);
  trials::ReplayRunner::Options options;
  options.setup_s = problem.backend.GetDouble("setup_s", options.setup_s);
  options.failure_s = problem.backend.GetDouble("failure_s", options.failure_s);
  Backend backend;
  backend.inputs = {NamedFile(problem.cluster, "file"), path};
  backend.warning = table.Warning();
  backend.description = fmt::format("measured {} on {} GPUs like {}",
                                    table.scenario(),
                                    table.gpus(),
                                    cluster.gpu.name);
  backend.gpus = table.gpus();
  backend.gpus_per_node = std::min(cluster.gpus_per_node, table.gpus());
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(table.configs());
  auto replay = std::make_unique<trials::ReplayRunner>(table, options);
  backend.exact = replay.get();
  backend.runner = Wrap(std::move(replay), problem.noise);
  return backend;
}

Backend MakeCommand(const ProblemSpec& problem) {
  const trials::Workload workload = trials::ReadWorkload(problem.workload);
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  auto options = trials::ReadCommandOptions(problem.backend);
  options.rank_wrapper = {ProgramPath(), "contain", "--"};
  Backend backend = BackendOn(
      workload,
      cluster,
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder));
  backend.inputs = ProblemFiles(problem);
  // The program and the scripts among its arguments.
  constexpr std::uintmax_t kLargestScript = 1 << 20;
  for (const std::string& word : problem.backend.GetStrings("program")) {
    const auto file = problem.backend.Folder() / word;
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
  auto runner = std::make_unique<trials::CommandRunner>(options, cluster);
  backend.exact = runner.get();
  backend.keep_logs = [runner =
                           runner.get()](const std::filesystem::path& folder) {
    runner->KeepLogs(folder);
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
  SimulatorSetup setup{
      trials::ReadWorkload(problem.workload),
      ReadCluster(problem.cluster),
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder)};
  setup.framework = std::make_shared<trials::Framework>();
  setup.inputs = ProblemFiles(problem);
  setup.inputs.push_back(
      trials::FindDataFile("hardware", setup.cluster.gpu.architecture));
  if (problem.backend.Has("framework")) {
    const std::string name = problem.backend.RequireString("framework");
    std::filesystem::path file;
    try {
      file = trials::FindDataFile("frameworks", name, problem.backend.Folder());
    } catch (const InputError& e) {
      problem.backend.Fail("framework", e.what());
    }
    setup.framework =
        std::make_shared<trials::Framework>(trials::ReadFramework(file));
    setup.framework_name = file.stem().string();
    setup.inputs.push_back(file);
  }
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
                         fmt::format("unknown backend '{}'{}; known here: {}",
                                     type,
                                     common::DidYouMean(type, known),
                                     fmt::join(known, ", ")));
  }
  Backend backend = WithPlace(
      problem.backend, "backend", [&] { return entry->make(problem); });
  backend.type = type;
  backend.simulated = entry->simulated;
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
