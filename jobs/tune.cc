#include "jobs/tune.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "harness/search.h"
#include "harness/stop.h"
#include "harness/testbeds/program.h"
#include "jobs/final_rounds.h"
#include "jobs/tune_job.h"
#include "jobs/tune_result.h"
#include "jobs/tune_runner.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using trials::Outcome;

constexpr int kPreflightSteps = 2;
constexpr std::size_t kLogLines = 15;

std::string LastLines(const fs::path& log) {
  const std::optional<std::string> text = common::ReadFileIfExists(log);
  if (!text) {
    return "";
  }
  std::vector<std::string_view> lines = common::Split(*text, '\n');
  while (!lines.empty() && common::Trim(lines.back()).empty()) {
    lines.pop_back();
  }
  const std::size_t begin = lines.size() - std::min(lines.size(), kLogLines);
  std::string last;
  for (std::size_t i = begin; i < lines.size(); ++i) {
    last += fmt::format("    {}\n", common::Printable(lines[i]));
  }
  return fmt::format("  the last lines of {}:\n{}", log.string(), last);
}

class Tuning {
 public:
  explicit Tuning(const TuneOptions& options)
      : options_(options), job_(options.manifest) {}

  int Run() {
    const harness::Manifest& manifest = job_.manifest();
    const harness::Testbed& testbed = job_.testbed();
    (void)harness::CheckManifest(manifest, job_.testbeds());
    harness::CatchStopSignals();
    harness::PrepareRecords(manifest, job_.folder(), options_.accept_changed,
                            job_.testbeds());
    fmt::print("{}\n{} configurations; results: {}\n", testbed.description,
               testbed.space->size(), job_.folder().string());
    if (!testbed.warning.empty()) {
      fmt::print("note: {}\n", testbed.warning);
    }
    if (job_.Recorded().empty() && !Preflight()) {
      return harness::StopSignal() != 0 ? Stopped() : 1;
    }
    harness::WriteExperiment(manifest, job_.folder(), job_.testbeds());
    if (const int code = Search(); code != 0) {
      return code;
    }
    std::vector<Finalist> finalists =
        MeasureFinalists(job_, options_.finalists);
    if (harness::StopSignal() != 0) {
      return Stopped();
    }
    const int code = Conclude(job_, std::move(finalists));
    PrintPage();
    return code;
  }

 private:
  // A search that is paid for does not end because of its page.
  void WritePage() const {
    if (options_.write_page && !job_.Recorded().empty()) {
      try {
        (void)options_.write_page(job_.folder());
      } catch (const std::exception&) {
        return;  // PrintPage says why
      }
    }
  }

  void PrintPage() const {
    if (!options_.write_page) {
      return;
    }
    try {
      fmt::print("Result page: {}\n",
                 options_.write_page(job_.folder()).string());
    } catch (const std::exception& e) {
      fmt::print("The result page could not be written: {}\n", e.what());
    }
  }

  static int Stopped() {
    fmt::print("interrupted; rerun the same command to resume\n");
    return 128 + harness::StopSignal();
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
      fmt::print("{}\n", Describe(measured, job_.tokens_per_step()));
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
    harness::RunConditions conditions;
    conditions.command = options_.command;
    conditions.stop = [this, &shown] {
      WritePage();
      return harness::StopSignal() != 0 ||
             (shown != nullptr && !shown->broken().empty());
    };
    conditions.make_remote_runner = [&](harness::Testbed& testbed) {
      const std::vector<trials::Trial> recorded = job_.Recorded();
      const auto before = static_cast<int>(recorded.size());
      if (before > 0) {
        fmt::print("resumed after trial {}\n", before);
      }
      const bool any_ran =
          std::any_of(recorded.begin(), recorded.end(),
                      [](const auto& trial) { return trial.steps > 0; });
      auto runner =
          std::make_unique<TuneRunner>(*testbed.runner, testbed.space->knobs(),
                                       job_.tokens_per_step(), before, any_ran);
      shown = runner.get();
      return runner;
    };
    const bool done =
        harness::RunOne(job_.manifest(), job_.run(), job_.folder(), conditions,
                        job_.testbeds());
    if (!done && harness::StopSignal() != 0) {
      return Stopped();
    }
    const std::vector<trials::Trial> trials = job_.Recorded();
    const auto failed = std::find_if(
        trials.begin(), trials.end(), [](const trials::Trial& trial) {
          return trial.measurement.outcome != Outcome::kCompleted &&
                 trial.measurement.outcome != Outcome::kTerminatedEarly;
        });
    const bool works =
        std::any_of(trials.begin(), trials.end(), [](const auto& trial) {
          return trial.measurement.outcome == Outcome::kCompleted;
        });
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
                          LastLines(job_.run_folder() / "trials" /
                                    (job_.Text(failed->config) + ".log"))));
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
