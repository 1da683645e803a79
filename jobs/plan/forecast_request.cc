#include "jobs/plan/forecast_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/json.h"
#include "common/text.h"
#include "common/units.h"
#include "jobs/job.h"
#include "jobs/plan/advice.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/forecast_text.h"
#include "jobs/plan/run_comparison.h"

namespace jobs {
namespace {

using common::InputError;
using trials::ParallelConfig;

trials::Precision ReadPrecision(const std::string& name) {
  const auto found = std::ranges::find(kPrecisions, common::Lower(name));
  if (found == kPrecisions.end()) {
    throw InputError(fmt::format(
        "--precision {}: unknown precision{}; known: {}", name,
        common::DidYouMean(name, kPrecisions), fmt::join(kPrecisions, ", ")));
  }
  return static_cast<trials::Precision>(found - kPrecisions.begin());
}

Job MakeJob(const ForecastRequest& request, const trials::Workload& workload,
            const trials::Cluster& node, const MachineSize& size,
            const std::string& framework) {
  Job job{workload, WithSize(node, size, request.nics_per_node),
          FindFramework(framework), request.rules,
          FindConfigJson(request.model)};
  for (const std::string& constant : request.constants) {
    trials::ChangeFramework(
        common::TomlTable::ParseString(constant, "--constant"),
        job.framework.framework);
  }
  return job;
}

ForecastOptions MakeOptions(const ForecastRequest& request, const Job& job) {
  constexpr double kPercent = 100.0;
  if (!(request.headroom_percent < kPercent)) {
    throw InputError(fmt::format("--headroom {}: must be a percentage < 100",
                                 request.headroom_percent));
  }
  ForecastOptions options{request.headroom_percent / kPercent, {}};
  if (!request.calibrate.empty()) {
    options.calibration =
        Calibrate(job, ReadMeasuredSteps(request.calibrate, job));
  } else if (!request.calibration.empty()) {
    options.calibration = harness::ReadCalibration(
        request.calibration,
        harness::CalibratedJob::Of(job.workload, job.cluster,
                                   job.framework.name));
  }
  return options;
}

// How far predictions of measured trials are off.
std::string CheckText(const Forecaster& planner,
                      const std::filesystem::path& path) {
  const Calibration& calibration = planner.options().calibration;
  const CheckedErrors errors = CheckCalibration(
      planner.job(), calibration, ReadMeasuredSteps(path, planner.job()).steps);
  std::string text = fmt::format(
      "{}: {} measured step times\n  as simulated: median error "
      "{:.1f}%, mean {:.1f}%\n",
      FrameworkLabel(planner.job().framework), errors.rows,
      100.0 * errors.before.median, 100.0 * errors.before.mean);
  if (!calibration.empty()) {
    text += fmt::format(
        "  calibrated:   median error {:.1f}%, mean {:.1f}%; {:.0f}% inside "
        "the band of 90%\n  {}",
        100.0 * errors.after.median, 100.0 * errors.after.mean,
        100.0 * errors.inside, ToString(calibration));
  }
  return text;
}

// Writes the fastest configuration; of several frameworks, each into its own
// folder.
std::string Written(const LaunchFolder& write, const Job& job,
                    const Forecast& plan, bool several) {
  if (plan.layouts.empty()) {
    return "nothing is written: no layout fits\n";
  }
  LaunchFolder folder = write;
  if (several && job.framework.adapter) {
    folder.path /= job.framework.adapter->name();
  }
  return WriteLaunch(job, plan.layouts.front().best.config, folder);
}

// The answer to a question about a configuration or a run; nothing if only a
// plan is asked for.
std::optional<std::string> AnswerText(const ForecastRequest& request,
                                      const Forecaster& planner,
                                      const Forecast& plan) {
  if (!request.check.empty()) {
    return CheckText(planner, request.check);
  }
  if (!request.logs.empty()) {
    return FrameworkLabel(planner.job().framework) + ": " +
           CompareRun(planner, request.logs, request.config);
  }
  if (request.why) {
    return planner.job().framework.name + ": " +
           Why(planner, plan, *request.why);
  }
  return std::nullopt;
}

std::optional<Prediction> FastestOf(const Forecast& plan) {
  return plan.layouts.empty() ? std::nullopt
                              : std::optional(plan.layouts.front().best);
}

// What stands above the plans.
std::string HeaderText(OutputFormat format, const Job& job) {
  if (format == OutputFormat::kCsv) {
    return ForecastCsvHeader();
  }
  if (format == OutputFormat::kJson) {
    return "";
  }
  const std::string& note = job.workload.model.note;
  return JobText(job) + (note.empty() ? "" : "note: " + note + "\n");
}

// One size: one plan per framework.
std::string OneSize(const ForecastRequest& request, std::vector<Job> jobs) {
  std::string text = HeaderText(request.format, jobs.front());
  common::Json json = common::Json::array();
  const bool several = jobs.size() > 1;
  for (Job& job : jobs) {
    const ForecastOptions options = MakeOptions(request, job);
    if (!request.save_calibration.empty()) {
      common::ReplaceFile(request.save_calibration,
                          ToToml(options.calibration));
    }
    std::optional<Forecaster> made;
    (void)JobRules(job);  // an error in a rule is the user's
    try {
      made.emplace(job, options);
    } catch (const InputError& e) {  // no configuration is valid
      const std::string problem =
          fmt::format("{}: {}\n{}", FrameworkLabel(job.framework), e.what(),
                      WorkingChanges(job, options));
      if (jobs.size() == 1) {
        throw InputError(std::string(common::Trim(problem)));
      }
      text += request.format == OutputFormat::kText ? "\n" + problem : "";
      json.push_back({{"framework", job.framework.name}, {"problem", problem}});
      continue;
    }
    const Forecaster& planner = *made;
    const Forecast plan = planner.MakeForecast();
    const std::string written =
        request.write.path.empty()
            ? ""
            : Written(request.write, planner.job(), plan, several);
    const ScalePoint point{
        .size = {job.cluster.nodes, job.cluster.gpus_per_node},
        .best = FastestOf(plan)};
    if (const auto answer = AnswerText(request, planner, plan)) {
      text += "\n" + *answer;
      json.push_back({{"framework", job.framework.name}, {"text", *answer}});
    } else if (request.format == OutputFormat::kCsv) {
      text += ForecastCsv(planner, plan, request.layouts);
    } else if (request.format == OutputFormat::kJson) {
      json.push_back(ForecastJson(planner, plan, request.layouts));
      json.back().update(CostJson(point, request.valuation));
    } else {
      const Calibration& calibration = planner.options().calibration;
      text += "\n" + (calibration.empty() ? "" : ToString(calibration)) +
              ForecastText(planner, plan, request.layouts) +
              CostText(point, request.valuation) + written;
    }
  }
  if (request.format == OutputFormat::kJson) {
    return common::ToText(json, 2) + "\n";
  }
  return text;
}

ScalePoint Scale(const ForecastRequest& request, Job job,
                 const MachineSize& size) {
  ScalePoint point{.size = size};
  const ForecastOptions options = MakeOptions(request, job);
  try {
    const Forecast plan = Forecaster(std::move(job), options).MakeForecast();
    point.best = FastestOf(plan);
    if (!point.best) {
      point.problem =
          plan.smallest
              ? fmt::format("does not fit: {:.1f} GB at least",
                            plan.smallest->peak_memory_bytes / common::kGiga)
              : "no configuration is valid";
    }
  } catch (const InputError& e) {
    point.problem = e.what();
  }
  return point;
}

// A whole training with the best layout of one size and framework.
struct Training {
  std::string framework;
  int gpus = 0;
  ParallelConfig config;
  double hours = 0.0;
  double money = 0.0;
};

std::string ToString(const Training& one) {
  return fmt::format("{} on {} GPUs, {}: {:.3g} h for {:.2f}", one.framework,
                     one.gpus, LayoutName(one.config), one.hours, one.money);
}

// The fastest one that the limit allows, the cheapest of equally fast ones. On
// one size, the fastest layout is also the cheapest.
// Source: Astra Eqs. 32, 33.
Training FastestWithin(const ForecastRequest& request,
                       std::vector<Training> trainings) {
  std::ranges::sort(trainings, {}, [](const Training& one) {
    return std::pair(one.hours, one.money);
  });
  const auto best = std::ranges::find_if(trainings, [&](const Training& one) {
    return one.money <= request.most_money;
  });
  if (best != trainings.end()) {
    return *best;
  }
  const auto cheapest =
      std::ranges::min_element(trainings, {}, &Training::money);
  throw InputError(fmt::format(
      "--most-money {}: no plan trains {} steps for that; {}",
      request.most_money, request.steps,
      trainings.empty()
          ? "none fits into memory: use more GPUs or a smaller --headroom"
          : "the cheapest is " + ToString(*cheapest)));
}

// Several sizes: the best layout of each; with a limit, one size, too.
std::string SeveralSizes(const ForecastRequest& request,
                         const trials::Workload& workload,
                         const trials::Cluster& node,
                         const std::vector<MachineSize>& sizes,
                         const std::vector<std::string>& frameworks) {
  if (request.why || !request.write.path.empty() ||
      request.format == OutputFormat::kCsv) {
    throw InputError(fmt::format(
        "{} needs one size of the machine, not {}{}",
        request.why                   ? "--why"
        : !request.write.path.empty() ? "--write"
                                      : "--csv",
        request.gpus, request.steps > 0 ? " with --most-money" : ""));
  }
  std::string text;
  common::Json json;
  std::vector<Training> trainings;
  for (const std::string& framework : frameworks) {
    std::vector<ScalePoint> points;
    double first = 0.0;
    for (const MachineSize& size : sizes) {
      Job job = MakeJob(request, workload, node, size, framework);
      if (text.empty()) {
        text = JobText(job);
      }
      ScalePoint& point =
          points.emplace_back(Scale(request, std::move(job), size));
      if (point.best) {
        const double per_gpu = point.best->tokens_per_s_per_gpu;
        first = first > 0.0 ? first : per_gpu;
        point.efficiency = per_gpu / first;
        const double seconds = request.steps * point.best->step_time_s;
        trainings.push_back({framework, size.gpus(), point.best->config,
                             seconds / common::kSecondsPerHour,
                             request.valuation.CostOf(seconds, size.gpus())});
      }
    }
    json[framework] = ScaleJson(points, request.valuation);
    text += fmt::format("\n{}\n{}", framework,
                        ScaleText(points, request.valuation));
  }
  if (request.most_money > 0.0) {
    const Training best = FastestWithin(request, trainings);
    text +=
        fmt::format("\nfastest {} steps within {}: {}\n{}\n", request.steps,
                    request.most_money, ToString(best), ToString(best.config));
    json["within_limit"] = {{"framework", best.framework},
                            {"gpus", best.gpus},
                            {"config", ToString(best.config)},
                            {"hours", best.hours},
                            {"money", best.money}};
  }
  return request.format == OutputFormat::kJson ? common::ToText(json, 2) + "\n"
                                               : text;
}

}  // namespace

std::string RunPlan(const ForecastRequest& request) {
  const std::vector<std::string> frameworks =
      request.frameworks.empty()
          ? std::vector<std::string>{"megatron-lm", "torchtitan"}
          : request.frameworks;
  trials::Workload workload = MakeWorkload(
      FindModel(request.model), request.batch_size, request.sequence_length);
  workload.precision = ReadPrecision(request.precision);
  const trials::Cluster node = FindMachine(request.machine);
  const std::vector<MachineSize> sizes =
      ParseMachineSizes(request.gpus, node.gpus_per_node);
  if (request.why && request.why->empty()) {
    throw InputError(
        "--why: it is empty; give values, such as dp=8,tp=2, or a "
        "layout as printed");
  }
  const bool limited = request.most_money > 0.0;
  if (limited != (request.steps > 0.0) ||
      (limited && !(request.valuation.price_per_gpu_hour > 0.0))) {
    throw InputError(
        "--most-money, --steps and --price belong together: the limit, the "
        "steps of the training, and the price of a GPU hour");
  }
  if (!request.calibration.empty() && !request.calibrate.empty()) {
    throw InputError(
        "--calibration and --calibrate exclude each other: a saved calibration "
        "or measured trials");
  }
  if (!request.save_calibration.empty() &&
      (request.calibrate.empty() || frameworks.size() > 1 ||
       sizes.size() > 1)) {
    throw InputError(fmt::format(
        "--save-calibration {}: it needs --calibrate RESULTS, one --framework "
        "and one size of the machine",
        request.save_calibration.string()));
  }
  if (!request.logs.empty() && (frameworks.size() > 1 || sizes.size() > 1)) {
    throw InputError(
        "--log needs one --framework and one size of the machine: those of the "
        "run");
  }
  if (request.write.path.empty() &&
      (request.write.slurm || request.write.force)) {
    throw InputError("--slurm and --force belong to --write DIR");
  }
  if (request.logs.empty() && !request.config.empty()) {
    throw InputError("--config is the configuration of a run: give its --log");
  }
  if (sizes.size() > 1 || limited) {
    return SeveralSizes(request, workload, node, sizes, frameworks);
  }
  std::vector<Job> jobs;
  for (const std::string& framework : frameworks) {
    jobs.push_back(MakeJob(request, workload, node, sizes.front(), framework));
  }
  return OneSize(request, std::move(jobs));
}

}  // namespace jobs
