#include "jobs/tune/run_spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include <fmt/format.h>

#include "common/json.h"
#include "common/statistics.h"
#include "harness/testbeds/program.h"
#include "jobs/tune/finals.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace jobs {
namespace {

constexpr const char* kPreflight = "preflight.json";

std::vector<double> AfterFirst(const std::vector<double>& steps) {
  return {steps.begin() + (steps.empty() ? 0 : 1), steps.end()};
}

// The 95% quantile of chi-square over its degrees of freedom. Source: Wilson
// and Hilferty (1931), "The distribution of chi-square".
double ChiSquare95(double freedom) {
  const double a = 2.0 / (9.0 * freedom);
  return std::pow(1.0 - a + common::kNormalQuantile95 * std::sqrt(a), 3.0);
}

}  // namespace

RunSpread SpreadOf(std::vector<std::vector<double>> runs) {
  std::erase_if(runs, [](const auto& run) { return run.empty(); });
  std::ranges::sort(runs, std::greater(), &std::vector<double>::size);
  constexpr std::size_t kEnough = 2;
  while (runs.size() > kEnough && runs.back().size() < runs[1].size()) {
    runs.pop_back();
  }
  RunSpread spread{.runs = static_cast<int>(runs.size())};
  if (runs.size() < kEnough) {
    return spread;
  }
  const std::size_t shared = runs.back().size();
  double squares = 0.0;  // of steps around the mean of their run
  double freedom = 0.0;
  std::vector<double> means;
  for (const std::vector<double>& run : runs) {
    squares += common::Variance(run) * static_cast<double>(run.size() - 1);
    freedom += static_cast<double>(run.size() - 1);
    means.push_back(common::Mean(
        {run.begin(), run.begin() + static_cast<std::ptrdiff_t>(shared)}));
  }
  const auto [low, high] = std::ranges::minmax(means);
  const double mean = common::Mean(means);
  const double of_means = common::Variance(means);
  const double of_steps =
      freedom > 0.0 ? squares / freedom / static_cast<double>(shared) : 0.0;
  spread.range = (high - low) / mean;
  constexpr double kEqual = 1e-9;  // but for rounding
  if (spread.range > kEqual &&
      of_means > ChiSquare95(spread.runs - 1.0) * of_steps) {
    spread.variance = (of_means - of_steps) / (mean * mean);
  }
  return spread;
}

RunSpread SpreadOfPresent(const TuneJob& job) {
  std::vector<std::vector<double>> runs;
  for (const char* file : {kPreflight, "finals.json"}) {
    for (const Finalist& each : ReadFinals(job.folder() / file).finalists) {
      if (each.config == kPresent) {
        runs.insert(runs.end(), each.rounds.begin(), each.rounds.end());
      }
    }
  }
  // The command line as it is may be of no known configuration.
  const bool known = job.Present() || !job.testbed().program->RunsAsGiven();
  for (const trials::Trial& trial : job.Recorded()) {
    if (known && trial.config == job.First() &&
        trial.measurement.outcome == trials::Outcome::kCompleted) {
      std::vector<double> steps;
      for (const trials::StepRecord& step :
           trials::ReadRows<trials::StepRecord>(job.run_folder(), true)
               .records) {
        if (step.trial == trial.number) {
          steps.push_back(step.step_time_s);
        }
      }
      runs.push_back(AfterFirst(steps));
    }
  }
  return SpreadOf(std::move(runs));
}

std::string ToString(const RunSpread& spread) {
  return spread.variance > 0.0
             ? fmt::format(
                   "your configuration varied by {:.2g}% in {} runs: gains "
                   "under that cannot be told apart",
                   100.0 * spread.range, spread.runs)
             : "";
}

void KeepPreflight(const TuneJob& job, const trials::Measurement& measured) {
  Finals preflight;
  preflight.finalists.push_back(
      {kPresent, {AfterFirst(measured.step_times_s)}, std::nullopt});
  trials::WriteRecord(job.folder() / kPreflight, common::ToJson(preflight));
}

}  // namespace jobs
