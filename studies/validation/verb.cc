#include "studies/validation/verb.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"
#include "plots/figure.h"
#include "plots/figure_files.h"
#include "studies/output.h"
#include "studies/validation/bands.h"
#include "studies/validation/comparison.h"
#include "studies/validation/prediction.h"

namespace studies {
namespace {

using common::kGiga;

// Rows that have both values, with one color for each kind of cluster.
struct Points {
  std::vector<double> measured;
  std::vector<double> predicted;
  std::vector<std::string> groups;
  std::vector<std::string> scenarios;

  void Add(const MeasuredRow& row, double measured_one, double predicted_one) {
    if (measured_one > 0.0 && predicted_one > 0.0) {
      measured.push_back(measured_one);
      predicted.push_back(predicted_one);
      groups.push_back(
          fmt::format("{}: {}", row.cluster.gpu.name,
                      row.cluster.nodes == 1 ? "one host" : "several hosts"));
      scenarios.push_back(row.scenario);
    }
  }
};

// Logarithmic axes of one range; `quantity` has its unit: "step time (s)".
// Nothing without points. Source of the form: Aceso, Figs. 15 and 16.
std::vector<plots::Figure> Scatter(const std::string& name,
                                   const std::string& title,
                                   const std::string& quantity,
                                   const Points& points) {
  if (points.measured.empty()) {
    return {};
  }
  constexpr double kMargin = 1.25;
  const auto [least_x, most_x] = std::ranges::minmax(points.measured);
  const auto [least_y, most_y] = std::ranges::minmax(points.predicted);
  plots::Panel panel{.x_column = "measured",
                     .x_label = "measured " + quantity,
                     .y_label = "predicted " + quantity,
                     .log_x = true,
                     .log_y = true,
                     .x_min = std::min(least_x, least_y) / kMargin,
                     .x_max = std::max(most_x, most_y) * kMargin,
                     .slopes = {1.0, 1.2, 0.8},
                     .name_column = "scenario",
                     .names = points.scenarios};
  panel.y_min = panel.x_min;
  panel.y_max = panel.x_max;
  for (const std::string& group : points.groups) {
    if (std::ranges::find(panel.series, group, &plots::Series::label) !=
        panel.series.end()) {
      continue;
    }
    std::vector<double> y = points.predicted;
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = points.groups[i] == group ? y[i] : kUndefined;
    }
    const int index = static_cast<int>(panel.series.size());
    panel.series.push_back(
        Line(group, plots::StyleOf(index, false), points.measured, y));
    panel.series.back().mark = plots::Mark::kScatter;
  }
  return {{.name = name,
           .title = title,
           .caption = "Dashed: predicted = measured, and 20% above and below.",
           .panels = {std::move(panel)},
           .square = true}};
}

void Draw(const MeasuredTable& table,
          const std::vector<Prediction>& predictions,
          const std::filesystem::path& folder, const Sink& sink) {
  Points time;
  Points memory;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const MeasuredRow& row = table.rows[i];
    time.Add(row, row.step_time_s, predictions[i].step_time_s);
    memory.Add(row, row.peak_memory_bytes / kGiga,
               predictions[i].peak_memory_bytes / kGiga);
  }
  const std::string error =
      plots::WriteFigures(
          {{folder, Scatter("step-time", table.title, "step time (s)", time)},
           {folder,
            Scatter("peak-memory", table.title, "peak memory (GB)", memory)}},
          plots::AllFormats())
          .error;
  if (!error.empty()) {
    sink.notes << "validate: " << error << '\n';
  }
}

void ValidateOne(const MeasuredTable& table, const ValidateOptions& options,
                 const Sink& sink) {
  const std::vector<Prediction> predictions = Predict(table);
  const std::vector<Comparison> comparisons = Compare(table, predictions);
  const std::string json = ToJson(table, comparisons);
  sink.out << (options.csv    ? ToCsv(table, predictions)
               : options.json ? json
                              : ToText(table, predictions, comparisons));
  if (!options.no_figures) {
    const std::filesystem::path folder =
        options.results / "validation" / table.name;
    plots::WriteTextFile(folder / "comparison.json", json);
    Draw(table, predictions, folder, sink);
  }
}

}  // namespace

int Validate(const ValidateOptions& options, const Sink& sink) {
  if (!options.bands.empty()) {
    WriteBands(options.bands, sink.out);
    return 0;
  }
  const bool chosen = !options.names.empty() || !options.table.empty();
  const std::vector<std::string> names = chosen ? options.names : KnownTables();
  int done = 0;
  const auto one = [&](const MeasuredTable& table) {
    sink.out << (done++ > 0 && !options.json ? "\n" : "");
    ValidateOne(table, options, sink);
  };
  std::string missing;
  for (const std::string& name : names) {
    if (chosen) {
      one(ReadKnownTable(name, options.overrides));
      continue;
    }
    const std::optional<std::filesystem::path> path = KnownTablePath(name);
    if (!path) {
      missing += (missing.empty() ? "" : ", ") + name;
      continue;
    }
    one(ReadKnownTable(name, options.overrides));
  }
  if (!options.table.empty()) {
    one(ReadAnyTable(options.table, options.overrides));
  }
  if (!missing.empty()) {
    sink.notes << fmt::format(
        "validate: missing tables: {}; set OPPA_DATA to the folder of measured "
        "and published tables (docs/validation.md)\n",
        missing);
  }
  return done > 0 ? 0 : 1;
}

}  // namespace studies
