#include "trials/knobs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "trials/workload.h"

namespace trials {
namespace {

using PC = ParallelConfig;
using enum KnobScale;
using enum KnobGroup;

std::vector<int> PowersOfTwo(int limit) {
  std::vector<int> values;
  for (std::int64_t value = 1; value <= limit; value *= 2) {
    values.push_back(static_cast<int>(value));
  }
  return values;
}

std::vector<int> Divisors(const Workload& /*workload*/, int gpus) {
  std::vector<int> values;
  for (int value = 1; value <= gpus; ++value) {
    if (gpus % value == 0) {
      values.push_back(value);
    }
  }
  return values;
}

// A grid that is the same for every problem.
Knob::Grid Fixed(std::string text, std::vector<int> values) {
  return {std::move(text), [values = std::move(values)](const Workload&, int) {
            return values;
          }};
}

// The microbatches of a size.
int MicrobatchesOf(const PC& config, int size, int batch_size) {
  const std::int64_t whole = std::int64_t{config.dp} * size;
  return batch_size % whole == 0 ? static_cast<int>(batch_size / whole) : 0;
}

// One paragraph a row.
// clang-format off
std::vector<Knob> Table() {
  const Knob::Grid divisors = {"divisors of the number of GPUs", Divisors};
  const Knob::Grid buckets = Fixed("1, 4, 16, 64, 256, 1024, 4096",
                                   {1, 4, 16, 64, 256, 1024, 4096});
  const Knob::Grid off_and_on = Fixed("0, 1", {0, 1});
  // The ranks of a context hold copies of all parameters, too.
  const Knob::Condition copies = {
      "dp * cp > 1", [](const PC& c) { return c.dp * c.cp > 1; }};
  const Knob::Condition zero = {
      "zero_stage > 0", [](const PC& c) { return c.zero_stage > 0; }};
  const Knob::Condition pipeline = {
      "pp > 1", [](const PC& c) { return c.pp > 1; }};
  return {
      {.name = "dp", .label = "DP size", .group = kSizes, .grid = divisors,
       .storage = &PC::dp, .required = true, .structural = true},

      {.name = "tp", .label = "TP size", .group = kSizes, .grid = divisors,
       .storage = &PC::tp, .required = true, .structural = true},

      {.name = "pp", .label = "PP size", .group = kSizes, .grid = divisors,
       .storage = &PC::pp, .required = true, .structural = true},

      {.name = "dp_bucket_mb", .label = "DP bucket size (MB)",
       .group = kSharding, .grid = buckets,
       .active = {"dp * cp > 1 && pp = 1 && zero_stage = 0", [](const PC& c) {
                    return c.dp * c.cp > 1 && c.pp == 1 && c.zero_stage == 0;
                  }},
       .aliases = {"dp_bucket", "dp_bucket_size"},
       .storage = &PC::dp_bucket_mb},

      {.name = "zero_stage", .label = "ZeRO stage", .scale = kLinear,
       .minimum = 0, .maximum = 3, .group = kSharding,
       .grid = Fixed("0, 1, 2, 3", {0, 1, 2, 3}), .active = copies,
       .aliases = {"zero"}, .storage = &PC::zero_stage, .structural = true,
       .decides_memory = true},

      {.name = "zero_bucket_mb", .label = "ZeRO bucket size (MB)",
       .group = kSharding, .grid = buckets, .active = zero,
       .aliases = {"zero_bucket", "zero_bucket_size"},
       .storage = &PC::zero_bucket_mb, .decides_memory = true},

      FlagKnob({.name = "overlap_zero_comm",
                .label = "Overlap ZeRO communication", .group = kSharding,
                .grid = off_and_on, .active = zero,
                .aliases = {"overlap_zero_communication",
                            "overlap_communication"},
                .storage = &PC::overlap_zero_comm}),

      FlagKnob({.name = "overlap_zero_allgather",
                .label = "Overlap ZeRO all-gather", .group = kSharding,
                .grid = off_and_on, .active = zero,
                .aliases = {"overlap_allgather"},
                .storage = &PC::overlap_zero_allgather}),

      {.name = "microbatches", .label = "Microbatches", .group = kPipeline,
       .grid = {"powers of 2 up to the batch size",
                [](const Workload& w, int) {
                  return PowersOfTwo(w.batch_size);
                }},
       .aliases = {"mb", "num_microbatches"},
       .storage = &PC::microbatches, .counts_parts = true},

      {.name = "model_chunks", .label = "Model chunks", .group = kPipeline,
       .grid = {"powers of 2 up to the number of layers",
                [](const Workload& w, int) {
                  return PowersOfTwo(w.model.layers);
                }},
       .active = pipeline, .aliases = {"mc", "num_model_chunks", "chunks"},
       .storage = &PC::model_chunks, .counts_parts = true},

      FlagKnob({.name = "overlap_p2p", .label = "Overlap P2P",
                .group = kPipeline, .grid = off_and_on,
                .active = {"model_chunks > 1",
                           [](const PC& c) { return c.model_chunks > 1; }},
                .storage = &PC::overlap_p2p}),

      {.name = "grad_checkpoint", .label = "Gradient checkpointing",
       .scale = kSwitch, .minimum = 0, .maximum = kRecomputeSelective,
       .grid = off_and_on,
       .aliases = {"gradient_checkpointing", "grad_checkpointing",
                   "checkpointing"},
       .storage = &PC::grad_checkpoint, .structural = true,
       .decides_memory = true},

      {.name = "micro_batch_size", .label = "Microbatch size", .minimum = 0,
       .group = kFixed, .aliases = {"mbs"}, .storage = &PC::micro_batch_size,
       .derived = [](const PC& c, double batch_size) {
         return batch_size / (static_cast<double>(c.dp) * c.microbatches);
       },
       .inverse = {"microbatches", MicrobatchesOf}},

      {.name = "ep", .label = "EP size",
       .grid = {"divisors of the number of GPUs if the model has experts, "
                "else 1",
                [](const Workload& w, int gpus) {
                  return Divisors(w, w.model.experts > 0 ? gpus : 1);
                }},
       .storage = &PC::ep, .structural = true},

      {.name = "cp", .label = "CP size", .group = kSizes, .storage = &PC::cp,
       .structural = true},

      {.name = "sp", .label = "SP size",
       .active = {"tp > 1", [](const PC& c) { return c.tp > 1; }},
       .storage = &PC::sp, .counts_parts = true, .structural = true,
       .flag = {"sequence_parallel", &PC::tp}},

      {.name = "dp_replicate", .label = "HSDP copies", .group = kSharding,
       .active = zero, .aliases = {"hsdp"}, .storage = &PC::dp_replicate,
       .structural = true, .decides_memory = true},

      {.name = "etp", .label = "Expert TP size", .minimum = 0,
       .active = {"ep > 1 && tp > 1",
                  [](const PC& c) { return c.ep > 1 && c.tp > 1; }},
       .storage = &PC::etp, .structural = true},

      {.name = "torch_compile", .label = "Compilation", .scale = kCategory,
       .minimum = 0, .maximum = kCompiled, .storage = &PC::torch_compile},
  };
}
// clang-format on

// The range of a knob in words.
constexpr std::string_view kFlagRange = "true (1) or false (0)";

std::string Range(const Knob& knob) {
  if (!knob.texts.empty()) {
    return fmt::format("one of {}", fmt::join(knob.texts, ", "));
  }
  if (knob.scale == kFlag) {
    return std::string(kFlagRange);
  }
  if (knob.scale == kSwitch) {
    return fmt::format("false (0), true (1) or up to {}", knob.maximum);
  }
  return knob.maximum == kNoLimit
             ? fmt::format("an integer from {}", knob.minimum)
             : fmt::format("{} to {}", knob.minimum, knob.maximum);
}

std::optional<bool> Truth(std::string_view text) {
  if (text == "true" || text == "True") {
    return true;
  }
  if (text == "false" || text == "False") {
    return false;
  }
  return std::nullopt;
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsName(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) && text.back() != ' ' &&
         std::ranges::all_of(text, [](char c) {
           return IsLetter(c) || c == '_' || c == '-' || c == ' ' ||
                  (c >= '0' && c <= '9');
         });
}

}  // namespace

std::string VariableName(std::string_view name) {
  std::string variable(name);
  for (char& c : variable) {
    c = c == '-' || c == ' '   ? '_'
        : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A')
                               : c;
  }
  return variable;
}

const KnobSet& BuiltInKnobs() {
  static const KnobSet knobs(Table());
  return knobs;
}

std::string Knob::InvalidValue(std::string_view value) const {
  return fmt::format(
      "invalid value '{}' for {}: {}{}", value, name, Range(*this),
      flag.name.empty()
          ? ""
          : fmt::format(" ({} is off); the flag is {}", Default(), flag.name));
}

void Knob::SetChecked(ParallelConfig& config, std::int64_t value) const {
  if (value < minimum || value > maximum) {
    throw std::invalid_argument(InvalidValue(std::to_string(value)));
  }
  Set(config, static_cast<int>(value));
}

void Knob::SetChecked(ParallelConfig& config, std::string_view text) const {
  if (!texts.empty()) {
    const auto found = std::ranges::find(texts, text);
    if (found == texts.end()) {
      throw std::invalid_argument(InvalidValue(text));
    }
    return Set(config, static_cast<int>(found - texts.begin()));
  }
  if (scale == kFlag || scale == kSwitch) {
    if (const std::optional<bool> on = Truth(text)) {
      return Set(config, *on ? 1 : 0);
    }
  }
  // Integers may be written as 4.0: so do programs whose columns have empty
  // cells.
  const double value = common::NumberOrNan(text);
  if (!(std::abs(value) <= kNoLimit) || value != std::trunc(value)) {
    throw std::invalid_argument(InvalidValue(text));
  }
  SetChecked(config, static_cast<std::int64_t>(value));
}

void Knob::SetFlag(ParallelConfig& config, std::string_view text) const {
  const std::optional<bool> on = text == "1"   ? true
                                 : text == "0" ? false
                                               : Truth(text);
  if (!on) {
    throw std::invalid_argument(fmt::format("invalid value '{}' for {}: {}",
                                            text, flag.name, kFlagRange));
  }
  Set(config, *on ? config.*flag.on : Default());
}

namespace {

// The knob, alias or flag of the set that has this name but for case and signs;
// "" if there is none.
std::string SameName(const KnobSet& knobs, std::string_view name) {
  const std::string variable = VariableName(name);
  for (const Knob& knob : knobs) {
    std::vector<std::string> names = knob.aliases;
    names.push_back(knob.name);
    names.push_back(knob.flag.name);
    for (const std::string& other : names) {
      if (VariableName(other) == variable) {
        return knob.name;
      }
    }
  }
  return "";
}

}  // namespace

Knob FlagKnob(Knob row) {
  row.scale = kFlag;
  row.minimum = 0;
  row.maximum = 1;
  return row;
}

KnobSet::KnobSet(std::vector<Knob> rows)
    : rows_(std::make_shared<const std::vector<Knob>>(std::move(rows))) {}

const Knob* KnobSet::begin() const { return rows_->data(); }

const Knob* KnobSet::end() const { return rows_->data() + rows_->size(); }

std::size_t KnobSet::size() const { return rows_->size(); }

KnobSet KnobSet::With(Knob knob) const {
  const auto fail = [&](const std::string& problem) {
    throw std::invalid_argument(
        fmt::format("knob '{}': {}", knob.name, problem));
  };
  std::vector<std::string> names = knob.aliases;
  names.push_back(knob.name);
  for (const std::string& name : names) {
    if (!IsName(name)) {
      fail(
          fmt::format("'{}' is not a name: a letter, then letters, digits, "
                      "'_', '-' and spaces",
                      name));
    }
    if (const std::string taken = SameName(*this, name); !taken.empty()) {
      fail(fmt::format("the name '{}' is taken by the parameter '{}'", name,
                       taken));
    }
  }
  if (knob.minimum < 0) {
    fail("the minimum must be 0 or more");
  }
  const auto place = static_cast<std::size_t>(
      std::count_if(begin(), end(), [](const Knob& row) {
        return std::holds_alternative<Knob::Custom>(row.storage);
      }));
  if (place == PC::kCustomKnobs) {
    fail(fmt::format("there are at most {} knobs without a member",
                     PC::kCustomKnobs));
  }
  auto* const custom = std::get_if<Knob::Custom>(&knob.storage);
  if (custom == nullptr || !knob.InRange(custom->default_value)) {
    fail("it needs a default value in its range");
  }
  custom->place = place;
  std::vector<Knob> rows = *rows_;
  rows.push_back(std::move(knob));
  return KnobSet(std::move(rows));
}

const Knob* KnobSet::Find(std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [&](const Knob& knob) {
    return knob.name == name || common::Contains(knob.aliases, name);
  });
  return found == end() ? nullptr : &*found;
}

