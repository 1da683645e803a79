#include "plots/summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "common/ranges.h"
#include "common/units.h"
#include "plots/curve.h"

namespace plots {
namespace {

using RunNumber = std::function<double(const Run&)>;

// If a value is unknown in one run, the result is unknown.
bool AnyUnknown(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double v) { return std::isnan(v); });
}

double MedianOf(const std::vector<Run>& runs, const RunNumber& of) {
  const std::vector<double> values = common::Map(runs, of);
  return AnyUnknown(values) ? trials::kUnknown : common::Median(values);
}

common::Quartiles QuartilesOf(const std::vector<double>& values) {
  return AnyUnknown(values) ? common::Quartiles{}
                            : common::ComputeQuartiles(values);
}

RunNumber CountOf(trials::Outcome outcome) {
  return [outcome](const Run& run) {
    return static_cast<double>(
        std::ranges::count_if(run.trials, [&](const auto& trial) {
          return trial.measurement.outcome == outcome;
        }));
  };
}

double MeanThinking(const Run& run) {
  std::vector<double> known;
  for (const trials::SuggestionTime& record : run.suggestion_times) {
    if (!std::isnan(record.wall_s)) {
      known.push_back(record.wall_s);
    }
  }
  return common::Mean(known);
}

Reach ReachOf(const std::vector<Run>& runs, const trials::ProblemInfo& problem,
              double fraction) {
  const double target = fraction * problem.optimum_steps_per_s;
  const auto first = [&](Cost cost) {
    return common::Map(runs, [&, cost](const Run& run) {
      return FirstReached(IncumbentCurve(run, problem, cost, Value::kExact),
                          target);
    });
  };
  const std::vector<double> times_s = first(Cost::kTime);
  return {.time_s = common::Median(times_s),
          .trials = common::Median(first(Cost::kTrials)),
          .runs = static_cast<int>(std::ranges::count_if(
              times_s, [](double t) { return std::isfinite(t); }))};
}

