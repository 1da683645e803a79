// The plan of a job: every configuration predicted, grouped by layout.

#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fields.h"
#include "jobs/job.h"
#include "jobs/plan/measured_steps.h"
#include "trials/parallel_config.h"
#include "trials/search_space.h"
#include "trials/simulator/simulator.h"

namespace jobs {

struct ForecastOptions {
  double headroom = 0.1;  // share of the memory that stays free, in [0, 1)
  Calibration calibration;
};

// The prediction of one configuration.
struct Prediction {
  trials::ParallelConfig config;
  double step_time_s = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double mfu = 0.0;  // ModelFlopUtilization
  double peak_memory_bytes = 0.0;
  double fit_probability = 0.0;

  // The numbers, under the names that JSON and CSV have.
  OPPA_FIELDS(Prediction, step_time_s, tokens_per_s_per_gpu, mfu,
              peak_memory_bytes, fit_probability);
};

// The configurations with the same sizes, ZeRO stage and recomputation that
// leave the headroom free; `best` is the fastest.
struct Layout {
  Prediction best;
  int configurations = 0;
};

// A number of configurations that are not offered, and why.
struct Excluded {
  std::string reason;
  std::int64_t count = 0;
};

struct Forecast {
  std::vector<Layout> layouts;  // fastest first
  int fitting_layouts = 0;      // of which `layouts` may be the fastest only
  std::vector<Excluded> excluded;
  int candidates = 0;  // predicted configurations
  // The candidate that needs least memory.
  std::optional<Prediction> smallest;
  double capacity_bytes = 0.0;
};

// The fastest layout of each kind, fastest first: layouts of a kind divide the
// work along the same dimensions, with the same ZeRO stage and recomputation.
[[nodiscard]] std::vector<Layout> FastestOfKinds(const Forecast& forecast);

// Predicts the configurations of a job. An object may be used by one thread at
// a time; it uses all cores.
class Forecaster {
 public:
  // `grids`: of a forecaster of this job with another batch.
  Forecaster(Job job, const ForecastOptions& options,
             std::shared_ptr<trials::PlacedGrids> grids =
                 std::make_shared<trials::PlacedGrids>());

  // The same job with other bandwidths, on which its space does not depend.
  Forecaster(const Forecaster& other, trials::Cluster cluster);

  // Memory first: a bound by the model states, then the peak, and the time of
  // what fits only. With `most`, the layouts are that many of the fastest and
  // the fastest of each kind: a bound of the time excludes the others.
  [[nodiscard]] Forecast MakeForecast(
      std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  // The fastest configuration that fits and takes at most this time; nothing
  // if there is none, which takes much less time than a forecast.
  [[nodiscard]] std::optional<Prediction> FastestWithin(
      double step_time_s) const;
  // Errors: throws trials::InvalidPlan for what the framework cannot run.
  [[nodiscard]] Prediction Predict(const trials::ParallelConfig& config) const;
  [[nodiscard]] trials::StepReport Report(
      const trials::ParallelConfig& config) const {
    return simulators_.front().Simulate(config);
  }
  // The same, with what happens on every stage.
  [[nodiscard]] trials::SimulatedStep Record(
      const trials::ParallelConfig& config) const {
    return simulators_.front().Record(config);
  }
  // The memory that frameworks can use of a GPU, what a configuration may use
  // of it, and whether it needs no more.
  [[nodiscard]] double CapacityBytes() const;
  [[nodiscard]] double AllowedBytes() const {
    return (1.0 - options_.headroom) * CapacityBytes();
  }
  [[nodiscard]] bool Fits(const Prediction& one) const {
    return one.peak_memory_bytes <= AllowedBytes();
  }
  // The fastest of the configurations that leaves the headroom free, else the
  // one that needs least memory; nothing if the framework refuses all.
  [[nodiscard]] std::optional<Prediction> BestOf(
      const std::vector<trials::ParallelConfig>& configs) const;
  // The step time by the calibration, with its band.
  [[nodiscard]] harness::CalibratedTimes::Time TimeOf(
      const trials::ParallelConfig& config,
      const trials::StepReport& report) const;

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const ForecastOptions& options() const { return options_; }
  [[nodiscard]] const trials::SearchSpace& space() const { return space_; }
  [[nodiscard]] const std::shared_ptr<trials::PlacedGrids>& grids() const {
    return grids_;
  }

 private:
  // The predicted peak of a configuration.
  struct Peak {
    double bytes = 0.0;
    bool refused = false;  // by the framework
    bool bound = false;    // at least these bytes, more than the GPU has
  };

  [[nodiscard]] Peak PeakOf(const trials::Simulator& simulator,
                            const trials::ParallelConfig& config) const;
  [[nodiscard]] Prediction PredictWith(
      const trials::Simulator& simulator,
      const trials::ParallelConfig& config) const;
  // Calls work(simulator, i) for i in [0, count), on all cores; a thread takes
  // `block` of them at once.
  template <typename Work>
  void ForAll(std::size_t count, int block, const Work& work) const;

  using Configs = std::vector<trials::ParallelConfig>;
  // Where in a list of configurations some are.
  using Places = std::vector<std::size_t>;
  [[nodiscard]] std::vector<Peak> PeaksOf(const Configs& configs) const;
  // Sets the peaks of configurations that differ in their microbatches alone,
  // the smallest ones first. Once one does not fit, no larger one does, but for
  // a single one, whose gradients are not accumulated.
  void SetPeaks(const trials::Simulator& simulator, const Configs& configs,
                std::span<const std::size_t> places,
                std::vector<Peak>& peaks) const;
  [[nodiscard]] Places Fitting(const std::vector<Peak>& peaks) const;

  // Places of configurations, each after at most its step time (0 where a
  // calibration changes times).
  using Bounds = std::vector<std::pair<double, std::size_t>>;
  [[nodiscard]] Bounds BoundsOf(const Configs& configs,
                                const Places& places) const;
  // The fastest of them, the first of equally fast ones. It sorts the bounds.
  // Precondition: there is one.
  [[nodiscard]] Prediction Fastest(const trials::Simulator& simulator,
                                   const Configs& configs,
                                   Bounds& bounds) const;
  // The fastest layouts of configurations of the space, see MakeForecast.
  void AddLayouts(const Places& fitting, std::size_t most,
                  Forecast& forecast) const;
  // The fastest of those that need least memory; nothing if all are refused.
  [[nodiscard]] std::optional<Prediction> Smallest(
      const Configs& configs, const std::vector<Peak>& peaks) const;

  Job job_;
  ForecastOptions options_;
  double memory_log_stddev_;  // of peaks around predictions
  trials::SearchSpace space_;
  std::shared_ptr<trials::PlacedGrids> grids_;
  std::vector<trials::Simulator> simulators_;  // one for each core
  harness::CalibratedTimes times_;
};

// The sizes that a layout has: "dp=16, ZeRO 3, full recomputation".
[[nodiscard]] std::string LayoutName(const trials::ParallelConfig& config);

// The parts of a step, largest first, as shares of its time:
// {"compute", 0.74}, {"recomputation", 0.2}, ...
using Shares = std::vector<std::pair<std::string, double>>;
[[nodiscard]] Shares SharesOf(const trials::TimeBreakdown& time);
// "compute 74%, recomputation 20%"
[[nodiscard]] std::string ToString(const Shares& shares);

}  // namespace jobs
