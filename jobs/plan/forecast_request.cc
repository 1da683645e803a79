#include "jobs/plan/forecast_request.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "jobs/job.h"
#include "jobs/plan/comparison.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/forecast_text.h"
#include "jobs/plan/plan_page.h"
#include "jobs/plan/remedies.h"
#include "jobs/plan/robustness.h"
#include "jobs/plan/run_comparison.h"
#include "jobs/plan/step_trace.h"
#include "jobs/plan/train_job.h"
#include "jobs/plan/why.h"
#include "plots/table.h"
#include "trials/data_folder.h"
#include "trials/flop.h"
#include "trials/simulator/gpu_model.h"

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

// How far predictions of measured trials are off.
std::string CheckText(const Forecaster& forecaster,
                      const std::filesystem::path& path) {
  const Calibration& calibration = forecaster.options().calibration;
  const CheckedErrors errors =
      CheckCalibration(forecaster.job(), calibration,
                       ReadMeasuredSteps(path, forecaster.job()).steps);
  std::string text = fmt::format(
      "{}{}: {} measured step times\n  as simulated: median error "
      "{:.1f}%, mean {:.1f}%\n",
      errors.note, FrameworkLabel(forecaster.job().framework), errors.rows,
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
                    const Forecast& forecast, bool several) {
  if (forecast.layouts.empty()) {
    return "nothing is written: no layout fits\n";
  }
  LaunchFolder folder = write;
  if (several && job.framework.adapter) {
    folder.path /= job.framework.adapter->name();
  }
  return WriteLaunch(job, forecast.layouts.front().best.config, folder);
}

// The answer to a question about a configuration or a run; nothing if only a
// plan is asked for.
std::optional<std::string> AnswerText(const ForecastRequest& request,
                                      const Forecaster& forecaster,
                                      const Forecast& forecast) {
  if (!request.check.empty()) {
    return CheckText(forecaster, request.check);
  }
  if (!request.logs.empty()) {
    return FrameworkLabel(forecaster.job().framework) + ": " +
           CompareRun(forecaster, forecast, request.logs, request.config,
                      request.step_time);
  }
  if (request.why) {
    return forecaster.job().framework.name + ": " +
           Why(forecaster, forecast, *request.why);
  }
  return std::nullopt;
}

std::optional<Prediction> FastestOf(const Forecast& forecast) {
  return forecast.layouts.empty()
             ? std::nullopt
             : std::optional(forecast.layouts.front().best);
}

// Errors: throws InputError for a step that no GPU can take.
void RefuseImpossible(const Job& job, const std::optional<Prediction>& best) {
  const double share =
      best ? LeastFlopUtilization(job.workload, job.cluster, best->step_time_s)
           : 0.0;
  if (share > 1.0) {
    throw InputError(fmt::format(
        "{}: {:.3g} s per step would be {:.0f}% of the peak rate of {} {}: a "
        "--constant or a calibration is of another machine",
        job.framework.name, best->step_time_s, 100.0 * share,
        job.cluster.gpus(), job.cluster.gpu.name));
  }
}

// What the command says about one framework: a problem, an answer, or a plan.
struct FrameworkAnswer {
  FrameworkChoice framework;
  std::string problem;  // why no configuration is valid, and what to change
  std::unique_ptr<Forecaster> forecaster;
  Forecast forecast;
  ScalePoint point;
  std::string written;
  bool wrote = false;
  std::optional<std::string> answer;  // instead of the plan
};

FrameworkAnswer MakeAnswer(const ForecastRequest& request, const Job& job,
                           bool several) {
  FrameworkAnswer made{.framework = job.framework};
  const ForecastOptions options = ForecastOptionsOf(request, job);
  if (!request.save_calibration.empty()) {
    common::ReplaceFile(request.save_calibration, ToToml(options.calibration));
  }
  (void)JobRules(job);  // an error in a rule is the user's
  try {
    made.forecaster = std::make_unique<Forecaster>(job, options);
  } catch (const InputError& e) {  // no configuration is valid
    made.problem = fmt::format("{}: {}\n{}", FrameworkLabel(job.framework),
                               e.what(), RemediesText(job, options));
    return made;
  }
  // A question may be about any layout.
  const bool asks =
      request.why || !request.logs.empty() || !request.config.empty();
  made.forecast = asks ? made.forecaster->MakeForecast()
                       : made.forecaster->MakeForecast(std::max<std::size_t>(
                             kContenders, std::max(0, request.layouts)));
  if (!request.write.path.empty()) {
    made.written = Written(request.write, job, made.forecast, several);
    made.wrote = !made.forecast.layouts.empty();
  }
  made.point = {.size = {job.cluster.nodes, job.cluster.gpus_per_node},
                .best = FastestOf(made.forecast)};
  RefuseImpossible(job, made.point.best);
  made.answer = AnswerText(request, *made.forecaster, made.forecast);
  return made;
}

common::Json ToJson(const FrameworkAnswer& made,
                    const ForecastRequest& request) {
  if (!made.problem.empty()) {
    return {{"framework", made.framework.name}, {"problem", made.problem}};
  }
  if (made.answer) {
    return {{"framework", made.framework.name}, {"text", *made.answer}};
  }
  common::Json json =
      ForecastJson(*made.forecaster, made.forecast, request.layouts);
  json.update(CostJson(made.point, request.valuation));
  return json;
}

std::string ToText(const FrameworkAnswer& made,
                   const ForecastRequest& request) {
  const bool csv = request.format == OutputFormat::kCsv;
  if (!made.problem.empty() || made.answer) {
    return csv && !made.answer ? "" : "\n" + made.answer.value_or(made.problem);
  }
  if (csv) {
    return ForecastCsv(*made.forecaster, made.forecast, request.layouts);
  }
  const Calibration& calibration = made.forecaster->options().calibration;
  return "\n" + (calibration.empty() ? "" : ToString(calibration)) +
         ForecastText(*made.forecaster, made.forecast,
                      {request.layouts, request.details, request.columns}) +
         CostText(made.point, request.valuation) + made.written;
}

ScalePoint Scale(const ForecastRequest& request, Job job,
                 const MachineSize& size) {
  ScalePoint point{.size = size};
  const ForecastOptions options = ForecastOptionsOf(request, job);
  try {
    point.guesses = common::Map(GuessesOf(job), &trials::Guess::what);
    const Forecaster forecaster(std::move(job), options);
    const Forecast forecast = forecaster.MakeForecast(1);
    point.best = FastestOf(forecast);
    if (!point.best) {
      point.problem =
          forecast.smallest
              ? fmt::format(
                    "does not fit: {:.1f} GB at least, {:.1f} GB are allowed",
                    forecast.smallest->peak_memory_bytes / common::kGiga,
                    forecaster.AllowedBytes() / common::kGiga)
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

std::string TrainingText(const Training& one) {
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
          : "the cheapest is " + TrainingText(*cheapest)));
}

// The best layouts of several sizes, by framework, and the fastest training
// within a limit.
struct Scaling {
  std::vector<std::pair<std::string, std::vector<ScalePoint>>> frameworks;
  std::optional<Training> within;
};

std::string ToText(const Scaling& scaling, const ForecastRequest& request) {
  std::string text;
  for (const auto& [framework, points] : scaling.frameworks) {
    text += fmt::format("\n{}\n{}", framework,
                        ScaleText(points, request.valuation));
  }
  if (const auto& best = scaling.within) {
    text += fmt::format(
        "\nfastest {} steps within {}, without failures and checkpoints "
        "(--tokens counts them): {}\n{}\n",
        request.steps, request.most_money, TrainingText(*best),
        ToString(best->config));
  }
  return text;
}

common::Json ToJson(const Scaling& scaling, const ForecastRequest& request) {
  common::Json json;
  for (const auto& [framework, points] : scaling.frameworks) {
    json[framework] = ScaleJson(points, request.valuation);
  }
  if (const auto& best = scaling.within) {
    json["within_limit"] = {{"framework", best->framework},
                            {"gpus", best->gpus},
                            {"config", ToString(best->config)},
                            {"hours", best->hours},
                            {"money", best->money}};
  }
  return json;
}

// What the options describe: the job, but for its framework.
struct Inputs {
  std::vector<std::string> frameworks;
  trials::Workload workload;
  trials::Cluster node;
  std::vector<MachineSize> sizes;
};

Inputs ReadInputs(const ForecastRequest& request) {
  Inputs inputs;
  inputs.frameworks = request.frameworks;
  if (inputs.frameworks.empty()) {
    inputs.frameworks = {"megatron-lm", "torchtitan"};
  }
  inputs.workload =
      MakeWorkload(FindModel(request.model, request.model_options),
                   request.batch_size, request.sequence_length);
  if (!request.precision.empty()) {
    inputs.workload.precision = ReadPrecision(request.precision);
  }
  inputs.node = FindMachine(request.machine);
  inputs.sizes = ParseMachineSizes(
      request.gpus, {inputs.node.gpus_per_node, inputs.node.gpus_per_tray});
  return inputs;
}

Job JobOf(const ForecastRequest& request, const Inputs& inputs,
          const MachineSize& size, const std::string& framework) {
  Job job{.workload = inputs.workload,
          .cluster = WithSize(inputs.node, size, request.nics_per_node),
          .rules = request.rules,
          .config_json = FindConfigJson(request.model),
          .config_file = request.config_file,
          .training = request.training,
          .constants = request.constants};
  if (!request.precision.empty()) {
    job.training.push_back("precision=" + common::Lower(request.precision));
  }
  SetFramework(framework, job);
  return job;
}

std::vector<Job> JobsOf(const ForecastRequest& request, const Inputs& inputs) {
  return common::Map(inputs.frameworks, [&](const auto& framework) {
    return JobOf(request, inputs, inputs.sizes.front(), framework);
  });
}

void WritePage(const ForecastRequest& request,
               const std::vector<FrameworkAnswer>& answers,
               const std::vector<Job>& jobs) {
  if (request.html.empty()) {
    return;
  }
  const auto forecasters_of = [](const ForecastRequest& one) {
    return common::Map(JobsOf(one, ReadInputs(one)), [&](const Job& job) {
      const ForecastOptions options = ForecastOptionsOf(one, job);
      try {
        return std::make_unique<Forecaster>(job, options);
      } catch (const InputError&) {  // no configuration is valid
        return std::unique_ptr<Forecaster>();
      }
    });
  };
  std::vector<PagePlan> plans;
  std::int64_t candidates = 0;
  for (const FrameworkAnswer& made : answers) {
    PagePlan& plan = plans.emplace_back(PagePlan{
        .label = FrameworkLabel(made.framework), .problem = made.problem});
    if (made.forecaster) {
      plan.forecaster = made.forecaster.get();
      plan.forecast = &made.forecast;
      candidates += made.forecast.candidates;
      plan.json = ForecastJson(*made.forecaster, made.forecast,
                               std::numeric_limits<int>::max());
    }
  }
  common::ReplaceFile(
      request.html,
      PlanPage(
          JobText(jobs.front()), plans,
          MakeGrid(request, jobs.front().cluster, candidates, forecasters_of),
          request.valuation.price_per_gpu_hour, request.layouts));
}

// The step of the configuration that --config names, else of the fastest of
// all frameworks. Returns lines about it.
std::string WriteTrace(const ForecastRequest& request,
                       const std::vector<FrameworkAnswer>& answers) {
  if (request.trace.empty()) {
    return "";
  }
  const FrameworkAnswer* fastest = nullptr;
  for (const FrameworkAnswer& made : answers) {
    if (made.point.best &&
        (fastest == nullptr ||
         made.point.best->step_time_s < fastest->point.best->step_time_s)) {
      fastest = &made;
    }
  }
  if (request.config.empty() && fastest == nullptr) {
    throw InputError(fmt::format(
        "--trace {}: no layout fits: name one with --config dp=8,tp=2,...",
        request.trace.string()));
  }
  const FrameworkAnswer& made =
      request.config.empty() ? *fastest : answers.front();
  const auto [one, notes] =
      request.config.empty()
          ? std::pair(*made.point.best, std::string())
          : PredictionOf(*made.forecaster, made.forecast, request.config);
  common::ReplaceFile(request.trace,
                      common::ToText(StepTrace(*made.forecaster, one)) + "\n");
  return fmt::format("\n{}: {}, {:.3g} s per step\n{}", request.trace.string(),
                     ToString(one.config), one.step_time_s, notes);
}

// One size: one plan per framework.
ForecastAnswer OneSize(const ForecastRequest& request,
                       const std::vector<Job>& jobs) {
  std::vector<FrameworkAnswer> answers;
  for (const Job& job : jobs) {
    answers.push_back(MakeAnswer(request, job, jobs.size() > 1));
  }
  const bool complete = request.write.path.empty() ||
                        std::ranges::any_of(answers, &FrameworkAnswer::wrote);
  if (answers.size() == 1 && !answers.front().problem.empty()) {
    throw InputError(std::string(common::Trim(answers.front().problem)));
  }
  WritePage(request, answers, jobs);
  const std::string of_trace = WriteTrace(request, answers);
  if (request.format == OutputFormat::kJson) {
    common::Json json = common::Json::array();
    for (const FrameworkAnswer& answer : answers) {
      json.push_back(ToJson(answer, request));
    }
    return {common::ToText(json, 2) + "\n", complete};
  }
  std::string text = ForecastCsvHeader();
  if (request.format == OutputFormat::kText) {
    const std::string& note = jobs.front().workload.model.note;
    text = plots::WrapLines(
        JobText(jobs.front()) + (note.empty() ? "" : "note: " + note + "\n"),
        request.columns);
  }
  for (const FrameworkAnswer& answer : answers) {
    text += ToText(answer, request);
  }
  if (request.format == OutputFormat::kText && !request.details &&
      !std::ranges::all_of(answers, [](const FrameworkAnswer& made) {
        return made.answer || !made.problem.empty();
      })) {
    text += plots::WrapLines(
        "\nmore: --details (shares of the step, memory, neighbors, releases, "
        "what was excluded), --why CONFIG (one layout)\n",
        request.columns);
  }
  if (request.format == OutputFormat::kText) {
    text += plots::WrapLines(of_trace, request.columns);
  }
  return {text, complete};
}

struct Given {
  std::string_view option;
  bool is_given;
};

std::vector<std::string_view> NamesOf(const std::vector<Given>& options) {
  std::vector<std::string_view> names;
  for (const Given& one : options) {
    if (one.is_given) {
      names.push_back(one.option);
    }
  }
  return names;
}

// Errors: throws InputError for more than one of them.
std::string_view QuestionOf(const ForecastRequest& request) {
  const auto asked = NamesOf({
      {"--tokens", request.training_assumptions.tokens > 0.0},
      {"--trainjob", !request.train_job.empty()},
      {"--compare", !request.compare.empty()},
      {"--why", request.why.has_value()},
      {"--log", !request.logs.empty()},
      {"--check", !request.check.empty()},
  });
  if (asked.size() > 1) {
    throw InputError(fmt::format("{} are several questions: ask one at a time",
                                 fmt::join(asked, " and ")));
  }
  return asked.empty() ? "" : asked.front();
}

// Of the options that only a table of trainings reads.
std::vector<std::string_view> TrainingOptionsOf(
    const TrainingAssumptions& training) {
  const TrainingAssumptions usual;
  return NamesOf({
      {"--co2", training.grams_co2_per_kwh != usual.grams_co2_per_kwh},
      {"--failures",
       training.failures_per_gpu_day != usual.failures_per_gpu_day},
      {"--restart-minutes", training.restart_minutes != usual.restart_minutes},
      {"--storage",
       training.storage_gb_per_s_per_node != usual.storage_gb_per_s_per_node},
  });
}

// The options that would not count beside a question.
std::vector<std::string_view> NotDone(const ForecastRequest& request,
                                      std::string_view question) {
  const bool buys = question == "--tokens";
  const bool compares = question == "--compare" || question == "--trainjob";
  const bool explains =
      question == "--why" || question == "--log" || question == "--check";
  const bool several = buys || compares;
  return NamesOf({
      {"--write", (several || explains) && !request.write.path.empty()},
      {"--trace", (several || (explains && question != "--log")) &&
                      !request.trace.empty()},
      {"--html", compares && !request.html.empty()},
      {"--most-money", several && request.most_money > 0.0},
      {"--steps", several && request.steps > 0.0},
      {"--config", several && !request.config.empty()},
      {"--csv", compares && request.format == OutputFormat::kCsv},
  });
}

struct Problem {
  bool holds;
  std::string message;
};

// Errors: throws InputError with the message of the first that holds.
void Refuse(const std::vector<Problem>& problems) {
  const auto found = std::ranges::find_if(problems, &Problem::holds);
  if (found != problems.end()) {
    throw InputError(found->message);
  }
}

// Of --compare: no framework, GPU or cluster.
bool IsLayout(const std::string& word) {
  return word.empty() || word.find('=') != std::string::npos;
}

bool IsCalibrated(const ForecastRequest& request) {
  return !request.calibrate.empty() || !request.calibration.empty();
}

// Errors: throws InputError for options of which one would not count.
void CheckQuestions(const ForecastRequest& request) {
  const std::string_view question = QuestionOf(request);
  const bool buys = question == "--tokens";
  const auto not_done = NotDone(request, question);
  const auto alone = TrainingOptionsOf(request.training_assumptions);
  const bool kinds = request.machine.gpu.find(',') != std::string::npos;
  Refuse({
      {!not_done.empty(), fmt::format("{} cannot be combined with {}",
                                      fmt::join(not_done, ", "), question)},
      {!request.config.empty() && !request.write.path.empty(),
       "--write writes the fastest layout, not that of --config: pin it with "
       "--rule, as in --rule '$tp != 4'"},
      {buys && IsCalibrated(request) &&
           (kinds || request.frameworks.size() != 1),
       "--tokens with a calibration needs one --gpu and one --framework: those "
       "of the measured steps"},
      {IsCalibrated(request) && !std::ranges::all_of(request.compare, IsLayout),
       "--compare with a calibration compares layouts: a calibration is of "
       "one framework and one kind of GPU"},
      {!buys && !alone.empty(), fmt::format("{} can only be used with --tokens",
                                            fmt::join(alone, ", "))},
      {!request.step_time.empty() && question != "--log",
       "--step-time says where --log has the time of a step"},
      {request.accept_foreign && !IsCalibrated(request),
       "--accept-foreign belongs to --calibrate or --calibration"},
  });
}

// Errors: throws InputError for options that do not go together.
void CheckFolder(const LaunchFolder& write) {
  if (write.path.empty() && (write.slurm || write.k8s || write.force)) {
    throw InputError("--slurm, --k8s and --force belong to --write DIR");
  }
  if (write.slurm && write.k8s) {
    throw InputError("--slurm and --k8s exclude each other");
  }
  if (!write.k8s && !write.queue.empty()) {
    throw InputError("--queue is the queue of --k8s");
  }
}

void CheckOptions(const ForecastRequest& request, const Inputs& inputs) {
  const bool one = inputs.frameworks.size() == 1 && inputs.sizes.size() == 1;
  const bool limited = request.most_money > 0.0;
  const bool priced = request.valuation.price_per_gpu_hour > 0.0;
  const bool calibrates = !request.calibrate.empty();
  Refuse({
      {calibrates && inputs.frameworks.size() > 1,
       "--calibrate needs one --framework: that of the measured steps"},
      {request.why && request.why->empty(),
       "--why: it is empty; give values, such as dp=8,tp=2, or a layout as "
       "printed"},
      {limited != (request.steps > 0.0) || (limited && !priced),
       "--most-money, --steps and --price belong together: the limit, the "
       "steps of the training, and the price of a GPU hour"},
      {calibrates && !request.calibration.empty(),
       "--calibration and --calibrate exclude each other: a saved calibration "
       "or measured trials"},
      {!request.save_calibration.empty() && !(calibrates && one),
       fmt::format("--save-calibration {}: it needs --calibrate RESULTS, one "
                   "--framework and one size of the machine",
                   request.save_calibration.string())},
      {!request.logs.empty() && !one,
       "--log needs one --framework and one size of the machine: those of the "
       "run"},
      {request.logs.empty() && !request.config.empty() &&
           !(one && !request.trace.empty()),
       "--config is the configuration of a run: give its --log, or --trace "
       "with one --framework"},
  });
  CheckFolder(request.write);
}

// Errors: throws InputError for an option that needs one size.
void CheckSeveralSizes(const ForecastRequest& request) {
  const std::string option = request.why                            ? "--why"
                             : !request.check.empty()               ? "--check"
                             : !request.html.empty()                ? "--html"
                             : !request.trace.empty()               ? "--trace"
                             : !request.write.path.empty()          ? "--write"
                             : request.format == OutputFormat::kCsv ? "--csv"
                                                                    : "";
  if (!option.empty()) {
    throw InputError(fmt::format(
        "{} needs one size of the machine, not {}{}", option, request.gpus,
        request.steps > 0 ? " with --most-money" : ""));
  }
}

// Several sizes: the best layout of each; with a limit, one size, too.
std::string SeveralSizes(const ForecastRequest& request, const Inputs& inputs) {
  CheckSeveralSizes(request);
  Scaling scaling;
  std::vector<Training> trainings;
  std::string header;
  for (const std::string& framework : inputs.frameworks) {
    auto& [name, points] =
        scaling.frameworks.emplace_back(framework, std::vector<ScalePoint>());
    double first = 0.0;
    for (const MachineSize& size : inputs.sizes) {
      Job job = JobOf(request, inputs, size, framework);
      if (header.empty()) {
        header = JobText(job);
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
  }
  if (request.most_money > 0.0) {
    scaling.within = FastestWithin(request, trainings);
  }
  return request.format == OutputFormat::kJson
             ? common::ToText(ToJson(scaling, request), 2) + "\n"
             : header + ToText(scaling, request);
}

// What a word of --compare names.
ComparedSide SideOf(const ForecastRequest& request, const std::string& word) {
  ForecastRequest changed = request;
  std::string layout;
  if (IsLayout(word)) {
    layout = word;
  } else if (common::Contains(trials::DataFileNames("frameworks"), word) ||
             common::Contains(trials::Adapter::Names(),
                              trials::WithoutRelease(word))) {
    changed.frameworks = {word};
  } else if (word.ends_with(".toml") ||
             common::Contains(trials::DataFileNames("clusters"), word)) {
    changed.machine.gpu.clear();
    changed.machine.cluster = word;
  } else {
    changed.machine.gpu = word;
    changed.machine.cluster.clear();
    try {
      (void)FindMachine(changed.machine);
    } catch (const InputError& e) {
      throw InputError(fmt::format(
          "--compare {}: no layout (dp=8,tp=2), framework, cluster or GPU: {}",
          word, e.what()));
    }
  }
  const Inputs inputs = ReadInputs(changed);
  std::optional<ComparedSide> fastest;  // of the frameworks
  std::exception_ptr refused;
  for (const std::string& framework : inputs.frameworks) {
    try {
      const Job job = JobOf(changed, inputs, inputs.sizes.front(), framework);
      ComparedSide side =
          SideOf(Forecaster(job, ForecastOptionsOf(changed, job)), layout);
      const auto rank = [](const ComparedSide& of) {
        return std::pair(!of.Fits(), of.one.step_time_s);
      };
      if (!fastest || rank(side) < rank(*fastest)) {
        fastest = std::move(side);
      }
    } catch (const InputError&) {
      refused = refused ? refused : std::current_exception();
    }
  }
  if (!fastest) {
    std::rethrow_exception(refused);
  }
  return *std::move(fastest);
}

ForecastAnswer Compared(const ForecastRequest& request, const Inputs& inputs) {
  const auto& words = request.compare;
  if (words.size() > 2 || inputs.sizes.size() > 1 ||
      !request.write.path.empty()) {
    throw InputError(
        "--compare takes one or two layouts, frameworks, kinds of GPUs or "
        "clusters, on one size of the machine and without --write");
  }
  const ComparedSide first = SideOf(request, words.size() > 1 ? words[0] : "");
  const ComparedSide second = SideOf(request, words.back());
  return {request.format == OutputFormat::kJson
              ? common::ToText(ComparisonJson(first, second), 2) + "\n"
              : ComparisonText(first, second, request.columns)};
}

// Errors: throws InputError for a price that is no number > 0, is given twice,
// or is of a kind of GPU that --gpu does not name.
void ReadPrices(ForecastRequest& request) {
  TrainingAssumptions& training = request.training_assumptions;
  const auto kinds = common::Split(request.machine.gpu, ',');
  for (const std::string_view each : common::Split(request.price, ',')) {
    const std::size_t equals = each.find('=');
    const bool named = equals != std::string_view::npos;
    const std::string name(named ? each.substr(0, equals) : "");
    if (each.empty()) {
      continue;
    }
    double price = 0.0;
    try {
      price = common::ParseDouble(named ? each.substr(equals + 1) : each);
    } catch (const std::invalid_argument&) {
    }
    if (!(price > 0.0 && std::isfinite(price)) ||
        !training.prices.emplace(name, price).second) {
      throw InputError(fmt::format(
          "--price {}: give the price of a GPU hour (2.5), or that of each "
          "--gpu (h100=2.5,b200=4)",
          request.price));
    }
    if (named && !common::Contains(kinds, std::string_view(name))) {
      throw InputError(fmt::format("--price {}: '{}' is none of --gpu {}",
                                   request.price, name, request.machine.gpu));
    }
  }
  if (const double price = training.PriceOf(request.machine.gpu); price > 0.0) {
    request.valuation.price_per_gpu_hour = price;
  }
}

Offer OfferOf(const ForecastRequest& request, const std::string& kind,
              const Job& job, const MachineSize& size) {
  constexpr double kBytesPerParameter = 14.0;  // weights, AdamW's in fp32
  Offer offer{
      .kind = kind,
      .framework = job.framework.name,
      .size = size,
      .is_guess = !GuessesOf(job).empty() || job.cluster.gpu.validated.empty(),
      .power_w = job.cluster.gpu.board_power_w,
      .checkpoint_bytes =
          kBytesPerParameter *
          static_cast<double>(ParameterCount(job.workload.model))};
  const ScalePoint point = Scale(request, job, size);
  offer.problem = point.problem;
  offer.best = point.best;
  if (point.best) {
    offer.band =
        StepBand(Forecaster(job, ForecastOptionsOf(request, job)), *point.best);
    if (size.nodes > 1) {
      Job halved = job;
      halved.cluster.inter.bandwidth_bytes_per_s /= 2.0;
      offer.half_network =
          Forecaster(halved, ForecastOptionsOf(request, halved))
              .Predict(point.best->config)
              .step_time_s /
          point.best->step_time_s;
    }
  }
  return offer;
}

// With each kind of GPU and number, the fastest of the frameworks.
std::vector<Offer> OffersOf(const ForecastRequest& request, std::string& job) {
  std::vector<Offer> offers;
  for (const std::string_view kind : common::Split(request.machine.gpu, ',')) {
    ForecastRequest one = request;
    one.machine.gpu = kind;
    const Inputs inputs = ReadInputs(one);
    for (const MachineSize& size : inputs.sizes) {
      std::optional<Offer> best;
      for (const std::string& framework : inputs.frameworks) {
        const Job of_framework = JobOf(one, inputs, size, framework);
        const std::string header = JobText(of_framework);
        job = job.empty() ? header.substr(0, header.find('\n') + 1) : job;
        Offer offer = OfferOf(one, std::string(kind), of_framework, size);
        if (!best || (offer.best &&
                      (!best->best || offer.best->tokens_per_s_per_gpu >
                                          best->best->tokens_per_s_per_gpu))) {
          best = std::move(offer);
        }
      }
      offers.push_back(*std::move(best));
    }
  }
  return offers;
}

ForecastAnswer Purchase(const ForecastRequest& request) {
  const TrainingAssumptions& assumptions = request.training_assumptions;
  std::string job;
  std::vector<Offer> offers = OffersOf(request, job);
  Complete(assumptions, offers);
  std::string written;
  if (!request.html.empty()) {
    common::ReplaceFile(request.html, OfferPage(assumptions, offers, job));
    written = fmt::format("wrote {}\n", request.html.string());
  }
  const plots::Table table = OfferTable(assumptions, offers);
  if (request.format == OutputFormat::kCsv) {
    return {plots::ToCsv(table)};
  }
  if (request.format == OutputFormat::kJson) {
    return {common::ToText(OfferJson(table), 2) + "\n"};
  }
  return {plots::WrapLines(job, request.columns) +
          OfferText(assumptions, offers, request.columns) + written};
}

}  // namespace

ForecastOptions ForecastOptionsOf(const ForecastRequest& request,
                                  const Job& job) {
  constexpr double kPercent = 100.0;
  if (!(request.headroom_percent < kPercent)) {
    throw InputError(fmt::format("--headroom {}: must be a percentage < 100",
                                 request.headroom_percent));
  }
  ForecastOptions options{request.headroom_percent / kPercent, {}};
  std::string source;
  if (!request.calibrate.empty()) {
    source = "--calibrate " + request.calibrate.string();
    options.calibration =
        Calibrate(job, ReadMeasuredSteps(request.calibrate, job));
    source +=
        fmt::format(" ({} step times and {} rows out of memory)",
                    options.calibration.step_times, options.calibration.bounds);
  } else if (!request.calibration.empty()) {
    source = "--calibration " + request.calibration.string();
    options.calibration = harness::ReadCalibration(
        request.calibration,
        harness::CalibratedJob::Of(job.workload, job.cluster,
                                   job.framework.name));
  }
  if (!source.empty() && !request.accept_foreign) {
    harness::RefuseForeign(options.calibration.Slowdown(), GuessesOf(job),
                           source);
  }
  return options;
}

std::vector<Job> JobsOf(const ForecastRequest& request) {
  const Inputs inputs = ReadInputs(request);
  CheckOptions(request, inputs);
  return common::Map(inputs.sizes, [&](const MachineSize& size) {
    return JobOf(request, inputs, size, inputs.frameworks.front());
  });
}

ForecastAnswer RunPlan(const ForecastRequest& asked) {
  ForecastRequest request = asked;
  CheckQuestions(request);
  ReadPrices(request);
  if (request.training_assumptions.tokens > 0.0) {
    return Purchase(request);
  }
  if (!request.train_job.empty()) {
    const bool piped = request.train_job == "-";
    return {RecommendTrainJob(
        request, piped ? std::string(std::istreambuf_iterator(std::cin), {})
                       : common::ReadFile(request.train_job))};
  }
  const Inputs inputs = ReadInputs(request);
  CheckOptions(request, inputs);
  if (!request.compare.empty()) {
    return Compared(request, inputs);
  }
  if (inputs.sizes.size() > 1 || request.most_money > 0.0) {
    return {SeveralSizes(request, inputs)};
  }
  return OneSize(request, JobsOf(request, inputs));
}

}  // namespace jobs
