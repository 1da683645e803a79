// What predicts the candidates of a problem, as testbeds hold it.

#pragma once

#include <functional>
#include <string>

#include "trials/predictions.h"

namespace harness {

// A source of predictions for one problem.
struct PredictionSource {
  // The machine and the changes, one line for display: "simulator of
  // a100-selene (8 x A100-SXM4-80GB), megatron-core; memory x 0.5".
  std::string description;
  // Everything that the predictions depend on except the tables of the problem:
  // settings and the contents of files. For run hashes.
  std::string identity;
  std::function<trials::Predictions()> predict;
};

// The source with that name, "" for the table [predictions].
// Errors: throws InputError with a remedy if there is no such source.
using PredictionsByName =
    std::function<PredictionSource(const std::string& name)>;

}  // namespace harness
