#include "jobs/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/backends.h"
#include "harness/inputs.h"
#include "harness/manifest.h"
#include "harness/plan.h"
#include "harness/run_one.h"
#include "harness/search.h"
#include "harness/stop.h"
#include "jobs/finals.h"
#include "jobs/tune_runner.h"
#include "trials/command/command_options.h"
#include "trials/record.h"

namespace jobs {

// For finals.json.
void VisitFields(common::FieldsOf<Finalist> auto& finalist, const auto& visit) {
  visit("config", finalist.config);
  visit("rounds", finalist.rounds);
  visit("peak_memory_bytes", finalist.peak_memory_bytes);
}

namespace {

namespace fs = std::filesystem;
using common::InputError;
using trials::Outcome;

constexpr int kPreflightSteps = 2;
constexpr int kRounds = 3;
constexpr std::size_t kLogLines = 15;
constexpr const char* kResults = "oppa-results";

// The files with which the user starts the job.
void WriteBest(const fs::path& folder,
               const trials::RenderedJob& job,
               const std::string& config,
               const common::Json& result) {
  for (const trials::RenderedFile& file : job.files) {
    common::ReplaceFile(file.path, file.content);
  }
  const std::string script = fmt::format(
      "#!/bin/sh\n# {}\n{} \"$@\"\n", config, trials::CommandLine(job));
  common::ReplaceFile(folder / "best.sh", script);
  ::chmod((folder / "best.sh").c_str(), 0755);
  common::ReplaceFile(folder / "best.json", common::ToText(result, 2) + "\n");
}

class Tuning {
 public:
  explicit Tuning(const TuneOptions& options)
      : options_(options),
        manifest_(harness::ReadManifest(options.manifest)),
        folder_(TuneFolder(options.manifest, manifest_.name)) {
    if (manifest_.problems.size() != 1 || manifest_.methods.size() != 1 ||
        manifest_.repeats != 1 ||
        harness::IsSimulated(manifest_.problems.front())) {
      throw InputError(fmt::format(
          "{}: `oppa tune` takes one search with a training program (one "
          "problem, one method, repeats = 1, type = \"command\"); `oppa run` "
          "takes all others",
          options.manifest.string()));
    }
    run_ = harness::RunMatrix(manifest_).front();
    run_folder_ = run_.Folder(folder_);
    backend_ = harness::MakeBackend(*run_.problem);
    backend_.keep_logs(folder_ / "checks");
    tokens_ = static_cast<double>(
        run_.problem->workload.RequireInt("batch_size") *
        run_.problem->workload.RequireInt("sequence_length"));
  }

  int Run() {
    (void)harness::CheckManifest(manifest_);
    harness::CatchStopSignals();
    harness::PrepareRecords(manifest_, folder_, options_.accept_changed);
    fmt::print("{}\n{} configurations; results: {}\n",
               backend_.description,
               backend_.space->size(),
               folder_.string());
    if (!backend_.warning.empty()) {
      fmt::print("note: {}\n", backend_.warning);
    }
    if (Recorded().empty() && !Preflight()) {
      return harness::StopSignal() != 0 ? Stopped() : 1;
    }
    harness::WriteExperiment(manifest_, folder_);
    if (const int code = Search(); code != 0) {
      return code;
    }
    std::vector<Finalist> finalists = MeasureFinalists();
    if (harness::StopSignal() != 0) {
      return Stopped();
    }
    return Conclude(finalists);
  }

 private:
  // The trials on record, whose configurations have the values of the user's
  // own parameters.
  [[nodiscard]] std::vector<trials::Trial> Recorded() const {
    std::error_code error;
    if (!fs::exists(run_folder_ / "trials.csv", error)) {
      return {};
    }
    std::vector<trials::Trial> trials = trials::ReadTrials(run_folder_);
    for (trials::Trial& trial : trials) {
      if (const auto candidate =
              harness::FindCandidate(trial, *backend_.space)) {
        trial.config = (*backend_.space)[*candidate];
      }
    }
    return trials;
  }

