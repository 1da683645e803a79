// A backend that answers from a table of published measurements.

#pragma once

#include <optional>

#include "trials/search_space.h"
#include "trials/simulator/framework.h"
#include "trials/tables/replay_table.h"
#include "trials/trial_runner.h"

namespace trials {

// Replays a scenario of a table: every step of a trial takes the measured step
// time. Noise and time limits are wrappers (trials/wrappers/); request.seed and
// request.time_limit_s are ignored.
//
// A configuration that ran out of memory fails that way after its set-up,
// without a step and without a peak. One that is not in the table has outcome
// kFailed. The same holds for plans.
class ReplayRunner final : public TrialRunner {
 public:
  // Tables do not contain the cost of a trial other than its steps. The
  // defaults are typical of a launch of a few hundred processes.
  struct Options {
    double setup_s = 30.0;  // launch, model, data; >= 0
    double failure_s =
        Framework()
            .launch.failure_s;  // from a failure until all ranks are gone; >= 0
  };

  // Errors: throws InputError if an option violates its inequality.
  ReplayRunner(ReplayTable table, const Options& options);

  [[nodiscard]] Measurement Run(const TrialRequest& request) override;

  // 1 / step time; 0 when out of memory; absent when not in the table.
  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

  [[nodiscard]] const ReplayTable& table() const { return table_; }
  // The rows of the table, in their order: the candidates of a search.
  [[nodiscard]] const SearchSpace& space() const { return space_; }

 private:
  [[nodiscard]] const ReplayRow* Find(const Candidate& candidate) const;
  [[nodiscard]] const ReplayRow* Find(const ParallelConfig& config) const;
  [[nodiscard]] const ReplayRow* Find(const Plan& plan) const;

  ReplayTable table_;
  SearchSpace space_;
  Options options_;
};

}  // namespace trials
