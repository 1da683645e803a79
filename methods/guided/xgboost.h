// XGBOOST: always tries the candidate that boosted trees predict to be the
// best.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/sampling/random.h"
#include "surrogates/boosted_trees/boosted_trees.h"

namespace methods {

// Fits boosted trees to the throughput of all trials so far (a failed trial
// counts as zero) and tries the untried candidate with the highest prediction.
//
// Source: OPPA App. H.2; the settings are those of DeepSpeed's autotuner
// (deepspeed/autotuning/tuner/): trees that rank pairs (`rank:pairwise`), two
// trials before the first fit and no random exploration after it (its 20% of
// random trials is unreachable code). It draws an index into its list of
// configurations; the first of the two is always the first of the list, which
// has no meaning here, so both are drawn.
// Note: trees predict few distinct values, so many candidates tie. One of them
// is drawn at random; DeepSpeed uses the last one in its list.
struct XgboostOptions {
  int random_trials = 2;
  DrawLaw draw = DrawLaw::kUniform;
  surrogates::BoostedTrees::Options trees{
      .objective = surrogates::TreeObjective::kPairwiseRanking};
};

[[nodiscard]] std::vector<Option> OptionsOf(XgboostOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeXgboost(const Problem& problem,
                                                  const XgboostOptions& options,
                                                  std::uint64_t seed);

}  // namespace methods
