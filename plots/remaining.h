// The recorded estimates of what a search may still gain.

#ifndef PLOTS_REMAINING_H_
#define PLOTS_REMAINING_H_

#include <map>
#include <string>
#include <vector>

#include "trials/record.h"

namespace plots {

// The estimates in fits.csv by the trial that they were made before.
[[nodiscard]] std::map<int, trials::Remaining> RemainingByTrial(
    const std::vector<trials::FitRecord>& fits);

// "expected gain 0.83%, within 5% of the optimum: 93%".
[[nodiscard]] std::string RemainingText(const trials::Remaining& remaining);

}  // namespace plots

#endif  // PLOTS_REMAINING_H_