  static int Stopped() {
    fmt::print("interrupted; rerun the same command to resume\n");
    return 128 + harness::StopSignal();
  }

  [[nodiscard]] std::string Text(const trials::ParallelConfig& config) const {
    return trials::ToString(config, backend_.space->knobs());
  }

  [[nodiscard]] std::string LastLines(const fs::path& log) const {
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

  // The configuration with which the job is compared: the user's own.
  [[nodiscard]] std::optional<trials::ParallelConfig> Present() const {
    if (manifest_.starts.configs.empty()) {
      return std::nullopt;
    }
    return trials::Complete(manifest_.starts.configs.front(), *backend_.space)
        .config;
  }

  // Runs the job as it is, or with a configuration.
  trials::Measurement Measure(
      const std::optional<trials::ParallelConfig>& config, int steps) {
    trials::TrialRequest request;
    request.config = config.value_or(Present().value_or((*backend_.space)[0]));
    request.max_steps = steps;
    request.seed = manifest_.seed;
    request.interrupted = [] { return harness::StopSignal() != 0; };
    const bool as_given = !config && backend_.run_as_given;
    if (as_given) {
      backend_.run_as_given(true);
    }
    struct Restore {
      harness::Backend& backend;
      bool as_given;
      ~Restore() {
        if (as_given) {
          backend.run_as_given(false);
        }
      }
    } restore{backend_, as_given};
    return backend_.runner->Run(request);
  }

  bool Preflight() {
    if (!backend_.run_as_given && !Present()) {
      return true;  // the present configuration is not known
    }
    fmt::print("preflight: your configuration for {} steps ... ",
               kPreflightSteps);
    std::fflush(stdout);
    try {
      const trials::Measurement measured =
          Measure(std::nullopt, kPreflightSteps);
      fmt::print("{}\n", Describe(measured, tokens_));
      if (measured.outcome == Outcome::kCompleted) {
        return true;
      }
    } catch (const trials::TrialInterrupted&) {
      return false;
    }
    const std::string name =
        Text(Present().value_or((*backend_.space)[0])) + ".log";
    fmt::print(
        "Your present configuration does not run, so no search starts. Correct "
        "the command line, or name another configuration as start.\n{}",
        LastLines(folder_ / "checks" / name));
    return false;
  }

  int Search() {
    TuneRunner* shown = nullptr;
    harness::RunConditions conditions;
    conditions.command = options_.command;
    conditions.stop = [&shown] {
      return harness::StopSignal() != 0 ||
             (shown != nullptr && !shown->broken().empty());
    };
    conditions.make_remote_runner = [&](harness::Backend& backend) {
      const std::vector<trials::Trial> recorded = Recorded();
      const auto before = static_cast<int>(recorded.size());
      if (before > 0) {
        fmt::print("resumed after trial {}\n", before);
      }
      const bool any_ran =
          std::any_of(recorded.begin(), recorded.end(), [](const auto& trial) {
            return trial.steps > 0;
          });
      auto runner = std::make_unique<TuneRunner>(
          *backend.runner, backend.space->knobs(), tokens_, before, any_ran);
      shown = runner.get();
      return runner;
    };
    const bool done = harness::RunOne(manifest_, run_, folder_, conditions);
    if (!done && harness::StopSignal() != 0) {
      return Stopped();
    }
    const std::vector<trials::Trial> trials = Recorded();
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
            : fmt::format("{} ({}): {}\n{}",
                          Text(failed->config),
                          ToString(failed->measurement.outcome),
                          common::Printable(failed->measurement.message),
                          LastLines(run_folder_ / "trials" /
                                    (Text(failed->config) + ".log"))));
    return 1;
  }

  void PrintEnd(int trials) const {
    const trials::RunInfo info = trials::ReadRunInfo(run_folder_);
    fmt::print("{} trials; the search ended: {}{}\n",
               trials,
               ToString(info.finish_reason),
               info.remaining
                   ? fmt::format(" (expected gain of another trial {:.1f}%)",
                                 100.0 * info.remaining->expected_gain)
                   : "");
  }

