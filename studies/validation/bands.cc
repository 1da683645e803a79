#include "studies/validation/bands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/statistics.h"
#include "common/text.h"
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

bool Counts(const LeftOutRow& row, Value value, const std::string& without) {
  return row.is_step && row.source != without && row.*value > 0.0;
}

// The bands of one quantity, from the rows of all sources but one that are no
// guesses.
ErrorBands::ByKind BandsBy(const std::vector<LeftOutRow>& rows, Value value,
                           const std::string& without) {
  std::map<std::string, BySource> logs;
  for (const LeftOutRow& row : rows) {
    if (row.guesses.empty() && Counts(row, value, without)) {
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

// The variances of guesses (trials::Guess), from the same sources.
ErrorBands::Guesses GuessesBy(const std::vector<LeftOutRow>& rows, Value value,
                              const std::string& without,
                              const ErrorBands::ByKind& bands) {
  std::map<std::tuple<std::string, std::string, std::vector<std::string>>,
           std::vector<double>>
      groups;
  for (const LeftOutRow& row : rows) {
    if (!row.guesses.empty() && Counts(row, value, without)) {
      const ErrorBand band = ErrorBands::Of(bands, row.kind).second;
      groups[{row.source, row.gpu,
              common::Map(row.guesses, &trials::Guess::kind)}]
          .push_back(std::pow(std::log(row.*value) - band.mean, 2) -
                     band.between - band.within);
    }
  }
  if (groups.empty()) {
    return {};
  }
  std::map<std::string, std::vector<double>> excess;
  for (const auto& [group, values] : groups) {
    excess["all"].push_back(common::Mean(values));
    for (const std::string& kind : std::get<2>(group)) {
      excess[kind].push_back(common::Mean(values));
    }
  }
  ErrorBands::Guesses variances;
  const double all = std::max(0.0, common::Mean(excess["all"]));
  for (const auto& [kind, values] : excess) {
    const double prior = kind == "all" ? 0.0 : ErrorBand::kPrior;
    const auto count = static_cast<double>(values.size());
    variances[kind] = std::max(
        0.0, (prior * all + count * common::Mean(values)) / (prior + count));
  }
  return variances;
}

// The bands from the rows of all sources but one.
ErrorBands BandsWithout(const std::string& source,
                        const std::vector<LeftOutRow>& rows) {
  ErrorBands bands;
  const auto set = [&](Value value, ErrorBands::ByKind& by_kind,
                       ErrorBands::Guesses& guesses) {
    by_kind = BandsBy(rows, value, source);
    guesses = GuessesBy(rows, value, source, by_kind);
  };
  set(&LeftOutRow::step_time, bands.step_time, bands.guess_step_time);
  set(&LeftOutRow::peak_memory, bands.peak_memory, bands.guess_peak_memory);
  return bands;
}

// Rows that are inside the bands of the other sources, and how wide these are,
// before and after one row of the source.
struct Coverage {
  Share step_time;
  Share peak_memory;
  std::vector<double> widths;  // of step times
  std::vector<double> widths_after_one;
};

// The coverage of the rows of a source and, by name, of the guesses in them.
Coverage CoverageOf(const std::string& source,
                    const std::vector<LeftOutRow>& rows,
                    std::map<std::string, Coverage>& by_guess) {
  const ErrorBands bands = BandsWithout(source, rows);
  Coverage own;
  for (const LeftOutRow& row : rows) {
    if (row.source != source) {
      continue;
    }
    std::vector<Coverage*> counted = {&own};
    for (const trials::Guess& guess : row.guesses) {
      counted.push_back(&by_guess["guess: " + guess.kind]);
    }
    const ErrorBands wide = Widened(bands, row.guesses);
    const auto count = [&](Value value, const ErrorBands::ByKind& by_kind,
                           Share Coverage::*share) {
      if (!Counts(row, value, "")) {
        return;
      }
      const ErrorBand band = ErrorBands::Of(by_kind, row.kind).second;
      const ErrorBand after = band.After(std::array{band.mean});
      for (Coverage* one : counted) {
        (one->*share).Count(row.*value >= band.low && row.*value <= band.high);
        if (value == &LeftOutRow::step_time) {
          one->widths.push_back(band.high / band.low);
          one->widths_after_one.push_back(after.high / after.low);
        }
      }
    };
    count(&LeftOutRow::step_time, wide.step_time, &Coverage::step_time);
    count(&LeftOutRow::peak_memory, wide.peak_memory, &Coverage::peak_memory);
  }
  return own;
}

Calibration CalibrationOf(const std::string& source, const Coverage& inside) {
  return {.source = source,
          .step_time_rows = inside.step_time.of,
          .step_time_inside = inside.step_time.Value(),
          .step_time_width = common::Mean(inside.widths),
          .width_after_one = common::Mean(inside.widths_after_one),
          .peak_memory_rows = inside.peak_memory.of,
          .peak_memory_inside = inside.peak_memory.Value()};
}

double Ratio(const trials::TableRow& row, const std::string& quantity) {
  return row.Number("measured_" + quantity) /
         row.Number("predicted_" + quantity);
}

// "experts;GPU" names two kinds.
std::vector<trials::Guess> GuessesIn(const std::string& kinds) {
  std::vector<trials::Guess> guesses;
  for (const std::string_view kind : common::Split(kinds, ';')) {
    if (!kind.empty()) {
      guesses.push_back({std::string(kind), std::string(kind)});
    }
  }
  return guesses;
}

plots::Cell Percent(double share) {
  return {std::isnan(share) ? "-" : fmt::format("{:.0f}%", 100.0 * share),
          share};
}

}  // namespace

std::vector<LeftOutRow> ReadLeftOutRows(const std::filesystem::path& path) {
  const common::CsvTable csv = common::CsvTable::Read(path);
  for (const char* column :
       {"row_source", "row_kind", "row_clean", "row_guess",
        "measured_step_time_s", "predicted_fit_probability"}) {
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
                    .guesses = GuessesIn(row.Cell("row_guess")),
                    .gpu = row.Cell("row_gpu"),
                    .is_step = row.Cell("row_part").empty(),
                    .ran = row.Cell("measured_status") != "oom",
                    .fit_probability = row.Number("predicted_fit_probability"),
                    .step_time = Ratio(row, "step_time_s"),
                    .peak_memory = Ratio(row, "peak_memory_gb")});
  }
  return rows;
}

