#include "studies/validation/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/statistics.h"

namespace studies {
namespace {

// Fewer configurations leave little to choose from.
constexpr std::size_t kLeastToPickFrom = 8;
constexpr int kLargestAskedFor = 256;  // GPUs; see docs/validation.md

using RowIndices = std::vector<std::size_t>;

// Rows by the name that `name_of` has for their indices, in the order of their
// first row.
template <typename NameOf>
std::vector<std::pair<std::string, RowIndices>> GroupsBy(
    const RowIndices& rows, const NameOf& name_of) {
  std::vector<std::pair<std::string, RowIndices>> groups;
  std::map<std::string, std::size_t> place;
  for (const std::size_t i : rows) {
    const auto [at, is_new] = place.try_emplace(name_of(i), groups.size());
    if (is_new) {
      groups.emplace_back(at->first, RowIndices{});
    }
    groups[at->second].second.push_back(i);
  }
  return groups;
}

// What rows of one scenario have in common if they repeat each other: not a
// configuration alone where its precision or a switch of the framework differs.
using Variant = std::tuple<trials::ParallelConfig, std::vector<int>,
                           std::string, trials::Precision, std::string>;
Variant VariantOf(const MeasuredRow& row) {
  return {row.config, row.stage_blocks, row.framework_name,
          row.workload.precision, ToString(row.workload.training)};
}

// The rows of a scenario by variant: rows that ran count, by their median.
std::vector<Candidate> CandidatesOf(const MeasuredTable& table,
                                    const std::vector<Prediction>& predictions,
                                    const RowIndices& rows) {
  std::map<Variant, RowIndices> variants;
  for (const std::size_t i : rows) {
    variants[VariantOf(table.rows[i])].push_back(i);
  }
  std::vector<Candidate> candidates;
  for (const auto& [variant, repeats] : variants) {
    Candidate& candidate = candidates.emplace_back();
    const Prediction& prediction = predictions[repeats.front()];
    candidate.predicted_s = prediction.refused.empty()
                                ? prediction.step_time_s
                                : std::numeric_limits<double>::infinity();
    candidate.fit_probability =
        prediction.refused.empty() ? prediction.fit_probability : 0.0;
    std::vector<double> times;
    for (const std::size_t i : repeats) {
      if (!std::isnan(table.rows[i].step_time_s)) {
        times.push_back(table.rows[i].step_time_s);
      }
    }
    if (!times.empty()) {
      candidate.measured_s = common::Median(times);
    }
  }
  return candidates;
}

// The sums of `values` over the rows of each variant of each scenario.
std::vector<double> SumByVariant(const MeasuredTable& table,
                                 const RowIndices& rows,
                                 const std::vector<double>& values) {
  std::map<std::pair<std::string, Variant>, double> sums;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MeasuredRow& row = table.rows[rows[i]];
    sums[{row.scenario, VariantOf(row)}] += values[i];
  }
  return common::Map(sums, &decltype(sums)::value_type::second);
}

// Whether rows that ran are predicted to run. A peak that the publisher
// computed is no run, and a crash says nothing about memory.
void AddFailures(const MeasuredRow& row, const Prediction& prediction,
                 Comparison& comparison) {
  if (row.peak_memory == PeakMemory::kComputed || row.failed) {
    return;
  }
  if (!prediction.fits) {
    comparison.precision.Count(row.out_of_memory);
  }
  if (row.out_of_memory) {
    comparison.recall.Count(!prediction.fits);
  } else {
    comparison.ran_called_oom.Count(!prediction.fits &&
                                    prediction.refused.empty());
  }
}

// `summed`: the parts of a configuration are one time.
void AddErrors(const MeasuredTable& table,
               const std::vector<Prediction>& predictions,
               const RowIndices& rows, bool summed, Comparison& comparison) {
  std::vector<double> predicted_s;
  std::vector<double> measured_s;
  std::vector<double> predicted_bytes;
  std::vector<double> measured_bytes;
  for (const std::size_t i : rows) {
    const MeasuredRow& row = table.rows[i];
    const Prediction& prediction = predictions[i];
    predicted_s.push_back(prediction.step_time_s);
    measured_s.push_back(row.step_time_s);
    predicted_bytes.push_back(prediction.peak_memory_bytes);
    measured_bytes.push_back(row.peak_memory_bytes);
    AddFailures(row, prediction, comparison);
  }
  if (summed) {
    predicted_s = SumByVariant(table, rows, predicted_s);
    measured_s = SumByVariant(table, rows, measured_s);
  }
  comparison.step_time = SummariseErrors(predicted_s, measured_s);
  comparison.peak_memory = SummariseErrors(predicted_bytes, measured_bytes);
}

bool ArePartsOfSteps(const MeasuredTable& table, const RowIndices& rows) {
  return !table.rows[rows.front()].part.name.empty();
}

void AddScenarios(const MeasuredTable& table,
                  const std::vector<Prediction>& predictions,
                  const RowIndices& rows, Comparison& comparison) {
  std::vector<double> correlations;
  std::vector<double> slowdowns;
  std::vector<double> fastest_slowdowns;
  const auto scenarios =
      GroupsBy(rows, [&](std::size_t i) { return table.rows[i].scenario; });
  comparison.scenarios = static_cast<int>(scenarios.size());
  if (ArePartsOfSteps(table, rows)) {
    return;  // they are not used to choose a configuration
  }
  for (const auto& [name, members] : scenarios) {
    const std::vector<Candidate> candidates =
        CandidatesOf(table, predictions, members);
    const Ordering ordering = OrderingOf(candidates);
    comparison.pairs.Add(ordering.pairs);
    if (!std::isnan(ordering.spearman)) {
      correlations.push_back(ordering.spearman);
    }
    const std::optional<Pick> pick = candidates.size() < kLeastToPickFrom
                                         ? std::nullopt
                                         : PickOf(candidates);
    if (pick) {
      ++comparison.picks;
      comparison.failed_picks += pick->runs ? 0 : 1;
      slowdowns.push_back(pick->slowdown);
      fastest_slowdowns.push_back(ordering.fastest_slowdown);
    }
  }
  comparison.ranked_scenarios = static_cast<int>(correlations.size());
  comparison.spearman = common::Mean(correlations);
  comparison.pick_slowdown = common::Mean(slowdowns);
  comparison.fastest_slowdown = common::Mean(fastest_slowdowns);
}

struct Scope {
  std::string name;
  std::function<bool(const MeasuredRow&)> holds;
  bool summed = false;  // over the parts of each configuration
};

// The groups of parts of a step, in the order of their first row.
std::vector<Scope> PartScopes(const MeasuredTable& table,
                              const RowIndices& rows) {
  std::vector<Scope> scopes;
  if (std::ranges::any_of(
          rows, [&](std::size_t i) { return IsOfBlock(table.rows[i]); })) {
    scopes.push_back({"block (sum)", IsOfBlock, true});
  }
  const auto groups =
      GroupsBy(rows, [&](std::size_t i) { return PartGroup(table.rows[i]); });
  for (const auto& group : groups) {
    scopes.push_back({group.first, [name = group.first](const auto& row) {
                        return PartGroup(row) == name;
                      }});
  }
  return scopes;
}

// The rows that took at most twice as long as the fastest of their scenario:
// those between which a search has to decide.
Scope NearTheBest(const MeasuredTable& table, const RowIndices& rows) {
  constexpr double kNear = 2.0;
  std::map<std::string, double> best_s;
  for (const std::size_t i : rows) {
    const MeasuredRow& row = table.rows[i];
    if (!std::isnan(row.step_time_s)) {
      const auto [at, is_new] =
          best_s.try_emplace(row.scenario, row.step_time_s);
      at->second = std::min(at->second, row.step_time_s);
    }
  }
  return {"within 2x of best", [best_s](const MeasuredRow& row) {
            const auto best = best_s.find(row.scenario);
            return best != best_s.end() &&
                   row.step_time_s <= kNear * best->second;
          }};
}

// Scopes other than "all", which contain only a part of the rows.
std::vector<Scope> ScopesOf(const MeasuredTable& table,
                            const RowIndices& rows) {
  if (ArePartsOfSteps(table, rows)) {
    return PartScopes(table, rows);
  }
  const std::vector<Scope> candidates = {
      {"one host", [](const auto& row) { return row.cluster.nodes == 1; }},
      {"several hosts", [](const auto& row) { return row.cluster.nodes > 1; }},
      {"up to 256 GPUs",
       [](const auto& row) { return row.cluster.gpus() <= kLargestAskedFor; }},
      {"over 256 GPUs",
       [](const auto& row) { return row.cluster.gpus() > kLargestAskedFor; }},
      NearTheBest(table, rows),
      {"clean", [](const auto& row) { return row.clean; }},
  };
  std::vector<Scope> scopes = {{"all", [](const auto&) { return true; }}};
  for (const Scope& scope : candidates) {
    const auto count = std::ranges::count_if(
        rows, [&](std::size_t i) { return scope.holds(table.rows[i]); });
    if (count > 0 && count < static_cast<std::ptrdiff_t>(rows.size())) {
      scopes.push_back(scope);
    }
  }
  return scopes;
}

}  // namespace