  // The best completed trials, best first, and the job as it is.
  [[nodiscard]] std::vector<Finalist> Choose() const {
    std::vector<trials::Trial> trials = Recorded();
    std::erase_if(trials, [&](const trials::Trial& trial) {
      return trial.measurement.outcome != Outcome::kCompleted ||
             !trial.HasThroughput() ||
             !harness::FindCandidate(trial, *backend_.space);
    });
    std::stable_sort(
        trials.begin(), trials.end(), [](const auto& a, const auto& b) {
          return a.throughput.steps_per_s > b.throughput.steps_per_s;
        });
    const bool yours = backend_.run_as_given || Present().has_value();
    if (const auto present = Present(); present && trials.size() > 1) {
      std::erase_if(trials, [&](const trials::Trial& trial) {
        return trial.config == *present;  // it is measured as "yours"
      });
    }
    trials.resize(
        std::min(trials.size(),
                 static_cast<std::size_t>(std::max(1, options_.finalists))));
    std::vector<Finalist> finalists;
    for (const trials::Trial& trial : trials) {
      finalists.push_back({Text(trial.config), {}, std::nullopt});
    }
    if (yours) {
      finalists.push_back({kYours, {}, std::nullopt});
    }
    return finalists;
  }

  // Runs all finalists that contend once in each round, so that a drift of the
  // machine meets all of them. What was measured before an interruption is
  // kept.
  std::vector<Finalist> MeasureFinalists() {
    std::vector<Finalist> finalists = Choose();
    const fs::path file = folder_ / "finals.json";
    Load(file, finalists);
    fmt::print("measuring the best {} and yours again, at most {} rounds:\n",
               finalists.size() - 1,
               kRounds);
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (Finalist& finalist : finalists) {
        if (finalist.rounds.size() > round ||
            !Contends(finalist, finalists, round)) {
          continue;
        }
        if (!MeasureOnce(finalist)) {
          return finalists;  // interrupted
        }
        common::Json json = common::Json::array();
        for (const Finalist& each : finalists) {
          json.push_back(common::ToJson(each));
        }
        common::ReplaceFile(file, common::ToText(json, 2) + "\n");
      }
    }
    return finalists;
  }

  bool MeasureOnce(Finalist& finalist) {
    try {
      const trials::Measurement measured =
          Measure(finalist.config == kYours
                      ? std::nullopt
                      : std::optional(trials::ParseParallelConfig(
                            finalist.config, backend_.space->knobs())),
                  manifest_.budget.q_max);
      fmt::print("  {}: {}\n", finalist.config, Describe(measured, tokens_));
      std::vector<double> steps = measured.step_times_s;
      if (!steps.empty()) {
        steps.erase(steps.begin());  // warm-up
      }
      finalist.rounds.push_back(measured.outcome == Outcome::kCompleted
                                    ? steps
                                    : std::vector<double>());
      if (measured.peak_memory_bytes) {
        finalist.peak_memory_bytes =
            std::max(finalist.peak_memory_bytes.value_or(0.0),
                     *measured.peak_memory_bytes);
      }
      return true;
    } catch (const trials::TrialInterrupted&) {
      return false;
    }
  }

  static void Load(const fs::path& file, std::vector<Finalist>& finalists) {
    const std::optional<std::string> text = common::ReadFileIfExists(file);
    if (!text) {
      return;
    }
    for (const common::Json& json : common::ParseJson(*text, file.string())) {
      Finalist known;
      known.config = json.at("config").get<std::string>();
      json.at("rounds").get_to(known.rounds);
      common::FromJson(json.at("peak_memory_bytes"), known.peak_memory_bytes);
      for (Finalist& finalist : finalists) {
        if (finalist.config == known.config) {
          finalist = known;
        }
      }
    }
  }

