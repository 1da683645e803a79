// Models of few operators whose profiles a test writes down.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planners/operators/plan_cost.h"

namespace planners {

// Names with the traits of a Transformer's operators: what precedes the layers,
// a layer of one operator, and what follows them.
constexpr const char* kFirst = "encoder-embedding";
constexpr const char* kLayer = "enc-1st-layernorm";
constexpr const char* kLast = "final-layernorm";

// An operator that was not profiled.
inline ProfiledOperator Unprofiled(std::string name, int micro_batch, int tp) {
  return {std::move(name), micro_batch, tp, 0, {.forward_us = 1e7}};
}

// A transfer of 1 MB takes 0.01 ms within hosts and 1 ms between them.
inline OperatorModel ModelOfRows(const std::vector<ProfiledOperator>& rows,
                                 const OperatorJob& job) {
  return {OperatorTable::Of(rows), LinkTable::Uniform(100.0, 1.0, 8), job};
}

}  // namespace planners
