#include "harness/testbeds/program.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/ranges.h"
#include "common/toml_table.h"
#include "harness/predictions/predictions.h"
#include "harness/provenance.h"
#include "harness/spec.h"
#include "harness/testbeds/problem_parts.h"
#include "harness/testbeds/simulated.h"
#include "trials/adapters/adapter.h"
#include "trials/adapters/placeholders.h"
#include "trials/data_folder.h"
#include "trials/flop.h"
#include "trials/knobs.h"
#include "trials/programs/command_runner.h"
#include "trials/programs/trial_rendering.h"
#include "trials/simulator/framework.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace harness {
namespace {

using common::TomlTable;

// The file of the cluster that predictions simulate, where it is not that of
// the trials.
std::vector<std::filesystem::path> LikeFiles(const ProblemSpec& problem) {
  std::vector<std::filesystem::path> files;
  if (problem.cluster.Has("like")) {
    files.push_back(trials::FindDataFile("clusters", problem.cluster, "like"));
  }
  return files;
}

// The machine of predictions, with a framework of experiments/frameworks.
System PredictedOn(const ProblemSpec& problem, const trials::Cluster& cluster,
                   const std::string& framework) {
  const std::filesystem::path file =
      trials::FindDataFile("frameworks", framework);
  std::vector<std::filesystem::path> inputs = LikeFiles(problem);
  inputs.push_back(file);
  return {cluster,
          std::make_shared<trials::Framework>(trials::ReadFramework(file)),
          framework, inputs};
}

// The machine that the predictions of an adapter's framework describe. Adds the
// framework's rule sets to the space, and the adapter's file and theirs to the
// inputs.
System AdaptedSystem(const ProblemSpec& problem, const trials::Adapter& adapter,
                     SimulatorSetup& setup) {
  setup.inputs.push_back(adapter.file());
  if (adapter.framework().empty()) {
    return DefaultSystem(setup.cluster(), LikeFiles(problem));
  }
  const std::filesystem::path file =
      trials::FindDataFile("frameworks", adapter.framework());
  AddFrameworkRules(problem, file, trials::ReadFramework(file).rule_sets,
                    setup.space, setup.inputs);
  return PredictedOn(problem, setup.cluster(), adapter.framework());
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
        !common::Contains(varied, knob.name)) {
      space.values.emplace(knob.name, std::vector<int>{knob.Default()});
    }
  }
}

// What the trials of a program train, and where. No framework.
SimulatorSetup ReadProgramSetup(const ProblemSpec& problem) {
  if (problem.space.Has("gpus")) {
    problem.space.Fail("gpus",
                       "a program runs on all GPUs of the cluster: use the "
                       "backend 'simulator', or an experiment for each number "
                       "of GPUs with [cluster]");
  }
  return {trials::ReadWorkload(problem.workload),
          {ReadClusterOrSizes(problem.cluster)},
          trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder),
          nullptr};
}

// A testbed whose trials are a program on the cluster. `by` describes it.
// `predicted` has the workload that the program really trains.
Testbed ProgramTestbed(const ProblemSpec& problem, const SimulatorSetup& setup,
                       const PredictedJob& predicted,
                       trials::CommandOptions options, const std::string& by) {
  // A rank ends before srun or ssh is killed.
  options.rank_wrapper = {
      ProgramPath(), "contain",
      fmt::format("--patience-s={:g}", options.patience_s / 2.0)};
  Testbed testbed =
      TestbedOn(setup.workload, {&setup.cluster(), 1}, setup.space);
  testbed.limits = LimitsOf(predicted.workload, setup.cluster());
  testbed.inputs = ProblemFiles(problem);
  testbed.inputs.insert(testbed.inputs.end(), setup.inputs.begin(),
                        setup.inputs.end());
  testbed.description = fmt::format(
      "{}, batch {} x {}, by {} on {} ({} x {})", setup.workload.name,
      setup.workload.batch_size, setup.workload.sequence_length, by,
      setup.cluster().name, setup.cluster().gpus(), setup.cluster().gpu.name);
  if (problem.cluster.Has("file") || problem.cluster.Has("like")) {
    testbed.predicted = predicted;
  } else {
    testbed.predictions = [where = problem.cluster.Where()](
                              const std::string& /*name*/) -> PredictionSource {
      throw common::InputError(fmt::format(
          "{}: predictions need the links of the cluster: [cluster] like = "
          "\"h100-infiniband\" or file = \"clusters/...\" "
          "(docs/cluster_format.md); or use the method oppa",
          where));
    };
  }
  auto runner =
      std::make_unique<trials::CommandRunner>(options, setup.cluster());
  testbed.exact = runner.get();
  testbed.program =
      std::make_shared<ProgramJob>(options, setup.cluster(), *runner);
  testbed.runner = std::move(runner);
  return testbed;
}

