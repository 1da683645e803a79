#include "harness/slurm/trial_files.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/error.h"
#include "common/files.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using trials::Measurement;
using trials::StopRule;
using trials::TrialRequest;

// JSON has no infinity: null.
Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double Number(const Json& json, double otherwise) {
  return json.is_null() ? otherwise : json.get<double>();
}

Json ToJson(const StopRule& rule) {
  return {{"q_min", rule.q_min},
          {"best_steps_per_s", Number(rule.best_steps_per_s)},
          {"tau_steps_per_s", rule.tau_steps_per_s},
          {"warmup_steps", rule.throughput.warmup_steps},
          {"outlier_iqr", rule.throughput.outlier_iqr},
          {"variance_of_mean", rule.throughput.variance_of_mean}};
}

StopRule StopRuleFromJson(const Json& json) {
  StopRule rule;
  json.at("q_min").get_to(rule.q_min);
  rule.best_steps_per_s = Number(json.at("best_steps_per_s"),
                                 -std::numeric_limits<double>::infinity());
  json.at("tau_steps_per_s").get_to(rule.tau_steps_per_s);
  json.at("warmup_steps").get_to(rule.throughput.warmup_steps);
  json.at("outlier_iqr").get_to(rule.throughput.outlier_iqr);
  json.at("variance_of_mean").get_to(rule.throughput.variance_of_mean);
  return rule;
}

Json ToJson(const Measurement& measurement) {
  return {{"outcome", ToString(measurement.outcome)},
          {"step_times_s", measurement.step_times_s},
          {"peak_memory_bytes",
           measurement.peak_memory_bytes ? Json(*measurement.peak_memory_bytes)
                                         : Json(nullptr)},
          {"setup_s", measurement.setup_s},
          {"duration_s", measurement.duration_s},
          {"message", measurement.message}};
}

Measurement MeasurementFromJson(const Json& json) {
  Measurement measurement;
  measurement.outcome =
      trials::ParseOutcome(json.at("outcome").get<std::string>());
  json.at("step_times_s").get_to(measurement.step_times_s);
  if (!json.at("peak_memory_bytes").is_null()) {
    measurement.peak_memory_bytes = json.at("peak_memory_bytes").get<double>();
  }
  json.at("setup_s").get_to(measurement.setup_s);
  json.at("duration_s").get_to(measurement.duration_s);
  json.at("message").get_to(measurement.message);
  return measurement;
}

TrialTask TaskFromJson(const Json& json) {
  TrialTask task;
  task.manifest = json.at("manifest").get<std::string>();
  json.at("problem").get_to(task.problem);
  json.at("time_minutes").get_to(task.time_minutes);
  TrialRequest& request = task.request;
  request.config =
      trials::ParseParallelConfig(json.at("config").get<std::string>());
  json.at("max_steps").get_to(request.max_steps);
  json.at("seed").get_to(request.seed);
  request.time_limit_s =
      Number(json.at("time_limit_s"), std::numeric_limits<double>::infinity());
  std::optional<StopRule> rule;
  if (!json.at("stop_rule").is_null()) {
    rule = StopRuleFromJson(json.at("stop_rule"));
  }
  StopBy(rule, request);
  return task;
}

TrialJob JobFromJson(const Json& json) {
  TrialJob job;
  json.at("id").get_to(job.id);
  json.at("failures").get_to(job.failures);
  json.at("bad_nodes").get_to(job.bad_nodes);
  return job;
}

TrialResult ResultFromJson(const Json& json) {
  TrialResult result;
  json.at("refusal").get_to(result.refusal);
  if (!json.at("measurement").is_null()) {
    result.measurement = MeasurementFromJson(json.at("measurement"));
  }
  return result;
}

// Reads a file through one of the functions above.
template <typename Read>
auto WithFile(const fs::path& path, Read read)
    -> std::optional<decltype(read(Json()))> {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  try {
    return read(Json::parse(in));
  } catch (const std::exception& e) {
    throw common::InputError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

std::string Text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

fs::path TrialJobsFolder(const fs::path& run_folder) {
  return run_folder / "jobs";
}

std::string ToJson(const TrialTask& task) {
  const TrialRequest& request = task.request;
  return Text(
      {{"manifest", task.manifest.string()},
       {"problem", task.problem},
       {"time_minutes", task.time_minutes},
       {"config", ToString(request.config)},
       {"max_steps", request.max_steps},
       {"seed", request.seed},
       {"time_limit_s", Number(request.time_limit_s)},
       {"stop_rule",
        request.stop_rule ? ToJson(*request.stop_rule) : Json(nullptr)}});
}

TrialTask ReadTrialTask(const fs::path& folder) {
  auto task = WithFile(folder / "trial.json", TaskFromJson);
  if (!task) {
    throw common::InputError(
        fmt::format("{}: there is no trial.json", folder.string()));
  }
  return *std::move(task);
}

std::optional<TrialJob> ReadTrialJob(const fs::path& folder) {
  return WithFile(folder / "job.json", JobFromJson);
}

std::optional<TrialResult> ReadTrialResult(const fs::path& folder) {
  return WithFile(folder / "result.json", ResultFromJson);
}

void WriteTrialTask(const fs::path& folder, const TrialTask& task) {
  common::ReplaceFile(folder / "trial.json", ToJson(task));
}

void WriteTrialJob(const fs::path& folder, const TrialJob& job) {
  common::ReplaceFile(folder / "job.json",
                      Text({{"id", job.id},
                            {"failures", job.failures},
                            {"bad_nodes", job.bad_nodes}}));
}

void WriteTrialResult(const fs::path& folder, const TrialResult& result) {
  const fs::path path = folder / "result.json";
  const fs::path temporary = common::WriteTemporaryFile(
      path,
      Text({{"refusal", result.refusal},
            {"measurement",
             result.measurement ? ToJson(*result.measurement)
                                : Json(nullptr)}}));
  const int failed = ::link(temporary.c_str(), path.c_str());
  fs::remove(temporary);
  if (failed != 0 && !fs::exists(path)) {
    throw std::runtime_error(
        fmt::format("{}: cannot be created", path.string()));
  }
}

}  // namespace harness
