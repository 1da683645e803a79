#include "plots/figures/drawn.h"

#include <algorithm>

namespace plots {

std::vector<Drawn> Select(const ProblemRecords& problem, Group group) {
  const bool only_families =
      std::all_of(problem.methods.begin(), problem.methods.end(),
                  [](const auto& m) { return !m.family.empty(); });
  std::vector<Drawn> drawn;
  int index = 0;
  for (const MethodRecords& method : problem.methods) {
    const bool head = method.name == method.family;  // of its family
    const bool in_group = group == Group::kAblations
                              ? !method.family.empty()
                              : only_families || head || method.family.empty();
    if (!in_group) {
      continue;
    }
    const Drawn one{.method = &method,
                    .style = StyleOf(head ? 0 : index++, head)};
    if (!method.runs.empty()) {
      drawn.insert(head ? drawn.begin() : drawn.end(), one);
    }
  }
  return drawn;
}

}  // namespace plots
