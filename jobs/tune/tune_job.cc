#include "jobs/tune/tune_job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "harness/local_pool.h"
#include "harness/spec.h"
#include "harness/stop.h"
#include "harness/testbeds/program.h"
#include "plots/experiment_records.h"
#include "plots/table.h"
#include "trials/knobs.h"
#include "trials/trial.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using trials::Outcome;

constexpr const char* kResults = "oppa-results";
constexpr double kJoulePerKwh = 3.6e6;
constexpr const char* kRow = "{:>7}  {:>13}  {:>8}  {:>6}  ";

bool Ran(Outcome outcome) {
  return outcome == Outcome::kCompleted || outcome == Outcome::kTerminatedEarly;
}

// What follows a configuration: ", 3.10 GB", ", slower than the best at step
// 5".
std::string Notes(const trials::Measurement& measured) {
  std::string text;
  if (measured.peak_memory_bytes) {
    text +=
        fmt::format(", {:.2f} GB", *measured.peak_memory_bytes / common::kGiga);
  }
  if (measured.outcome == Outcome::kTerminatedEarly) {
    text += fmt::format(", slower than the best at step {}",
                        measured.step_times_s.size());
  }
  if (measured.outcome == Outcome::kCompleted && !measured.message.empty()) {
    text += ", " + measured.message;
  }
  return text;
}

}  // namespace

harness::Experiment ReadSearch(const fs::path& path,
                               const harness::ManifestOverrides& overrides,
                               bool clients, const fs::path& results) {
  harness::Manifest manifest = harness::ReadManifest(path, overrides);
  const harness::ProblemSpec& problem = manifest.problems.front();
  if (manifest.problems.size() != 1 || manifest.methods.size() != 1 ||
      manifest.repeats != 1 || manifest.simulated ||
      (!clients && problem.backend.GetString("type", "") == "client")) {
    throw InputError(fmt::format(
        "{}: `oppa {}` takes one search with a training program (one problem, "
        "one method, repeats = 1, type = \"command\"{}); `oppa run` takes all "
        "others",
        path.string(), clients ? "serve" : "tune",
        clients ? " or \"client\"" : ""));
  }
  const fs::path folder = results.empty() ? TuneFolder(path, manifest.name)
                                          : results / manifest.name;
  return {std::move(manifest), folder};
}

TuneJob::TuneJob(const fs::path& manifest, MakeTrialJobs trial_jobs,
                 Reporter reporter)
    : experiment_(ReadSearch(manifest)),
      run_(experiment_.runs.front()),
      run_folder_(run_.Folder(experiment_.folder)),
      testbed_(experiment_.testbeds.Of(*run_.problem)),
      trial_jobs_(std::move(trial_jobs)),
      reporter_(std::move(reporter)) {
  tokens_ = static_cast<double>(
      batch_size() * run_.problem->workload.RequireInt("sequence_length"));
}

int TuneJob::batch_size() const {
  return static_cast<int>(run_.problem->workload.RequireInt("batch_size"));
}

std::vector<trials::Trial> TuneJob::Recorded() const {
  std::error_code error;
  if (!fs::exists(run_folder_ / "trials.csv", error)) {
    return {};
  }
  std::vector<trials::Trial> trials = trials::ReadTrials(run_folder_);
  for (trials::Trial& trial : trials) {
    trial = TrialIn(*testbed_.space, trial).value_or(trial);
  }
  return trials;
}

std::optional<trials::ParallelConfig> TuneJob::Present() const {
  if (experiment_.manifest.starts.configs.empty()) {
    return std::nullopt;
  }
  return trials::Complete(experiment_.manifest.starts.configs.front(),
                          *testbed_.space)
      .config;
}

std::string TuneJob::Nodes() const {
  const std::string nodes =
      trial_jobs_ ? "a job of Slurm for each" : testbed_.program->Nodes();
  return nodes.empty() ? "" : fmt::format("trials run with {}\n", nodes);
}

std::unique_ptr<trials::TrialRunner> TuneJob::RemoteRunner() const {
  return trial_jobs_ ? trial_jobs_(*this, std::nullopt) : nullptr;
}

bool TuneJob::interrupted() const {
  return interrupted_ || harness::StopSignal() != 0;
}

trials::ParallelConfig TuneJob::First() const {
  const std::string text = fmt::format("dp={}", testbed_.machine.gpus());
  return Present().value_or(trials::Complete(text, *testbed_.space).config);
}

trials::Measurement TuneJob::Measure(
    const std::optional<trials::ParallelConfig>& config, int steps,
    const std::string& what, int round, double limit_s) {
  trials::TrialRequest request = RequestOf(config.value_or(First()));
  request.time_limit_s = limit_s;
  request.max_steps = steps;
  request.interrupted = [] { return harness::StopSignal() != 0; };
  harness::ProgramJob& program = *testbed_.program;
  program.KeepLogs(experiment_.folder / harness::kChecksFolder);
  program.RunAsGiven(!config && program.RunsAsGiven());
  struct Restore {
    harness::ProgramJob& program;
    ~Restore() { program.RunAsGiven(false); }
  } restore{program};
  request = WithStatus(std::move(request), what);
  try {
    trials::Measurement measured =
        trial_jobs_ ? trial_jobs_(*this, harness::TrialCheck{!config, round})
                          ->Run(request)
                    : testbed_.runner->Run(request);
    EndStatus();
    return measured;
  } catch (const trials::TrialInterrupted& e) {
    interrupted_ = true;
    Print("{}\n", e.what());
    throw;
  }
}

