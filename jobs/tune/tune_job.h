// A training job that is tuned: its search, its records and its runs.

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/json.h"
#include "harness/experiment.h"
#include "harness/slurm/trial_jobs.h"
#include "trials/measurement.h"
#include "trials/parallel_config.h"
#include "trials/record.h"
#include "trials/trial_runner.h"

namespace jobs {

class TuneJob;

// What a line is about, where lines have colors.
enum class Tone { kPlain, kGood, kBad, kFaint };

// Shows how a search goes.
struct Reporter {
  // Whole lines.
  std::function<void(const std::string& text, Tone tone)> print =
      [](const auto&, Tone) {};
  // Replaces the line that is being written, with the share that is done; ""
  // ends it.
  std::function<void(const std::string& text, double share)> status =
      [](const auto&, double) {};
  // Longer lines are continued in the next one; 0: none is.
  std::size_t columns = 0;
};

// How far a search is: the share before a trial, and that of the trial.
struct Share {
  double before = 0.0;
  double own = 1.0;
};

// Makes a runner whose trials are jobs of Slurm: those of the search, or one
// outside of it.
using MakeTrialJobs = std::function<std::unique_ptr<trials::TrialRunner>(
    const TuneJob& job, const std::optional<harness::TrialCheck>& check)>;

class TuneJob {
 public:
  TuneJob(const TuneJob&) = delete;
  // `trial_jobs`: empty if trials run in this process.
  // Errors: throws InputError for a manifest that is not of one search with a
  // program.
  explicit TuneJob(const std::filesystem::path& manifest,
                   MakeTrialJobs trial_jobs = {}, Reporter reporter = {});

  template <typename... Values>
  void Print(fmt::format_string<Values...> format, Values&&... values) const {
    PrintAsIs(Wrapped(fmt::format(format, std::forward<Values>(values)...)));
  }
  void PrintAsIs(const std::string& text) const {
    reporter_.print(text, Tone::kPlain);
  }
  // A line of a table: "3/20", step time or outcome, speed-up (NaN: none),
  // minutes and seconds, `what` ran, and its peak memory and message.
  void PrintRow(const std::string& name, const trials::Measurement& measured,
                double step_s, double speed_up, const std::string& what,
                bool is_best = false) const;
  // The names of these columns.
  void PrintHead() const;
  // Lines of at most the reporter's columns, which are broken between words and
  // continue below the first word of the line, or below `hang` columns.
  [[nodiscard]] std::string Wrapped(std::string_view text,
                                    std::size_t hang = 0) const;
  // The columns for a command line.
  [[nodiscard]] std::size_t columns() const {
    return reporter_.columns - (reporter_.columns == 0 ? 1 : 2);
  }
  void EndStatus() const { reporter_.status("", 1.0); }
  // The request with a status that counts its steps. The job must outlive it.
  [[nodiscard]] trials::TrialRequest WithStatus(trials::TrialRequest request,
                                                const std::string& what,
                                                Share share = {}) const;

  // A line about where trials run; "" on this machine.
  // Errors: as DescribeNodes.
  [[nodiscard]] std::string Nodes() const;
  // A runner of the trials of the search in jobs; null if they run here.
  [[nodiscard]] std::unique_ptr<trials::TrialRunner> RemoteRunner() const;

  [[nodiscard]] const harness::Experiment& experiment() const {
    return experiment_;
  }
  [[nodiscard]] const harness::Manifest& manifest() const {
    return experiment_.manifest;
  }
  [[nodiscard]] const harness::RunSpec& run() const { return run_; }
  [[nodiscard]] const harness::Testbed& testbed() const { return testbed_; }
  // The folder of the results, and that of the search in it.
  [[nodiscard]] const std::filesystem::path& folder() const {
    return experiment_.folder;
  }
  [[nodiscard]] const std::filesystem::path& run_folder() const {
    return run_folder_;
  }
  [[nodiscard]] int batch_size() const;
  [[nodiscard]] double tokens_per_step() const { return tokens_; }

  // The trials on record, whose configurations have the values of the user's
  // own parameters.
  [[nodiscard]] std::vector<trials::Trial> Recorded() const;

  // The configuration with which the job is compared: the user's own.
  [[nodiscard]] std::optional<trials::ParallelConfig> Present() const;

  // The same, or where it is not known the plainest data parallelism.
  [[nodiscard]] trials::ParallelConfig First() const;

  // Runs the job with a configuration, or as it is, outside of the search, with
  // a status that begins with `what`, for at most limit_s.
  // Errors: throws trials::TrialInterrupted after a stop signal and when nodes
  // are lost, and prints why.
  [[nodiscard]] trials::Measurement Measure(
      const std::optional<trials::ParallelConfig>& config, int steps,
      const std::string& what, int round = 0,
      double limit_s = std::numeric_limits<double>::infinity());
  // A stop signal, or a measurement that threw TrialInterrupted.
  [[nodiscard]] bool interrupted() const;

  // A trial of a configuration.
  [[nodiscard]] trials::TrialRequest RequestOf(
      const trials::ParallelConfig& config) const;

  [[nodiscard]] std::string Text(const trials::ParallelConfig& config) const;

  // Where it differs from First: "microbatches=1 zero_stage=3"; "yours: dp=2
  // tp=1 pp=1" of the present one.
  [[nodiscard]] std::string Changes(const trials::ParallelConfig& config) const;

  // One line about a measurement: "0.412 s a step, 39,768 tokens/s, 3.10 GB",
  // "out of memory: ...".
  [[nodiscard]] std::string Describe(
      const trials::Measurement& measurement) const;

  // "0.412 s a step, 39,768 tokens/s", and what they cost where the manifest
  // has the price or the power of a GPU.
  [[nodiscard]] std::string SpeedText(double step_s) const;
  // What the manifest has a price or a power for: usd_per_step and
  // usd_per_billion_tokens, joule_per_step and kwh_per_billion_tokens.
  [[nodiscard]] common::Json CostOf(double step_s) const;

  // The log of a configuration outside of the search.
  [[nodiscard]] std::filesystem::path LogOf(
      const trials::ParallelConfig& config) const;

 private:
  harness::Experiment experiment_;
  harness::RunSpec run_;
  std::filesystem::path run_folder_;
  harness::Testbed& testbed_;
  MakeTrialJobs trial_jobs_;
  Reporter reporter_;
  double tokens_ = 0.0;
  bool interrupted_ = false;
};

// The experiment in `results`, if that is empty in TuneFolder. `clients`: a
// client of `oppa serve` may run the trials.
// Errors: throws InputError for a manifest that is not of one search with a
// program.
[[nodiscard]] harness::Experiment ReadSearch(
    const std::filesystem::path& path,
    const harness::ManifestOverrides& overrides = {}, bool clients = false,
    const std::filesystem::path& results = {});

// Of the minutes that a user gives: the rest is for repeated measurements.
inline constexpr double kSearchShare = 2.0 / 3.0;

// "1 configuration", "24 configurations"
[[nodiscard]] std::string Count(std::size_t number, const std::string& what);

// The folder of the results of a manifest: oppa-results/NAME next to it, or
// NAME next to it where the manifest is in a folder oppa-results. It does not
// depend on the working directory.
[[nodiscard]] std::filesystem::path TuneFolder(
    const std::filesystem::path& manifest, const std::string& name);

}  // namespace jobs
