// The constraints of every configuration: one list that enumeration, the
// simulator, plans, `oppa space --why` and docs/search_space.md share.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trials/knobs.h"
#include "trials/workload.h"

namespace trials {

// The context in which a configuration is checked. An enumerated space relaxes
// nothing; the simulation of a measured configuration or of a plan may.
struct ConstraintContext {
  const Workload& workload;
  int gpus = 1;
  // Each of these relaxes the constraint whose row describes it.
  bool any_gpus = false;
  bool replicated_kv_heads = false;
  bool empty_stages = false;
  int unfilled_stages = 0;  // stages without a microbatch of their own
  // As the fields of Framework; replicated_kv_heads is shares_kv_heads there.
  bool ends_as_layers = false;
  bool whole_experts = false;
};

// One row. Rows are in the order of the groups, sizes first.
struct Constraint {
  // A configuration for which this holds is invalid; a rule without `$`.
  std::string_view rule;
  // The requirement in words, for messages and the docs.
  std::string_view requirement;
  // The group whose knobs it reads, in addition to the sizes. A constraint on
  // kFixed knobs does not apply to enumerated configurations.
  KnobGroup group;
  bool (*broken)(const ParallelConfig& config,
                 const ConstraintContext& context);
  std::string_view relaxed = {};  // where and why it need not hold
};

[[nodiscard]] std::span<const Constraint> Constraints();

// The requirement of a broken constraint with the values that it reads.
[[nodiscard]] std::string Sentence(const Constraint& constraint,
                                   const ParallelConfig& config,
                                   const ConstraintContext& context);

// The reason why a configuration is invalid: the first knob that is out of
// range, or the first constraint that is broken, such as "tp must divide the
// number of attention heads (heads = 16, tp = 3)". "" if it is valid.
[[nodiscard]] std::string ConfigProblem(const ParallelConfig& config,
                                        const ConstraintContext& context);

// Errors: throws std::invalid_argument if dp * microbatches does not divide the
// batch size, with the nearest numbers of microbatches that do.
void RequireWholeMicrobatches(const ParallelConfig& config, int batch_size);

// The constraints as a Markdown table, as in docs/search_space.md.
[[nodiscard]] std::string ConstraintTable();

}  // namespace trials
