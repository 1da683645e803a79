#include "jobs/tune/tune.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "harness/local_pool.h"
#include "harness/records/inputs.h"
#include "harness/records/lease.h"
#include "harness/run_one.h"
#include "harness/slurm/run_task.h"
#include "harness/stop.h"
#include "harness/testbeds/program.h"
#include "jobs/tune/finals.h"
#include "jobs/tune/profile.h"
#include "jobs/tune/run_spread.h"
#include "plots/experiment_records.h"
#include "trials/programs/error_line.h"
#include "trials/record.h"
#include "trials/trial_runner.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using trials::Outcome;

constexpr int kPreflightSteps = 2;
constexpr std::size_t kLogLines = 15;
constexpr int kAlike = 3;

// The lines of a log that end with the error.
std::string ErrorLines(const fs::path& log) {
  const std::string content = common::ReadFileIfExists(log).value_or("");
  const std::vector<std::string_view> lines = common::Split(content, '\n');
  trials::ErrorLine error;
  for (const std::string_view line : lines) {
    error.Read(line);
  }
  const std::size_t end = error.lines();
  std::string text = fmt::format("  lines of {}:\n", log.string());
  for (std::size_t i = end - std::min(end, kLogLines); i < end; ++i) {
    text += fmt::format("    {}\n", lines[i]);
  }
  return end == 0 ? "" : text;
}

// Reports each trial when it ends. `local` and `job` must outlive it.
class TuneRunner final : public trials::TrialRunner {
 public:
  TuneRunner(trials::TrialRunner& local, const TuneJob& job)
      : remote_(job.RemoteRunner()),
        inner_(remote_ == nullptr ? local : *remote_),
        job_(job) {
    for (const trials::Trial& trial : job.Recorded()) {
      ++trials_;
      any_ran_ = any_ran_ || trial.steps > 0;
      elapsed_s_ = trial.elapsed_s;
      (void)Take(trial.measurement.outcome, trial.throughput.steps_per_s);
    }
    if (trials_ > 0) {
      job.Print("resumed after trial {}\n", trials_);
    }
    job.PrintHead();
  }

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override {
    std::unique_lock lock(mutex_);
    ++trials_;
    const std::string name = Of(trials_, job_.manifest().budget.trials);
    const std::string title = Title(name, request.remaining);
    const Share share = ShareOfTrial();
    const double start_s = elapsed_s_;
    lock.unlock();
    trials::Measurement measurement =
        inner_.Run(job_.WithStatus(request, title, share));
    lock.lock();
    job_.EndStatus();
    elapsed_s_ = std::max(elapsed_s_, start_s + measurement.duration_s);
    const std::vector<double>& times = measurement.step_times_s;
    const bool none_before = std::isnan(first_);
    const bool best = Take(measurement.outcome,
                           trials::EstimateThroughput(times).steps_per_s);
    if (none_before && !std::isnan(first_)) {
      first_times_s_ = times;
    }
    job_.PrintRow(name, measurement, 1.0 / rate_, rate_ / FirstAt(times.size()),
                  job_.Changes(request.candidate.config()), best);
    const bool broken = measurement.outcome == Outcome::kFailed &&
                        measurement.step_times_s.empty();
    any_ran_ = any_ran_ || !broken;
    alike_ = !broken ? 0 : measurement.message == message_ ? alike_ + 1 : 1;
    message_ = measurement.message;
    return measurement;
  }
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& candidate) const override {
    return inner_.ExactThroughput(candidate);
  }

  // Whether the search should stop: the first trials failed with the same
  // message before their first step.
  [[nodiscard]] bool broken() const {
    const std::lock_guard lock(mutex_);
    return !any_ran_ && alike_ >= kAlike;
  }
  // Of the search so far.
  [[nodiscard]] int trials() const {
    const std::lock_guard lock(mutex_);
    return trials_;
  }

 private:
  // "3/20"; "3" without a limit.
  static std::string Of(double done, double most) {
    return most > 0.0 && std::isfinite(most)
               ? fmt::format("{:.3g}/{:.3g}", done, most)
               : fmt::format("{:.3g}", done);
  }

  // "trial 3/20, 2.1/20 min, expected gain 4%: stops at 1%": the time at its
  // start, and what keeps the search from its end.
  [[nodiscard]] std::string Title(
      const std::string& name,
      const std::optional<trials::Remaining>& remaining) const {
    const harness::Budget& budget = job_.manifest().budget;
    const auto unmet = remaining && budget.stop_when
                           ? budget.stop_when->FirstUnmet(*remaining)
                           : std::nullopt;
    return fmt::format(
        "trial {}, {} min{}", name,
        Of(std::round(elapsed_s_ / 6.0) / 10.0,
           budget.time_s / common::kSecondsPerMinute),
        !unmet ? ""
               : fmt::format(", {}: stops at {:.3g}%",
                             unmet->quantity == "gain"
                                 ? plots::ExpectedGainText(*remaining)
                                 : fmt::format("{} {:.2g}%", unmet->quantity,
                                               unmet->percent),
                             unmet->bound_percent));
  }

  // Of the trials or of the time, whichever ends first.
  [[nodiscard]] Share ShareOfTrial() const {
    const harness::Budget& budget = job_.manifest().budget;
    const double own = budget.trials > 0 ? 1.0 / budget.trials : 0.0;
    return {std::max(own * (trials_ - 1), elapsed_s_ / budget.time_s), own};
  }

  // Returns whether it is the best so far.
  bool Take(Outcome outcome, double steps_per_s) {
    rate_ = steps_per_s;
    const bool best = outcome == Outcome::kCompleted && !(rate_ <= best_);
    best_ = best ? rate_ : best_;
    first_ = std::isnan(first_) ? best_ : first_;
    return best;
  }

  // The steps per second of the first completed trial, of a shorter one after
  // as many steps where they are known.
  [[nodiscard]] double FirstAt(std::size_t steps) const {
    std::vector<double> times = first_times_s_;
    times.resize(std::min(times.size(), steps));
    const double rate = trials::EstimateThroughput(times).steps_per_s;
    return std::isnan(rate) ? first_ : rate;
  }

  std::unique_ptr<trials::TrialRunner> remote_;  // may be null
  trials::TrialRunner& inner_;
  const TuneJob& job_;
  mutable std::mutex mutex_;  // of what follows: several trials may run
  int trials_ = 0;
  double elapsed_s_ = 0.0;
  bool any_ran_ = false;
  int alike_ = 0;
  // Steps per second of the last, the best and the first completed trial.
  double rate_ = trials::kUnknown;
  double best_ = trials::kUnknown;
  double first_ = trials::kUnknown;
  std::vector<double> first_times_s_;  // of this session
  std::string message_;
};

