// TEXTBOOK: rules of thumb, then the order of a calibrated performance model.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "planners/planner.h"

namespace planners {

// The first trial is the candidate nearest to the rules of thumb
// (TextbookModel::Advise), or, without them, the fastest prediction. Each later
// trial is the fastest predicted candidate that passes the filters of memory
// and communication, then the others. After each trial the model is calibrated
// with all measured step times. It needs Problem::workload.
//
// Source: "Configuration search" (textbook chapter): constraints, pruned grid,
// validation and advisor, joined to a loop of trials.
struct TextbookOptions {
  bool advice = true;
  double communication_share = 0.2;  // most of a step without its bubble
  double tflops = 312.0;
  double intra_node_gb_per_s = 300.0;
  double inter_node_gb_per_s = 100.0;
};

[[nodiscard]] std::vector<methods::Option> OptionsOf(TextbookOptions& options);

// Step time and memory of every candidate by TextbookModel, without trials.
// Errors: throws InputError if the problem has no workload, as MakeTextbook.
[[nodiscard]] trials::Predictions EstimatesOf(const methods::Problem& problem,
                                              const TextbookOptions& options);

[[nodiscard]] std::unique_ptr<methods::Method> MakeTextbook(
    const methods::Problem& problem, const TextbookOptions& options,
    std::uint64_t seed);

}  // namespace planners
