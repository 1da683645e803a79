#include "studies/validation/bands.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "common/statistics.h"
#include "plots/figure_files.h"
#include "plots/table.h"
#include "studies/validation/statistics.h"
#include "trials/tables/facts.h"

namespace studies {
namespace {

using trials::ErrorBand;
using trials::ErrorBands;
using Value = double LeftOutRow::*;

// The 95% quantile of Student's t distribution, within 0.3% from 3 degrees of
// freedom. Source: Abramowitz and Stegun (1964), 26.7.5.
double StudentQuantile(int degrees_of_freedom) {
  constexpr double kNormalQuantile = 1.6448536269514722;
  const double z = kNormalQuantile;
  const double n = degrees_of_freedom;
  const double z2 = z * z;
  return z + z * (z2 + 1.0) / (4.0 * n) +
         z * ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n) +
         z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) /
             (384.0 * n * n * n);
}

double MeanSquare(const std::vector<double>& values, double center) {
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - center) * (value - center);
  }
  return sum / static_cast<double>(values.size());
}

// The logarithms of the ratios of each source.
using BySource = std::map<std::string, std::vector<double>>;

ErrorBand BandOf(const BySource& by_source) {
  std::vector<double> means;
  std::vector<double> within;
  ErrorBand band{.sources = static_cast<int>(by_source.size())};
  for (const auto& [source, logs] : by_source) {
    means.push_back(common::Mean(logs));
    within.push_back(MeanSquare(logs, means.back()));
    band.rows += static_cast<int>(logs.size());
  }
  const double mean = common::Mean(means);
  const auto sources = static_cast<double>(band.sources);
  // The errors of a single source say nothing about another's.
  const int freedom = std::max(band.sources - 1, 1);
  const double between =
      MeanSquare(means, mean) * sources / freedom * (1.0 + 1.0 / sources);
  const double half =
      StudentQuantile(freedom) * std::sqrt(between + common::Mean(within));
  band.low = std::min(1.0, std::exp(mean - half));
  band.high = std::max(1.0, std::exp(mean + half));
  return band;
}

// The regimes of rows: what other sources have seen and validated.
class Regimes {
 public:
  explicit Regimes(const std::vector<LeftOutRow>& rows) {
    for (const LeftOutRow& row : rows) {
      architectures_[row.architecture].insert(row.source);
      if (row.is_step) {
        frameworks_[row.framework].insert(row.source);
      }
    }
  }

  // Of one of the rows that is a step.
  [[nodiscard]] trials::ErrorRegime Of(const LeftOutRow& row) const {
    return {architectures_.at(row.architecture).size() > 1,
            frameworks_.at(row.framework).size() > 1, row.hosts,
            row.zero_stage};
  }

  void AddNames(ErrorBands& bands) const {
    for (const auto& [name, sources] : architectures_) {
      bands.architectures.push_back(name);
    }
    for (const auto& [name, sources] : frameworks_) {
      bands.frameworks.push_back(name);
    }
  }

 private:
  // The sources of each name.
  std::map<std::string, std::set<std::string>> architectures_;
  std::map<std::string, std::set<std::string>> frameworks_;
};

// The bands of one quantity, from the rows of all sources but one.
ErrorBands::ByRegime BandsBy(const std::vector<LeftOutRow>& rows,
                             const Regimes& regimes, Value value,
                             const std::string& without = "") {
  std::map<std::string, BySource> logs;
  for (const LeftOutRow& row : rows) {
    if (row.is_step && row.source != without && row.*value > 0.0) {
      for (const std::string& regime : regimes.Of(row).Names()) {
        logs[regime][row.source].push_back(std::log(row.*value));
      }
    }
  }
  ErrorBands::ByRegime bands;
  for (const auto& [regime, by_source] : logs) {
    bands[regime] = BandOf(by_source);
  }
  return bands;
}

// The rows of a source that are inside the bands of the others.
Share InsideOf(const std::vector<LeftOutRow>& rows, const Regimes& regimes,
               const std::string& source, Value value) {
  const ErrorBands::ByRegime bands = BandsBy(rows, regimes, value, source);
  Share inside;
  for (const LeftOutRow& row : rows) {
    if (row.source == source && row.is_step && row.*value > 0.0) {
      const ErrorBand band = ErrorBands::Of(bands, regimes.Of(row));
      inside.Count(row.*value >= band.low && row.*value <= band.high);
    }
  }
  return inside;
}

