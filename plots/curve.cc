#include "plots/curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "common/units.h"

namespace plots {
namespace {

// Beyond its last trial a run is known if waiting longer cannot change it.
double KnownTo(const Run& run, const trials::ProblemInfo& problem, Cost cost,
               double last_x) {
  const bool done = run.finish_reason == trials::FinishReason::kMethodDone ||
                    run.finish_reason == trials::FinishReason::kSpaceExhausted;
  const bool spent =
      cost == Cost::kTime && std::isfinite(problem.time_budget_s);
  return run.finished && (done || spent) ? common::kInfinity : last_x;
}

double CostOf(const trials::Trial& trial, Cost cost, double before) {
  switch (cost) {
    case Cost::kTime:
      return trial.elapsed_s;
    case Cost::kTrials:
      return before + 1.0;
    case Cost::kSteps:
      return before + trial.steps;
  }
  return before;
}

}  // namespace

double ValueAt(const StepCurve& curve, double x) {
  const auto after = std::ranges::upper_bound(curve.x, x);
  return after == curve.x.begin() ? 0.0 : curve.y[after - curve.x.begin() - 1];
}

double FirstReached(const StepCurve& curve, double target) {
  const auto found = std::ranges::find_if(
      curve.y, [&](double value) { return value >= target; });
  return found == curve.y.end() ? common::kInfinity
                                : curve.x[found - curve.y.begin()];
}

StepCurve IncumbentCurve(const Run& run, const trials::ProblemInfo& problem,
                         Cost cost, Value value) {
  StepCurve curve;
  const std::vector<int> incumbents = Incumbents(run.trials);
  double x = 0.0;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const trials::Trial& trial = run.trials[i];
    x = CostOf(trial, cost, x);
    if (incumbents[i] == static_cast<int>(i)) {
      curve.x.push_back(x);
      curve.y.push_back(value == Value::kMeasured ? trial.throughput.steps_per_s
                                                  : trial.exact_steps_per_s);
    }
  }
  curve.known_to = KnownTo(run, problem, cost, x);
  return curve;
}

StepCurve TrialCountCurve(const Run& run, const trials::ProblemInfo& problem) {
  StepCurve curve;
  double x = 0.0;
  for (const trials::Trial& trial : run.trials) {
    x = trial.elapsed_s;
    curve.x.push_back(x);
    curve.y.push_back(static_cast<double>(curve.x.size()));
  }
  curve.known_to = KnownTo(run, problem, Cost::kTime, x);
  return curve;
}

double TrainingStepsAt(const Run& run, double t) {
  double steps = 0.0;
  for (const trials::Trial& trial : run.trials) {
    if (t >= trial.elapsed_s) {
      steps += trial.steps;
      continue;
    }
    const double first_step_s = trial.elapsed_s - trial.measurement.duration_s +
                                trial.measurement.setup_s;
    const double stepping_s = trial.elapsed_s - first_step_s;
    if (t > first_step_s && stepping_s > 0.0) {
      steps += trial.steps * (t - first_step_s) / stepping_s;
    }
    return steps;
  }
  const double incumbent =
      run.trials.empty() ? 0.0 : run.trials.back().incumbent_steps_per_s;
  return incumbent > 0.0 ? steps + incumbent * (t - run.trials.back().elapsed_s)
                         : steps;
}

Band Aggregate(const std::vector<StepCurve>& curves,
               const std::vector<double>& grid) {
  Band band{.x = grid};
  for (const double x : grid) {
    std::vector<double> values;
    std::size_t known = 0;
    for (const StepCurve& curve : curves) {
      if (x <= curve.known_to) {
        ++known;
      }
      if (x <= curve.known_to || curve.keeps_last) {
        values.push_back(ValueAt(curve, x));
      }
    }
    const bool drawn = known > 0 && 2 * known >= curves.size();
    band.y.push_back(drawn ? common::ComputeQuartiles(std::move(values))
                           : common::Quartiles{});
  }
  return band;
}

double LineEnd(const std::vector<StepCurve>& curves) {
  std::vector<double> ends;
  for (const StepCurve& curve : curves) {
    // A run that keeps its value forever is drawn up to its last change.
    ends.push_back(std::isfinite(curve.known_to) ? curve.known_to
                   : curve.x.empty()             ? 0.0
                                                 : curve.x.back());
  }
  if (ends.empty()) {
    return 0.0;
  }
  std::ranges::sort(ends, std::greater<>());
  return ends[(ends.size() + 1) / 2 - 1];
}

std::vector<double> UniformGrid(double first, double last, int points) {
  std::vector<double> grid;
  for (int i = 0; i < points; ++i) {
    grid.push_back(first + (last - first) * i / (points - 1));
  }
  return grid;
}

}  // namespace plots