void SetBest(const std::vector<Run>& runs, MethodSummary& summary) {
  for (const Run& run : runs) {
    const std::vector<int> incumbents = Incumbents(run.trials);
    if (incumbents.empty() || incumbents.back() < 0) {
      continue;
    }
    const trials::Trial& trial = run.trials[incumbents.back()];
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

// The shares over the runs of a method on some problems.
std::array<Share, kCheckpoints.size()> SharesOf(
    const std::vector<const MethodSummary*>& problems) {
  std::array<Share, kCheckpoints.size()> shares;
  for (std::size_t c = 0; c < kCheckpoints.size(); ++c) {
    std::vector<std::vector<double>> strata;
    std::vector<double> medians;
    common::Quartiles quartiles{0.0, 0.0, 0.0};
    for (const MethodSummary* problem : problems) {
      std::vector<double>& shares_of_runs = strata.emplace_back();
      for (const RunShare& run : problem->run_shares) {
        shares_of_runs.push_back(run.at[c]);
      }
      const common::Quartiles one = QuartilesOf(shares_of_runs);
      medians.push_back(one.median);
      quartiles.q1 += one.q1 / static_cast<double>(problems.size());
      quartiles.q3 += one.q3 / static_cast<double>(problems.size());
    }
    shares[c].mean = common::Bootstrap(strata, common::Statistic::kMean);
    if (c == kEnd) {
      shares[c].median = common::Bootstrap(strata, common::Statistic::kMedian);
      shares[c].q1 = quartiles.q1;
      shares[c].q3 = quartiles.q3;
    } else {
      shares[c].median.value = common::Mean(medians);
    }
  }
  return shares;
}

MethodSummary SummarizeMethod(const MethodRecords& method,
                              const trials::ProblemInfo& problem, int repeats) {
  const std::vector<Run>& runs = method.runs;
  MethodSummary summary{.problem = problem.name,
                        .method = method.name,
                        .label = method.label,
                        .family = method.family,
                        .repeats = repeats,
                        .runs = static_cast<int>(runs.size())};
  summary.finished = static_cast<int>(
      std::ranges::count_if(runs, [](const Run& run) { return run.finished; }));
  if (runs.empty()) {
    return summary;
  }
  summary.throughput = QuartilesOf(common::Map(runs, [&](const Run& run) {
    return ValueAt(
        IncumbentCurve(run, problem, Cost::kTrials, Value::kMeasured),
        common::kInfinity);
  }));
  if (problem.time_budget_s > 0.0) {
    summary.throughput_halfway = MedianOf(runs, [&](const Run& run) {
      return ValueAt(
          IncumbentCurve(run, problem, Cost::kTime, Value::kMeasured),
          0.5 * problem.time_budget_s);
    });
  }
  summary.run_shares = RunSharesOf(runs, problem);
  summary.shares = SharesOf({&summary});
  if (!std::isnan(summary.shares[kEnd].mean.value)) {
    summary.reach_95 = ReachOf(runs, problem, 0.95);
    summary.reach_99 = ReachOf(runs, problem, 0.99);
  }
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
  return {&s.reach_95.time_s, &s.reach_95.trials, &s.reach_99.time_s,
          &s.reach_99.trials, &s.trials,          &s.terminated_early,
          &s.out_of_memory,   &s.thinking_s};
}

// The problems, among those that `in_half` selects, for which every method that
// has any runs has some.
std::vector<std::size_t> Comparable(
    const std::vector<ProblemSummary>& problems,
    const std::function<bool(const std::string&)>& in_half) {
  std::vector<std::size_t> comparable;
  const auto has_runs = [&](std::size_t m) {
    return std::ranges::any_of(
        problems, [&](const auto& p) { return p.methods[m].runs > 0; });
  };
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const ProblemSummary& problem = problems[p];
    bool complete = in_half(problem.info.name);
    for (std::size_t m = 0; m < problem.methods.size(); ++m) {
      complete = complete && (problem.methods[m].runs > 0 || !has_runs(m));
    }
    if (complete) {
      comparable.push_back(p);
    }
  }
  return comparable;
}

bool IsHeldOut(const trials::ExperimentInfo& info, const std::string& problem) {
  return info.held_out.has_value() &&
         std::find(info.held_out->begin(), info.held_out->end(), problem) !=
             info.held_out->end();
}

MethodSummary MeanOf(const Summary& summary, const MeanSummary& mean_over,
                     std::size_t method) {
  const auto problems =
      common::Map(mean_over.problems, [&](std::size_t problem) {
        return &summary.problems[problem].methods[method];
      });
  MethodSummary mean{.problem = mean_over.name,
                     .method = problems.front()->method,
                     .label = problems.front()->label,
                     .family = problems.front()->family};
  for (double* number : Averaged(mean)) {
    *number = 0.0;
  }
  for (const MethodSummary* problem : problems) {
    MethodSummary one = *problem;
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
  mean.shares = SharesOf(problems);
  return mean;
}

void AddMean(const std::string& half,
             const std::function<bool(const std::string&)>& in_half,
             Summary& summary) {
  MeanSummary mean{.name = half.empty() ? "(mean)" : "(mean " + half + ")",
                   .half = half,
                   .problems = Comparable(summary.problems, in_half)};
  if (mean.problems.empty()) {
    return;
  }
  const std::size_t methods = summary.problems.front().methods.size();
  for (std::size_t m = 0; m < methods; ++m) {
    mean.methods.push_back(MeanOf(summary, mean, m));
  }
  summary.means.push_back(std::move(mean));
}

}  // namespace

std::string CheckpointName(std::size_t checkpoint) {
  return checkpoint == kEnd ? "end" : std::to_string(kCheckpoints[checkpoint]);
}

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
  AddMean(
      "", [](const auto& /*problem*/) { return true; }, summary);
  if (RunsHeldOut(records.info)) {
    const auto held_out = [&](const std::string& problem) {
      return IsHeldOut(records.info, problem);
    };
    AddMean("development", std::not_fn(held_out), summary);
    AddMean("held-out", held_out, summary);
  }
  return summary;
}

std::vector<RunShare> RunSharesOf(const std::vector<Run>& runs,
                                  const trials::ProblemInfo& problem) {
  std::vector<RunShare> shares;
  for (const Run& run : runs) {
    if (!(problem.optimum_steps_per_s > 0.0)) {
      break;
    }
    const StepCurve curve =
        IncumbentCurve(run, problem, Cost::kTrials, Value::kExact);
    RunShare& share = shares.emplace_back();
    share.repeat = run.repeat;
    share.finished = run.finished;
    for (std::size_t c = 0; c < kCheckpoints.size(); ++c) {
      share.at[c] =
          ValueAt(curve, c == kEnd ? common::kInfinity : kCheckpoints[c]) /
          problem.optimum_steps_per_s;
    }
  }
  return shares;
}

bool RunsHeldOut(const trials::ExperimentInfo& info) {
  return std::ranges::any_of(
      info.problems, [&](const auto& name) { return IsHeldOut(info, name); });
}

}  // namespace plots
