// Comparisons for a terminal and as JSON, rows as CSV.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/json.h"
#include "common/text.h"
#include "plots/table.h"
#include "studies/validation/comparison.h"

namespace studies {
namespace {

std::string Percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100.0 * share);
}

std::string Decimal(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.2f}", value);
}

std::string_view HalfName(Half half) {
  switch (half) {
    case Half::kFitted:
      return "fitted";
    case Half::kOther:
      return "other";
    default:
      return "all";
  }
}

std::string Counted(const Share& share) {
  return share.of == 0
             ? "-"
             : fmt::format("{} {}", share.rows, Percent(share.Value()));
}

// The errors of step time (t) and peak memory (m), ranks, own pick and memory.
const std::vector<std::string> kHeading = {
    "GPU",       "scope",    "half",      "rows",   "scenarios", "t rows",
    "t mean",    "t median", "t p90",     "t bias", "m rows",    "m mean",
    "m median",  "m p90",    "Spearman",  "ranked", "slower",    "picks",
    "oom picks", "oom rows", "precision", "recall", "ran, oom",  "failed, fit"};

std::vector<std::string> Cells(const Comparison& c) {
  const auto count = [](auto n) { return std::to_string(n); };
  return {c.gpu,
          c.scope,
          std::string(HalfName(c.half)),
          count(c.rows),
          count(c.scenarios),
          count(c.step_time.rows),
          Percent(c.step_time.mean),
          Percent(c.step_time.median),
          Percent(c.step_time.p90),
          Percent(c.step_time.bias),
          count(c.peak_memory.rows),
          Percent(c.peak_memory.mean),
          Percent(c.peak_memory.median),
          Percent(c.peak_memory.p90),
          Decimal(c.spearman),
          count(c.ranked_scenarios),
          Percent(c.pick_slowdown),
          count(c.picks),
          count(c.failed_picks),
          count(c.out_of_memory_rows),
          Decimal(c.out_of_memory.Precision()),
          Decimal(c.out_of_memory.Recall()),
          Counted(c.ran_called_oom),
          Counted(c.failed_called_fit)};
}

common::Json JsonOf(const ErrorSummary& error) {
  using common::ToJson;
  return {{"rows", error.rows},
          {"mean", ToJson(error.mean)},
          {"median", ToJson(error.median)},
          {"p90", ToJson(error.p90)},
          {"bias", ToJson(error.bias)}};
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
          {"step_time", JsonOf(c.step_time)},
          {"peak_memory", JsonOf(c.peak_memory)},
          {"spearman", ToJson(c.spearman)},
          {"ranked_scenarios", c.ranked_scenarios},
          {"picks", c.picks},
          {"failed_picks", c.failed_picks},
          {"pick_slowdown", ToJson(c.pick_slowdown)},
          {"out_of_memory_rows", c.out_of_memory_rows},
          {"precision", ToJson(c.out_of_memory.Precision())},
          {"recall", ToJson(c.out_of_memory.Recall())},
          {"ran_called_out_of_memory", JsonOf(c.ran_called_oom)},
          {"failed_called_fit", JsonOf(c.failed_called_fit)}};
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
         std::any_of(all.begin(), all.end(), [&](const Comparison& other) {
           return other.half == Half::kAll && other.gpu == one.gpu &&
                  other.scope == one.scope && other.rows == one.rows;
         });
}

// The columns of ToCsv after those of the table, for programs that compare rows
// of different tables.
constexpr std::string_view kAddedColumns =
    "predicted_step_time_s,predicted_peak_memory_gb,predicted_status,"
    "measured_step_time_s,measured_peak_memory_gb,measured_status,row_source,"
    "row_scenario,row_half,row_part,row_gpu,row_architecture,row_framework,"
    "row_gpus,row_hosts,row_zero_stage\n";

std::string_view StatusName(const MeasuredRow& row) {
  if (row.peak_memory == PeakMemory::kComputed) {
    return "computed";
  }
  return row.out_of_memory ? "oom" : "ok";
}

std::string AddedCells(const MeasuredTable& table, const MeasuredRow& row,
                       const Prediction& prediction) {
  const auto in_unit = [&row](double bytes) {
    return common::ExactText(bytes / row.peak_memory_unit_bytes);
  };
  std::string text = fmt::format(
      "{},{},{},{},{},{},", common::ExactText(prediction.step_time_s),
      in_unit(prediction.peak_memory_bytes), prediction.Status(),
      common::ExactText(row.step_time_s), in_unit(row.peak_memory_bytes),
      StatusName(row));
  for (const std::string_view name :
       {std::string_view(table.source), std::string_view(row.scenario),
        HalfName(row.half), std::string_view(row.part.name),
        std::string_view(row.cluster.gpu.name),
        std::string_view(row.cluster.gpu.architecture),
        std::string_view(row.framework_name)
            .substr(0, row.framework_name.find(' '))}) {
    text += common::CsvCell(std::string(name)) + ",";
  }
  return text + fmt::format("{},{},{}\n", row.cluster.gpus(), row.cluster.nodes,
                            row.config.zero_stage);
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
  plots::Table rows{.header = kHeading};
  for (const Comparison& comparison : comparisons) {
    if (!RepeatsAll(comparison, comparisons)) {
      rows.rows.push_back(Cells(comparison));
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
  std::string text;
  const auto add_cells = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) {
      text += common::CsvCell(cell) + ",";
    }
  };
  add_cells(table.csv.header());
  text += kAddedColumns;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    add_cells(table.csv.rows()[i].cells);
    text += AddedCells(table, table.rows[i], predictions[i]);
  }
  return text;
}

}  // namespace studies
