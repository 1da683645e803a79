// run.json, problem.json and experiment.json.

#include <type_traits>

#include "common/files.h"
#include "common/json.h"
#include "trials/record.h"

namespace trials {

void VisitFields(common::FieldsOf<ProblemInfo> auto& info, const auto& visit) {
  visit("name", info.name);
  visit("description", info.description);
  visit("backend", info.backend);
  visit("gpus", info.gpus);
  visit("candidates", info.candidates);
  visit("feasible", info.feasible);
  visit("optimum_steps_per_s", info.optimum_steps_per_s);
  visit("optimum_config", info.optimum_config);
  visit("q_max", info.q_max);
  visit("time_budget_s", info.time_budget_s);
  visit("trial_budget", info.trial_budget);
  visit("memory_capacity_bytes", info.memory_capacity_bytes);
  visit("tokens_per_step", info.tokens_per_step);
  visit("predictions", info.predictions);
  // Other problems have no such key.
  if (!std::is_const_v<std::remove_reference_t<decltype(info)>> ||
      info.trade_off.has_value()) {
    visit("money", info.trade_off);
  }
}

namespace {

template <typename Info>
std::string FileText(const Info& info) {
  return common::SealedText(common::ToJson(info));
}

}  // namespace

std::string ToJson(const RunInfo& info) { return FileText(info); }
std::string ToJson(const ProblemInfo& info) { return FileText(info); }
std::string ToJson(const ExperimentInfo& info) { return FileText(info); }

void Write(const std::filesystem::path& folder, const RunInfo& info) {
  common::StoreFile(folder / "run.json", ToJson(info));
}

RunInfo ReadRunInfo(const std::filesystem::path& run_folder) {
  return common::ReadSealedAs<RunInfo>(run_folder / "run.json");
}

void Write(const std::filesystem::path& folder, const ProblemInfo& info) {
  common::StoreFile(folder / "problem.json", ToJson(info));
}

ProblemInfo ReadProblemInfo(const std::filesystem::path& problem_folder) {
  return common::ReadSealedAs<ProblemInfo>(problem_folder / "problem.json");
}

void Write(const std::filesystem::path& folder, const ExperimentInfo& info) {
  common::StoreFile(folder / "experiment.json", ToJson(info));
}

ExperimentInfo ReadExperimentInfo(
    const std::filesystem::path& experiment_folder) {
  return common::ReadSealedAs<ExperimentInfo>(experiment_folder /
                                              "experiment.json");
}

}  // namespace trials
