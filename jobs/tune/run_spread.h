// How much runs of one configuration differ, without a change of it.

#pragma once

#include <string>
#include <vector>

#include "jobs/tune/tune_job.h"
#include "trials/measurement.h"

namespace jobs {

// Of the mean step times m_i of R runs, over the steps that all of them have,
// with the variance v of the means that their steps explain:
struct RunSpread {
  int runs = 0;
  double range = 0.0;  // (max m - min m) / mean m
  // Var(m) - v, relative to the square of their mean; 0 unless Var(m) is beyond
  // the 95% quantile of chi-square for R - 1 and v: steps alone do not explain
  // it.
  double variance = 0.0;
};

// `runs`: the step times of each, without the first. Where one run is shorter
// than two others, it is left out; steps that come early are slower.
[[nodiscard]] RunSpread SpreadOf(std::vector<std::vector<double>> runs);

// The runs of the present configuration on record: the preflight, the trial of
// the search and repeated measurements.
[[nodiscard]] RunSpread SpreadOfPresent(const TuneJob& job);

// "your configuration varied by 28% in 2 runs: gains under that cannot be told
// apart"; "" where the steps explain the difference.
[[nodiscard]] std::string ToString(const RunSpread& spread);

// Keeps the preflight for SpreadOfPresent.
void KeepPreflight(const TuneJob& job, const trials::Measurement& measured);

}  // namespace jobs