class Tuning {
 public:
  explicit Tuning(const TuneOptions& options)
      : options_(options),
        job_(options.manifest, options.trial_jobs, options.reporter) {
    if (!options.profile.empty()) {
      profile_.emplace(options.profile, job_);
    }
  }

  int Run() {
    const harness::Testbed& testbed = job_.testbed();
    harness::CheckManifest(job_.experiment());
    harness::CatchStopSignals();
    harness::PrepareRecords(job_.experiment(), options_.accept_changed);
    // Two programs at once would slow each other down.
    const harness::Lease lease(job_.folder());
    job_.Print("{}\nmanifest: {}\n{}; results: {}\n", testbed.description,
               options_.manifest.string(),
               Count(testbed.space->size(), "configuration"),
               job_.folder().string());
    if (testbed.space->size() == 1) {
      throw common::InputError(fmt::format(
          "{}: nothing can vary: the space has one configuration, {}; list "
          "more values in [space], or give --vary",
          options_.manifest.string(), job_.Text((*testbed.space)[0])));
    }
    if (profile_) {
      job_.Print("{}", profile_->Text());
    }
    if (!harness::IsFinished(job_.run_folder())) {
      job_.Print("{}", job_.Nodes());
    }
    if (job_.Recorded().empty() && !Preflight()) {
      return job_.interrupted() ? Stopped() : 1;
    }
    harness::WriteExperiment(job_.experiment());
    if (const auto sources =
            trials::ReadProblemInfo(job_.folder()).predictions) {
      job_.Print("predicted by: {}\n", fmt::join(*sources, "; "));
    }
    if (const int code = Search(); code != 0) {
      return code;
    }
    if (const auto likely = trials::LikelyAssumptionOf(
            trials::ReadRows<trials::FitRecord>(job_.run_folder(), true)
                .records)) {
      job_.Print(
          "not as predicted: the trials look like {} (probability {:.2f}); "
          "{}\n",
          likely->assumption, likely->probability,
          likely->assumption.starts_with("links")
              ? "on GPUs, all_reduce_perf of nccl-tests measures these links"
          : likely->assumption.starts_with("attention")
              ? "is fused attention (FlashAttention) off, or does it not take "
                "the mask, the head size, the precision or the GPU?"
              : "is the model, the GPU or the framework another one than the "
                "predictions assume?");
    }
    const std::vector<Finalist> finalists =
        MeasureFinalists(job_, options_.finalists);
    if (job_.interrupted()) {
      return Stopped();
    }
    const bool ends_well = Conclude(finalists);
    job_.Print("{}", WritePage());
    return ends_well ? 0 : 1;
  }

