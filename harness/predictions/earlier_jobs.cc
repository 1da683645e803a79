#include "harness/predictions/earlier_jobs.h"

#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/toml_table.h"
#include "harness/predictions/calibration.h"
#include "harness/spec.h"
#include "methods/posterior_predictions.h"
#include "trials/record.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/simulator.h"
#include "trials/trial.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> RunsBelow(const PredictionSettings& settings,
                                const fs::path& folder) {
  std::vector<fs::path> runs = settings.table.At(
      "from", [&] { return trials::RunFoldersBelow(folder); });
  if (runs.empty()) {
    settings.table.Fail(
        "from",
        folder.string() +
            ": no trials; name a folder of results with trials.csv in it");
  }
  return runs;
}

// The trial of an earlier job as one of the target.
class Counterpart {
 public:
  Counterpart(const methods::Problem& target, double tokens_per_step)
      : space_(*target.space),
        gpus_(target.machine.gpus()),
        capacity_bytes_(target.machine.memory_bytes()),
        tokens_per_step_(tokens_per_step) {}

  [[nodiscard]] std::optional<trials::Trial> Of(
      const trials::Trial& earlier, const trials::ProblemInfo& job) const {
    if (earlier.IsPlan() || !SaysSomething(earlier, job)) {
      return std::nullopt;
    }
    const double batches = job.tokens_per_step && tokens_per_step_ > 0.0
                               ? tokens_per_step_ / *job.tokens_per_step
                               : 1.0;
    trials::Trial trial = earlier;
    trials::ParallelConfig& config = trial.config;
    const int gpus = trials::GpusOf(config);
    const int replica = gpus / config.dp;
    const double microbatches =
        batches * config.dp * config.microbatches * replica / gpus_;
    if (gpus_ % replica != 0 || microbatches != std::floor(microbatches)) {
      return std::nullopt;
    }
    config.dp = gpus_ / replica;
    config.microbatches = static_cast<int>(microbatches);
    std::optional<trials::Trial> counterpart = TrialIn(space_, trial);
    if (counterpart) {
      const double factor = gpus_ / (gpus * batches);
      counterpart->throughput.steps_per_s *= factor;
      counterpart->throughput.variance *= factor * factor;
    }
    return counterpart;
  }

 private:
  // It ran, or it ran out of no smaller memory than the target's.
  [[nodiscard]] bool SaysSomething(const trials::Trial& trial,
                                   const trials::ProblemInfo& job) const {
    constexpr double kSameMemory = 0.95;
    if (trial.measurement.outcome == trials::Outcome::kOutOfMemory) {
      return job.memory_capacity_bytes.value_or(capacity_bytes_) >=
             kSameMemory * capacity_bytes_;
    }
    return trial.HasThroughput();
  }

  const trials::SearchSpace& space_;
  int gpus_;
  double capacity_bytes_;
  double tokens_per_step_;  // 0: unknown
};

std::vector<trials::Guess> GuessesOf(const PredictedJob& own) {
  const System& system = own.systems.front();
  return trials::GuessesOf(own.workload, system.cluster.gpu, *system.framework);
}

}  // namespace

std::optional<double> ComputationFactor(
    const std::vector<trials::Trial>& trials, const PredictedJob* job) {
  if (job == nullptr || job->simulated || job->systems.size() != 1 ||
      job->systems.front().cluster.gpu.architecture == "cpu") {
    return std::nullopt;
  }
  const System& system = job->systems.front();
  const trials::Simulator simulator(job->workload, system.cluster,
                                    {*system.framework});
  std::vector<CalibrationRow> rows;
  for (const trials::Trial& trial : trials) {
    if (trial.IsPlan() || !trial.HasThroughput()) {
      continue;
    }
    try {
      const trials::StepReport report = simulator.Simulate(trial.config);
      rows.push_back({trial.config,
                      StepPartsOf(report.time, trial.config, system.cluster),
                      1.0 / trial.throughput.steps_per_s,
                      report.peak_memory_bytes, 0.0, report.capacity_bytes});
    } catch (const std::invalid_argument&) {
      continue;  // it is not predicted
    }
  }
  if (rows.empty()) {
    return std::nullopt;
  }
  return Calibrate(rows,
                   CalibrationPrior::Of(*system.framework, GuessesOf(*job)))
      .factors[kComputation];
}

PredictingModel EarlierJobs(const PredictionSettings& settings,
                            const methods::Problem& problem,
                            double tokens_per_step, const PredictedJob* own) {
  // Peaks of another job, whose states are split among other ranks.
  constexpr double kLogStddev = 0.2;
  const Counterpart counterpart(problem, tokens_per_step);
  PredictingModel model;
  std::vector<trials::Trial> trials;
  std::vector<trials::Trial> of_unknown_job;
  const auto check = [&](std::optional<double> factor, const fs::path& source) {
    if (factor && own != nullptr && !settings.accept_foreign) {
      RefuseForeign(*factor, GuessesOf(*own), "--from " + source.string());
    }
  };
  std::vector<char> tried(static_cast<std::size_t>(problem.space->size()), 0);
  int read = 0;
  bool ran = false;
  for (const fs::path& folder : settings.from) {
    for (const fs::path& run : RunsBelow(settings, folder)) {
      model.identity += common::ReadFile(run / "trials.csv");
      const trials::ProblemInfo job =
          trials::ReadProblemInfo(run.parent_path().parent_path());
      const std::optional<double> factor = trials::ReadRunInfo(run).computation;
      check(factor, run);
      for (const trials::Trial& trial : trials::ReadTrials(run)) {
        ++read;
        const auto found = counterpart.Of(trial, job);
        if (found && std::exchange(tried[found->candidate], 1) == 0) {
          (factor ? trials : of_unknown_job).push_back(*found);
          ran = ran || found->HasThroughput();
        }
      }
    }
  }
  if (!ran) {
    settings.table.Fail(
        "from",
        fmt::format("{}: none of the {} trials has a counterpart that ran "
                    "among the candidates; name another job, or leave it out",
                    settings.from.front().string(), read));
  }
  check(ComputationFactor(of_unknown_job, own), settings.from.front());
  trials.insert(trials.end(), of_unknown_job.begin(), of_unknown_job.end());
  model.description =
      fmt::format("{} of {} trials of earlier jobs", trials.size(), read);
  model.missing = "have no estimate";
  model.predict = [problem, trials = std::move(trials)] {
    trials::Predictions predictions =
        methods::PosteriorPredictions(problem, trials);
    predictions.memory_log_stddev = kLogStddev;
    return predictions;
  };
  return model;
}

}  // namespace harness
