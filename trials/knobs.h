// The knobs of a parallelism configuration: one table, from which all code that
// iterates over knobs derives.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trials/knob_set.h"
#include "trials/parallel_config.h"

namespace trials {

struct Workload;

// How a knob is scaled to [0, 1] for a surrogate, and how it is printed.
// kSwitch is a flag with further settings: 0 off, 1 on, 2 ... The values of a
// kCategory have no order.
enum class KnobScale { kLog2, kLinear, kFlag, kSwitch, kCategory };

// Once the sizes are given, the groups are independent: whether a knob is
// active depends on the sizes and on knobs of its own group only. Enumeration
// multiplies the groups in this order. A kFixed knob follows from the others:
// an enumerated space has its default only, which means that it is derived.
enum class KnobGroup { kSizes, kPipeline, kOther, kSharding, kFixed };

inline constexpr int kNoLimit = std::numeric_limits<int>::max();

// One knob: one row of the table. Records, tables, manifests, rules, the
// command line, enumeration, the canonical form, the encoding for surrogates
// and docs/search_space.md all derive from it.
struct Knob {
  // The values that a space has unless the manifest lists others.
  struct Grid {
    std::string text;  // for display
    std::function<std::vector<int>(const Workload& workload, int gpus)> values;
  };
  // When the knob is active, as a rule without `$` and as a function. It may
  // read rows above; of a row below it must repeat that row's condition.
  struct Condition {
    std::string text;
    std::function<bool(const ParallelConfig&)> holds;
  };
  // The location of the value: a member, or an index into
  // ParallelConfig::custom, which KnobSet::With assigns.
  struct Custom {
    int default_value = 0;
    std::size_t place = 0;
  };
  // A flag that sets a size: true is the value of another knob, false the
  // default.
  struct Flag {
    std::string name;  // empty: none
    int ParallelConfig::*on = nullptr;
  };

  std::string name;   // column name, variable name, key of --pc
  std::string label;  // for display: axis of a figure, row of a table
  KnobScale scale = KnobScale::kLog2;
  int minimum = 1;  // values outside [minimum, maximum] are errors
  int maximum = kNoLimit;
  KnobGroup group = KnobGroup::kOther;
  // Empty: the default only, until a manifest lists values. A row with a grid
  // enlarges the space of every manifest.
  Grid grid;
  Condition active;  // empty: always
  std::vector<std::string> aliases = {};
  std::variant<int ParallelConfig::*, bool ParallelConfig::*, Custom> storage =
      Custom{};
  // ToString always prints it, and a table of measurements must have it.
  bool required = false;
  // A number of parts, for which 1 is an ordinary value: an encoding keeps the
  // default of an inactive one (surrogates::InactiveKnobs).
  bool counts_parts = false;
  // It decides how state, work and communication are distributed over GPUs, so
  // configurations that differ in it have different bottlenecks; see
  // surrogates::FamiliesOf.
  bool structural = false;
  // It decides how much memory a configuration of given sizes takes: what a
  // hierarchical search varies after the sizes and before the pipeline.
  bool decides_memory = false;
  // The meaning of 0 in rules, if the value is derived from the rest.
  std::function<double(const ParallelConfig&, double batch_size)> derived = {};
  // kFixed: a list of values restricts another knob, whose value for one of
  // them is `value`; 0 if there is none.
  struct Inverse {
    std::string knob;
    std::function<int(const ParallelConfig& sizes, int value, int batch_size)>
        value;
  };
  Inverse inverse = {};
  Flag flag = {};
  // A knob that takes listed values only holds the index of one: their texts,
  // and the numbers that they are; no numbers where the texts are not numbers.
  std::vector<std::string> texts = {};
  std::vector<double> numbers = {};

  // A value as the user writes it: "flash", "0.5"; "4" without texts.
  [[nodiscard]] std::string Text(int value) const {
    return texts.empty() ? std::to_string(value) : texts.at(value);
  }
  // A value as rules and encodings read it: its number, else its index.
  [[nodiscard]] double Number(int value) const {
    return numbers.empty() ? value : numbers.at(value);
  }

  [[nodiscard]] int Get(const ParallelConfig& config) const {
    if (const auto* const integer = std::get_if<0>(&storage)) {
      return config.*(*integer);
    }
    if (const auto* const boolean = std::get_if<1>(&storage)) {
      return static_cast<int>(config.*(*boolean));
    }
    const Custom& custom = std::get<2>(storage);
    return custom.default_value + config.custom[custom.place];
  }
  void Set(ParallelConfig& config, int value) const {
    if (const auto* const integer = std::get_if<0>(&storage)) {
      config.*(*integer) = value;
    } else if (const auto* const boolean = std::get_if<1>(&storage)) {
      config.*(*boolean) = value != 0;
    } else {
      const Custom& custom = std::get<2>(storage);
      config.custom[custom.place] = value - custom.default_value;
    }
  }
  [[nodiscard]] int Default() const {
    static constexpr ParallelConfig kDefaults{};
    return Get(kDefaults);
  }
  [[nodiscard]] bool InRange(int value) const {
    return value >= minimum && value <= maximum;
  }

  // "invalid value '0' for dp: an integer from 1".
  [[nodiscard]] std::string InvalidValue(std::string_view value) const;

  // Set, with a check of the range. The text is an integer; a flag or switch
  // may also be true or false.
  // Errors: throw std::invalid_argument naming the knob, the value and the
  // range.
  void SetChecked(ParallelConfig& config, std::int64_t value) const;
  void SetChecked(ParallelConfig& config, std::string_view text) const;

  // Sets the knob by its flag. The knob of flag.on must be set before.
  // Errors: throws std::invalid_argument, as SetChecked.
  void SetFlag(ParallelConfig& config, std::string_view text) const;
};

// The name of a knob in capitals with '_' for other signs: "NCCL_ALGO".
[[nodiscard]] std::string VariableName(std::string_view name);

// The row of a knob that is on or off, whose range is [0, 1].
[[nodiscard]] Knob FlagKnob(Knob row);

// The settings of "dp=4,pp=2,zero=1", in the order given.
// Errors: as ParseParallelConfig.
[[nodiscard]] std::vector<std::pair<const Knob*, int>> ParseSettings(
    std::string_view text, const KnobSet& knobs = BuiltInKnobs());

// The configuration with every inactive knob at its default. Rows are applied
// from top to bottom.
//
// Source: OPPA App. C.1; the DP bucket is of the plain data-parallel wrapper,
// which the paper's framework uses without ZeRO and pipeline only.
[[nodiscard]] ParallelConfig Canonical(ParallelConfig config,
                                       const KnobSet& knobs = BuiltInKnobs());

// Whether the knob is active in this configuration's canonical form: a value
// other than the default would have an effect.
[[nodiscard]] bool HasEffect(const Knob& knob, const ParallelConfig& config,
                             const KnobSet& knobs = BuiltInKnobs());

// The reason why these values are not a valid grid of a knob; "" if they are.
[[nodiscard]] std::string GridProblem(const Knob& knob,
                                      const std::vector<int>& values);

// The knobs as a Markdown table, as in docs/search_space.md.
[[nodiscard]] std::string KnobTable(const KnobSet& knobs = BuiltInKnobs());

}  // namespace trials
