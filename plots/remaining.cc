#include "plots/remaining.h"

#include <type_traits>

#include <fmt/format.h>

namespace plots {

std::map<int, trials::Remaining> RemainingByTrial(
    const std::vector<trials::FitRecord>& fits) {
  std::map<int, trials::Remaining> estimates;
  for (const trials::FitRecord& fit : fits) {
    if (fit.surrogate == "remaining") {
      VisitFields(estimates[fit.trial], [&](const char* name, auto& field) {
        if (fit.parameter == name) {
          field =
              static_cast<std::remove_reference_t<decltype(field)>>(fit.value);
        }
      });
    }
  }
  return estimates;
}

std::string RemainingText(const trials::Remaining& remaining) {
  return fmt::format("expected gain {:.2g}%, within 5% of the optimum: {:.0f}%",
                     100.0 * remaining.expected_gain,
                     100.0 * remaining.p_within_5);
}

}  // namespace plots