// One of `choices`, the first of which is the default.
std::string ReadChoice(const TomlTable& table, std::string_view key,
                       const std::vector<std::string>& choices) {
  const std::string value = table.GetString(key, choices.front());
  if (!common::Contains(choices, value)) {
    table.Fail(key, fmt::format("invalid value '{}' for {}; known: {}", value,
                                key, fmt::join(choices, ", ")));
  }
  return value;
}

std::string ModelWord(const ProblemSpec& problem) {
  const auto file =
      std::filesystem::absolute(NamedFile(problem.workload, "model"));
  return trials::Literal(file.string());
}

// A trainer of this project, which is installed next to oppa.
std::string TrainerPath(const TomlTable& table, const std::string& name) {
  const auto path = std::filesystem::path(ProgramPath()).parent_path() / name;
  if (!common::IsFile(path)) {
    table.Fail("type",
               fmt::format("the program of this backend, {}, does not exist: "
                           "build it with `make build`",
                           path.string()));
  }
  return path.string();
}

// The knobs that oppa-train applies (docs/trainer.md).
constexpr std::array<std::string_view, 16> kTrainerKnobs = {
    "dp",
    "tp",
    "pp",
    "dp_bucket_mb",
    "zero_stage",
    "zero_bucket_mb",
    "overlap_zero_comm",
    "overlap_zero_allgather",
    "microbatches",
    "model_chunks",
    "overlap_p2p",
    "grad_checkpoint",
    "micro_batch_size",
    "ep",
    "cp",
    "sp"};

// Those of them that PyTorch has no counterpart of, and those that only
// oppa-train-torch has ([space.custom]).
constexpr std::array<std::string_view, 5> kNotInTorch = {
    "zero_bucket_mb", "overlap_zero_comm", "overlap_p2p", "ep", "cp"};
constexpr std::array<std::string_view, 2> kOnlyInTorch = {"schedule",
                                                          "compile"};

// A knob of oppa-train that the program lacks has its default, unless the
// manifest lists values.
// Errors: throws InputError for a space that varies a knob that the program
// does not apply, which would have no effect.
void CheckTrainerKnobs(const ProblemSpec& problem, const std::string& program,
                       bool torch, trials::SearchSpaceOptions& space) {
  for (const trials::Knob& knob : space.knobs) {
    const bool lacking = torch && common::Contains(kNotInTorch, knob.name);
    if (lacking) {
      space.values.emplace(knob.name, std::vector{knob.Default()});
    }
    const auto given = space.values.find(knob.name);
    const bool varies = given == space.values.end()
                            ? static_cast<bool>(knob.grid.values)
                            : given->second != std::vector{knob.Default()};
    const bool applies =
        !lacking && (common::Contains(kTrainerKnobs, knob.name) ||
                     (torch && common::Contains(kOnlyInTorch, knob.name)));
    if (varies && !applies) {
      problem.space.Fail(
          knob.texts.empty() ? knob.name : "custom",
          fmt::format("{} does not apply the knob '{}', so its values "
                      "would have no effect: remove it, or run a program that "
                      "does with the backend 'command'",
                      program, knob.name));
    }
  }
}

// Several GPUs have a process each. All ranks of a CPU, or of one GPU, are in
// one process, which srun may start ("per-node").
trials::CommandOptions::Ranks ReadTrainerRanks(const TomlTable& table,
                                               bool cuda, int gpus) {
  using Ranks = trials::CommandOptions::Ranks;
  std::vector<std::string> choices = {"one", "per-node"};
  if (cuda) {
    choices.insert(gpus > 1 ? choices.begin() : choices.end(), "per-gpu");
  }
  const std::string value = ReadChoice(table, "ranks", choices);
  if (value == "per-gpu") {
    return Ranks::kPerGpu;
  }
  return value == "one" ? Ranks::kOne : Ranks::kPerNode;
}

// The trials of a client of `oppa serve`, which runs them itself.
class ClientRunner final : public trials::TrialRunner {
 public:
  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& /*request*/) override {
    throw common::InputError(
        "backend.type = \"client\": a client of `oppa serve FILE` runs these "
        "trials (docs/python.md); `oppa run` needs type = \"command\" and a "
        "program");
  }
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& /*candidate*/) const override {
    return std::nullopt;  // unknown without a trial
  }
};

}  // namespace

