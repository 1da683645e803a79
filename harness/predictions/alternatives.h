// Alternatives to simulated predictions: links with other rates, and attention
// of another kind.

#pragma once

#include <vector>

#include "trials/predictions.h"
#include "trials/simulator/simulate_all.h"

namespace harness {

// Candidates that are simulated with one workload on one machine.
struct SimulatedPart {
  std::vector<int> candidates;  // indices into the space
  trials::SimulatedTraining training;

  // Copies the costs of its candidates to their places among all, [N].
  void Put(const trials::SimulatedCosts& costs,
           trials::SimulatedCosts& all) const;
};

// With wrong rates of links, a search tries the wrong kinds of layouts, and
// their trials say nothing of the others. The alternatives have links within
// hosts with 4^i times the predicted bandwidth and links between hosts with 4^j
// times, i and j from -3 to 1. The logarithm b of such a factor has the density
//
//   p(b) = 0.9 N(b; 0, 0.5^2) + 0.1 N(b; 0, (log 4)^2)   of the machine of the
//                                                        trials,
//   p(b) = N(b; 0, (log 4)^2)                            of another machine.
//
// 0.5 is what measured rates of collectives differ by from predicted ones (root
// mean square of logarithms 0.47, 40 draws of experiments/studies/
// landscapes.toml). log 4 and 0.1 are choices, which
// docs/decisions/0026-rates-of-links.md varies.
//
// Steps are simulated with one kind of links at 1/16, 1/4 and 4 times the
// bandwidth; what two kinds add to a step is the sum of what each adds, and
// what 1/64 adds is linear in 1 / bandwidth beyond 1/16. In large spaces, only
// one of the two kinds differs.
//
// Shapes: `predicted` is of every candidate, [N], each of which is in one part
// at most; ratios to it are NaN where it is.
[[nodiscard]] std::vector<trials::Predictions::Alternative> LinkAlternatives(
    const std::vector<SimulatedPart>& parts,
    const trials::SimulatedCosts& predicted, bool another_machine);

// The job where attention stores its scores, if that of the framework is fused,
// and where it is fused, if it stores them. Stacks whose name says the one do
// the other: for a mask, head size or precision that the fused kernels do not
// take, a GPU that is too old, or an option that somebody left out. Memory
// tells: without recomputation, scores may need as much as everything else.
// The odds of 0.1 are a choice, which
// docs/decisions/0028-attention-of-another-kind.md varies.
//
// Shapes: as above.
[[nodiscard]] trials::Predictions::Alternative OtherAttention(
    const std::vector<SimulatedPart>& parts,
    const trials::SimulatedCosts& predicted);

}  // namespace harness
