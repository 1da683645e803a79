#include "plots/drawn.h"

#include <algorithm>

namespace plots {

bool IsOppaFamily(const std::string& method) {
  return method == "oppa" || method.starts_with("oppa-");
}

std::vector<Drawn> Select(const ProblemRecords& problem, Group group) {
  const bool only_family = std::all_of(
      problem.methods.begin(), problem.methods.end(), [](const auto& m) {
        return IsOppaFamily(m.name);
      });
  std::vector<Drawn> drawn;
  int index = 0;
  for (const MethodRecords& method : problem.methods) {
    const bool oppa = method.name == "oppa";
    const bool in_group =
        group == Group::kOppaFamily
            ? IsOppaFamily(method.name)
            : only_family || oppa || !IsOppaFamily(method.name);
    if (!in_group) {
      continue;
    }
    const Drawn one{.method = &method,
                    .style = StyleOf(oppa ? 0 : index++, oppa)};
    if (!method.runs.empty()) {
      drawn.insert(oppa ? drawn.begin() : drawn.end(), one);
    }
  }
  return drawn;
}

}  // namespace plots
