// Which methods a figure draws, and how.

#ifndef PLOTS_DRAWN_H_
#define PLOTS_DRAWN_H_

#include <string>
#include <vector>

#include "plots/experiment_records.h"
#include "plots/figure.h"

namespace plots {

// Whether a method belongs to the ablation study: it is called `oppa`, or
// something that begins with `oppa-`.
[[nodiscard]] bool IsOppaFamily(const std::string& method);

// The methods to be compared, `oppa` included but not its ablations (unless
// there is nothing else); or `oppa` and its ablations.
enum class Group { kMethods, kOppaFamily };

// A method that is drawn, and how.
struct Drawn {
  const MethodRecords* method = nullptr;
  LineStyle style;
};

// The methods of a group that have runs, OPPA first. A method looks the same
// whether or not the others have runs yet.
[[nodiscard]] std::vector<Drawn> Select(const ProblemRecords& problem,
                                        Group group);

}  // namespace plots

#endif  // PLOTS_DRAWN_H_