Testbed MakeCommand(const ProblemSpec& problem) {
  SimulatorSetup setup = ReadProgramSetup(problem);
  trials::CommandOptions options =
      trials::ReadCommandOptions(problem.backend, setup.space.knobs);
  options.workload = setup.workload;
  System system = DefaultSystem(setup.cluster(), LikeFiles(problem));
  if (options.adapter != nullptr) {
    system = AdaptedSystem(problem, *options.adapter, setup);
    FixOtherParameters(problem, options, setup.cluster(), setup.space);
  }
  Testbed testbed = ProgramTestbed(
      problem, setup, {setup.workload, {system}}, options,
      std::filesystem::path(options.program.front()).filename().string());
  if (options.adapter == nullptr) {
    const std::vector<std::string> unnamed =
        trials::UnnamedParameters(options, *testbed.space);
    if (!unnamed.empty()) {
      testbed.Warn(fmt::format(
          "the words of backend.program are the same for configurations that "
          "differ in {}: name them, as {{{}}}, give each one value in [space], "
          "or let the program read OPPA_TRIAL",
          fmt::join(unnamed, ", "), unnamed.front()));
    }
  }
  // The program and the scripts among its arguments.
  constexpr std::uintmax_t kLargestScript = 1 << 20;
  for (const std::string& word : problem.backend.GetStrings("program")) {
    const auto file = options.folder / word;
    if (common::IsFile(file) &&
        std::filesystem::file_size(file) <= kLargestScript) {
      testbed.inputs.push_back(file);
    }
  }
  return testbed;
}

Testbed MakeClient(const ProblemSpec& problem) {
  const SimulatorSetup setup = ReadProgramSetup(problem);
  Testbed testbed = ProgramTestbed(
      problem, setup,
      {setup.workload, {DefaultSystem(setup.cluster(), LikeFiles(problem))}},
      {}, "a client");
  testbed.program = nullptr;
  testbed.runner = std::make_unique<ClientRunner>();
  testbed.exact = testbed.runner.get();
  return testbed;
}

Testbed MakeTrainer(const ProblemSpec& problem) {
  const TomlTable& table = problem.backend;
  SimulatorSetup setup = ReadProgramSetup(problem);
  const bool torch =
      ReadChoice(table, "program", {"oppa-train", "torch"}) == "torch";
  const std::string name = torch ? "oppa-train-torch" : "oppa-train";
  CheckTrainerKnobs(problem, name, torch, setup.space);
  const std::string device = ReadChoice(table, "device", {"cuda", "cpu"});
  const bool cuda = device == "cuda";
  const std::string precision =
      cuda ? ReadChoice(table, "precision", {"bf16", "float"})
           : ReadChoice(table, "precision", {"float", "double"});
  const int scale = table.GetIntIn("scale", 1, 1);
  trials::CommandOptions options =
      trials::ReadTrialOptions(table, setup.space.knobs);
  if (cuda && !table.Has("warmup_steps")) {
    // The first makes plans, connections and buckets; memory of the allocator
    // of PyTorch settles in the second, which methods do not count.
    options.warmup_steps = 1;
  }
  options.ranks = ReadTrainerRanks(table, cuda, setup.cluster().gpus());
  options.program = {
      trials::Literal(TrainerPath(table, name)),
      "--model",
      ModelWord(problem),
      fmt::format("--batch-size={}", setup.workload.batch_size),
      fmt::format("--sequence-length={}", setup.workload.sequence_length),
      "--backend=" + device,
      "--precision=" + precision,
      fmt::format("--scale={}", scale)};
  if (cuda || !torch) {  // PyTorch does not count the memory of a CPU rank
    options.program.push_back(
        fmt::format("--memory={:.0f}", setup.cluster().gpu.memory_bytes));
  }
  if (options.ranks == trials::CommandOptions::Ranks::kPerGpu) {
    options.program.emplace_back("--local-ranks=1");
  }
  if (torch) {
    const char* python = std::getenv("TORCH_PYTHON");
    options.program.insert(options.program.begin(),
                           python == nullptr ? "python3" : python);
    AddFrameworkRules(problem, trials::FindDataFile("frameworks", "oppa-train"),
                      {name}, setup.space, setup.inputs);
  }
  if (const trials::Training& training = setup.workload.training;
      training != trials::Training{}) {
    throw common::InputError(
        fmt::format("[workload]: {} trains all weights with AdamW, not with {}",
                    name, ToString(training)));
  }
  const System system = PredictedOn(problem, setup.cluster(),
                                    !cuda   ? "oppa-train"
                                    : torch ? "fsdp2"
                                            : "oppa-train-cuda");
  return ProgramTestbed(
      problem, setup, {trials::Scaled(setup.workload, scale), {system}},
      std::move(options),
      fmt::format("{} ({}, {}{})", name, device, precision,
                  scale > 1 ? fmt::format(", scale {}", scale) : ""));
}

}  // namespace harness
