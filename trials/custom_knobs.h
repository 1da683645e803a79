// Knobs of the user's own: the table [space.custom] of a manifest.
//
//   [space.custom]
//   attention = ["flash", "sdpa"]
//   chunk = {values = [1, 2, 4], scale = "log"}

#pragma once

#include "common/toml_table.h"
#include "trials/parallel_config.h"

namespace trials {

// `base` and a knob for each key of the table `custom` of `space`. The value is
// a list of strings, of booleans or of numbers, the first of which is the
// default, or a table with this list as `values` and a `scale`: "log", "linear"
// (the default of numbers) or "categorical" (the default of the others).
// Errors: throws InputError for a name that is already used, an empty list, a
// value that is listed twice or that a record cannot hold, values of several
// types, and a scale that does not apply.
[[nodiscard]] KnobSet ReadCustomKnobs(const common::TomlTable& space,
                                      const KnobSet& base = BuiltInKnobs());

}  // namespace trials
