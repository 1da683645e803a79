// Comparisons for a terminal, and rows as CSV.

#include <cmath>
#include <map>

#include <fmt/format.h>

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
