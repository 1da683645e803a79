// COST-MODEL: fits a cost model to a few random trials, then tries its best
// candidate.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/sampling/random.h"
#include "methods/surrogate_pair.h"

namespace methods {

// Fits the coefficients of the throughput and memory cost models to several
// random trials, tries the candidate with the highest predicted throughput
// among those predicted to fit, and stops. It also stops if that candidate was
// one of the random ones.
//
// Source: OPPA App. H.2, Eqs. 10-21: the model as printed, "learned based on
// several randomly selected PCs". COST-MODEL physical is the same method with
// the physical form.
// Note: the paper does not give the number of random trials. Eight are more
// than the coefficients on one host (6 of throughput, 3 of memory), and leave
// time for the chosen candidate where the budget is shortest: with 10, that of
// Qwen and MoE (10 to 12 trials) is spent before it has run.
struct CostModelOptions {
  int random_trials = 8;
  DrawLaw draw = DrawLaw::kUniform;
  SurrogatePair::Options surrogates{
      .throughput_prior = surrogates::CostModelForm::kPrinted,
      .memory_prior = surrogates::CostModelForm::kPrinted,
      .fit = {.mean_only = true}};
};

[[nodiscard]] std::vector<Option> OptionsOf(CostModelOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeCostModel(
    const Problem& problem, const CostModelOptions& options,
    std::uint64_t seed);

}  // namespace methods
