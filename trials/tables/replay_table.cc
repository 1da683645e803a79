#include "trials/tables/replay_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "common/quantiles.h"
#include "common/text.h"
#include "common/units.h"
#include "trials/knobs.h"
#include "trials/measurement.h"
#include "trials/objective.h"

namespace trials {
namespace {

using common::kGiga;

// Columns that are not fields of ParallelConfig.
constexpr std::array<std::string_view, 6> kColumns = {
    "scenario", "gpus", "status", "step_time_s", "peak_memory_gb", "plan"};

// A table of measurements: its columns by meaning, and a row at a time.
class CsvFile {
 public:
  explicit CsvFile(const std::filesystem::path& path,
                   const KnobSet& knobs = BuiltInKnobs())
      : knobs_(knobs), table_(common::CsvTable::Read(path)) {
    for (std::size_t i = 0; i < table_.header().size(); ++i) {
      AddColumn(i);
    }
  }

  // Goes to the next row; false at the end of the file.
  bool Next() {
    if (next_ == table_.rows().size()) {
      return false;
    }
    row_ = &table_.rows()[next_++];
    return true;
  }

  // Throws unless the header has all of these.
  void Need(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (!columns_.contains(name)) {
        table_.Fail(table_.header_line(),
                    fmt::format("the column '{}' is missing; the header has {}",
                                name, fmt::join(table_.header(), ", ")));
      }
    }
  }

  // The cell of a column in this row; "" where the table has no such column.
  [[nodiscard]] std::string_view Cell(std::string_view column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? std::string_view()
                                   : row_->cells[found->second];
  }

  [[nodiscard]] unsigned line() const { return row_->line; }

  // The number in a cell; it must be positive.
  [[nodiscard]] double Number(std::string_view column) const {
    double value = 0.0;
    try {
      value = common::ParseDouble(Cell(column));
    } catch (const std::invalid_argument&) {
      value = 0.0;
    }
    if (!std::isfinite(value) || value <= 0.0) {
      Fail(fmt::format("{} must be a number above 0, not '{}'", column,
                       Cell(column)));
    }
    return value;
  }

  [[nodiscard]] ParallelConfig Config() const {
    ParallelConfig config;
    for (const Knob& knob : knobs_) {
      try {
        if (columns_.contains(knob.name) &&
            (!Cell(knob.name).empty() || knob.required)) {
          knob.SetChecked(config, Cell(knob.name));
          if (columns_.contains(knob.flag.name)) {
            Fail(fmt::format("the columns '{}' and '{}' are the same field",
                             knob.name, knob.flag.name));
          }
        } else if (!Cell(knob.flag.name).empty()) {
          knob.SetFlag(config, Cell(knob.flag.name));
        }
      } catch (const std::invalid_argument& e) {
        Fail(e.what());
      }
    }
    return config;
  }

  // The plan in the column `plan`, which has all sizes.
  [[nodiscard]] Plan ReadPlan() const {
    for (const auto& [name, at] : columns_) {
      if (knobs_.Find(name) != nullptr && !row_->cells[at].empty()) {
        Fail(fmt::format("the plan has all sizes: leave the cell '{}' empty",
                         name));
      }
    }
    Plan plan;
    try {
      FromText(Cell("plan"), plan);
    } catch (const std::invalid_argument& e) {
      Fail(fmt::format("plan: {}", e.what()));
    }
    return plan;
  }

  [[noreturn]] void Fail(const std::string& message) const {
    table_.Fail(row_ == nullptr ? table_.header_line() : row_->line, message);
  }

  [[nodiscard]] const std::vector<std::string>& unknown() const {
    return unknown_;
  }

