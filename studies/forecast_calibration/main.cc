// Calibration of the simulator by a few measured rows: the error of the other
// rows of their scenario.
//
//   forecast_calibration_study FOLDER DRAWS
//
// takes every known table that has a scenario with at least 20 measured steps,
// with its own framework, one that knows nothing of it (generic) and a wrong
// one, and writes forecast_calibration.{csv,md} and figures below FOLDER.
// Tables with halves are reported by half, because constants are fitted to one
// of them. Of the Ultra-Scale Playbook it also has the clean rows, by its raw
// table: those after the mend of nanotron's pipeline, or without one, on a
// network as fast as it should be.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/quantiles.h"
#include "common/statistics.h"
#include "plots/figure.h"
#include "studies/output.h"
#include "studies/program.h"
#include "studies/validation/measured_table.h"
#include "surrogates/calibration.h"
#include "trials/data_folder.h"
#include "trials/simulator/simulator.h"
#include "trials/tables/measured_rows.h"

namespace studies {
namespace {

using surrogates::CalibrationRow;

constexpr std::array<int, 5> kRows = {0, 1, 3, 5, 10};
constexpr std::size_t kFewestRows = 20;
constexpr double kSlowGbs = 50.0;  // fast jobs measured 170 to 200

// A measured configuration: scenario and sizes.
std::string KeyOf(const std::string& scenario,
                  const trials::ParallelConfig& config) {
  return fmt::format("{} {} {}", scenario, ToString(config),
                     config.micro_batch_size);
}

std::set<std::string> CleanRows(const std::filesystem::path& table) {
  const auto csv =
      common::CsvTable::Read(table.parent_path() / "ultrascale_raw.csv");
  std::set<std::string> clean;
  for (const auto& csv_row : csv.rows()) {
    const TableRow row{csv, csv_row};
    const bool whole =
        row.Cell("pp") == "1" || row.Cell("after_pp_fix") == "True";
    const std::string speed = row.Cell("allreduce_gbs");
    const bool fast = speed.empty() || std::stod(row.Cell("gpus")) <= 8 ||
                      std::stod(speed) > kSlowGbs;
    if (whole && fast) {
      trials::ParallelConfig config;
      for (const auto& [name, field] :
           {std::pair("dp", &trials::ParallelConfig::dp),
            {"tp", &trials::ParallelConfig::tp},
            {"pp", &trials::ParallelConfig::pp},
            {"zero_stage", &trials::ParallelConfig::zero_stage},
            {"micro_batch_size", &trials::ParallelConfig::micro_batch_size},
            {"microbatches", &trials::ParallelConfig::microbatches}}) {
        config.*field = std::stoi(row.Cell(name));
      }
      config.sp = config.tp;
      clean.insert(KeyOf(row.Cell("scenario"), config));
    }
  }
  return clean;
}

struct Scenario {
  std::vector<CalibrationRow> rows;
  surrogates::CalibrationPrior prior;
};

// "nanotron" for "nanotron dispatch_norm=1", a framework with changes.
std::string FrameworkOf(const MeasuredRow& row) {
  return row.framework_name.substr(0, row.framework_name.find(' '));
}

// The scenarios with enough rows of one half.
std::vector<Scenario> ScenariosOf(const MeasuredTable& table, Half half,
                                  const std::set<std::string>* clean) {
  std::map<std::string, Scenario> by_name;
  std::map<std::string, trials::Simulator> simulators;
  for (const MeasuredRow& row : table.rows) {
    if (!row.left_out.empty() || !row.part.name.empty() || row.half != half ||
        !(row.step_time_s > 0.0) ||
        (clean != nullptr &&
         !clean->contains(KeyOf(row.scenario, row.config)))) {
      continue;
    }
    try {
      const trials::StepReport report =
          simulators
              .try_emplace(row.scenario, row.workload, row.cluster,
                           trials::Simulator::Options{row.framework})
              .first->second.Simulate(row.config);
      Scenario& scenario = by_name[row.scenario];
      if (scenario.rows.empty()) {
        scenario.prior = surrogates::CalibrationPrior::Of(row.framework);
      }
      scenario.rows.push_back({.config = row.config,
                               .parts_s = surrogates::StepPartsOf(
                                   report.time, row.config, row.cluster),
                               .step_time_s = row.step_time_s,
                               .predicted_peak_bytes = report.peak_memory_bytes,
                               .capacity_bytes = report.capacity_bytes});
    } catch (const std::invalid_argument&) {  // refused by this framework
    }
  }
  std::vector<Scenario> scenarios;
  for (auto& [name, scenario] : by_name) {
    if (scenario.rows.size() >= kFewestRows) {
      scenarios.push_back(std::move(scenario));
    }
  }
  return scenarios;
}

// Errors after k rows.
struct Errors {
  std::vector<double> mean, median, inside, width;
};

// Adds those of one draw, whose first rows may be learned from.
void AddDraw(const Scenario& scenario, const std::vector<CalibrationRow>& rows,
             int learned, Errors& errors) {
  const auto calibration = surrogates::Calibrate(
      {rows.begin(), rows.begin() + learned}, scenario.prior);
  const std::vector<CalibrationRow> others(rows.begin() + kRows.back(),
                                           rows.end());
  std::vector<trials::ParallelConfig> configs;
  for (const CalibrationRow& row : others) {
    configs.push_back(row.config);
  }
  const surrogates::CalibratedTimes times(calibration, configs);
  std::vector<double> off, inside, widths;
  for (const CalibrationRow& row : others) {
    const auto [step_s, band] = times.Of(row.config, row.parts_s);
    off.push_back(std::abs(step_s / row.step_time_s - 1.0));
    inside.push_back(
        std::abs(std::log(step_s / row.step_time_s)) <= std::log(band) ? 1 : 0);
    widths.push_back(band * band);
  }
  errors.mean.push_back(common::Mean(off));
  errors.median.push_back(common::Median(off));
  errors.inside.push_back(common::Mean(inside));
  errors.width.push_back(common::Median(widths));
}

// The medians over draws, one value for each scenario.
Errors ErrorsAfter(const std::vector<Scenario>& scenarios, int learned,
                   int draws) {
  Errors all;
  for (const Scenario& scenario : scenarios) {
    std::mt19937_64 random(1);
    Errors errors;
    for (int i = 0; i < draws; ++i) {
      std::vector<CalibrationRow> rows = scenario.rows;
      std::ranges::shuffle(rows, random);
      AddDraw(scenario, rows, learned, errors);
    }
    all.mean.push_back(common::Median(errors.mean));
    all.median.push_back(common::Median(errors.median));
    all.inside.push_back(common::Mean(errors.inside));
    all.width.push_back(common::Median(errors.width));
  }
  return all;
}

Output Curves(int draws) {
  Output output{.name = "forecast_calibration"};
  plots::Figure figure{.name = "forecast_calibration",
                       .title = "Error after k measured rows"};
  for (const std::string& name : KnownTables()) {
    const auto path = KnownTablePath(name);
    if (!path) {
      continue;
    }
    const MeasuredTable own = ReadKnownTable(name, {});
    const auto framework_of = [](const MeasuredTable& table) {
      const auto known = std::ranges::find_if(
          table.rows, [](const auto& row) { return row.left_out.empty(); });
      return known == table.rows.end() ? "" : FrameworkOf(*known);
    };
    const std::string own_framework = framework_of(own);
    for (const bool only_clean : {false, true}) {
      if (only_clean && name != "ultrascale") {
        continue;
      }
      const std::set<std::string> clean =
          only_clean ? CleanRows(*path) : std::set<std::string>();
      for (const Half half : {Half::kAll, Half::kFitted, Half::kOther}) {
        const std::string source =
            fmt::format("{}{}{}", name, only_clean ? ", clean" : "",
                        half == Half::kAll      ? ""
                        : half == Half::kFitted ? ", fitted half"
                                                : ", other half");
        std::vector<plots::Series> lines;
        for (const std::string& framework :
             {std::string(), std::string("generic"),
              std::string(own_framework == "nanotron" ? "megatron-core"
                                                      : "nanotron")}) {
          const std::vector<Scenario> scenarios =
              ScenariosOf(framework.empty()
                              ? own
                              : ReadKnownTable(name, {.framework = framework}),
                          half, only_clean ? &clean : nullptr);
          if (scenarios.empty()) {
            continue;
          }
          std::vector<double> x, y;
          for (const int learned : kRows) {
            const Errors errors = ErrorsAfter(scenarios, learned, draws);
            x.push_back(learned);
            y.push_back(common::Mean(errors.mean));
            const bool calibrated = learned > 0;
            output.table.Add(
                {{"source", source},
                 {"framework",
                  framework.empty() ? own_framework + " (own)" : framework},
                 {"scenarios", scenarios.size()},
                 {"rows_learned", "rows learned", learned},
                 {"mean_error", "mean error (%)",
                  plots::Fixed(y.back(), 1, 100.0)},
                 {"median_error", "median (%)",
                  plots::Fixed(common::Mean(errors.median), 1, 100.0)},
                 {"inside", "inside the band (%)",
                  calibrated ? plots::Fixed(common::Mean(errors.inside), 0, 100)
                             : plots::Cell()},
                 {"width", "high / low",
                  calibrated ? plots::Fixed(common::Median(errors.width), 2)
                             : plots::Cell()}});
          }
          lines.push_back(Line(framework.empty() ? own_framework : framework,
                               plots::ThinStyle(static_cast<int>(lines.size())),
                               x, y));
        }
        if (!lines.empty()) {
          plots::Panel panel =
              PanelOver("rows", "rows learned", "mean error", lines);
          panel.name = source;
          panel.title = source;
          figure.panels.push_back(std::move(panel));
        }
      }
    }
  }
  if (!figure.panels.empty()) {
    output.figures.push_back(std::move(figure));
  }
  return output;
}

}  // namespace
}  // namespace studies

int main(int argc, char** argv) {
  const int draws = argc > 2 ? std::atoi(argv[2]) : 0;
  return studies::RunProgram(
      argc == 3 && draws >= 1, "forecast_calibration_study FOLDER DRAWS",
      [&](const studies::Sink& sink) {
        return studies::Write(argv[1], {studies::Curves(draws)}, sink);
      });
}
