#include "trials/tables/measured_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "trials/knobs.h"

namespace trials {
namespace {

constexpr std::string_view kPeak = "peak_memory_gb";

// One column of a speed or a peak, with its factor to SI units.
enum class MeasureKind { kTime, kSteps, kSamples, kTokens, kMemory };
struct MeasureColumn {
  std::string_view name;
  MeasureKind kind;
  double factor = 1.0;
};
constexpr std::array<MeasureColumn, 5> kSpeeds = {
    {{"step_time_s", MeasureKind::kTime},
     {"step_time_ms", MeasureKind::kTime, 1e-3},
     {"throughput_steps_per_s", MeasureKind::kSteps},
     {"samples_per_s", MeasureKind::kSamples},
     {"tokens_per_s", MeasureKind::kTokens}}};
constexpr std::array<MeasureColumn, 4> kPeaks = {
    {{"peak_memory_bytes", MeasureKind::kMemory},
     {"peak_memory_mib", MeasureKind::kMemory, 1048576.0},
     {"reserved_gib", MeasureKind::kMemory, common::kGibi},
     {kPeak, MeasureKind::kMemory, common::kGiga}}};

bool Lists(std::span<const MeasureColumn> columns, std::string_view name) {
  return std::ranges::any_of(
      columns, [&](const auto& column) { return column.name == name; });
}

// The names of outcomes that tools and tables use.
Outcome ParseOutcome(const std::string& text) {
  static const std::map<std::string_view, Outcome> other = {
      {"ok", Outcome::kCompleted},    {"success", Outcome::kCompleted},
      {"oom", Outcome::kOutOfMemory}, {"timeout", Outcome::kTimedOut},
      {"error", Outcome::kFailed},    {"crash", Outcome::kFailed},
      {"other", Outcome::kFailed}};
  const std::string lower = common::Lower(text);
  if (const auto found = other.find(lower); found != other.end()) {
    return found->second;
  }
  Outcome outcome{};
  try {
    FromText(lower, outcome);
  } catch (const std::invalid_argument&) {
    FromText(text, outcome);  // an error with the text as it stands
  }
  return outcome;
}

// The first column that has a number in this row, and the number in SI units;
// nullptr and NaN if none has.
std::pair<const MeasureColumn*, double> FirstKnown(
    const Facts& facts, std::span<const MeasureColumn> columns) {
  for (const MeasureColumn& column : columns) {
    const std::string text = facts.Text(column.name);
    if (!text.empty() && text != "nan" && text != "NaN") {
      return {&column, column.factor * facts.Number(column.name)};
    }
  }
  return {nullptr, kUnknown};
}

void ReadSpeed(const StepSize& size, MeasuredRow& row) {
  const auto [column, value] = FirstKnown(row.facts, kSpeeds);
  if (column == nullptr) {
    return;
  }
  if (column->kind == MeasureKind::kTime) {
    row.step_time_s = value;
    row.steps_per_s = 1.0 / value;
    constexpr double kRounded = 0.02;
    for (const MeasureColumn& other : kSpeeds) {
      const double again = FirstKnown(row.facts, {&other, 1}).second;
      if (other.kind == MeasureKind::kTime &&
          std::abs(again / value - 1.0) > kRounded) {
        row.facts.Fail(fmt::format(
            "{} is {} and {} is {}, which is another time: leave one out",
            column->name, row.facts.Text(column->name), other.name,
            row.facts.Text(other.name)));
      }
    }
    return;
  }
  const auto or_else = [](double known, double otherwise) {
    return known > 0.0 ? known : otherwise;
  };
  const ParallelConfig& config = row.config;
  const bool cut = config.micro_batch_size > 0 && row.facts.Has("dp") &&
                   row.facts.Has("microbatches");
  double per_step = 1.0;
  if (column->kind != MeasureKind::kSteps) {
    per_step =
        cut ? config.dp * config.microbatches * config.micro_batch_size
            : or_else(row.facts.Number("global_batch_size"), size.batch_size);
  }
  if (column->kind == MeasureKind::kTokens) {
    per_step *=
        or_else(row.facts.Number("sequence_length"), size.sequence_length);
  }
  if (per_step <= 0.0) {
    row.facts.Fail(fmt::format(
        "'{}' needs the batch and the sequence length of [workload]: give "
        "step_time_s or throughput_steps_per_s",
        column->name));
  }
  row.steps_per_s = value / per_step;
  row.step_time_s = per_step / value;
}

}  // namespace

bool MeasuredRow::Ran() const {
  if (outcome == Outcome::kCompleted || outcome == Outcome::kTerminatedEarly) {
    return true;
  }
  if (outcome != Outcome::kOutOfMemory) {
    facts.Fail(fmt::format("status must be ok or oom, not '{}'",
                           facts.Text("status")));
  }
  return false;
}

std::optional<Outcome> OutcomeOf(const Facts& facts) {
  const std::string status = facts.Text("status");
  if (status.empty()) {
    return std::nullopt;
  }
  try {
    return ParseOutcome(status);
  } catch (const std::invalid_argument& e) {
    facts.Fail(fmt::format("status: {}", e.what()));
  }
}

MeasuredRow ReadMeasuredRow(const TableRow& row, const KnobSet& knobs,
                            const StepSize& size) {
  MeasuredRow read{.facts = Facts(row)};
  read.facts.Add(row);
  read.facts.Add("status", row.Cell("outcome"));
  read.config = ConfigOf(read.facts, knobs);
  read.outcome = OutcomeOf(read.facts);
  if (!read.outcome || read.outcome == Outcome::kCompleted ||
      read.outcome == Outcome::kTerminatedEarly) {
    ReadSpeed(size, read);
  }
  read.peak_memory_bytes = FirstKnown(read.facts, kPeaks).second;
  return read;
}

ParallelConfig ConfigOf(const Facts& facts, const KnobSet& knobs) {
  ParallelConfig config;
  for (const Knob& knob : knobs) {
    try {
      if (facts.Has(knob.name)) {
        knob.SetChecked(config, facts.Text(knob.name));
      } else if (facts.Has(knob.flag.name)) {
        knob.SetFlag(config, facts.Text(knob.flag.name));
      }
    } catch (const std::invalid_argument& e) {
      facts.Fail(e.what());
    }
  }
  return config;
}

std::string ColumnName(std::string_view column, const KnobSet& knobs) {
  const Knob* const knob = knobs.Find(column);
  const Knob* const flag = knobs.FindFlag(column);
  return knob != nullptr          ? knob->name
         : flag != nullptr        ? flag->name
         : Lists(kSpeeds, column) ? std::string(kSpeeds.front().name)
         : Lists(kPeaks, column)  ? std::string(kPeak)
         : column == "outcome"    ? "status"
                                  : FactName(column);
}

MeasuredColumns CheckColumns(const common::CsvTable& table,
                             const KnobSet& knobs,
                             const std::vector<std::string_view>& needed,
                             const std::vector<std::string_view>& others) {
  const auto fail = [&table](const std::string& message) {
    table.Fail(table.header_line(), message);
  };
  MeasuredColumns columns;
  std::map<std::string, std::string> known;  // by name
  for (const std::string& column : table.header()) {
    const std::string name = ColumnName(column, knobs);
    columns.names.insert(name);
    if (Lists(kSpeeds, name) || name == kPeak) {
      continue;  // a table may have several units
    }
    if (knobs.Find(name) == nullptr && name != "status" &&
        !common::Contains(others, name)) {
      columns.unknown.push_back(column);
      continue;
    }
    const auto [other, is_new] = known.emplace(name, column);
    if (!is_new) {
      fail(other->second == column
               ? fmt::format("the column '{}' comes twice", column)
               : fmt::format("the columns '{}' and '{}' are the same field",
                             other->second, column));
    }
  }
  for (const std::string_view name : needed) {
    if (!columns.names.contains(name)) {
      fail(fmt::format(
          "the column '{}' is missing: rename the one that has it; the header "
          "has {}",
          name, fmt::join(table.header(), ", ")));
    }
  }
  return columns;
}

}  // namespace trials