 private:
  // Returns a line about the page. A search that is paid for does not end
  // because of its page.
  std::string WritePage() const {
    if (!options_.write_page) {
      return "";
    }
    try {
      return fmt::format("Result page: {}\n",
                         options_.write_page(job_.folder()).string());
    } catch (const std::exception& e) {
      return fmt::format("The result page could not be written: {}\n",
                         e.what());
    }
  }

  // Recommends a command line. Returns false if none of the finalists ran.
  bool Conclude(const std::vector<Finalist>& finalists) {
    const auto present = job_.Present();
    const std::optional<Verdict> verdict =
        Judge(finalists, present ? job_.Text(*present) : "");
    if (!verdict) {
      job_.Print("None of the best configurations ran again.\n");
      return false;
    }
    const BestJob best = BestOf(job_, *verdict);
    WriteBest(*verdict, best, job_);
    job_.PrintAsIs(ToText(*verdict, best, job_));
    PrintSpread();
    if (profile_) {
      job_.Print("{}", profile_->LimitText(best.config.value_or(job_.First())));
    }
    return true;
  }

  [[nodiscard]] int Stopped() const {
    job_.EndStatus();
    job_.Print("interrupted; rerun the same command to resume\n");
    return harness::StopSignal() != 0 ? 128 + harness::StopSignal()
                                      : harness::kStoppedEarly;
  }

  // Errors: throws InputError, before a trial is spent, for a file of the job
  // that cannot have the values of a configuration.
  void CheckFiles() const {
    constexpr std::size_t kTried = 16;
    const auto& configs = job_.testbed().space->configs();
    for (std::size_t i = 0; i < configs.size();
         i += configs.size() / kTried + 1) {
      (void)job_.testbed().program->Render(job_.RequestOf(configs[i]),
                                           job_.folder());
    }
  }

  // Runs a few steps; as many as a trial has where the program does not read
  // their number, and may end before.
  bool Preflight() {
    CheckFiles();
    const bool known = job_.testbed().program->RunsAsGiven() || job_.Present();
    const bool passes = PassesSteps();
    const int steps = passes ? kPreflightSteps : job_.manifest().budget.q_max;
    const std::string what = fmt::format(
        "preflight: {} for {} steps",
        known ? "your configuration" : job_.Text(job_.First()), steps);
    trials::Measurement measured;
    try {
      measured = job_.Measure(std::nullopt, steps, what);
    } catch (const trials::TrialInterrupted&) {
      return false;
    }
    job_.Print("{}: {}\n", what, job_.Describe(measured));
    if (measured.outcome == Outcome::kCompleted) {
      KeepPreflight(job_, measured);
    }
    if (measured.outcome == Outcome::kCompleted ||
        (!known && measured.outcome == Outcome::kOutOfMemory)) {
      PrintPlan();
      return true;
    }
    job_.Print("{} does not run, so no search starts. {}\n{}",
               known ? "Your present configuration" : "It",
               Remedy(measured, passes), ErrorLines(job_.LogOf(job_.First())));
    return false;
  }

  // Whether the program gets the number of steps of a trial.
  [[nodiscard]] bool PassesSteps() const {
    const trials::CommandOptions& options = job_.testbed().program->options();
    std::vector<std::string> texts = options.program;
    if (options.adapter != nullptr) {
      texts = common::NamesIn(options.adapter->settings(),
                              &trials::AdapterSetting::text);
    }
    return std::ranges::any_of(texts, [](const std::string& text) {
      return text.find("{max_steps}") != std::string::npos;
    });
  }

  static bool Exits(std::string_view message) {
    return message.starts_with("exit code 0 ");
  }

  static constexpr std::string_view kNoStepTime =
      "No step time was found in the output: give --step-time REGEX, a "
      "framework (--framework), or report steps (docs/external-trials.md).";

  [[nodiscard]] std::string Remedy(const trials::Measurement& measured,
                                   bool passes) const {
    if (Exits(measured.message) && measured.step_times_s.empty()) {
      const auto& patterns = job_.testbed().program->options().log;
      return fmt::format(
          "{}\n{}", kNoStepTime,
          trials::WhatWasTried(
              patterns ? *patterns : trials::LogPatterns(),
              common::ReadFileIfExists(job_.LogOf(job_.First())).value_or("")));
    }
    if (Exits(measured.message) && !passes) {
      return fmt::format(
          "It ended by itself: write {{max_steps}} where your command line has "
          "the number of steps, as in --steps {{max_steps}} (in an adapter: "
          "text = \"{{max_steps}}\", trial = true), or give --steps {}.",
          measured.step_times_s.size());
    }
    return "Correct the command line, or name another configuration as start.";
  }

