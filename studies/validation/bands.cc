#include "studies/validation/bands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "common/ranges.h"
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

double MeanSquare(const std::vector<double>& values, double center) {
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - center) * (value - center);
  }
  return sum / static_cast<double>(values.size());
}

// The logarithms of the ratios of each source.
using BySource = std::map<std::string, std::vector<double>>;

// The band of a kind, moderated by that of all.
ErrorBand BandOf(const BySource& by_source, const ErrorBand* all) {
  std::vector<double> means;
  std::vector<double> within;  // logarithms of the variances
  ErrorBand band{.sources = static_cast<int>(by_source.size())};
  for (const auto& [source, logs] : by_source) {
    constexpr double kLeast = 1e-4;  // a source of a row or two
    means.push_back(common::Mean(logs));
    within.push_back(
        std::log(std::max(MeanSquare(logs, means.back()), kLeast)));
    band.rows += static_cast<int>(logs.size());
  }
  const auto sources = static_cast<double>(band.sources);
  band.mean = common::Mean(means);
  band.freedom = sources - 1.0;
  band.between = MeanSquare(means, band.mean) * sources;  // times freedom
  band.within = std::exp(common::Mean(within));
  if (all != nullptr) {
    const double prior = ErrorBand::kPrior;
    band.freedom += prior;
    band.between += prior * all->between / (1.0 + 1.0 / all->sources);
    band.within =
        (prior * all->within + sources * band.within) / (prior + sources);
  }
  band.freedom = std::max(band.freedom, 1.0);
  band.between *= (1.0 + 1.0 / sources) / band.freedom;
  band.SetInterval();
  return band;
}

// The bands of one quantity, from the rows of all sources but one.
ErrorBands::ByKind BandsBy(const std::vector<LeftOutRow>& rows, Value value,
                           const std::string& without = "") {
  std::map<std::string, BySource> logs;
  for (const LeftOutRow& row : rows) {
    if (row.is_step && row.source != without && row.*value > 0.0) {
      for (const std::string& kind : {std::string("all"), row.kind}) {
        logs[kind][row.source].push_back(std::log(row.*value));
      }
    }
  }
  ErrorBands::ByKind bands;
  if (logs.empty()) {
    return bands;
  }
  const ErrorBand all = BandOf(logs.at("all"), nullptr);
  for (const auto& [kind, by_source] : logs) {
    bands[kind] = kind == "all" ? all : BandOf(by_source, &all);
  }
  return bands;
}

// The rows of a source that are inside the bands of the others, and how wide
// these are, before and after one row of the source.
struct Coverage {
  Share share;
  std::vector<double> widths;
  std::vector<double> widths_after_one;
};
Coverage InsideOf(const std::vector<LeftOutRow>& rows,
                  const std::string& source, Value value) {
  const ErrorBands::ByKind bands = BandsBy(rows, value, source);
  Coverage inside;
  for (const LeftOutRow& row : rows) {
    if (row.source == source && row.is_step && row.*value > 0.0) {
      const ErrorBand band = ErrorBands::Of(bands, row.kind).second;
      inside.share.Count(row.*value >= band.low && row.*value <= band.high);
      inside.widths.push_back(band.high / band.low);
      const ErrorBand after = band.After(std::array{band.mean});
      inside.widths_after_one.push_back(after.high / after.low);
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
       {"row_source", "row_kind", "row_clean", "measured_step_time_s",
        "predicted_fit_probability"}) {
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
    if (row.Cell("row_clean") != "1") {
      continue;
    }
    rows.push_back({.source = row.Cell("row_source"),
                    .kind = row.Cell("row_kind"),
                    .is_step = row.Cell("row_part").empty(),
                    .ran = row.Cell("measured_status") != "oom",
                    .fit_probability = row.Number("predicted_fit_probability"),
                    .step_time = Ratio(row, "step_time_s"),
                    .peak_memory = Ratio(row, "peak_memory_gb")});
  }
  return rows;
}

ErrorBands BandsOf(const std::vector<LeftOutRow>& rows) {
  return {.step_time = BandsBy(rows, &LeftOutRow::step_time),
          .peak_memory = BandsBy(rows, &LeftOutRow::peak_memory)};
}

std::vector<Calibration> Calibrate(const std::vector<LeftOutRow>& rows) {
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
    std::vector<double> widths;
    std::vector<double> after_one;
    for (auto& [source, one] : by_source) {
      const Coverage inside = InsideOf(rows, source, value);
      one.*rows_of = inside.share.of;
      one.*inside_of = inside.share.Value();
      total.*rows_of += inside.share.of;
      if (inside.share.of > 0) {
        shares.push_back(inside.share.Value());
        widths.push_back(common::Mean(inside.widths));
        after_one.push_back(common::Mean(inside.widths_after_one));
      }
      if (value == &LeftOutRow::step_time) {
        one.step_time_width = common::Mean(inside.widths);
        one.width_after_one = common::Mean(inside.widths_after_one);
      }
    }
    total.*inside_of = common::Mean(shares);
    if (value == &LeftOutRow::step_time) {
      total.step_time_width = common::Mean(widths);
      total.width_after_one = common::Mean(after_one);
    }
  };
  add(&LeftOutRow::step_time, &Calibration::step_time_rows,
      &Calibration::step_time_inside);
  add(&LeftOutRow::peak_memory, &Calibration::peak_memory_rows,
      &Calibration::peak_memory_inside);
  std::vector<Calibration> all = common::Map(
      by_source, &std::map<std::string, Calibration>::value_type::second);
  all.push_back(total);
  return all;
}

