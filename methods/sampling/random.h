// RANDOM: random configurations until the budget is spent.

#ifndef METHODS_SAMPLING_RANDOM_H_
#define METHODS_SAMPLING_RANDOM_H_

#include <cstdint>
#include <memory>

#include "common/toml_table.h"
#include "methods/method.h"

namespace methods {

// Each trial is a draw from the cells (see cell_sampler.h), runs all q_max
// steps and is never repeated.
//
// Source: OPPA App. H.2.
struct RandomOptions {};

[[nodiscard]] RandomOptions ReadRandomOptions(const common::TomlTable& table);

[[nodiscard]] std::unique_ptr<Method> MakeRandom(const Problem& problem,
                                                 const RandomOptions& options,
                                                 std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_SAMPLING_RANDOM_H_
