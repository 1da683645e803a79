// COST-MODEL: a cost model fitted to a few random trials, then one shot.

#ifndef METHODS_GUIDED_COST_MODEL_H_
#define METHODS_GUIDED_COST_MODEL_H_

#include <cstdint>
#include <memory>

#include "common/toml_table.h"
#include "methods/method.h"
#include "surrogates/cost/cost_model.h"

namespace methods {

// Fits the coefficients of the throughput and memory cost models to several
// random trials and tries the candidate they predict to be the fastest of
// those that fit. Then it is done; also when that candidate was among the
// random ones.
//
// Source: OPPA App. H.2, Eqs. 10-21.
struct CostModelOptions {
  int random_trials = 10;  // >= 1 (the paper: "several")
  surrogates::CostModelForm form = surrogates::CostModelForm::kPhysical;
  int fit_starts = 10;
};

// Keys: random_trials, form ("physical", "printed"), fit_starts.
[[nodiscard]] CostModelOptions ReadCostModelOptions(
    const common::TomlTable& table);

[[nodiscard]] std::unique_ptr<Method> MakeCostModel(
    const Problem& problem,
    const CostModelOptions& options,
    std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_GUIDED_COST_MODEL_H_