const Knob* KnobSet::FindFlag(std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [&](const Knob& knob) {
    return !name.empty() && knob.flag.name == name;
  });
  return found == end() ? nullptr : &*found;
}

const Knob& KnobSet::Require(std::string_view name) const {
  if (const Knob* knob = Find(name)) {
    return *knob;
  }
  throw std::invalid_argument(
      common::UnknownName("field", name, common::NamesIn(*this, &Knob::name)));
}

std::string KnobSet::Columns() const {
  std::string columns;
  for (const Knob& knob : *this) {
    columns += (columns.empty() ? "" : ",") + knob.name;
  }
  return columns;
}

std::string KnobSet::Cells(const ParallelConfig& config) const {
  std::string cells;
  for (const Knob& knob : *this) {
    cells += fmt::format("{}{}", cells.empty() ? "" : ",",
                         knob.Text(knob.Get(config)));
  }
  return cells;
}

std::string ToString(const ParallelConfig& config, const KnobSet& knobs) {
  std::string text;
  for (const Knob& knob : knobs) {
    if (knob.required || knob.Get(config) != knob.Default()) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", knob.name,
                          knob.Text(knob.Get(config)));
    }
  }
  return text;
}

std::vector<std::pair<const Knob*, int>> ParseSettings(std::string_view text,
                                                       const KnobSet& knobs) {
  std::vector<std::pair<const Knob*, int>> settings;
  std::vector<std::pair<const Knob*, std::string_view>> flags;
  for (const std::string_view part : common::Split(text, ',')) {
    const std::string_view item = common::Trim(part);
    if (item.empty()) {
      continue;
    }
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw std::invalid_argument(
          fmt::format("'{}' is not of the form field=value", item));
    }
    const std::string_view name = common::Trim(item.substr(0, equals));
    const std::string_view value = common::Trim(item.substr(equals + 1));
    if (const Knob* const knob = knobs.FindFlag(name)) {
      flags.emplace_back(knob, value);
      continue;
    }
    const Knob& knob = knobs.Require(name);
    ParallelConfig config;
    knob.SetChecked(config, value);
    if (std::ranges::any_of(settings, [&knob](const auto& before) {
          return before.first == &knob;
        })) {
      throw std::invalid_argument(fmt::format("{} is given twice", name));
    }
    settings.emplace_back(&knob, knob.Get(config));
  }
  if (!flags.empty()) {
    ParallelConfig config;
    for (const auto& [knob, value] : settings) {
      knob->Set(config, value);
    }
    for (const auto& [knob, value] : flags) {
      const auto given = common::Map(
          settings, [](const auto& setting) { return setting.first; });
      if (common::Contains(given, knob)) {
        throw std::invalid_argument(fmt::format("{} is given twice, as {}, too",
                                                knob->name, knob->flag.name));
      }
      knob->SetFlag(config, value);
      const bool on = value == "1" || Truth(value) == true;
      if (on && knob->Get(config) == knob->Default()) {
        throw std::invalid_argument(
            fmt::format("{} = {} has no effect without {}", knob->flag.name,
                        value, knob->active.text));
      }
      settings.emplace_back(knob, knob->Get(config));
    }
  }
  return settings;
}

