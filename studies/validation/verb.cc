#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/units.h"
#include "plots/figure.h"
#include "plots/figure_files.h"
#include "studies/output.h"
#include "studies/validation/bands.h"
#include "studies/validation/comparison.h"
#include "studies/verbs.h"

namespace studies {
namespace {

using common::kGiga;

// A point for each row that has both values, with one color for each kind of
// cluster, on logarithmic axes of one range; `quantity` has its unit: "step
// time (s)". Nothing without points. Source of the form: Aceso, Figs. 15
// and 16.
std::vector<plots::Figure> Scatter(const std::string& name,
                                   const std::string& quantity, double unit,
                                   const MeasuredTable& table,
                                   double MeasuredRow::*measured,
                                   const std::vector<Prediction>& predictions,
                                   double Prediction::*predicted) {
  constexpr double kMargin = 1.25;
  plots::Panel panel{.x_column = "measured",
                     .x_label = "measured " + quantity,
                     .y_label = "predicted " + quantity,
                     .log_x = true,
                     .log_y = true,
                     .x_min = std::numeric_limits<double>::infinity(),
                     .slopes = {1.0, 1.2, 0.8},
                     .name_column = "scenario"};
  std::vector<double> all_x;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const MeasuredRow& row = table.rows[i];
    const double x = row.*measured / unit;
    const double y = predictions[i].*predicted / unit;
    if (!(x > 0.0 && y > 0.0)) {
      continue;
    }
    const std::string group =
        fmt::format("{}: {}", row.cluster.gpu.name,
                    row.cluster.nodes == 1 ? "one host" : "several hosts");
    if (!common::Contains(panel.series, group, &plots::Series::label)) {
      const int index = static_cast<int>(panel.series.size());
      panel.series.push_back({.name = group,
                              .label = group,
                              .style = plots::StyleOf(index, false),
                              .mark = plots::Mark::kScatter});
      panel.series.back().band.y.resize(all_x.size());
    }
    for (plots::Series& series : panel.series) {
      series.band.y.push_back(series.label == group ? common::Quartiles{y, y, y}
                                                    : common::Quartiles{});
    }
    all_x.push_back(x);
    panel.names.push_back(row.scenario);
    panel.x_min = std::min({panel.x_min, x / kMargin, y / kMargin});
    panel.x_max = std::max({panel.x_max, x * kMargin, y * kMargin});
  }
  for (plots::Series& series : panel.series) {
    series.band.x = all_x;
  }
  panel.y_min = panel.x_min;
  panel.y_max = panel.x_max;
  plots::Figure figure{
      .name = name,
      .title = table.title,
      .caption = "Dashed: predicted = measured, and 20% above and below.",
      .panels = {std::move(panel)},
      .square = true};
  return all_x.empty() ? std::vector<plots::Figure>()
                       : std::vector{std::move(figure)};
}

void ValidateOne(const MeasuredTable& table, const ValidateOptions& options,
                 const Sink& sink) {
  sink.notes << table.assumed;
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
    const std::string error =
        plots::WriteFigures(
            {{folder, Scatter("step-time", "step time (s)", 1.0, table,
                              &MeasuredRow::step_time_s, predictions,
                              &Prediction::step_time_s)},
             {folder, Scatter("peak-memory", "peak memory (GB)", kGiga, table,
                              &MeasuredRow::peak_memory_bytes, predictions,
                              &Prediction::peak_memory_bytes)}},
            plots::AllFormats())
            .error;
    if (!error.empty()) {
      sink.notes << "validate: " << error << '\n';
    }
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
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (chosen || KnownTablePath(name)) {
      one(ReadKnownTable(name, options.overrides));
    } else {
      missing.push_back(name);
    }
  }
  if (!options.table.empty()) {
    one(ReadAnyTable(options.table, options.overrides));
  }
  if (!missing.empty()) {
    sink.notes << fmt::format(
        "validate: missing tables: {}; set OPPA_DATA to the folder of measured "
        "and published tables (docs/validation.md)\n",
        fmt::join(missing, ", "));
  }
  return done > 0 ? 0 : 1;
}

}  // namespace studies