ErrorBands BandsOf(const std::vector<LeftOutRow>& rows) {
  return BandsWithout("", rows);
}

std::vector<Calibration> Calibrate(const std::vector<LeftOutRow>& rows) {
  std::set<std::string> sources;
  for (const LeftOutRow& row : rows) {
    if (row.is_step) {
      sources.insert(row.source);
    }
  }
  std::map<std::string, Coverage> by_guess;
  std::vector<Calibration> all;
  for (const std::string& source : sources) {
    all.push_back(CalibrationOf(source, CoverageOf(source, rows, by_guess)));
  }
  // A source without such rows does not count.
  const auto mean = [&all](double Calibration::*value) {
    std::vector<double> values = common::Map(all, value);
    std::erase_if(values, [](double one) { return std::isnan(one); });
    return common::Mean(values);
  };
  Calibration total{
      .source = "all",
      .step_time_inside = mean(&Calibration::step_time_inside),
      .step_time_width = mean(&Calibration::step_time_width),
      .width_after_one = mean(&Calibration::width_after_one),
      .peak_memory_inside = mean(&Calibration::peak_memory_inside)};
  for (const Calibration& one : all) {
    total.step_time_rows += one.step_time_rows;
    total.peak_memory_rows += one.peak_memory_rows;
  }
  for (const auto& [guess, inside] : by_guess) {
    all.push_back(CalibrationOf(guess, inside));
  }
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