trials::TrialRequest TuneJob::RequestOf(
    const trials::ParallelConfig& config) const {
  trials::TrialRequest request;
  request.candidate = config;
  request.max_steps = experiment_.manifest.budget.q_max;
  request.seed = experiment_.manifest.seed;
  return request;
}

common::Json TuneJob::CostOf(double step_s) const {
  common::Json cost = common::Json::object();
  const double steps = common::kGiga / tokens_;  // of a billion tokens
  const int gpus = testbed_.machine.gpus();
  if (const double usd = testbed_.valuation.CostOf(step_s, gpus); usd > 0.0) {
    cost["usd_per_step"] = usd;
    cost["usd_per_billion_tokens"] = steps * usd;
  }
  if (const double power_w = testbed_.gpu_power_w; power_w > 0.0) {
    const double joule = step_s * gpus * power_w;
    cost["joule_per_step"] = joule;
    cost["kwh_per_billion_tokens"] = steps * joule / kJoulePerKwh;
  }
  return cost;
}

std::string TuneJob::SpeedText(double step_s) const {
  std::string text = fmt::format("{:.4g} s a step, {} tokens/s", step_s,
                                 common::Thousands(tokens_ / step_s));
  const common::Json cost = CostOf(step_s);
  for (const auto& [unit, step, unit_of_tokens, tokens] :
       {std::array{"USD", "usd_per_step", "USD", "usd_per_billion_tokens"},
        std::array{"J", "joule_per_step", "kWh", "kwh_per_billion_tokens"}}) {
    if (cost.contains(step)) {
      text += fmt::format(", {:.3g} {} a step, {} {} per billion tokens",
                          cost[step].get<double>(), unit,
                          common::Thousands(cost[tokens].get<double>()),
                          unit_of_tokens);
    }
  }
  return text;
}

std::string TuneJob::Text(const trials::ParallelConfig& config) const {
  return trials::ToString(config, testbed_.space->knobs());
}

std::string TuneJob::Describe(const trials::Measurement& measurement) const {
  const auto throughput = trials::EstimateThroughput(measurement.step_times_s);
  return Ran(measurement.outcome)
             ? SpeedText(1.0 / throughput.steps_per_s) + Notes(measurement)
             : plots::OutcomeWords(measurement.outcome) + ": " +
                   measurement.message;
}

std::string TuneJob::Changes(const trials::ParallelConfig& config) const {
  std::string text;
  const trials::ParallelConfig first = First();
  const bool is_first = config == first;
  for (const trials::Knob& knob : testbed_.space->knobs()) {
    const int value = knob.Get(config);
    if (is_first ? knob.required || value != knob.Default()
                 : value != knob.Get(first)) {
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", knob.name,
                          knob.Text(value));
    }
  }
  return (is_first && Present() ? "yours: " : "") + text;
}

std::string TuneJob::Wrapped(std::string_view text, std::size_t hang) const {
  return plots::WrapLines(text, reporter_.columns, hang);
}

void TuneJob::PrintHead() const {
  Print("{}changed from {}\n",
        fmt::format(kRow, "trial", "step time", "speed-up", "min:s"),
        Present() ? "yours" : Text(First()));
}

void TuneJob::PrintRow(const std::string& name,
                       const trials::Measurement& measured, double step_s,
                       double speed_up, const std::string& what,
                       bool is_best) const {
  const bool ran = Ran(measured.outcome);
  const auto seconds = static_cast<int>(std::lround(measured.duration_s));
  const std::string columns = fmt::format(
      kRow, name,
      ran ? fmt::format("{:#.4g} s", step_s)
          : plots::OutcomeWords(measured.outcome),
      ran && std::isfinite(speed_up) ? fmt::format("{:.2f}x", speed_up) : "",
      fmt::format("{}:{:02}", seconds / 60, seconds % 60));
  std::string text =
      Wrapped(columns + what + Notes(measured) + (is_best ? "  <- best" : ""),
              columns.size());
  if (!ran) {
    text += reporter_.columns == 0
                ? ": " + measured.message
                : "\n" + Wrapped(std::string(9, ' ') + measured.message);
  }
  const Tone tone = is_best                                   ? Tone::kGood
                    : !ran                                    ? Tone::kBad
                    : measured.outcome == Outcome::kCompleted ? Tone::kPlain
                                                              : Tone::kFaint;
  reporter_.print(text + "\n", tone);
}

fs::path TuneJob::LogOf(const trials::ParallelConfig& config) const {
  return harness::NewestLog(experiment_.folder / harness::kChecksFolder,
                            Text(config));
}

trials::TrialRequest TuneJob::WithStatus(trials::TrialRequest request,
                                         const std::string& what,
                                         Share share) const {
  reporter_.status(what + "; starts", share.before);
  request.on_step = [this, what, share, steps = request.max_steps, step = 0,
                     inner =
                         std::move(request.on_step)](double time_s) mutable {
    ++step;
    reporter_.status(fmt::format("{}; step {}/{}", what, step, steps),
                     share.before + share.own * step / steps);
    return !inner || inner(time_s);
  };
  return request;
}

std::string Count(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

fs::path TuneFolder(const fs::path& manifest, const std::string& name) {
  const fs::path beside =
      fs::absolute(manifest).lexically_normal().parent_path();
  return beside.filename() == kResults ? beside / name
                                       : beside / kResults / name;
}

}  // namespace jobs
