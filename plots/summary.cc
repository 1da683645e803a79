#include "plots/summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "plots/curve.h"

namespace plots {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using RunNumber = std::function<double(const Run&)>;

std::vector<double> Over(const std::vector<Run>& runs, const RunNumber& of) {
  std::vector<double> values;
  for (const Run& run : runs) {
    values.push_back(of(run));
  }
  return values;
}

// If a value is unknown in one run, the result is unknown.
bool AnyUnknown(const std::vector<double>& values) {
  return std::any_of(
      values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

double MedianOf(const std::vector<Run>& runs, const RunNumber& of) {
  const std::vector<double> values = Over(runs, of);
  return AnyUnknown(values) ? trials::kUnknown : common::Median(values);
}

common::Quartiles QuartilesOf(const std::vector<Run>& runs,
                              const RunNumber& of) {
  const std::vector<double> values = Over(runs, of);
  return AnyUnknown(values) ? common::Quartiles{}
                            : common::ComputeQuartiles(values);
}

RunNumber CountOf(trials::Outcome outcome) {
  return [outcome](const Run& run) {
    return static_cast<double>(std::count_if(
        run.trials.begin(), run.trials.end(), [&](const auto& trial) {
          return trial.measurement.outcome == outcome;
        }));
  };
}

double MeanThinking(const Run& run) {
  double sum = 0.0;
  for (const trials::SuggestionTime& record : run.suggestion_times) {
    sum += record.wall_s;
  }
  return run.suggestion_times.empty()
             ? trials::kUnknown
             : sum / static_cast<double>(run.suggestion_times.size());
}

// The final value of an incumbent curve.
double Last(const StepCurve& curve) {
  return curve.y.empty() ? 0.0 : curve.y.back();
}

// The first cost at which the curve is at least `target`.
double FirstReached(const StepCurve& curve, double target) {
  for (std::size_t i = 0; i < curve.y.size(); ++i) {
    if (curve.y[i] >= target) {
      return curve.x[i];
    }
  }
  return kNever;
}

Reach ReachOf(const std::vector<Run>& runs,
              const trials::ProblemInfo& problem,
              double fraction) {
  const double target = fraction * problem.optimum_steps_per_s;
  const auto first = [&](Cost cost) {
    return Over(runs, [&, cost](const Run& run) {
      return FirstReached(IncumbentCurve(run, problem, cost, Value::kExact),
                          target);
    });
  };
  const std::vector<double> times_s = first(Cost::kTime);
  return {.time_s = common::Median(times_s),
          .trials = common::Median(first(Cost::kTrials)),
          .runs = static_cast<int>(
              std::count_if(times_s.begin(), times_s.end(), [](double t) {
                return std::isfinite(t);
              }))};
}

void SetBest(const std::vector<Run>& runs, MethodSummary& summary) {
  for (const Run& run : runs) {
    const std::vector<int> incumbents = Incumbents(run.trials);
    if (incumbents.empty() || incumbents.back() < 0) {
      continue;
    }
    const trials::Trial& trial =
        run.trials[static_cast<std::size_t>(incumbents.back())];
    const bool exact = !std::isnan(trial.exact_steps_per_s);
    const double value =
        exact ? trial.exact_steps_per_s : trial.throughput.steps_per_s;
    if (!(summary.best_steps_per_s >= value)) {
      summary.best_steps_per_s = value;
      summary.best_is_exact = exact;
      summary.best_config = CandidateLabel(trial);
    }
  }
}

// Everything that is relative to the exhaustive optimum.
void SetRatios(const std::vector<Run>& runs,
               const trials::ProblemInfo& problem,
               MethodSummary& summary) {
  if (!(problem.optimum_steps_per_s > 0.0)) {
    return;
  }
  const auto exact_by_trials = [&](const Run& run) {
    return IncumbentCurve(run, problem, Cost::kTrials, Value::kExact);
  };
  const auto ratio_after = [&](double trials) {
    return MedianOf(runs, [&, trials](const Run& run) {
      return ValueAt(exact_by_trials(run), trials) /
             problem.optimum_steps_per_s;
    });
  };
  summary.ratio = QuartilesOf(runs, [&](const Run& run) {
    return Last(exact_by_trials(run)) / problem.optimum_steps_per_s;
  });
  summary.ratio_after_10 = ratio_after(10.0);
  summary.ratio_after_20 = ratio_after(20.0);
  if (!std::isnan(summary.ratio.median)) {
    summary.reach_95 = ReachOf(runs, problem, 0.95);
    summary.reach_99 = ReachOf(runs, problem, 0.99);
  }
}

MethodSummary SummarizeMethod(const MethodRecords& method,
                              const trials::ProblemInfo& problem,
                              int repeats) {
  const std::vector<Run>& runs = method.runs;
  MethodSummary summary{.problem = problem.name,
                        .method = method.name,
                        .label = method.label,
                        .repeats = repeats,
                        .runs = static_cast<int>(runs.size())};
  summary.finished = static_cast<int>(std::count_if(
      runs.begin(), runs.end(), [](const Run& run) { return run.finished; }));
  if (runs.empty()) {
    return summary;
  }
  summary.throughput = QuartilesOf(runs, [&](const Run& run) {
    return Last(IncumbentCurve(run, problem, Cost::kTrials, Value::kMeasured));
  });
  if (problem.time_budget_s > 0.0) {
    summary.throughput_halfway = MedianOf(runs, [&](const Run& run) {
      return ValueAt(
          IncumbentCurve(run, problem, Cost::kTime, Value::kMeasured),
          0.5 * problem.time_budget_s);
    });
  }
  SetRatios(runs, problem, summary);
  summary.trials = MedianOf(runs, [](const Run& run) {
    return static_cast<double>(run.trials.size());
  });
  summary.terminated_early =
      MedianOf(runs, CountOf(trials::Outcome::kTerminatedEarly));
  summary.out_of_memory =
      MedianOf(runs, CountOf(trials::Outcome::kOutOfMemory));
  summary.thinking_s = MedianOf(runs, MeanThinking);
  SetBest(runs, summary);
  return summary;
}

// The numbers that are averaged over problems.
std::vector<double*> Averaged(MethodSummary& s) {
  return {&s.ratio.q1,
          &s.ratio.median,
          &s.ratio.q3,
          &s.ratio_after_10,
          &s.ratio_after_20,
          &s.reach_95.time_s,
          &s.reach_95.trials,
          &s.reach_99.time_s,
          &s.reach_99.trials,
          &s.trials,
          &s.terminated_early,
          &s.out_of_memory,
          &s.thinking_s};
}

// The problems for which every method that has any runs has some.
std::vector<const ProblemSummary*> Comparable(
    const std::vector<ProblemSummary>& problems) {
  std::vector<const ProblemSummary*> comparable;
  const auto has_runs = [&](std::size_t m) {
    return std::any_of(problems.begin(), problems.end(), [&](const auto& p) {
      return p.methods[m].runs > 0;
    });
  };
  for (const ProblemSummary& problem : problems) {
    bool complete = true;
    for (std::size_t m = 0; m < problem.methods.size(); ++m) {
      complete = complete && (problem.methods[m].runs > 0 || !has_runs(m));
    }
    if (complete) {
      comparable.push_back(&problem);
    }
  }
  return comparable;
}

MethodSummary MeanOf(const std::vector<const ProblemSummary*>& problems,
                     std::size_t method) {
  MethodSummary mean{.problem = "(mean)",
                     .method = problems.front()->methods[method].method,
                     .label = problems.front()->methods[method].label};
  for (double* number : Averaged(mean)) {
    *number = 0.0;
  }
  for (const ProblemSummary* problem : problems) {
    MethodSummary one = problem->methods[method];
    mean.repeats += one.repeats;
    mean.runs += one.runs;
    mean.finished += one.finished;
    mean.reach_95.runs += one.reach_95.runs;
    mean.reach_99.runs += one.reach_99.runs;
    const std::vector<double*> from = Averaged(one);
    const std::vector<double*> to = Averaged(mean);
    for (std::size_t i = 0; i < to.size(); ++i) {
      *to[i] += *from[i] / static_cast<double>(problems.size());
    }
  }
  return mean;
}

}  // namespace

Summary Summarize(const ExperimentRecords& records) {
  Summary summary;
  for (const ProblemRecords& problem : records.problems) {
    ProblemSummary& one = summary.problems.emplace_back();
    one.info = problem.info;
    for (const MethodRecords& method : problem.methods) {
      one.methods.push_back(
          SummarizeMethod(method, problem.info, records.info.repeats));
    }
  }
  if (records.info.problems.size() < 2) {
    return summary;
  }
  const std::vector<const ProblemSummary*> comparable =
      Comparable(summary.problems);
  summary.mean.problems = static_cast<int>(comparable.size());
  for (std::size_t m = 0;
       !comparable.empty() && m < records.info.methods.size();
       ++m) {
    summary.mean.methods.push_back(MeanOf(comparable, m));
  }
  return summary;
}

}  // namespace plots