  static std::string Minutes(double minutes) {
    const std::string number = fmt::format("{:.3g}", minutes);
    return number + (number == "1" ? " minute" : " minutes");
  }

  void PrintPlan() const {
    const harness::Budget& budget = job_.manifest().budget;
    const double minutes = budget.time_s / common::kSecondsPerMinute;
    job_.Print(
        "next: at most {} of {} steps{}, then at most {} that measure the best "
        "and yours again{}\n",
        Count(budget.trials, "trial"), budget.q_max,
        std::isfinite(minutes) ? " in " + Minutes(minutes) : "",
        Count(3U * (options_.finalists + 1U), "run"),
        std::isfinite(minutes)
            ? fmt::format("; {} in all", Minutes(minutes / kSearchShare))
            : "");
  }

  int Search() {
    TuneRunner* shown = nullptr;
    int on_page = 0;      // trials
    bool broken = false;  // the runner does not outlive the search
    std::mutex stopping;
    harness::RunConditions conditions;
    conditions.command = options_.command;
    conditions.run_variance = [this] { return SpreadOfPresent(job_).variance; };
    if (options_.trial_jobs) {
      conditions.make_clock = harness::MakeRealClock;
    }
    conditions.stop = [this, &shown, &on_page, &broken, &stopping] {
      const std::lock_guard lock(stopping);
      if (shown != nullptr && shown->trials() != on_page) {
        on_page = shown->trials();
        (void)WritePage();
      }
      broken = shown != nullptr && shown->broken();
      return harness::StopSignal() != 0 || broken;
    };
    conditions.make_remote_runner = [&] {
      auto runner = std::make_unique<TuneRunner>(*job_.testbed().runner, job_);
      shown = runner.get();
      return runner;
    };
    const bool done =
        harness::RunOne(job_.experiment(), job_.run(), conditions);
    if (!done && !broken) {
      return Stopped();
    }
    const std::vector<trials::Trial> trials = job_.Recorded();
    if (done && common::Contains(trials, Outcome::kCompleted, OutcomeOf)) {
      PrintEnd(static_cast<int>(trials.size()));
      return 0;
    }
    PrintFailure(trials, done);
    return 1;
  }

  static Outcome OutcomeOf(const trials::Trial& trial) {
    return trial.measurement.outcome;
  }

  // Why a search that is `done`, or has stopped, has no result.
  void PrintFailure(const std::vector<trials::Trial>& trials, bool done) const {
    const auto failed = std::ranges::find_if(
        trials,
        [](Outcome one) {
          return one != Outcome::kCompleted && one != Outcome::kTerminatedEarly;
        },
        OutcomeOf);
    job_.Print(
        "{}. The first failure was {}\n",
        done ? fmt::format("None of {} works",
                           Count(trials.size(), "configuration"))
             : "The first trials failed alike, and the search stops: "
               "correct the program or the command line and rerun the "
               "same command",
        failed == trials.end()
            ? "not recorded"
            : fmt::format("{} ({}): {}\n{}", job_.Text(failed->config),
                          ToString(failed->measurement.outcome),
                          failed->measurement.message,
                          ErrorLines(harness::NewestLog(
                              job_.run_folder(), job_.Text(failed->config)))));
    const bool no_step_time =
        std::ranges::any_of(trials, [](const trials::Trial& trial) {
          return trial.steps == 0 && Exits(trial.measurement.message);
        });
    job_.Print("{}{}", no_step_time ? kNoStepTime : "",
               no_step_time ? "\n" : "");
  }

  void PrintEnd(int trials) const {
    const trials::RunInfo info = trials::ReadRunInfo(job_.run_folder());
    job_.Print("{}; the search ended: {}{}\n", Count(trials, "trial"),
               ToString(info.finish_reason),
               info.remaining
                   ? fmt::format(" ({})", plots::RemainingText(*info.remaining))
                   : "");
    PrintSpread();
  }

  void PrintSpread() const {
    const std::string spread = ToString(SpreadOfPresent(job_));
    job_.Print("{}{}", spread, spread.empty() ? "" : "\n");
  }

  TuneOptions options_;
  TuneJob job_;
  std::optional<Profile> profile_;
};

}  // namespace

int Tune(const TuneOptions& options) { return Tuning(options).Run(); }

}  // namespace jobs
