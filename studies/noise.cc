#include "studies/noise.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "harness/backends.h"
#include "studies/charts.h"
#include "trials/measurement.h"

namespace studies {
namespace {

using common::InputError;
using trials::ParallelConfig;

struct NoisyTrial {
  ParallelConfig config;
  std::vector<double> step_times_s;
};

// A configuration that fits, of a cell of sizes that is not yet drawn if there
// is one; -1 if the cell has none.
int DrawFitting(const harness::Backend& backend,
                const std::vector<int>& cell,
                std::mt19937_64& random) {
  std::vector<int> fitting;
  for (const int i : cell) {
    if (backend.exact->ExactThroughput((*backend.space)[i]).value_or(0.0) >
        0.0) {
      fitting.push_back(i);
    }
  }
  return fitting.empty() ? -1 : fitting[random() % fitting.size()];
}

// Trials of configurations drawn among those that fit, of different sizes.
std::vector<NoisyTrial> RunTrials(const harness::Backend& backend,
                                  const NoiseVerbOptions& noise) {
  std::mt19937_64 random(static_cast<std::uint64_t>(noise.seed));
  std::vector<std::vector<int>> cells = backend.space->cells();
  std::vector<NoisyTrial> drawn;
  while (!cells.empty() && std::ssize(drawn) < noise.trials) {
    const auto which =
        cells.begin() + static_cast<std::ptrdiff_t>(random() % cells.size());
    const int candidate = DrawFitting(backend, *which, random);
    cells.erase(which);
    if (candidate < 0) {
      continue;
    }
    NoisyTrial& trial = drawn.emplace_back();
    trials::TrialRequest request;
    request.config = trial.config = (*backend.space)[candidate];
    request.max_steps = noise.steps;
    request.seed = random();
    trial.step_times_s = backend.runner->Run(request).step_times_s;
  }
  if (drawn.empty()) {
    throw InputError("noise: no configuration of the problem fits");
  }
  return drawn;
}

double EstimatedStep(const std::vector<double>& step_times_s,
                     double outlier_iqr) {
  trials::ThroughputOptions options;
  options.outlier_iqr = outlier_iqr;
  return 1.0 / trials::EstimateThroughput(step_times_s, options).steps_per_s;
}

std::string ShortLabel(const ParallelConfig& config) {
  return fmt::format("dp {}, tp {}, pp {}", config.dp, config.tp, config.pp);
}

// Fig. 3: every step, and what the throughput is taken for.
plots::LineChart StepsChart(const std::vector<NoisyTrial>& drawn) {
  plots::ChartPanel panel{"", "training step", "time (s)", false, false, {}};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto& times = drawn[i].step_times_s;
    const int style = static_cast<int>(i);
    plots::ChartLine line{ShortLabel(drawn[i].config), {}, times, style};
    for (std::size_t step = 1; step <= times.size(); ++step) {
      line.x.push_back(static_cast<double>(step));
    }
    const double estimate_s =
        EstimatedStep(times, trials::ThroughputOptions{}.outlier_iqr);
    panel.lines.push_back(std::move(line));
    panel.lines.push_back({"",
                           {1.0, static_cast<double>(times.size())},
                           {estimate_s, estimate_s},
                           style,
                           true});
  }
  return {"noise-steps", {std::move(panel)}};
}

// Fig. 10: the mean against the threshold, relative to the one in use.
plots::LineChart ThresholdChart(const std::vector<NoisyTrial>& drawn) {
  plots::ChartPanel panel{"",
                          "threshold (inter-quartile ranges)",
                          "mean step time / that at 2",
                          false,
                          false,
                          {}};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    plots::ChartLine line{
        ShortLabel(drawn[i].config), {}, {}, static_cast<int>(i)};
    const double usual_s = EstimatedStep(
        drawn[i].step_times_s, trials::ThroughputOptions{}.outlier_iqr);
    for (int quarter = 2; quarter <= 24; ++quarter) {
      const double threshold = 0.25 * quarter;
      line.x.push_back(threshold);
      line.y.push_back(EstimatedStep(drawn[i].step_times_s, threshold) /
                       usual_s);
    }
    panel.lines.push_back(std::move(line));
  }
  return {"noise-threshold", {std::move(panel)}};
}

// Fig. 15: the estimate after so many steps.
plots::LineChart LengthChart(const std::vector<NoisyTrial>& drawn) {
  plots::LineChart chart{"noise-length", {}};
  for (const NoisyTrial& trial : drawn) {
    plots::ChartPanel panel{ShortLabel(trial.config),
                            "training step",
                            "time (s)",
                            false,
                            false,
                            {}};
    plots::ChartLine steps{"step", {}, {}, 0};
    plots::ChartLine estimate{"1 / throughput so far", {}, {}, 1, true};
    for (std::size_t step = 1; step < trial.step_times_s.size(); ++step) {
      // The first step would hide all others.
      steps.x.push_back(static_cast<double>(step + 1));
      steps.y.push_back(trial.step_times_s[step]);
      const std::vector<double> so_far(
          trial.step_times_s.begin(),
          trial.step_times_s.begin() + static_cast<std::ptrdiff_t>(step) + 1);
      estimate.x.push_back(static_cast<double>(step + 1));
      estimate.y.push_back(
          EstimatedStep(so_far, trials::ThroughputOptions{}.outlier_iqr));
    }
    panel.lines = {std::move(steps), std::move(estimate)};
    chart.panels.push_back(std::move(panel));
  }
  return chart;
}

}  // namespace

int Noise(const StudyOptions& options, const NoiseVerbOptions& noise) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  for (const harness::ProblemSpec& problem : manifest.problems) {
    const harness::Backend backend = harness::MakeBackend(problem);
    const std::vector<NoisyTrial> drawn = RunTrials(backend, noise);
    fmt::print("{}: {} trials of {} steps\n{:>10} {:>10} {:>10} {:>12}  {}\n",
               backend.description,
               drawn.size(),
               noise.steps,
               "first (s)",
               "median (s)",
               "estimate",
               "after 5 (%)",
               "PC");
    for (const NoisyTrial& trial : drawn) {
      std::vector<double> sorted = trial.step_times_s;
      std::sort(sorted.begin(), sorted.end());
      const double iqr = trials::ThroughputOptions{}.outlier_iqr;
      const double all_s = EstimatedStep(trial.step_times_s, iqr);
      const std::vector<double> five(
          trial.step_times_s.begin(),
          trial.step_times_s.begin() +
              std::min<std::ptrdiff_t>(5, std::ssize(trial.step_times_s)));
      fmt::print("{:>10.4g} {:>10.4g} {:>10.4g} {:>+12.2f}  {}\n",
                 trial.step_times_s.front(),
                 sorted[sorted.size() / 2],
                 all_s,
                 100.0 * (EstimatedStep(five, iqr) / all_s - 1.0),
                 ToString(trial.config));
    }
    DrawCharts(options,
               "noise",
               problem,
               {StepsChart(drawn), ThresholdChart(drawn), LengthChart(drawn)});
  }
  return 0;
}

}  // namespace studies