 private:
  void AddColumn(std::size_t at) {
    const std::string& name = table_.header()[at];
    const Knob* field = knobs_.Find(name);
    const bool known =
        std::find(kColumns.begin(), kColumns.end(), name) != kColumns.end() ||
        knobs_.FindFlag(name) != nullptr;
    if (field == nullptr && !known) {
      unknown_.push_back(name);
      return;
    }
    const auto [other, is_new] = columns_.emplace(
        field == nullptr ? std::string_view(name) : field->name, at);
    if (!is_new) {
      const std::string& before = table_.header()[other->second];
      Fail(before == name
               ? fmt::format("the column '{}' comes twice", name)
               : fmt::format("the columns '{}' and '{}' are the same field",
                             before, name));
    }
  }

  KnobSet knobs_;
  common::CsvTable table_;
  std::size_t next_ = 0;
  const common::CsvTable::Row* row_ = nullptr;  // the present one
  // By name; a field of ParallelConfig by its own name, not an alias.
  std::map<std::string_view, std::size_t> columns_;
  std::vector<std::string> unknown_;
};

// Gathers the rows of one scenario by configuration.
class Gathering {
 public:
  void Add(const CsvFile& file) {
    const double gpus = file.Number("gpus");
    if (gpus != std::trunc(gpus) || gpus > std::numeric_limits<int>::max()) {
      file.Fail(fmt::format("gpus must be an integer, not {}", gpus));
    }
    Measured& measured = file.Cell("plan").empty()
                             ? OfConfig(file, static_cast<int>(gpus))
                             : OfPlan(file, static_cast<int>(gpus));
    ReplayRow& row = measured.row;
    ++row.measurements;
    if (Ran(file)) {
      const double step_time_s = file.Number("step_time_s");
      if (step_time_s < kLeastStepSeconds || step_time_s > kMostStepSeconds) {
        file.Fail(fmt::format("step_time_s must be from {:g} to {:g}, not {}",
                              kLeastStepSeconds, kMostStepSeconds,
                              file.Cell("step_time_s")));
      }
      measured.step_times_s.push_back(step_time_s);
      AddPeak(file, row);
    }
  }

  [[nodiscard]] std::vector<ReplayRow> Rows() const { return RowsOf(configs_); }
  [[nodiscard]] std::vector<ReplayRow> Plans() const { return RowsOf(plans_); }

  [[nodiscard]] const std::set<int>& gpus() const { return gpus_; }

 private:
  struct Measured {
    ReplayRow row;
    std::vector<double> step_times_s;
  };

  static std::vector<ReplayRow> RowsOf(const std::vector<Measured>& all) {
    std::vector<ReplayRow> rows;
    for (const Measured& measured : all) {
      ReplayRow& row = rows.emplace_back(measured.row);
      row.out_of_memory = measured.step_times_s.empty();
      if (!row.out_of_memory) {
        row.step_time_s = common::Median(measured.step_times_s);
      }
    }
    return rows;
  }

  Measured& OfConfig(const CsvFile& file, int gpus) {
    const ParallelConfig config = file.Config();
    AddGpus(file, gpus, config);
    const auto [at, is_new] = index_.try_emplace(config, configs_.size());
    if (is_new) {
      configs_.push_back({{.config = config, .line = file.line()}, {}});
    }
    return configs_[at->second];
  }

  Measured& OfPlan(const CsvFile& file, int gpus) {
    const Plan plan = file.ReadPlan();
    int used = 0;
    for (int stage = 0; std::cmp_less(stage, plan.stages.size()); ++stage) {
      used += StageGpus(plan, stage);
    }
    if (used != gpus) {
      file.Fail(fmt::format(
          "the stages of the plan have {} GPUs, and the row {}", used, gpus));
    }
    gpus_.insert(gpus);
    const auto [at, is_new] =
        plan_index_.try_emplace(ToString(plan), plans_.size());
    if (is_new) {
      plans_.push_back(
          {{.config = StageConfig(plan, 0), .plan = plan, .line = file.line()},
           {}});
    }
    return plans_[at->second];
  }

