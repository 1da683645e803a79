#include "trials/inert_lists.h"

#include <algorithm>

#include <fmt/format.h>

namespace trials {

std::string InertLists(const SearchSpaceOptions& options,
                       const SearchSpace& space) {
  std::string text;
  for (const auto& [name, values] : options.values) {
    const Knob* const knob = space.knobs().Find(name);
    if (knob == nullptr || !knob->active.holds ||
        std::all_of(values.begin(), values.end(),
                    [&](int value) { return value == knob->Default(); })) {
      continue;
    }
    const bool used =
        std::any_of(space.configs().begin(), space.configs().end(),
                    [&](const ParallelConfig& config) {
                      return HasEffect(*knob, config, space.knobs());
                    });
    if (!used) {
      text += fmt::format(
          "{}the list of {} has no effect: no configuration "
          "has {}",
          text.empty() ? "" : "; ", name, knob->active.text);
    }
  }
  return text;
}

}  // namespace trials