std::vector<Comparison> Compare(const MeasuredTable& table,
                                const std::vector<Prediction>& predictions) {
  std::vector<Comparison> comparisons;
  const auto add = [&](const std::string& gpu, const RowIndices& all,
                       const Scope& scope, Half half) {
    RowIndices rows;
    std::copy_if(all.begin(), all.end(), std::back_inserter(rows), [&](auto i) {
      const MeasuredRow& row = table.rows[i];
      return scope.holds(row) && (half == Half::kAll || half == row.half);
    });
    if (rows.empty()) {
      return;
    }
    Comparison& comparison = comparisons.emplace_back();
    comparison.gpu = gpu;
    comparison.scope = scope.name;
    comparison.half = half;
    comparison.rows = static_cast<int>(rows.size());
    AddErrors(table, predictions, rows, scope.summed, comparison);
    AddScenarios(table, predictions, rows, comparison);
  };
  RowIndices predicted;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (predictions[i].left_out.empty()) {
      predicted.push_back(i);
    }
  }
  const auto gpus = GroupsBy(
      predicted, [&](std::size_t i) { return table.rows[i].cluster.gpu.name; });
  for (const auto& [gpu, all] : gpus) {
    for (const Scope& scope : ScopesOf(table, all)) {
      for (const Half half : {Half::kAll, Half::kFitted, Half::kOther}) {
        add(gpu, all, scope, half);
      }
    }
  }
  return comparisons;
}

}  // namespace studies
