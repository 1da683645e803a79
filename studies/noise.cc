#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "harness/spec.h"
#include "harness/testbeds/testbeds.h"
#include "studies/verbs.h"
#include "trials/measurement.h"

namespace studies {
namespace {

using common::InputError;
using trials::ParallelConfig;

struct NoisyTrial {
  ParallelConfig config;
  std::vector<double> step_times_s;
};

std::string ShortLabel(const ParallelConfig& config) {
  return fmt::format("dp {}, tp {}, pp {}", config.dp, config.tp, config.pp);
}

// Trials of configurations drawn among those that fit, of different sizes.
std::vector<NoisyTrial> RunTrials(const harness::Testbed& testbed,
                                  const NoiseVerbOptions& noise) {
  std::mt19937_64 random(static_cast<std::uint64_t>(noise.seed));
  std::vector<int> rest = common::Indices(testbed.space->size());
  std::set<std::string> sizes;
  std::vector<NoisyTrial> drawn;
  while (!rest.empty() && std::ssize(drawn) < noise.trials) {
    std::swap(rest[random() % rest.size()], rest.back());
    const ParallelConfig& config = (*testbed.space)[rest.back()];
    rest.pop_back();
    if (testbed.exact->ExactThroughput(config).value_or(0.0) > 0.0 &&
        sizes.insert(ShortLabel(config)).second) {
      trials::TrialRequest request;
      request.candidate = config;
      request.max_steps = noise.steps;
      request.seed = random();
      drawn.push_back({config, testbed.runner->Run(request).step_times_s});
    }
  }
  if (drawn.empty()) {
    throw InputError("noise: no configuration of the problem fits");
  }
  return drawn;
}

double EstimatedStep(
    const std::vector<double>& step_times_s,
    double outlier_iqr = trials::ThroughputOptions{}.outlier_iqr) {
  trials::ThroughputOptions options;
  options.outlier_iqr = outlier_iqr;
  return 1.0 / trials::EstimateThroughput(step_times_s, options).steps_per_s;
}

// From the first steps alone.
double EstimatedEarly(const std::vector<double>& step_times_s,
                      std::size_t steps) {
  std::vector<double> first = step_times_s;
  first.resize(std::min(steps, first.size()));
  return EstimatedStep(first);
}

std::string SimulatedNoise(const std::string& explanation) {
  return "Simulated trials: the noise follows the model of docs/simulator.md, "
         "with constants that are assumed or fitted elsewhere. " +
         explanation;
}

// Fig. 3: every step, and the estimate of the step time.
plots::Figure StepsFigure(const std::vector<NoisyTrial>& drawn) {
  std::vector<plots::Series> series;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto& times = drawn[i].step_times_s;
    const int style = static_cast<int>(i);
    const std::vector<double> steps = Counting(static_cast<int>(times.size()));
    const std::string label = ShortLabel(drawn[i].config);
    series.push_back(Line(label, plots::ThinStyle(style), steps, times));
    series.push_back(
        Line("", plots::ThinStyle(style, true), steps,
             std::vector<double>(times.size(), EstimatedStep(times))));
    series.back().name = label + " estimate";
  }
  return {.name = "noise-steps",
          .title = "Step times of simulated trials",
          .caption = SimulatedNoise(
              "Dashed: 1 / throughput as estimated from all steps."),
          .panels = {PanelOver("step", "training step", "time (s)",
                               std::move(series))}};
}

// Fig. 10: the mean against the threshold, relative to the one in use.
plots::Figure ThresholdFigure(const std::vector<NoisyTrial>& drawn) {
  std::vector<plots::Series> series;
  std::vector<double> thresholds;
  for (int quarter = 2; quarter <= 24; ++quarter) {
    thresholds.push_back(0.25 * quarter);
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double usual_s = EstimatedStep(drawn[i].step_times_s);
    const auto ratios = common::Map(thresholds, [&](double threshold) {
      return EstimatedStep(drawn[i].step_times_s, threshold) / usual_s;
    });
    series.push_back(Line(ShortLabel(drawn[i].config),
                          plots::StyleOf(static_cast<int>(i), false),
                          thresholds, ratios));
  }
  return {
      .name = "noise-threshold",
      .title = "Outlier threshold",
      .caption = SimulatedNoise("Measurements further than this from the "
                                "median are left out."),
      .panels = {PanelOver("threshold", "threshold (inter-quartile ranges)",
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
      estimates_s.push_back(EstimatedEarly(trial.step_times_s, step + 1));
    }
    figure.panels.push_back(PanelOver(
        "step", fmt::format("step ({})", ShortLabel(trial.config)), "time (s)",
        {Line("step", plots::ThinStyle(0), steps, times_s),
         Line("1 / throughput so far", plots::ThinStyle(1, true), steps,
              estimates_s)}));
    figure.panels.back().name = fmt::format("{}", figure.panels.size());
  }
  return figure;
}

Output OutputOf(const harness::ProblemSpec& problem,
                const NoiseVerbOptions& noise) {
  const harness::Testbed testbed = harness::MakeTestbed(problem);
  const std::vector<NoisyTrial> drawn = RunTrials(testbed, noise);
  Output output{
      .name = "noise",
      .conclusion = fmt::format("{}: {} trials of {} steps.",
                                testbed.description, drawn.size(), noise.steps),
      .figures = {StepsFigure(drawn), ThresholdFigure(drawn),
                  LengthFigure(drawn)}};
  for (const NoisyTrial& trial : drawn) {
    const std::vector<double>& times = trial.step_times_s;
    const double all_s = EstimatedStep(times);
    const double change = 100.0 * (EstimatedEarly(times, 5) / all_s - 1.0);
    output.table.Add(
        {{"PC", ToString(trial.config)},
         {"first (s)", plots::Rounded(times.front(), 4)},
         {"median (s)", plots::Rounded(common::Median(times), 4)},
         {"estimate (s)", plots::Rounded(all_s, 4)},
         {"after 5 (%)", {fmt::format("{:+.2f}", change), change}}});
  }
  return output;
}

}  // namespace

int Noise(const StudyOptions& options, const NoiseVerbOptions& noise,
          const Sink& sink) {
  return WriteEach(
      options, "noise",
      [&](const auto& problem) { return OutputOf(problem, noise); }, sink);
}

}  // namespace studies
