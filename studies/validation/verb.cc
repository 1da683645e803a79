#include "studies/validation/verb.h"

#include <cmath>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "plots/scatter.h"
#include "studies/validation/comparison.h"
#include "studies/validation/prediction.h"

namespace studies {
namespace {

constexpr double kBytesPerGb = 1e9;

void AddPoint(const MeasuredRow& row,
              double measured,
              double predicted,
              plots::Scatter& scatter) {
  if (measured > 0.0 && predicted > 0.0) {
    const std::string hosts =
        row.cluster.nodes == 1 ? "one host" : "several hosts";
    scatter.points.push_back(
        {fmt::format("{}: {}", row.cluster.gpu.name, hosts),
         row.scenario,
         measured,
         predicted});
  }
}

void Draw(const MeasuredTable& table,
          const std::vector<Prediction>& predictions,
          const std::filesystem::path& folder) {
  plots::Scatter time{"step-time", table.title, "step time (s)", {}};
  plots::Scatter memory{"peak-memory", table.title, "peak memory (GB)", {}};
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const MeasuredRow& row = table.rows[i];
    AddPoint(row, row.step_time_s, predictions[i].step_time_s, time);
    AddPoint(row,
             row.peak_memory_bytes / kBytesPerGb,
             predictions[i].peak_memory_bytes / kBytesPerGb,
             memory);
  }
  const std::string error = plots::WriteScatters(folder, {time, memory});
  if (!error.empty()) {
    fmt::print(stderr, "validate: {}: {}\n", folder.string(), error);
  }
}

void ValidateOne(const MeasuredTable& table, const ValidateOptions& options) {
  const std::vector<Prediction> predictions = Predict(table);
  if (options.csv) {
    fmt::print("{}", ToCsv(table, predictions));
  } else {
    fmt::print("{}", ToText(table, predictions, Compare(table, predictions)));
  }
  if (!options.no_figures) {
    Draw(table, predictions, options.results / "validation" / table.name);
  }
}

}  // namespace

int Validate(const ValidateOptions& options) {
  const bool chosen = !options.names.empty() || !options.table.empty();
  const std::vector<std::string> names = chosen ? options.names : KnownTables();
  int done = 0;
  const auto one = [&](const MeasuredTable& table) {
    fmt::print("{}", done++ > 0 ? "\n" : "");
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
