// run.json, problem.json and experiment.json.

#include <cmath>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/text.h"
#include "trials/record.h"

namespace trials {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: unknown is null.
Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double Number(const Json& json) {
  return json.is_null() ? kUnknown : json.get<double>();
}

// Writes through a temporary file of this process and a rename.
void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  const std::filesystem::path temporary =
      path.string() + fmt::format(".{}.tmp", ::getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    out << text;
    out.flush();
    if (!out) {
      throw std::runtime_error(fmt::format(
          "{}: cannot write (disk full or not writable?)", temporary.string()));
    }
  }
  std::filesystem::rename(temporary, path);
}

void WriteFile(const std::filesystem::path& path, const Json& json) {
  WriteFile(path, json.dump(2) + "\n");
}

// Reads `path` and lets `fill` take what it needs from it.
template <typename Fill>
void ReadFile(const std::filesystem::path& path, Fill fill) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw common::InputError(fmt::format("{}: no such file", path.string()));
  }
  try {
    fill(Json::parse(in));
  } catch (const Json::exception& e) {
    throw common::InputError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

}  // namespace

std::string ToJson(const RunInfo& info) {
  return Json{{"experiment", info.experiment},
              {"problem", info.problem},
              {"method", info.method},
              {"repeat", info.repeat},
              {"seed", info.seed},
              {"backend", info.backend},
              {"manifest", info.manifest},
              {"manifest_hash", info.manifest_hash},
              {"commit", info.commit},
              {"dirty", info.dirty},
              {"host", info.host},
              {"version", info.version},
              {"command", info.command},
              {"finished", info.finished},
              {"finish_reason", info.finish_reason}}
             .dump(2) +
         "\n";
}

void Write(const std::filesystem::path& folder, const RunInfo& info) {
  WriteFile(folder / "run.json", ToJson(info));
}

RunInfo ReadRunInfo(const std::filesystem::path& run_folder) {
  RunInfo info;
  ReadFile(run_folder / "run.json", [&](const Json& json) {
    info.experiment = json.at("experiment");
    info.problem = json.at("problem");
    info.method = json.at("method");
    info.repeat = json.at("repeat");
    info.seed = json.at("seed");
    info.backend = json.at("backend");
    info.manifest = json.at("manifest");
    info.manifest_hash = json.at("manifest_hash");
    info.commit = json.at("commit");
    info.dirty = json.at("dirty");
    info.host = json.at("host");
    info.version = json.at("version");
    info.command = json.at("command");
    info.finished = json.at("finished");
    info.finish_reason = json.at("finish_reason");
  });
  return info;
}

void Write(const std::filesystem::path& folder, const ProblemInfo& info) {
  WriteFile(folder / "problem.json",
            Json{{"name", info.name},
                 {"description", info.description},
                 {"backend", info.backend},
                 {"gpus", info.gpus},
                 {"candidates", info.candidates},
                 {"feasible", info.feasible},
                 {"optimum_steps_per_s", Number(info.optimum_steps_per_s)},
                 {"optimum_config", info.optimum_config},
                 {"q_max", info.q_max},
                 {"time_budget_s", Number(info.time_budget_s)},
                 {"trial_budget", info.trial_budget}});
}

ProblemInfo ReadProblemInfo(const std::filesystem::path& problem_folder) {
  ProblemInfo info;
  ReadFile(problem_folder / "problem.json", [&](const Json& json) {
    info.name = json.at("name");
    info.description = json.at("description");
    info.backend = json.at("backend");
    info.gpus = json.at("gpus");
    info.candidates = json.at("candidates");
    info.feasible = json.at("feasible");
    info.optimum_steps_per_s = Number(json.at("optimum_steps_per_s"));
    info.optimum_config = json.at("optimum_config");
    info.q_max = json.at("q_max");
    info.time_budget_s = Number(json.at("time_budget_s"));
    info.trial_budget = json.at("trial_budget");
  });
  return info;
}

void Write(const std::filesystem::path& folder, const ExperimentInfo& info) {
  Json methods = Json::array();
  for (const ExperimentInfo::Method& method : info.methods) {
    methods.push_back({{"name", method.name}, {"label", method.label}});
  }
  WriteFile(folder / "experiment.json",
            Json{{"name", info.name},
                 {"title", info.title},
                 {"problems", info.problems},
                 {"methods", methods},
                 {"repeats", info.repeats},
                 {"figures", info.figures}});
}

ExperimentInfo ReadExperimentInfo(
    const std::filesystem::path& experiment_folder) {
  ExperimentInfo info;
  ReadFile(experiment_folder / "experiment.json", [&](const Json& json) {
    info.name = json.at("name");
    info.title = json.at("title");
    info.problems = json.at("problems").get<std::vector<std::string>>();
    for (const Json& method : json.at("methods")) {
      info.methods.push_back({method.at("name"), method.at("label")});
    }
    info.repeats = json.at("repeats");
    info.figures = json.at("figures").get<std::vector<std::string>>();
  });
  return info;
}

}  // namespace trials