  int Conclude(std::vector<Finalist> finalists) {
    std::optional<Finalist> yours;
    std::erase_if(finalists, [&](const Finalist& finalist) {
      const bool is_yours = finalist.config == kYours;
      const bool ran = HasSteps(finalist);
      if (is_yours && ran) {
        yours = finalist;
      }
      return is_yours || !ran;
    });
    if (finalists.empty()) {
      fmt::print("None of the best configurations ran again.\n");
      return 1;
    }
    std::stable_sort(finalists.begin(),
                     finalists.end(),
                     [](const Finalist& a, const Finalist& b) {
                       return MeanStepTime(a).mean_s < MeanStepTime(b).mean_s;
                     });
    const Finalist& best = finalists.front();
    const StepTime time = MeanStepTime(best);
    PrintComparison(finalists);
    common::Json result = {{"config", best.config},
                           {"step_time_s", time.mean_s},
                           {"standard_error_s", time.standard_error_s},
                           {"steps", time.steps},
                           {"tokens_per_s", tokens_ / time.mean_s}};
    std::string faster;
    if (yours) {
      const SpeedUp speed_up = Compare(time, MeanStepTime(*yours));
      faster = speed_up.Differs()
                   ? fmt::format("{} as fast as yours", ToString(speed_up))
                   : fmt::format(
                         "not distinguishable from yours: {} as fast, p = "
                         "{:.2f}",
                         ToString(speed_up),
                         speed_up.p);
      result["speed_up"] = {{"value", speed_up.factor.value},
                            {"low", speed_up.factor.low},
                            {"high", speed_up.factor.high},
                            {"p", speed_up.p}};
    }
    const trials::ParallelConfig config =
        trials::ParseParallelConfig(best.config, backend_.space->knobs());
    const trials::RenderedJob job = backend_.render(config, folder_ / "best");
    result["command"] = job.words;
    result["environment"] = job.environment;
    result["parameters"] = trials::ParametersAsJson(
        backend_.space->knobs(),
        config,
        static_cast<int>(run_.problem->workload.RequireInt("batch_size")));
    WriteBest(folder_, job, best.config, result);
    fmt::print("\nUse this command line:\n\n  {}\n\n",
               trials::CommandLine(job));
    fmt::print("{}: {:.4g} s a step, {:.4g} tokens/s{}{}{}\n",
               best.config,
               time.mean_s,
               tokens_ / time.mean_s,
               faster.empty() ? "" : "; ",
               faster,
               MemoryText(best));
    fmt::print("Also in {} and best.json{}\n",
               (folder_ / "best.sh").string(),
               job.files.empty() ? "" : ", with " + job.files[0].path.string());
    return 0;
  }

  [[nodiscard]] std::string MemoryText(const Finalist& best) const {
    if (!best.peak_memory_bytes || !(backend_.memory_capacity_bytes > 0.0)) {
      return "";
    }
    const double used = *best.peak_memory_bytes;
    const double left = backend_.memory_capacity_bytes - used;
    return fmt::format("; peak memory {:.2f} GB, {:.2f} GB ({:.0f}%) left",
                       used / 1e9,
                       left / 1e9,
                       100.0 * left / backend_.memory_capacity_bytes);
  }

  static void PrintComparison(const std::vector<Finalist>& finalists) {
    const StepTime best = MeanStepTime(finalists.front());
    for (std::size_t i = 1; i < finalists.size(); ++i) {
      const SpeedUp ahead = Compare(best, MeanStepTime(finalists[i]));
      fmt::print("{} is {} as fast as {}{} (p = {:.2g})\n",
                 finalists.front().config,
                 ToString(ahead),
                 finalists[i].config,
                 ahead.Differs() ? "" : ", which is not distinguishable",
                 ahead.p);
    }
  }

  TuneOptions options_;
  harness::Manifest manifest_;
  fs::path folder_;
  harness::RunSpec run_;
  fs::path run_folder_;
  harness::Backend backend_;
  double tokens_ = 0.0;
};

}  // namespace

fs::path TuneFolder(const fs::path& manifest, const std::string& name) {
  const fs::path beside =
      fs::absolute(manifest).lexically_normal().parent_path();
  return beside.filename() == kResults ? beside / name
                                       : beside / kResults / name;
}

int Tune(const TuneOptions& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line at once, also when piped
  return Tuning(options).Run();
}

}  // namespace jobs
