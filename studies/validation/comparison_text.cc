// Comparisons for a terminal and as JSON, rows as CSV.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/json.h"
#include "common/ranges.h"
#include "plots/table.h"
#include "studies/validation/comparison.h"
#include "trials/simulator/error_band.h"

namespace studies {
namespace {

plots::Cell PercentOf(double share) {
  return {std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100.0 * share),
          share};
}

plots::Cell Decimal(double value) {
  return std::isnan(value) ? plots::Figures("-") : plots::Fixed(value, 2);
}

std::string_view HalfName(Half half) {
  constexpr std::string_view kNames[] = {"all", "fitted", "other"};
  return kNames[static_cast<std::size_t>(half)];
}

// The errors of step time (t) and peak memory (m), ranks, own pick and memory:
// what a line has room for.
plots::Row RowOf(const Comparison& c) {
  return {{"GPU", c.gpu},
          {"scope", c.scope},
          {"half", HalfName(c.half)},
          {"rows", c.rows},
          {"scenarios", c.scenarios},
          {"t mean", PercentOf(c.step_time.mean)},
          {"t median", PercentOf(c.step_time.median)},
          {"t p90", PercentOf(c.step_time.p90)},
          {"t bias", PercentOf(c.step_time.bias)},
          {"m mean", PercentOf(c.peak_memory.mean)},
          {"m median", PercentOf(c.peak_memory.median)},
          {"m p90", PercentOf(c.peak_memory.p90)},
          {"Spearman", Decimal(c.spearman)},
          {"slower", PercentOf(c.pick_slowdown)},
          {"fastest", PercentOf(c.fastest_slowdown)},
          {"pairs", Decimal(c.pairs.Value())},
          {"oom rows", c.recall.of},
          {"precision", Decimal(c.precision.Value())},
          {"recall", Decimal(c.recall.Value())}};
}

common::Json JsonOf(const Share& share) {
  return {{"rows", share.rows},
          {"of", share.of},
          {"share", common::ToJson(share.Value())}};
}

common::Json JsonOf(const Comparison& c) {
  using common::ToJson;
  return {{"gpu", c.gpu},
          {"scope", c.scope},
          {"half", HalfName(c.half)},
          {"rows", c.rows},
          {"scenarios", c.scenarios},
          {"step_time", ToJson(c.step_time)},
          {"peak_memory", ToJson(c.peak_memory)},
          {"spearman", ToJson(c.spearman)},
          {"ranked_scenarios", c.ranked_scenarios},
          {"picks", c.picks},
          {"failed_picks", c.failed_picks},
          {"pick_slowdown", ToJson(c.pick_slowdown)},
          {"fastest_slowdown", ToJson(c.fastest_slowdown)},
          {"pairs_ordered_rightly", JsonOf(c.pairs)},
          {"out_of_memory_rows", c.recall.of},
          {"precision", ToJson(c.precision.Value())},
          {"recall", ToJson(c.recall.Value())},
          {"ran_called_out_of_memory", JsonOf(c.ran_called_oom)},
          {"failed_called_fit",
           JsonOf(Share{c.recall.of - c.recall.rows, c.recall.of})}};
}

}  // namespace

std::string ToJson(const MeasuredTable& table,
                   const std::vector<Comparison>& comparisons) {
  common::Json rows = common::Json::array();
  for (const Comparison& comparison : comparisons) {
    rows.push_back(JsonOf(comparison));
  }
  return common::ToText({{"table", table.name},
                         {"title", table.title},
                         {"source", table.source},
                         {"rows", table.rows.size()},
                         {"comparisons", std::move(rows)}}) +
         "\n";
}

namespace {

// A half that contains all rows of its scope, which another line has.
bool RepeatsAll(const Comparison& one, const std::vector<Comparison>& all) {
  return one.half != Half::kAll &&
         std::ranges::any_of(all, [&](const Comparison& other) {
           return other.half == Half::kAll && other.gpu == one.gpu &&
                  other.scope == one.scope && other.rows == one.rows;
         });
}

std::string_view StatusName(const MeasuredRow& row) {
  if (row.peak_memory == PeakMemory::kComputed) {
    return "computed";
  }
  return row.out_of_memory ? "oom" : row.failed ? "failed" : "ok";
}

// The columns of ToCsv after those of the table, for programs that compare rows
// of different tables.
plots::Row AddedTo(const std::string& source, const MeasuredRow& row,
                   const Prediction& prediction) {
  const double unit = row.peak_memory_unit_bytes;
  const std::string& framework = row.framework_name;
  const std::vector<trials::Guess> guesses =
      trials::GuessesOf(row.workload, row.cluster.gpu, row.framework);
  return {
      {"predicted_step_time_s", prediction.step_time_s},
      {"predicted_peak_memory_gb", prediction.peak_memory_bytes / unit},
      {"predicted_status", prediction.Status()},
      {"measured_step_time_s", row.step_time_s},
      {"measured_peak_memory_gb", row.peak_memory_bytes / unit},
      {"measured_status", StatusName(row)},
      {"row_source", source},
      {"row_scenario", row.scenario},
      {"row_half", HalfName(row.half)},
      {"row_part", row.part.name},
      {"row_gpu", row.cluster.gpu.name},
      {"row_architecture", row.cluster.gpu.architecture},
      {"row_framework", framework.substr(0, framework.find(' '))},
      {"row_gpus", row.cluster.gpus()},
      {"row_hosts", row.cluster.nodes},
      {"row_zero_stage", row.config.zero_stage},
      {"row_kind", row.framework.kind},
      {"row_clean", row.clean ? 1 : 0},
      {"row_guess",
       fmt::format("{}",
                   fmt::join(common::Map(guesses, &trials::Guess::kind), ";"))},
      {"predicted_fit_probability", prediction.fit_probability}};
}

}  // namespace

std::string ToText(const MeasuredTable& table,
                   const std::vector<Prediction>& predictions,
                   const std::vector<Comparison>& comparisons) {
  std::map<std::string, int> left_out;
  std::map<std::string, int> refused;
  for (const Prediction& prediction : predictions) {
    ++left_out[prediction.left_out];
    ++refused[prediction.refused];
  }
  std::string text = fmt::format("{}: {}; {} rows\n", table.name, table.title,
                                 table.rows.size());
  plots::Table rows;
  for (const Comparison& comparison : comparisons) {
    if (!RepeatsAll(comparison, comparisons)) {
      rows.Add(RowOf(comparison));
    }
  }
  text += rows.rows.empty() ? "" : plots::ToText(rows);
  const auto add = [&](std::string_view what, const auto& reasons) {
    for (const auto& [reason, count] : reasons) {
      if (!reason.empty()) {
        text += fmt::format("{}: {} rows: {}\n", what, count, reason);
      }
    }
  };
  add("left out", left_out);
  add("do not run", refused);
  return text;
}

std::string ToCsv(const MeasuredTable& table,
                  const std::vector<Prediction>& predictions) {
  const auto row_of = [&](const std::vector<std::string>& cells,
                          const plots::Row& added) {
    plots::Row row;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      row.emplace_back(table.csv.header()[c], cells[c]);
    }
    row.insert(row.end(), added.begin(), added.end());
    return row;
  };
  plots::Table csv{
      .columns = row_of(table.csv.header(), AddedTo("", MeasuredRow{}, {}))};
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    csv.Add(row_of(table.csv.rows()[i].cells,
                   AddedTo(table.source, table.rows[i], predictions[i])));
  }
  return plots::ToCsv(csv);
}

}  // namespace studies