plots::Figure Reliability(const std::vector<LeftOutRow>& rows) {
  constexpr int kTenths = 10;
  struct Source {
    Share tenths[kTenths];
    double squares = 0.0;
    Share ran;
  };
  std::map<std::string, Source> by_source;
  for (const LeftOutRow& row : rows) {
    if (!row.is_step || std::isnan(row.fit_probability)) {
      continue;
    }
    const double p = row.fit_probability;
    for (const std::string& name : {row.source, std::string("all")}) {
      Source& source = by_source[name];
      source.tenths[std::min(static_cast<int>(p * kTenths), kTenths - 1)].Count(
          row.ran);
      source.squares += (p - (row.ran ? 1.0 : 0.0)) * (p - (row.ran ? 1.0 : 0));
      source.ran.Count(row.ran);
    }
  }
  plots::Panel panel{.x_column = "predicted",
                     .x_label = "predicted probability of fitting",
                     .y_label = "share that ran",
                     .x_max = 1.0,
                     .y_min = 0.0,
                     .y_max = 1.0,
                     .slopes = {1.0}};
  for (const auto& [name, source] : by_source) {
    if (source.ran.rows == source.ran.of) {
      continue;  // its rows are those that ran
    }
    const int index = static_cast<int>(panel.series.size());
    plots::Series& series = panel.series.emplace_back(plots::Series{
        .name = name,
        .label = fmt::format("{} ({} rows, Brier {:.3f})", name, source.ran.of,
                             source.squares / source.ran.of),
        .style = plots::StyleOf(index, name == "all"),
        .mark = plots::Mark::kLine});
    for (int i = 0; i < kTenths; ++i) {
      const double share = source.tenths[i].Value();
      series.band.x.push_back((i + 0.5) / kTenths);
      series.band.y.push_back({share, share, share});
    }
  }
  return {.name = "reliability",
          .title = "Probability of fitting",
          .caption =
              "Rows of each source, predicted without it, in tenths of "
              "the probability. Dashed: as often as predicted.",
          .panels = {std::move(panel)},
          .square = true};
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
            {"step_time_width", "high / low",
             plots::Fixed(one.step_time_width, 2)},
            {"width_after_one", "after one row",
             plots::Fixed(one.width_after_one, 2)},
            {"peak_memory_rows", "", one.peak_memory_rows},
            {"peak_memory_inside", "memory", Percent(one.peak_memory_inside)}};
      });
  plots::WriteTextFile(rows.parent_path() / "calibration.csv", ToCsv(table));
  out << ToText(table) << "wrote " << file.string() << '\n'
      << plots::WriteFigures({{rows.parent_path(), {Reliability(read)}}},
                             plots::AllFormats())
             .error;
}

}  // namespace studies