ParallelConfig ParseParallelConfig(std::string_view text,
                                   const KnobSet& knobs) {
  ParallelConfig config;
  for (const auto& [knob, value] : ParseSettings(text, knobs)) {
    knob->Set(config, value);
  }
  return config;
}

ParallelConfig Canonical(ParallelConfig config, const KnobSet& knobs) {
  for (const Knob& knob : knobs) {
    if (knob.active.holds && !knob.active.holds(config)) {
      knob.Set(config, knob.Default());
    }
  }
  return config;
}

bool HasEffect(const Knob& knob, const ParallelConfig& config,
               const KnobSet& knobs) {
  return !knob.active.holds || knob.active.holds(Canonical(config, knobs));
}

std::string GridProblem(const Knob& knob, const std::vector<int>& values) {
  if (knob.group != kFixed || values.size() < 2 ||
      !common::Contains(values, knob.Default())) {
    return "";
  }
  return fmt::format(
      "{} cannot be [{}]: {} means that it follows from {}; list other values, "
      "or only {}",
      knob.name, fmt::join(values, ", "), knob.Default(), knob.inverse.knob,
      knob.inverse.knob);
}

std::string KnobTable(const KnobSet& knobs) {
  std::string table =
      "| parameter | aliases | range | default | values unless listed | active "
      "if |\n| --- | --- | --- | --- | --- | --- |\n";
  const auto code = [](const std::string& text) {
    return text.empty() ? "" : "`" + text + "`";
  };
  for (const Knob& knob : knobs) {
    const std::string values =
        knob.group == kFixed ? "follows from `" + knob.inverse.knob + "`"
        : knob.grid.values   ? knob.grid.text
                             : std::to_string(knob.Default());
    const std::string aliases =
        knob.flag.name.empty()
            ? code(fmt::format("{}", fmt::join(knob.aliases, "`, `")))
            : fmt::format("`{}` (a flag)", knob.flag.name);
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", knob.name,
                         aliases, Range(knob), knob.Default(), values,
                         knob.active.holds ? code(knob.active.text) : "always");
  }
  return table;
}

}  // namespace trials
