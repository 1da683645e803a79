#include "jobs/tune.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "harness/local_pool.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "harness/slurm/run_task.h"
#include "harness/stop.h"
#include "harness/testbeds/program.h"
#include "jobs/finals.h"
#include "jobs/tune_job.h"
#include "trials/trial_runner.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using trials::Outcome;

constexpr int kPreflightSteps = 2;
constexpr int kLogLines = 15;
constexpr int kAlike = 3;

std::string LastLines(const fs::path& log) {
  const std::string lines = harness::Tail(log, kLogLines);
  std::string text = fmt::format("  the last lines of {}:\n", log.string());
  for (const std::string_view line : common::Split(lines, '\n')) {
    text += fmt::format("    {}\n", common::Printable(line));
  }
  return lines.empty() ? "" : text;
}

// Prints each trial when it ends. `local` and `job` must outlive it.
class TuneRunner final : public trials::TrialRunner {
 public:
  TuneRunner(trials::TrialRunner& local, const TuneJob& job)
      : remote_(job.RemoteRunner()),
        inner_(remote_ == nullptr ? local : *remote_),
        job_(job) {
    for (const trials::Trial& trial : job.Recorded()) {
      ++trials_;
      any_ran_ = any_ran_ || trial.steps > 0;
    }
    if (trials_ > 0) {
      fmt::print("resumed after trial {}\n", trials_);
    }
  }

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override {
    trials::Measurement measurement = inner_.Run(request);
    const double step_s =
        1.0 / trials::EstimateThroughput(measurement.step_times_s).steps_per_s;
    const bool best = measurement.outcome == Outcome::kCompleted &&
                      (best_s_ == 0.0 || step_s < best_s_);
    best_s_ = best ? step_s : best_s_;
    fmt::print("trial {:<3} {}: {}{}\n", ++trials_,
               job_.Text(request.candidate.config()),
               job_.Describe(measurement), best ? "  <- best so far" : "");
    std::fflush(stdout);
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
  [[nodiscard]] bool broken() const { return !any_ran_ && alike_ >= kAlike; }
  // Of the search so far.
  [[nodiscard]] int trials() const { return trials_; }

 private:
  std::unique_ptr<trials::TrialRunner> remote_;  // may be null
  trials::TrialRunner& inner_;
  const TuneJob& job_;
  int trials_ = 0;
  bool any_ran_ = false;
  int alike_ = 0;
  double best_s_ = 0.0;  // step time; 0: none
  std::string message_;
};

class Tuning {
 public:
  explicit Tuning(const TuneOptions& options)
      : options_(options), job_(options.manifest, options.trial_jobs) {}

  int Run() {
    const harness::Manifest& manifest = job_.manifest();
    const harness::Testbed& testbed = job_.testbed();
    (void)harness::CheckManifest(manifest, job_.testbeds());
    harness::CatchStopSignals();
    harness::PrepareRecords(manifest, job_.folder(), /*accept_changed=*/false,
                            job_.testbeds());
    fmt::print("{}\n{} configurations; results: {}\n", testbed.description,
               testbed.space->size(), job_.folder().string());
    if (!harness::IsFinished(job_.run_folder())) {
      fmt::print("{}", job_.Nodes());
    }
    if (!testbed.warning.empty()) {
      fmt::print("note: {}\n", testbed.warning);
    }
    if (job_.Recorded().empty() && !Preflight()) {
      return job_.interrupted() ? Stopped() : 1;
    }
    harness::WriteExperiment(manifest, job_.folder(), job_.testbeds());
    if (const int code = Search(); code != 0) {
      return code;
    }
    std::vector<Finalist> finalists =
        MeasureFinalists(job_, options_.finalists);
    if (job_.interrupted()) {
      return Stopped();
    }
    const int code = Conclude(job_, std::move(finalists));
    fmt::print("{}", WritePage());
    return code;
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

  static int Stopped() {
    fmt::print("interrupted; rerun the same command to resume\n");
    return harness::StopSignal() != 0 ? 128 + harness::StopSignal()
                                      : harness::kStoppedEarly;
  }

  bool Preflight() {
    if (!job_.testbed().program->RunsAsGiven() && !job_.Present()) {
      return true;  // the present configuration is not known
    }
    fmt::print("preflight: your configuration for {} steps ... ",
               kPreflightSteps);
    std::fflush(stdout);
    try {
      const trials::Measurement measured =
          job_.Measure(std::nullopt, kPreflightSteps);
      fmt::print("{}\n", job_.Describe(measured));
      if (measured.outcome == Outcome::kCompleted) {
        return true;
      }
    } catch (const trials::TrialInterrupted&) {
      return false;
    }
    fmt::print(
        "Your present configuration does not run, so no search starts. Correct "
        "the command line, or name another configuration as start.\n{}",
        LastLines(
            job_.LogOf(job_.Present().value_or((*job_.testbed().space)[0]))));
    return false;
  }

  int Search() {
    TuneRunner* shown = nullptr;
    int on_page = 0;  // trials
    harness::RunConditions conditions;
    conditions.command = options_.command;
    conditions.stop = [this, &shown, &on_page] {
      if (shown != nullptr && shown->trials() != on_page) {
        on_page = shown->trials();
        (void)WritePage();
      }
      return harness::StopSignal() != 0 ||
             (shown != nullptr && shown->broken());
    };
    conditions.make_remote_runner = [&](harness::Testbed& testbed) {
      auto runner = std::make_unique<TuneRunner>(*testbed.runner, job_);
      shown = runner.get();
      return runner;
    };
    const bool done =
        harness::RunOne(job_.manifest(), job_.run(), job_.folder(), conditions,
                        job_.testbeds());
    if (!done && (shown == nullptr || !shown->broken())) {
      return Stopped();
    }
    const std::vector<trials::Trial> trials = job_.Recorded();
    const auto outcome = [](const trials::Trial& trial) {
      return trial.measurement.outcome;
    };
    const auto failed = std::ranges::find_if(
        trials,
        [](Outcome one) {
          return one != Outcome::kCompleted && one != Outcome::kTerminatedEarly;
        },
        outcome);
    const bool works =
        std::ranges::find(trials, Outcome::kCompleted, outcome) != trials.end();
    if (done && works) {
      PrintEnd(static_cast<int>(trials.size()));
      return 0;
    }
    fmt::print(
        "{}. The first failure was {}\n",
        done ? fmt::format("None of {} configurations works", trials.size())
             : "The first trials failed alike, and the search stops: "
               "correct the program or the command line and rerun the "
               "same command",
        failed == trials.end()
            ? "not recorded"
            : fmt::format("{} ({}): {}\n{}", job_.Text(failed->config),
                          ToString(failed->measurement.outcome),
                          common::Printable(failed->measurement.message),
                          LastLines(harness::NewestLog(
                              job_.run_folder(), job_.Text(failed->config)))));
    return 1;
  }

  void PrintEnd(int trials) const {
    const trials::RunInfo info = trials::ReadRunInfo(job_.run_folder());
    fmt::print("{} trials; the search ended: {}{}\n", trials,
               ToString(info.finish_reason),
               info.remaining
                   ? fmt::format(" (expected gain of another trial {:.1f}%)",
                                 100.0 * info.remaining->expected_gain)
                   : "");
  }

  TuneOptions options_;
  TuneJob job_;
};

}  // namespace

int Tune(const TuneOptions& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line at once, also when piped
  return Tuning(options).Run();
}

}  // namespace jobs
