#include "harness/program_backends.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "harness/prediction_sources.h"
#include "harness/problem_parts.h"
#include "harness/provenance.h"
#include "trials/command/command_runner.h"
#include "trials/workload.h"

namespace harness {
namespace {

using common::TomlTable;

// A backend whose trials are a program on the cluster. `by` describes it.
Backend ProgramBackend(const ProblemSpec& problem,
                       const trials::Workload& workload,
                       const trials::Cluster& cluster,
                       trials::CommandOptions options,
                       const std::string& by) {
  options.rank_wrapper = {ProgramPath(), "contain", "--"};
  Backend backend = BackendOn(
      workload,
      cluster,
      trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder));
  backend.inputs = ProblemFiles(problem);
  backend.description = fmt::format("{}, batch {} x {}, by {} on {} ({} x {})",
                                    workload.name,
                                    workload.batch_size,
                                    workload.sequence_length,
                                    by,
                                    cluster.name,
                                    cluster.gpus(),
                                    cluster.gpu.name);
  backend.predictions = SimulatedPredictions(
      problem, *backend.space, workload, DefaultMachine(cluster), false);
  auto runner =
      std::make_unique<trials::CommandRunner>(std::move(options), cluster);
  backend.exact = runner.get();
  backend.keep_logs = [runner =
                           runner.get()](const std::filesystem::path& folder) {
    runner->KeepLogs(folder);
  };
  backend.runner = std::move(runner);
  return backend;
}

// One of `choices`, the first of which is the default.
std::string ReadChoice(const TomlTable& table,
                       std::string_view key,
                       const std::vector<std::string>& choices) {
  const std::string value = table.GetString(key, choices.front());
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    table.Fail(key,
               fmt::format("invalid value '{}' for {}; known: {}",
                           value,
                           key,
                           fmt::join(choices, ", ")));
  }
  return value;
}

// oppa-train, which is installed next to oppa.
std::filesystem::path TrainerPath(const TomlTable& table) {
  const auto path =
      std::filesystem::path(ProgramPath()).parent_path() / "oppa-train";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    table.Fail("type",
               fmt::format("the program of this backend, {}, does not exist: "
                           "build it with `make build`",
                           path.string()));
  }
  return path;
}

// Several GPUs have a process each. All ranks of a CPU, or of one GPU, are in
// one process, which srun may start ("per-node").
trials::CommandOptions::Ranks ReadTrainerRanks(const TomlTable& table,
                                               bool cuda,
                                               int gpus) {
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

}  // namespace

Backend MakeCommand(const ProblemSpec& problem) {
  const trials::CommandOptions options =
      trials::ReadCommandOptions(problem.backend);
  Backend backend = ProgramBackend(
      problem,
      trials::ReadWorkload(problem.workload),
      ReadCluster(problem.cluster),
      options,
      std::filesystem::path(options.program.front()).filename().string());
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
  return backend;
}

Backend MakeTrainer(const ProblemSpec& problem) {
  const TomlTable& table = problem.backend;
  const trials::Workload workload = trials::ReadWorkload(problem.workload);
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  const std::string device = ReadChoice(table, "device", {"cuda", "cpu"});
  const bool cuda = device == "cuda";
  const std::string precision =
      cuda ? ReadChoice(table, "precision", {"bf16", "float"})
           : ReadChoice(table, "precision", {"float", "double"});
  const int scale = table.GetIntIn("scale", 1, 1);
  trials::CommandOptions options = trials::ReadTrialOptions(table);
  options.ranks = ReadTrainerRanks(table, cuda, cluster.gpus());
  options.program = {
      TrainerPath(table).string(),
      "--model",
      std::filesystem::absolute(NamedFile(problem.workload, "model")).string(),
      fmt::format("--batch-size={}", workload.batch_size),
      fmt::format("--sequence-length={}", workload.sequence_length),
      "--backend=" + device,
      "--precision=" + precision,
      fmt::format("--scale={}", scale),
      fmt::format("--memory={:.0f}", cluster.gpu.memory_bytes)};
  if (options.ranks == trials::CommandOptions::Ranks::kPerGpu) {
    options.program.emplace_back("--local-ranks=1");
  }
  return ProgramBackend(
      problem,
      workload,
      cluster,
      std::move(options),
      fmt::format("oppa-train ({}, {}{})",
                  device,
                  precision,
                  scale > 1 ? fmt::format(", scale {}", scale) : ""));
}

}  // namespace harness