double Ratio(const trials::TableRow& row, const std::string& quantity) {
  return row.Number("measured_" + quantity) /
         row.Number("predicted_" + quantity);
}

plots::Cell Percent(double share) {
  return {std::isnan(share) ? "-" : fmt::format("{:.0f}%", 100.0 * share),
          share};
}

}  // namespace

std::vector<LeftOutRow> ReadLeftOutRows(const std::filesystem::path& path) {
  const common::CsvTable csv = common::CsvTable::Read(path);
  for (const char* column :
       {"row_source", "row_architecture", "measured_step_time_s"}) {
    if (!csv.Find(column)) {
      csv.Fail(csv.header_line(),
               fmt::format("the column '{}' is missing: give the rows.csv of "
                           "scripts/leave-one-out",
                           column));
    }
  }
  std::vector<LeftOutRow> rows;
  for (const common::CsvTable::Row& csv_row : csv.rows()) {
    const trials::TableRow row{csv, csv_row};
    trials::Facts facts(row);
    facts.Add(row, {"row_hosts"});
    rows.push_back({.source = row.Cell("row_source"),
                    .architecture = row.Cell("row_architecture"),
                    .framework = row.Cell("row_framework"),
                    .hosts = facts.RequireInt("row_hosts"),
                    .zero_stage = row.Cell("row_zero_stage") == "3" ? 3 : 0,
                    .is_step = row.Cell("row_part").empty(),
                    .step_time = Ratio(row, "step_time_s"),
                    .peak_memory = Ratio(row, "peak_memory_gb")});
  }
  return rows;
}

ErrorBands BandsOf(const std::vector<LeftOutRow>& rows) {
  const Regimes regimes(rows);
  ErrorBands bands;
  regimes.AddNames(bands);
  bands.step_time = BandsBy(rows, regimes, &LeftOutRow::step_time);
  bands.peak_memory = BandsBy(rows, regimes, &LeftOutRow::peak_memory);
  return bands;
}

std::vector<Calibration> Calibrate(const std::vector<LeftOutRow>& rows) {
  const Regimes regimes(rows);
  std::map<std::string, Calibration> by_source;
  for (const LeftOutRow& row : rows) {
    if (row.is_step) {
      by_source[row.source].source = row.source;
    }
  }
  Calibration total{.source = "all"};
  const auto add = [&](Value value, int Calibration::*rows_of,
                       double Calibration::*inside_of) {
    std::vector<double> shares;  // of sources with such rows
    for (auto& [source, one] : by_source) {
      const Share inside = InsideOf(rows, regimes, source, value);
      one.*rows_of = inside.of;
      one.*inside_of = inside.Value();
      total.*rows_of += inside.of;
      if (inside.of > 0) {
        shares.push_back(inside.Value());
      }
    }
    total.*inside_of = common::Mean(shares);
  };
  add(&LeftOutRow::step_time, &Calibration::step_time_rows,
      &Calibration::step_time_inside);
  add(&LeftOutRow::peak_memory, &Calibration::peak_memory_rows,
      &Calibration::peak_memory_inside);
  std::vector<Calibration> all;
  for (const auto& [source, one] : by_source) {
    all.push_back(one);
  }
  all.push_back(total);
  return all;
}

void WriteBands(const std::filesystem::path& rows, std::ostream& out) {
  const std::vector<LeftOutRow> read = ReadLeftOutRows(rows);
  const std::filesystem::path file = trials::ErrorBandsPath();
  plots::WriteTextFile(file, ToToml(BandsOf(read)));
  const std::vector<Calibration> calibration = Calibrate(read);
  const plots::Table table =
      plots::TableOf(calibration, [](const Calibration& one) {
        return plots::Row{
            {"source", "inside the bands of the other sources", one.source},
            {"step_time_rows", "", one.step_time_rows},
            {"step_time_inside", "time", Percent(one.step_time_inside)},
            {"peak_memory_rows", "", one.peak_memory_rows},
            {"peak_memory_inside", "memory", Percent(one.peak_memory_inside)}};
      });
  plots::WriteTextFile(rows.parent_path() / "calibration.csv", ToCsv(table));
  out << ToText(table) << "wrote " << file.string() << '\n';
}

}  // namespace studies