  // With several numbers of GPUs, that of a row must follow from its
  // configuration, as in a search space.
  void AddGpus(const CsvFile& file, int gpus, const ParallelConfig& config) {
    gpus_.insert(gpus);
    if (gpus != GpusOf(config) && unlike_ == 0) {
      unlike_ = file.line();
    }
    if (gpus_.size() > 1 && unlike_ != 0) {
      file.Fail(fmt::format(
          "rows of this scenario have {} GPUs, and that of line {} does not "
          "use dp * tp * pp * cp of them: make it a scenario of its own",
          fmt::join(gpus_, " or "), unlike_));
    }
  }

  static bool Ran(const CsvFile& file) {
    const std::string_view status = file.Cell("status");
    if (status != "ok" && status != "oom") {
      file.Fail(fmt::format("status must be ok or oom, not '{}'", status));
    }
    return status == "ok";
  }

  static void AddPeak(const CsvFile& file, ReplayRow& row) {
    if (!file.Cell("peak_memory_gb").empty()) {
      row.peak_memory_bytes = std::max(row.peak_memory_bytes.value_or(0.0),
                                       file.Number("peak_memory_gb") * kGiga);
    }
  }

  std::set<int> gpus_;
  unsigned unlike_ = 0;  // a row whose GPUs are not those of its configuration
  std::map<ParallelConfig, std::size_t> index_;
  std::map<std::string, std::size_t> plan_index_;  // by text
  std::vector<Measured> configs_;
  std::vector<Measured> plans_;
};

// A list for a message, cut where it gets long.
std::string Some(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kMost = 20;
  const auto size = static_cast<std::ptrdiff_t>(names.size());
  return fmt::format(
      "{}{}",
      fmt::join(names.begin(), names.begin() + std::min(size, kMost), ", "),
      size > kMost ? fmt::format(" and {} more", size - kMost) : "");
}

}  // namespace

ReplayTable ReplayTable::Read(const std::filesystem::path& path,
                              const std::string& scenario,
                              const KnobSet& knobs) {
  CsvFile file(path, knobs);
  file.Need({"scenario", "gpus", "dp", "tp", "pp", "status", "step_time_s"});
  for (const Knob& knob : knobs) {
    if (knob.required) {
      file.Need({knob.name});
    }
  }
  Gathering gathering;
  while (file.Next()) {
    if (file.Cell("scenario") == scenario) {
      gathering.Add(file);
    }
  }
  ReplayTable table;
  table.path_ = path.string();
  table.scenario_ = scenario;
  table.sizes_.assign(gathering.gpus().begin(), gathering.gpus().end());
  table.rows_ = gathering.Rows();
  table.plans_ = gathering.Plans();
  if (table.rows_.empty() && !table.plans_.empty()) {
    throw common::InputError(
        fmt::format("{}:{}: the scenario {} has plans only: a search needs "
                    "configurations, too",
                    path.string(), table.plans_.front().line, scenario));
  }
  table.unknown_columns_ = file.unknown();
  if (table.rows_.empty()) {
    const std::vector<std::string> known = ScenarioNames(path);
    throw common::InputError(fmt::format(
        "{}: no scenario '{}'{}; known: {}", path.string(), scenario,
        common::DidYouMean(scenario, known), Some(known)));
  }
  return table;
}

std::vector<ParallelConfig> ReplayTable::configs() const {
  std::vector<ParallelConfig> configs;
  for (const ReplayRow& row : rows_) {
    configs.push_back(row.config);
  }
  return configs;
}

std::string ReplayTable::Warning() const {
  if (unknown_columns_.empty()) {
    return "";
  }
  return fmt::format(
      "{}: columns that name no field of a configuration are left out, and "
      "rows that differ only there count as repeats: {}",
      path_, fmt::join(unknown_columns_, ", "));
}

std::vector<std::string> ScenarioNames(const std::filesystem::path& path) {
  CsvFile file(path);
  file.Need({"scenario"});
  std::vector<std::string> names;
  while (file.Next()) {
    const std::string_view name = file.Cell("scenario");
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace trials
