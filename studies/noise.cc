#include "studies/noise.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantiles.h"
#include "harness/testbed.h"
#include "studies/output.h"
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
int DrawFitting(const harness::Testbed& testbed, const std::vector<int>& cell,
                std::mt19937_64& random) {
  std::vector<int> fitting;
  for (const int i : cell) {
    if (testbed.exact->ExactThroughput((*testbed.space)[i]).value_or(0.0) >
        0.0) {
      fitting.push_back(i);
    }
  }
  return fitting.empty() ? -1 : fitting[random() % fitting.size()];
}

// Trials of configurations drawn among those that fit, of different sizes.
std::vector<NoisyTrial> RunTrials(const harness::Testbed& testbed,
                                  const NoiseVerbOptions& noise) {
  std::mt19937_64 random(static_cast<std::uint64_t>(noise.seed));
  std::vector<std::vector<int>> cells = testbed.space->cells();
  std::vector<NoisyTrial> drawn;
  while (!cells.empty() && std::ssize(drawn) < noise.trials) {
    const auto which =
        cells.begin() + static_cast<std::ptrdiff_t>(random() % cells.size());
    const int candidate = DrawFitting(testbed, *which, random);
    cells.erase(which);
    if (candidate < 0) {
      continue;
    }
    NoisyTrial& trial = drawn.emplace_back();
    trials::TrialRequest request;
    request.candidate = trial.config = (*testbed.space)[candidate];
    request.max_steps = noise.steps;
    request.seed = random();
    trial.step_times_s = testbed.runner->Run(request).step_times_s;
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

std::string SimulatedNoise(const std::string& explanation) {
  return "Simulated trials: the noise follows the model of docs/simulator.md, "
         "with constants that are assumed or fitted elsewhere. " +
         explanation;
}

// The x axis covers the points of the first series.
plots::Panel PanelOf(const std::string& x_column, const std::string& x_label,
                     const std::string& y_label,
                     std::vector<plots::Series> series) {
  plots::Panel panel{.x_column = x_column,
                     .x_label = x_label,
                     .y_label = y_label,
                     .x_min = series.front().band.x.front(),
                     .x_max = series.front().band.x.back()};
  panel.series = std::move(series);
  return panel;
}

// Fig. 3: every step, and the estimate of the step time.
plots::Figure StepsFigure(const std::vector<NoisyTrial>& drawn) {
  std::vector<plots::Series> series;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto& times = drawn[i].step_times_s;
    const int style = static_cast<int>(i);
    const std::vector<double> steps = Counting(static_cast<int>(times.size()));
    const double estimate_s =
        EstimatedStep(times, trials::ThroughputOptions{}.outlier_iqr);
    series.push_back(Line(ShortLabel(drawn[i].config), plots::ThinStyle(style),
                          steps, times));
    series.push_back(Line("", plots::ThinStyle(style, true), steps,
                          std::vector<double>(times.size(), estimate_s)));
    series.back().name = series[2 * i].name + " estimate";
  }
  return {.name = "noise-steps",
          .title = "Step times of simulated trials",
          .caption = SimulatedNoise(
              "Dashed: 1 / throughput as estimated from all steps."),
          .panels = {
              PanelOf("step", "training step", "time (s)", std::move(series))}};
}

// Fig. 10: the mean against the threshold, relative to the one in use.
plots::Figure ThresholdFigure(const std::vector<NoisyTrial>& drawn) {
  std::vector<plots::Series> series;
  std::vector<double> thresholds;
  for (int quarter = 2; quarter <= 24; ++quarter) {
    thresholds.push_back(0.25 * quarter);
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double usual_s = EstimatedStep(
        drawn[i].step_times_s, trials::ThroughputOptions{}.outlier_iqr);
    std::vector<double> ratios;
    for (const double threshold : thresholds) {
      ratios.push_back(EstimatedStep(drawn[i].step_times_s, threshold) /
                       usual_s);
    }
    series.push_back(Line(ShortLabel(drawn[i].config),
                          plots::StyleOf(static_cast<int>(i), false),
                          thresholds, ratios));
  }
  return {.name = "noise-threshold",
          .title = "Outlier threshold",
          .caption = SimulatedNoise("Measurements further than this from the "
                                    "median are left out."),
          .panels = {PanelOf("threshold", "threshold (inter-quartile ranges)",
                             "mean step time / that at 2", std::move(series))}};
}

// Fig. 15: the estimate after this many steps.
plots::Figure LengthFigure(const std::vector<NoisyTrial>& drawn) {
  plots::Figure figure{
      .name = "noise-length",
      .title = "Length of a trial",
      .caption = SimulatedNoise("The first step is left out.")};
  for (const NoisyTrial& trial : drawn) {
    std::vector<double> steps;
    std::vector<double> times_s;
    std::vector<double> estimates_s;
    for (std::size_t step = 1; step < trial.step_times_s.size(); ++step) {
      // The first step would hide all others.
      steps.push_back(static_cast<double>(step + 1));
      times_s.push_back(trial.step_times_s[step]);
      estimates_s.push_back(EstimatedStep(
          std::vector<double>(trial.step_times_s.begin(),
                              trial.step_times_s.begin() +
                                  static_cast<std::ptrdiff_t>(step) + 1),
          trials::ThroughputOptions{}.outlier_iqr));
    }
    figure.panels.push_back(PanelOf(
        "step", fmt::format("step ({})", ShortLabel(trial.config)), "time (s)",
        {Line("step", plots::ThinStyle(0), steps, times_s),
         Line("1 / throughput so far", plots::ThinStyle(1, true), steps,
              estimates_s)}));
    figure.panels.back().name = fmt::format("{}", figure.panels.size());
  }
  return figure;
}

}  // namespace

int Noise(const StudyOptions& options, const NoiseVerbOptions& noise,
          const Sink& sink) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  for (const harness::ProblemSpec& problem : manifest.problems) {
    const harness::Testbed testbed = harness::MakeTestbed(problem);
    const std::vector<NoisyTrial> drawn = RunTrials(testbed, noise);
    plots::Table table;
    for (const NoisyTrial& trial : drawn) {
      const double iqr = trials::ThroughputOptions{}.outlier_iqr;
      const double all_s = EstimatedStep(trial.step_times_s, iqr);
      std::vector<double> five = trial.step_times_s;
      five.resize(std::min<std::size_t>(5, five.size()));
      const double change = EstimatedStep(five, iqr) / all_s - 1.0;
      table.Add({{"PC", ToString(trial.config)},
                 {"first (s)", plots::Rounded(trial.step_times_s.front(), 4)},
                 {"median (s)",
                  plots::Rounded(common::Median(trial.step_times_s), 4)},
                 {"estimate (s)", plots::Rounded(all_s, 4)},
                 {"after 5 (%)",
                  plots::Figures(fmt::format("{:+.2f}", 100.0 * change))}});
    }
    sink.out << fmt::format("{}: {} trials of {} steps\n{}",
                            testbed.description, drawn.size(), noise.steps,
                            ToText(table));
    DrawFigures(
        options, "noise", problem,
        {StepsFigure(drawn), ThresholdFigure(drawn), LengthFigure(drawn)},
        sink);
  }
  return 0;
}

}  // namespace studies
