#include "studies/validation/verb.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "plots/figure.h"
#include "plots/figure_files.h"
#include "studies/output.h"
#include "studies/validation/comparison.h"
#include "studies/validation/prediction.h"

namespace studies {
namespace {

constexpr double kBytesPerGb = 1e9;

// Predicted against measured, with logarithmic axes of one range. Source of the
// form: Aceso, Figs. 15 and 16.
class Scatter {
 public:
  // `quantity` has its unit: "step time (s)".
  Scatter(const std::string& name,
          const std::string& title,
          const std::string& quantity)
      : figure_{.name = name,
                .title = title,
                .caption =
                    "Dashed: predicted = measured, and 20% above and "
                    "below.",
                .panels = {{.x_column = "measured",
                            .x_label = "measured " + quantity,
                            .y_label = "predicted " + quantity,
                            .log_x = true,
                            .log_y = true,
                            .slopes = {1.0, 1.2, 0.8},
                            .name_column = "scenario"}},
                .square = true} {}

  void Add(const MeasuredRow& row, double measured, double predicted) {
    if (!(measured > 0.0 && predicted > 0.0)) {
      return;
    }
    const std::string group =
        fmt::format("{}: {}",
                    row.cluster.gpu.name,
                    row.cluster.nodes == 1 ? "one host" : "several hosts");
    groups_.push_back(group);
    measured_.push_back(measured);
    predicted_.push_back(predicted);
    figure_.panels.front().names.push_back(row.scenario);
  }

  // Nothing without points.
  [[nodiscard]] std::vector<plots::Figure> Take() {
    if (measured_.empty()) {
      return {};
    }
    constexpr double kMargin = 1.25;
    plots::Panel& panel = figure_.panels.front();
    panel.x_min =
        std::min(std::ranges::min(measured_), std::ranges::min(predicted_)) /
        kMargin;
    panel.x_max =
        std::max(std::ranges::max(measured_), std::ranges::max(predicted_)) *
        kMargin;
    panel.y_min = panel.x_min;
    panel.y_max = panel.x_max;
    std::vector<std::string> order;
    for (const std::string& group : groups_) {
      if (std::ranges::find(order, group) == order.end()) {
        order.push_back(group);
        panel.series.push_back(SeriesOf(group, std::ssize(panel.series)));
      }
    }
    return {std::move(figure_)};
  }

 private:
  [[nodiscard]] plots::Series SeriesOf(const std::string& group,
                                       std::ptrdiff_t index) const {
    std::vector<double> y = predicted_;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (groups_[i] != group) {
        y[i] = kUndefined;
      }
    }
    plots::Series series = Line(
        group, plots::StyleOf(static_cast<int>(index), false), measured_, y);
    series.mark = plots::Mark::kScatter;
    return series;
  }

  plots::Figure figure_;
  std::vector<std::string> groups_;
  std::vector<double> measured_;
  std::vector<double> predicted_;
};

void Draw(const MeasuredTable& table,
          const std::vector<Prediction>& predictions,
          const std::filesystem::path& folder) {
  Scatter time("step-time", table.title, "step time (s)");
  Scatter memory("peak-memory", table.title, "peak memory (GB)");
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const MeasuredRow& row = table.rows[i];
    time.Add(row, row.step_time_s, predictions[i].step_time_s);
    memory.Add(row,
               row.peak_memory_bytes / kBytesPerGb,
               predictions[i].peak_memory_bytes / kBytesPerGb);
  }
  const std::string error =
      plots::WriteFigures({{folder, time.Take()}, {folder, memory.Take()}},
                          plots::AllFormats())
          .error;
  if (!error.empty()) {
    fmt::print(stderr, "validate: {}\n", error);
  }
}

void ValidateOne(const MeasuredTable& table, const ValidateOptions& options) {
  const std::vector<Prediction> predictions = Predict(table);
  const std::vector<Comparison> comparisons = Compare(table, predictions);
  const std::string json = ToJson(table, comparisons);
  fmt::print("{}",
             options.csv    ? ToCsv(table, predictions)
             : options.json ? json
                            : ToText(table, predictions, comparisons));
  if (!options.no_figures) {
    const std::filesystem::path folder =
        options.results / "validation" / table.name;
    plots::WriteTextFile(folder / "comparison.json", json);
    Draw(table, predictions, folder);
  }
}

}  // namespace

int Validate(const ValidateOptions& options) {
  const bool chosen = !options.names.empty() || !options.table.empty();
  const std::vector<std::string> names = chosen ? options.names : KnownTables();
  int done = 0;
  const auto one = [&](const MeasuredTable& table) {
    fmt::print("{}", done++ > 0 && !options.json ? "\n" : "");
    ValidateOne(table, options);
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
    fmt::print(stderr,
               "validate: not there: {}; set OPPA_DATA to the folder of "
               "measured and published tables (docs/validation.md)\n",
               missing);
  }
  return done > 0 ? 0 : 1;
}

}  // namespace studies
