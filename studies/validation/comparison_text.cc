// Comparisons for a terminal and as JSON, rows as CSV.

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/json.h"
#include "common/text.h"
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
    case Half::kEven:
      return "even";
    case Half::kOdd:
      return "odd";
    default:
      return "all";
  }
}

constexpr std::string_view kHeading =
    "                                              | step time, error          "
    "  "
    " "
    "   | peak memory, error      | ranks         | own pick         | out of "
    "memory\n"
    "{:<15} {:<17} {:<4} {:>4}  {:>4} | {:>4} {:>6} {:>6} {:>6} {:>6} | {:>4} "
    "{:>6} {:>6} {:>6} | {:>8} {:>4} | {:>6} {:>4} {:>4} | {:>4} {:>5} {:>6}\n";

std::string Line(const Comparison& c) {
  return fmt::format(
      "{:<15} {:<17} {:<4} {:>4}  {:>4} | {:>4} {:>6} {:>6} {:>6} {:>6} | "
      "{:>4} {:>6} {:>6} {:>6} | {:>8} {:>4} | {:>6} {:>4} {:>4} | {:>4} "
      "{:>5} {:>6}\n",
      c.gpu,
      c.scope,
      HalfName(c.half),
      c.rows,
      c.scenarios,
      c.step_time.rows,
      Percent(c.step_time.mean),
      Percent(c.step_time.median),
      Percent(c.step_time.p90),
      Percent(c.step_time.bias),
      c.peak_memory.rows,
      Percent(c.peak_memory.mean),
      Percent(c.peak_memory.median),
      Percent(c.peak_memory.p90),
      Decimal(c.spearman),
      c.ranked_scenarios,
      Percent(c.pick_slowdown),
      c.picks,
      c.failed_picks,
      c.out_of_memory_rows,
      Decimal(c.out_of_memory.Precision()),
      Decimal(c.out_of_memory.Recall()));
}

common::Json JsonOf(const ErrorSummary& error) {
  using common::ToJson;
  return {{"rows", error.rows},
          {"mean", ToJson(error.mean)},
          {"median", ToJson(error.median)},
          {"p90", ToJson(error.p90)},
          {"bias", ToJson(error.bias)}};
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
          {"recall", ToJson(c.out_of_memory.Recall())}};
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
                         {"rows", table.rows.size()},
                         {"comparisons", std::move(rows)}}) +
         "\n";
}

std::string ToText(const MeasuredTable& table,
                   const std::vector<Prediction>& predictions,
                   const std::vector<Comparison>& comparisons) {
  std::map<std::string, int> left_out;
  std::map<std::string, int> refused;
  for (const Prediction& prediction : predictions) {
    ++left_out[prediction.left_out];
    ++refused[prediction.refused];
  }
  std::string text = fmt::format(
      "{}: {}; {} rows\n", table.name, table.title, table.rows.size());
  if (!comparisons.empty()) {
    text += fmt::format(kHeading,
                        "GPU",
                        "scope",
                        "half",
                        "rows",
                        "sc.",
                        "rows",
                        "mean",
                        "median",
                        "p90",
                        "bias",
                        "rows",
                        "mean",
                        "median",
                        "p90",
                        "Spearman",
                        "sc.",
                        "slower",
                        "sc.",
                        "oom",
                        "rows",
                        "prec.",
                        "recall");
  }
  for (const Comparison& comparison : comparisons) {
    text += Line(comparison);
  }
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
  text += "predicted_step_time_s,predicted_peak_memory_gb,predicted_status\n";
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const Prediction& prediction = predictions[i];
    add_cells(table.csv.rows()[i].cells);
    text += fmt::format("{},{},{}\n",
                        common::ExactText(prediction.step_time_s),
                        common::ExactText(prediction.peak_memory_bytes /
                                          table.rows[i].peak_memory_unit_bytes),
                        prediction.Status());
  }
  return text;
}

}  // namespace studies
