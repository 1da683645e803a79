// The effects that claims are about, and where they hold.

#ifndef STUDIES_SENSITIVITY_EFFECTS_H_
#define STUDIES_SENSITIVITY_EFFECTS_H_

#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/statistics.h"
#include "studies/output.h"
#include "studies/sensitivity/variations.h"

namespace studies {

// The interval of the effect is above 0, contains 0, or is below 0.
enum class Verdict { kHolds, kOpen, kTurns };
[[nodiscard]] std::string_view ToString(Verdict verdict);

// The mean difference of pairs, with the same weight for every problem, and its
// bootstrap interval (common::Bootstrap). With fewer than kFewestPairs, the
// verdict is open: with 5 pairs, a sign test cannot reject at 5% even if all
// differences have the same sign.
struct Effect {
  static constexpr int kFewestPairs = 6;

  int pairs = 0;
  common::Estimate mean;

  [[nodiscard]] Verdict verdict() const;
};
[[nodiscard]] Effect EffectOf(
    const std::vector<std::vector<double>>& differences);

// A claim in one experiment under one variation: the effect in points (percent
// of the exhaustive optimum) of the noise-free throughput of the incumbent at
// the end of the budget. A pair is a repeat of a problem, in which the methods
// have the same seeds.
struct ClaimEffect {
  int claim = 0;  // of SensitivityStudy::claims
  const VariedExperiment* varied = nullptr;
  Effect points;
};

// Reads the records. Combinations without a finished pair are left out.
[[nodiscard]] std::vector<ClaimEffect> ClaimEffects(
    const SensitivityStudy& study);

// sensitivity.{csv,md} (all claims), claims-by-experiment.md, and a figure for
// each claim.
[[nodiscard]] std::vector<Output> SensitivityOutputs(
    const SensitivityStudy& study, const std::vector<ClaimEffect>& effects);

}  // namespace studies

#endif  // STUDIES_SENSITIVITY_EFFECTS_H_
