#include "trials/tables/replay_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/knobs.h"
#include "trials/objective.h"
#include "trials/tables/measured_rows.h"

namespace trials {
namespace {

using common::CsvTable;

// Gathers the rows of one scenario by configuration or plan.
class Gathering {
 public:
  explicit Gathering(const KnobSet& knobs) : knobs_(knobs) {}

  void Add(const MeasuredRow& row, unsigned line) {
    const int gpus = row.facts.RequireInt("gpus");
    CheckJob(row.facts, line);
    Measured& measured = row.facts.Has("plan") ? OfPlan(row.facts, gpus, line)
                                               : OfConfig(row, gpus, line);
    ++measured.row.measurements;
    if (!row.Ran()) {
      return;
    }
    if (std::isnan(row.step_time_s)) {
      row.facts.Fail("a row that ran needs a step time or a throughput");
    }
    if (!(row.step_time_s >= kLeastStepSeconds &&
          row.step_time_s <= kMostStepSeconds)) {
      row.facts.Fail(
          fmt::format("the step time must be from {:g} to {:g} s, "
                      "not '{}'",
                      kLeastStepSeconds, kMostStepSeconds,
                      common::ExactText(row.step_time_s)));
    }
    measured.step_times_s.push_back(row.step_time_s);
    if (row.facts.Has("micro_batch_size") && row.facts.Has("microbatches") &&
        !row.facts.Has("global_batch_size")) {
      batches_.insert(static_cast<std::int64_t>(row.config.dp) *
                      row.config.microbatches * row.config.micro_batch_size);
    }
    if (!std::isnan(row.peak_memory_bytes)) {
      measured.row.peak_memory_bytes = std::max(
          measured.row.peak_memory_bytes.value_or(0.0), row.peak_memory_bytes);
    }
  }

  // Those of configurations, or those of plans, in the order of their first
  // row.
  [[nodiscard]] std::vector<ReplayRow> Rows(bool plans) const {
    std::vector<ReplayRow> rows;
    for (const Measured& measured : measured_) {
      if (measured.row.candidate.IsPlan() == plans) {
        ReplayRow& row = rows.emplace_back(measured.row);
        row.out_of_memory = measured.step_times_s.empty();
        row.step_time_s = common::Median(measured.step_times_s);
      }
    }
    return rows;
  }

  // Why the rows may not be of one job, or not say what runs.
  [[nodiscard]] std::vector<std::string> Doubts() const {
    std::vector<std::string> doubts;
    if (batches_.size() > 1) {
      doubts.push_back(fmt::format(
          "dp * microbatches * micro_batch_size is from {} to {}, and a step "
          "of fewer sequences counts as a faster one: make each a scenario of "
          "its own",
          *batches_.begin(), *batches_.rbegin()));
    }
    if (!unlike_.empty()) {
      doubts.push_back(
          fmt::format("rows whose GPUs are not dp * tp * pp * cp: {}, the "
                      "first on line {}",
                      unlike_.size(), unlike_.front()));
    }
    std::vector<unsigned> mixed;
    for (const Measured& measured : measured_) {
      if (!measured.step_times_s.empty() &&
          std::cmp_less(measured.step_times_s.size(),
                        measured.row.measurements)) {
        mixed.push_back(measured.row.line);
      }
    }
    if (!mixed.empty()) {
      doubts.push_back(fmt::format(
          "configurations that ran and failed count as those that run: {}, the "
          "first on line {}",
          mixed.size(), mixed.front()));
    }
    return doubts;
  }

  [[nodiscard]] const std::set<int>& gpus() const { return gpus_; }

 private:
  // All rows are of one job: the smallest one would be the fastest.
  void CheckJob(const Facts& facts, unsigned line) {
    for (const char* name : {"global_batch_size", "sequence_length"}) {
      if (!facts.Has(name)) {
        continue;
      }
      const auto [first, is_new] =
          job_.try_emplace(name, std::pair(facts.RequireInt(name), line));
      if (!is_new && first->second.first != facts.RequireInt(name)) {
        facts.Fail(fmt::format(
            "{} is {}, and {} on line {}: make each a scenario of its own",
            name, facts.RequireInt(name), first->second.first,
            first->second.second));
      }
    }
  }

  struct Measured {
    ReplayRow row;
    std::vector<double> step_times_s;
  };

  Measured& Find(const ReplayRow& row) {
    const auto [at, is_new] =
        index_.try_emplace({row.candidate.IsPlan() ? row.candidate.Label() : "",
                            row.candidate.config()},
                           measured_.size());
    if (is_new) {
      measured_.push_back({row, {}});
    }
    return measured_[at->second];
  }

