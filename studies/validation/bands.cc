#include "studies/validation/bands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>

#include <fmt/format.h>

#include "common/statistics.h"
#include "common/text.h"
#include "plots/figure_files.h"
#include "studies/validation/statistics.h"
#include "trials/tables/facts.h"

namespace studies {
namespace {

using trials::ErrorBand;
using trials::ErrorBands;
using Value = double LeftOutRow::*;

// A ratio with the weight that its source leaves it.
struct Weighted {
  double ratio;
  double weight;
};

double Quantile(const std::vector<Weighted>& sorted, double p) {
  double sum = 0.0;
  for (const Weighted& one : sorted) {
    sum += one.weight;
    if (sum >= p) {
      return one.ratio;
    }
  }
  return sorted.back().ratio;
}

// From the quantile `outside` to 1 - outside; the prediction itself is inside.
ErrorBand BandOf(const std::map<std::string, std::vector<double>>& by_source,
                 double outside) {
  std::vector<Weighted> all;
  for (const auto& [source, ratios] : by_source) {
    for (const double ratio : ratios) {
      all.push_back({ratio,
                     1.0 / (static_cast<double>(by_source.size()) *
                            static_cast<double>(ratios.size()))});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.ratio < b.ratio;
  });
  return {.low = std::min(1.0, Quantile(all, outside)),
          .high = std::max(1.0, Quantile(all, 1.0 - outside)),
          .rows = static_cast<int>(all.size()),
          .sources = static_cast<int>(by_source.size())};
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

  [[nodiscard]] trials::ErrorRegime Of(const LeftOutRow& row) const {
    return {Another(architectures_, row.architecture, row.source),
            Another(frameworks_, row.framework, row.source),
            row.hosts,
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
  using Sources = std::map<std::string, std::set<std::string>>;

  static bool Another(const Sources& all,
                      const std::string& name,
                      const std::string& source) {
    const auto found = all.find(name);
    return found != all.end() &&
           found->second.size() > found->second.count(source);
  }

  Sources architectures_;
  Sources frameworks_;
};

// The bands of one quantity, from the rows of all sources but one.
ErrorBands::ByRegime BandsBy(const std::vector<LeftOutRow>& rows,
                             const Regimes& regimes,
                             Value value,
                             double outside,
                             const std::string& without = "") {
  std::map<std::string, std::map<std::string, std::vector<double>>> ratios;
  for (const LeftOutRow& row : rows) {
    if (row.is_step && row.source != without && row.*value > 0.0) {
      for (const std::string& regime : regimes.Of(row).Names()) {
        ratios[regime][row.source].push_back(row.*value);
      }
    }
  }
  ErrorBands::ByRegime bands;
  for (const auto& [regime, by_source] : ratios) {
    bands[regime] = BandOf(by_source, outside);
  }
  return bands;
}

// The rows of a source that are inside the bands of the others.
Share InsideOf(const std::vector<LeftOutRow>& rows,
               const Regimes& regimes,
               const std::string& source,
               Value value,
               double outside) {
  const ErrorBands::ByRegime bands =
      BandsBy(rows, regimes, value, outside, source);
  Share inside;
  for (const LeftOutRow& row : rows) {
    if (row.source == source && row.is_step && row.*value > 0.0) {
      const ErrorBand band = ErrorBands::Of(bands, regimes.Of(row));
      inside.Count(row.*value >= band.low && row.*value <= band.high);
    }
  }
  return inside;
}

// Those of every source with steps.
std::map<std::string, Share> InsideBySource(const std::vector<LeftOutRow>& rows,
                                            Value value,
                                            double outside) {
  const Regimes regimes(rows);
  std::map<std::string, Share> shares;
  for (const LeftOutRow& row : rows) {
    if (row.is_step && !shares.contains(row.source)) {
      shares[row.source] = InsideOf(rows, regimes, row.source, value, outside);
    }
  }
  return shares;
}

// The mean over sources that have such rows.
double MeanOf(const std::map<std::string, Share>& shares) {
  std::vector<double> values;
  for (const auto& [source, share] : shares) {
    if (share.of > 0) {
      values.push_back(share.Value());
    }
  }
  return common::Mean(values);
}

// The share of rows outside per side of a band for which nine of ten rows of a
// source that the bands do not contain are inside, in the mean over sources. It
// is below 5%, because rows of one source have errors in common, but not below
// 2.5%, where single rows would determine a band.
double OutsideOf(const std::vector<LeftOutRow>& rows, Value value) {
  constexpr double kInside = 0.9;
  constexpr std::array kLevels = {0.05, 0.04, 0.03, 0.025};
  for (const double outside : kLevels) {
    if (MeanOf(InsideBySource(rows, value, outside)) >= kInside) {
      return outside;
    }
  }
  return kLevels.back();
}

double Ratio(const trials::TableRow& row, const std::string& quantity) {
  return row.Number("measured_" + quantity) /
         row.Number("predicted_" + quantity);
}

std::string PercentText(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.0f}%", 100.0 * share);
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
  const auto by = [&](Value value) {
    return BandsBy(rows, regimes, value, OutsideOf(rows, value));
  };
  bands.step_time = by(&LeftOutRow::step_time);
  bands.peak_memory = by(&LeftOutRow::peak_memory);
  return bands;
}

std::vector<Calibration> Calibrate(const std::vector<LeftOutRow>& rows) {
  const auto inside = [&rows](Value value) {
    return InsideBySource(rows, value, OutsideOf(rows, value));
  };
  const auto time = inside(&LeftOutRow::step_time);
  const auto memory = inside(&LeftOutRow::peak_memory);
  std::vector<Calibration> all;
  Calibration total{.source = "all",
                    .step_time_inside = MeanOf(time),
                    .peak_memory_inside = MeanOf(memory)};
  for (const auto& [source, share] : time) {
    const Share& peak = memory.at(source);
    all.push_back({source, share.of, share.Value(), peak.of, peak.Value()});
    total.step_time_rows += share.of;
    total.peak_memory_rows += peak.of;
  }
  all.push_back(total);
  return all;
}

int WriteBands(const std::filesystem::path& rows) {
  const std::vector<LeftOutRow> read = ReadLeftOutRows(rows);
  const std::filesystem::path file = trials::ErrorBandsPath();
  plots::WriteTextFile(file, ToToml(BandsOf(read)));
  std::string csv =
      "source,step_time_rows,step_time_inside,peak_memory_rows,"
      "peak_memory_inside\n";
  fmt::print("inside the bands of the other sources:\n{:<24} {:>9} {:>9}\n",
             "source",
             "time",
             "memory");
  for (const Calibration& one : Calibrate(read)) {
    csv += fmt::format("{},{},{},{},{}\n",
                       one.source,
                       one.step_time_rows,
                       common::ExactText(one.step_time_inside),
                       one.peak_memory_rows,
                       common::ExactText(one.peak_memory_inside));
    fmt::print("{:<24} {:>9} {:>9}\n",
               one.source,
               PercentText(one.step_time_inside),
               PercentText(one.peak_memory_inside));
  }
  plots::WriteTextFile(rows.parent_path() / "calibration.csv", csv);
  fmt::print("wrote {}\n", file.string());
  return 0;
}

}  // namespace studies
