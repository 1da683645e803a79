// The set of knobs of a search space, without their rows (trials/knobs.h).

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trials/parallel_config.h"

namespace trials {

struct Knob;

// An ordered set of knobs; the order is that of columns. Copies share the rows,
// and pointers to rows are valid as long as one copy is.
class KnobSet {
 public:
  // These knobs and one more, which ParallelConfig::custom holds.
  // Errors: throws std::invalid_argument for a name or alias that is already
  // used or does not begin with a letter, or has other characters than letters,
  // digits, '_', '-' and spaces, a negative minimum, a default out of range,
  // and when ParallelConfig::custom is full. Names that differ only in case or
  // in these signs are the same.
  [[nodiscard]] KnobSet With(Knob knob) const;

  [[nodiscard]] const Knob* begin() const;
  [[nodiscard]] const Knob* end() const;
  [[nodiscard]] std::size_t size() const;

  // The knob with that name or alias (`gradient_checkpointing`, `mb`, ...);
  // nullptr when there is none.
  [[nodiscard]] const Knob* Find(std::string_view name) const;
  // The knob that has a flag of that name; nullptr when there is none.
  [[nodiscard]] const Knob* FindFlag(std::string_view name) const;
  // Errors: throws std::invalid_argument, "unknown field 'ddp' (did you mean
  // 'dp'?); known: dp, tp, ...".
  [[nodiscard]] const Knob& Require(std::string_view name) const;

  // The names, and one configuration's values, joined by commas.
  [[nodiscard]] std::string Columns() const;
  [[nodiscard]] std::string Cells(const ParallelConfig& config) const;

 private:
  friend const KnobSet& BuiltInKnobs();
  explicit KnobSet(std::vector<Knob> rows);

  std::shared_ptr<const std::vector<Knob>> rows_;
};

}  // namespace trials
