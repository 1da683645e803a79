// Calibration of the simulator by a few measured rows: the error of the other
// rows of their scenario.
//
//   forecast_calibration_study FOLDER DRAWS
//
// takes every known table that has a scenario with at least 16 measured steps,
// with its own framework, one that knows nothing of it (generic) and a wrong
// one, and writes forecast_calibration.{csv,md} and figures below FOLDER.
// Tables with halves are reported by half, because constants are fitted to one
// of them. Of a table that knows the states of its jobs it also has the clean
// rows (MeasuredRow::clean).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "harness/predictions/calibration.h"
#include "plots/figure.h"
#include "studies/output.h"
#include "studies/validation/measured_table.h"
#include "trials/simulator/simulator.h"

namespace studies {
namespace {

using harness::CalibrationRow;

constexpr std::array<int, 5> kRows = {0, 1, 3, 5, 10};
constexpr std::size_t kFewestRows = 16;

struct Scenario {
  std::vector<CalibrationRow> rows;
  harness::CalibrationPrior prior;
};

// "nanotron" for "nanotron dispatch_norm=1", a framework with changes.
std::string FrameworkOf(const MeasuredRow& row) {
  return row.framework_name.substr(0, row.framework_name.find(' '));
}

// The scenarios with enough rows of one half.
std::vector<Scenario> ScenariosOf(const MeasuredTable& table, Half half,
                                  bool only_clean) {
  std::map<std::string, Scenario> by_name;
  std::map<std::string, trials::Simulator> simulators;
  for (const MeasuredRow& row : table.rows) {
    if (!row.left_out.empty() || !row.part.name.empty() || row.half != half ||
        !(row.step_time_s > 0.0) || (only_clean && !row.clean)) {
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
        scenario.prior = harness::CalibrationPrior::Of(
            row.framework,
            trials::GuessesOf(row.workload, row.cluster.gpu, row.framework));
      }
      scenario.rows.push_back({.config = row.config,
                               .parts_s = harness::StepPartsOf(
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
  const auto calibration = harness::Calibrate(
      {rows.begin(), rows.begin() + learned}, scenario.prior);
  const std::vector<CalibrationRow> others(rows.begin() + kRows.back(),
                                           rows.end());
  const harness::CalibratedTimes times(
      calibration, common::Map(others, &CalibrationRow::config));
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

// A table as one framework predicts it.
struct Predicted {
  std::string label;
  MeasuredTable table;
};

// Its own framework first; none if no row is simulated.
std::vector<Predicted> ByFrameworks(const std::string& name) {
  const MeasuredTable own = ReadKnownTable(name, {});
  const auto known = std::ranges::find_if(
      own.rows, [](const auto& row) { return row.left_out.empty(); });
  if (known == own.rows.end()) {
    return {};
  }
  const std::string framework = FrameworkOf(*known);
  std::vector<Predicted> tables = {{framework + " (own)", own}};
  const std::string wrong =
      framework == "nanotron" ? "megatron-core" : "nanotron";
  for (const std::string& other : {std::string("generic"), wrong}) {
    tables.push_back({other, ReadKnownTable(name, {.framework = other})});
  }
  return tables;
}

// The error of one framework after each number of rows: rows of the table, and
// the line of the mean.
plots::Series AddCurve(const std::string& source, const std::string& framework,
                       const std::vector<Scenario>& scenarios, int draws,
                       int style, plots::Table& table) {
  std::vector<double> x, y;
  for (const int learned : kRows) {
    const Errors errors = ErrorsAfter(scenarios, learned, draws);
    x.push_back(learned);
    y.push_back(common::Mean(errors.mean));
    const bool calibrated = learned > 0;
    table.Add({{"source", source},
               {"framework", framework},
               {"scenarios", scenarios.size()},
               {"rows_learned", "rows learned", learned},
               {"mean_error", "mean error (%)", plots::Fixed(y.back(), 1, 100)},
               {"median_error", "median (%)",
                plots::Fixed(common::Mean(errors.median), 1, 100)},
               {"inside", "inside the band (%)",
                calibrated ? plots::Fixed(common::Mean(errors.inside), 0, 100)
                           : plots::Cell()},
               {"width", "high / low",
                calibrated ? plots::Fixed(common::Median(errors.width), 2)
                           : plots::Cell()}});
  }
  return Line(framework, plots::ThinStyle(style), x, y);
}

// The curves of one half of a table, with a panel of their own.
void AddHalf(const std::string& source, const std::vector<Predicted>& tables,
             Half half, bool only_clean, int draws, plots::Table& table,
             plots::Figure& figure) {
  std::vector<plots::Series> lines;
  for (const Predicted& one : tables) {
    const auto scenarios = ScenariosOf(one.table, half, only_clean);
    if (!scenarios.empty()) {
      lines.push_back(AddCurve(source, one.label, scenarios, draws,
                               static_cast<int>(lines.size()), table));
    }
  }
  if (!lines.empty()) {
    plots::Panel panel = PanelOver("rows", "rows learned", "mean error", lines);
    panel.name = source;
    panel.title = source;
    figure.panels.push_back(std::move(panel));
  }
}

Output Curves(int draws) {
  Output output{.name = "forecast_calibration"};
  plots::Figure figure{.name = "forecast_calibration",
                       .title = "Error after k measured rows"};
  const std::pair<Half, const char*> halves[] = {
      {Half::kAll, ""},
      {Half::kFitted, ", fitted half"},
      {Half::kOther, ", other half"}};
  for (const std::string& name : KnownTables()) {
    const auto tables =
        KnownTablePath(name) ? ByFrameworks(name) : std::vector<Predicted>();
    const bool states =
        !tables.empty() &&
        !std::ranges::all_of(tables.front().table.rows, &MeasuredRow::clean);
    for (const bool only_clean : {false, true}) {
      for (const auto& [half, label] : halves) {
        if (states || !only_clean) {
          AddHalf(name + (only_clean ? ", clean" : "") + label, tables, half,
                  only_clean, draws, output.table, figure);
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