  Measured& OfConfig(const MeasuredRow& row, int gpus, unsigned line) {
    const Facts& facts = row.facts;
    for (const Knob& knob : knobs_) {
      if (knob.required && !facts.Has(knob.name)) {
        facts.Fail(knob.InvalidValue(""));
      }
    }
    // With several numbers of GPUs, that of a row must follow from its
    // configuration, as in a search space.
    gpus_.insert(gpus);
    if (gpus != GpusOf(row.config)) {
      unlike_.push_back(line);
    }
    if (gpus_.size() > 1 && !unlike_.empty()) {
      facts.Fail(fmt::format(
          "rows of this scenario have {} GPUs, and that of line {} does not "
          "use dp * tp * pp * cp of them: make it a scenario of its own",
          fmt::join(gpus_, " or "), unlike_.front()));
    }
    return Find({.candidate = row.config, .line = line});
  }

  Measured& OfPlan(const Facts& facts, int gpus, unsigned line) {
    for (const Knob& knob : knobs_) {
      if (facts.Has(knob.name)) {
        facts.Fail(fmt::format(
            "the plan has all sizes: leave the cell '{}' empty", knob.name));
      }
    }
    Plan plan;
    try {
      FromText(facts.Text("plan"), plan);
    } catch (const std::invalid_argument& e) {
      facts.Fail(fmt::format("plan: {}", e.what()));
    }
    int used = 0;
    for (int stage = 0; std::cmp_less(stage, plan.stages.size()); ++stage) {
      used += StageGpus(plan, stage);
    }
    if (used != gpus) {
      facts.Fail(fmt::format(
          "the stages of the plan have {} GPUs, and the row {}", used, gpus));
    }
    gpus_.insert(gpus);
    return Find({.candidate = plan, .line = line});
  }

  const KnobSet& knobs_;
  std::set<int> gpus_;
  std::set<std::int64_t> batches_;  // of rows that ran, where none is stated
  // The first value of a fact of the job, and its line.
  std::map<std::string, std::pair<int, unsigned>> job_;
  // Lines of rows whose GPUs are not those of their configuration.
  std::vector<unsigned> unlike_;
  // By the text of the plan ("": none) and configuration.
  std::map<std::pair<std::string, ParallelConfig>, std::size_t> index_;
  std::vector<Measured> measured_;
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
                              const std::string& scenario, const KnobSet& knobs,
                              const StepSize& size) {
  const CsvTable csv = CsvTable::Read(path);
  std::vector<std::string_view> needed = {"scenario", "gpus"};
  for (const Knob& knob : knobs) {
    if (knob.required) {
      needed.push_back(knob.name);
    }
  }
  needed.insert(needed.end(), {"status", "step_time_s"});
  const MeasuredColumns columns = CheckColumns(
      csv, knobs, needed,
      {"scenario", "gpus", "plan", "global_batch_size", "sequence_length"});
  Gathering gathering(knobs);
  for (const CsvTable::Row& row : csv.rows()) {
    if (csv.Cell(row, "scenario") == scenario) {
      gathering.Add(ReadMeasuredRow({csv, row}, knobs, size), row.line);
    }
  }
  ReplayTable table;
  table.path_ = path.string();
  table.scenario_ = scenario;
  table.sizes_.assign(gathering.gpus().begin(), gathering.gpus().end());
  table.rows_ = gathering.Rows(false);
  table.plans_ = gathering.Rows(true);
  if (table.rows_.empty() && !table.plans_.empty()) {
    throw common::InputError(
        fmt::format("{}:{}: the scenario {} has plans only: a search needs "
                    "configurations, too",
                    path.string(), table.plans_.front().line, scenario));
  }
  table.doubts_ = gathering.Doubts();
  if (!columns.unknown.empty()) {
    table.doubts_.push_back(fmt::format(
        "columns that name no field of a configuration are left out, and "
        "rows that differ only there count as repeats: {}",
        fmt::join(columns.unknown, ", ")));
  }
  if (table.rows_.empty()) {
    const std::vector<std::string> known = ScenarioNames(path);
    throw common::InputError(fmt::format(
        "{}: no scenario '{}'{}; known: {}", path.string(), scenario,
        common::DidYouMean(scenario, known), Some(known)));
  }
  return table;
}

std::vector<ParallelConfig> ReplayTable::configs() const {
  return common::Map(
      rows_, [](const ReplayRow& row) { return row.candidate.config(); });
}

std::string ReplayTable::Warning() const {
  return doubts_.empty()
             ? ""
             : fmt::format("{}: {}", path_, fmt::join(doubts_, "; "));
}

std::vector<std::string> ScenarioNames(const std::filesystem::path& path) {
  const CsvTable csv = CsvTable::Read(path);
  CheckColumns(csv, BuiltInKnobs(), {"scenario"}, {"scenario", "gpus"});
  std::vector<std::string> names;
  for (const CsvTable::Row& row : csv.rows()) {
    const std::string_view name = csv.Cell(row, "scenario");
    if (!common::Contains(names, name)) {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace trials
