// How sure the fastest layout of a forecast is.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jobs/plan/forecast.h"

namespace jobs {

// The best configuration one step away from another in one parameter.
struct Neighbor {
  std::string step;     // "tp=4"
  bool shards = false;  // more: a larger size or ZeRO stage
  Prediction one;
};

// The neighbors below and above, by parameter; a parameter that the step does
// not name follows.
[[nodiscard]] std::vector<Neighbor> NeighborsOf(
    const Forecaster& forecaster, const trials::ParallelConfig& best);

// A value of an unknown from which on another layout than the first is more
// than 1% faster.
struct TippingPoint {
  std::string unknown;  // "the link in a node"
  double factor = 1.0;  // of the assumed value
  std::string value;    // with its unit
  trials::ParallelConfig winner;
};

// The fastest layouts that may win at a tipping point.
inline constexpr std::size_t kContenders = 40;

// The tipping points of bandwidths, the rate of matrix products and the load of
// experts up to a factor of 4.
// Precondition: the forecast has a layout.
[[nodiscard]] std::vector<TippingPoint> TippingPoints(
    const Forecaster& forecaster, const Forecast& forecast);

// Another number of sequences.
struct NearbyBatch {
  int batch_size = 0;
  double gain = 1.0;  // tokens per second, against those of the job
  Prediction best;
};

// The better of the two batches within 2% that most sizes of layouts divide, if
// it is more than 3% faster per token.
// Precondition: the forecast has a layout.
[[nodiscard]] std::optional<NearbyBatch> BetterBatch(
    const Forecaster& forecaster, const Forecast& forecast);

// The better batch in a line; "" if there is none.
[[nodiscard]] std::string BatchText(const Forecaster& forecaster,
                                    const Forecast& forecast);

// About the fastest layout: what a step in one parameter costs, which unknown
// changes the choice and from which value on, where more sharding needs more
// memory, and what the layout changes besides speed.
// Precondition: the forecast has a layout.
[[nodiscard]] std::string RobustnessText(const Forecaster& forecaster,
                                         const Forecast& forecast);

}  // namespace jobs
