// The methods that a figure draws, and their styles.

#ifndef PLOTS_FIGURES_DRAWN_H_
#define PLOTS_FIGURES_DRAWN_H_

#include <string>
#include <vector>

#include "plots/experiment_records.h"
#include "plots/figure.h"

namespace plots {

// The methods to be compared, without the ablations and variants of a method
// (unless there is nothing else); or those with their method.
enum class Group { kMethods, kAblations };

// A method that is drawn, and its style.
struct Drawn {
  const MethodRecords* method = nullptr;
  LineStyle style;
};

// The methods of a group that have runs, first the one that has ablations. A
// method looks the same whether or not the others have runs yet.
[[nodiscard]] std::vector<Drawn> Select(const ProblemRecords& problem,
                                        Group group);

}  // namespace plots

#endif  // PLOTS_FIGURES_DRAWN_H_
