#include "harness/search.h"

#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"

namespace harness {
namespace {

using common::InputError;
using trials::Measurement;
using trials::Outcome;
using trials::TrialRecord;

// Time spent in the method since the last Take.
class ThinkingClock {
 public:
  template <typename Call>
  auto Measure(Call call) {
    const double wall_s = common::SteadySeconds();
    const double cpu_s = common::CpuSeconds();
    struct Stop {
      ThinkingClock* clock;
      double wall_s, cpu_s;
      ~Stop() {
        clock->spent_.wall_s += common::SteadySeconds() - wall_s;
        clock->spent_.cpu_s += common::CpuSeconds() - cpu_s;
      }
    } stop{this, wall_s, cpu_s};
    return call();
  }

  trials::ThinkingRecord Take(int trial) {
    trials::ThinkingRecord spent = std::exchange(spent_, {});
    spent.trial = trial;
    return spent;
  }

 private:
  trials::ThinkingRecord spent_;
};

std::vector<trials::FitRecord> FitRecords(
    int trial, const methods::Suggestion& suggestion) {
  std::vector<trials::FitRecord> records;
  for (const auto& [surrogate, summary] : suggestion.fits) {
    const auto add = [&, &name = surrogate](const std::string& parameter,
                                            double value) {
      records.push_back({trial, name, parameter, value});
    };
    for (const auto& parameter : summary.parameters) {
      add(parameter.name, parameter.value);
    }
    add("log_posterior", summary.log_posterior);
    add("evaluations", summary.evaluations);
    add("starts", summary.starts);
    add("jitter_retries", summary.jitter_retries);
    add("converged", summary.converged ? 1.0 : 0.0);
  }
  return records;
}

// The measurement that a record and its steps stand for. Methods are always
// shown this one, live or replayed, so that both see the same.
Measurement FromRecord(const Journal::Trial& trial) {
  Measurement measurement;
  measurement.outcome = trial.record.outcome;
  measurement.step_times_s = trial.step_times_s;
  if (!std::isnan(trial.record.peak_memory_bytes)) {
    measurement.peak_memory_bytes = trial.record.peak_memory_bytes;
  }
  measurement.setup_s = trial.record.setup_s;
  measurement.duration_s = trial.record.duration_s;
  measurement.message = trial.record.message;
  return measurement;
}

class Loop {
 public:
  Loop(const trials::SearchSpace& space,
       const Budget& budget,
       std::uint64_t trial_seed,
       methods::Method& method,
       trials::TrialRunner& runner,
       Journal& journal,
       const std::function<bool()>& stop)
      : space_(space),
        budget_(budget),
        trial_seed_(trial_seed),
        method_(method),
        runner_(runner),
        journal_(journal),
        stop_(stop),
        tried_(static_cast<std::size_t>(space.size()), false) {}

  SearchSummary Run() {
    for (const Journal::Trial& trial : journal_.committed()) {
      Replay(trial);
    }
    summary_.replayed = summary_.trials;
    while (true) {
      const std::optional<std::string> reason = Step();
      if (reason) {
        summary_.finish_reason = *reason;
        return summary_;
      }
    }
  }

 private:
  [[nodiscard]] double Left() const {
    return budget_.time_s - summary_.elapsed_s;
  }

  // What is left is rounding.
  [[nodiscard]] bool OutOfTime() const {
    return std::isfinite(budget_.time_s) && Left() <= 1e-9 * budget_.time_s;
  }

  std::optional<methods::Suggestion> Ask() {
    return thinking_.Measure([this] { return method_.Suggest(); });
  }

  // Books a trial and shows it to the method.
  void Take(const Journal::Trial& trial) {
    ++summary_.trials;
    tried_[static_cast<std::size_t>(trial.record.candidate)] = true;
    summary_.elapsed_s = trial.record.elapsed_s;
    summary_.incumbent_steps_per_s = trial.record.incumbent_steps_per_s;
    thinking_.Measure(
        [&] { method_.Observe(trial.record.candidate, FromRecord(trial)); });
  }

  void Replay(const Journal::Trial& trial) {
    const std::optional<methods::Suggestion> suggestion = Ask();
    const int number = summary_.trials + 1;
    const bool same = trial.record.trial == number && suggestion &&
                      suggestion->candidate == trial.record.candidate &&
                      suggestion->candidate >= 0 &&
                      suggestion->candidate < space_.size() &&
                      space_[suggestion->candidate] == trial.record.config &&
                      journal_.CheckFits(FitRecords(number, *suggestion));
    if (!same) {
      throw InputError(fmt::format(
          "trial {} is recorded as {}, but the method asks for {}: the records "
          "are of another version of the program; use another --results "
          "folder, or remove this run's",
          trial.record.trial,
          ToString(trial.record.config),
          suggestion && suggestion->candidate >= 0 &&
                  suggestion->candidate < space_.size()
              ? ToString(space_[suggestion->candidate])
              : "nothing"));
    }
    Take(trial);
    (void)thinking_.Take(number);  // on record already
  }

  // One new trial, or the reason why there is none.
  std::optional<std::string> Step() {
    if (OutOfTime()) {
      return "time budget";
    }
    if (budget_.trials > 0 && summary_.trials >= budget_.trials) {
      return "trial budget";
    }
    if (summary_.trials >= space_.size()) {
      return "space exhausted";
    }
    if (stop_ && stop_()) {
      summary_.stopped = true;
      return "";
    }
    const std::optional<methods::Suggestion> suggestion = Ask();
    if (!suggestion) {
      return "method done";
    }
    Check(*suggestion);
    Journal::Trial trial;
    trial.thinking = thinking_.Take(summary_.trials + 1);
    if (budget_.charge_thinking) {
      summary_.elapsed_s += trial.thinking.wall_s;
      if (OutOfTime()) {
        return "time budget";
      }
    }
    try {
      Try(*suggestion, trial);
    } catch (const trials::TrialInterrupted& e) {
      summary_.stopped = true;
      return e.what();
    }
    journal_.Commit(trial, FitRecords(trial.record.trial, *suggestion));
    Take(trial);
    return std::nullopt;
  }

  void Check(const methods::Suggestion& suggestion) const {
    const int candidate = suggestion.candidate;
    if (candidate < 0 || candidate >= space_.size()) {
      throw std::logic_error(fmt::format(
          "the method suggests candidate {} of {}", candidate, space_.size()));
    }
    if (tried_[static_cast<std::size_t>(candidate)]) {
      throw std::logic_error(
          fmt::format("the method suggests {} again, which was tried before",
                      ToString(space_[candidate])));
    }
  }

  void Try(const methods::Suggestion& suggestion, Journal::Trial& trial) {
    const trials::ParallelConfig& config = space_[suggestion.candidate];
    trials::TrialRequest request;
    request.config = config;
    request.max_steps = budget_.q_max;
    request.seed = common::DeriveSeed(ToString(config), trial_seed_);
    request.time_limit_s = Left();
    request.interrupted = stop_;
    StopBy(suggestion.stop, request);
    Measurement measurement = runner_.Run(request);
    if (measurement.duration_s > Left() * (1.0 + 1e-9)) {
      measurement.outcome = Outcome::kTimedOut;  // ended after the search did
    }
    trial.step_times_s = measurement.step_times_s;
    Fill(suggestion, measurement, trial.record);
    // As it will be read back: a message may hold what a cell cannot.
    trial.record = trials::ParseTrialRow(ToRow(trial.record));
  }

  void Fill(const methods::Suggestion& suggestion,
            const Measurement& measurement,
            TrialRecord& record) const {
    const trials::ThroughputEstimate throughput =
        trials::EstimateThroughput(measurement.step_times_s);
    record.trial = summary_.trials + 1;
    record.candidate = suggestion.candidate;
    record.config = space_[suggestion.candidate];
    record.outcome = measurement.outcome;
    record.steps = static_cast<int>(measurement.step_times_s.size());
    record.throughput_steps_per_s = throughput.steps_per_s;
    record.throughput_variance = throughput.variance;
    record.peak_memory_bytes =
        measurement.peak_memory_bytes.value_or(trials::kUnknown);
    record.setup_s = measurement.setup_s;
    record.duration_s = measurement.duration_s;
    record.elapsed_s = std::fmin(summary_.elapsed_s + measurement.duration_s,
                                 std::fmax(budget_.time_s, summary_.elapsed_s));
    record.incumbent_steps_per_s = summary_.incumbent_steps_per_s;
    if (record.outcome == Outcome::kCompleted) {
      record.incumbent_steps_per_s =
          std::fmax(summary_.incumbent_steps_per_s, throughput.steps_per_s);
    }
    record.exact_steps_per_s =
        runner_.ExactThroughput(record.config).value_or(trials::kUnknown);
    record.chosen_by = suggestion.chosen_by;
    record.message = measurement.message;
  }

  const trials::SearchSpace& space_;
  const Budget& budget_;
  std::uint64_t trial_seed_;
  methods::Method& method_;
  trials::TrialRunner& runner_;
  Journal& journal_;
  const std::function<bool()>& stop_;
  std::vector<bool> tried_;
  ThinkingClock thinking_;
  SearchSummary summary_;
};

}  // namespace

SearchSummary Search(const trials::SearchSpace& space,
                     const Budget& budget,
                     std::uint64_t trial_seed,
                     methods::Method& method,
                     trials::TrialRunner& runner,
                     Journal& journal,
                     const std::function<bool()>& stop) {
  return Loop(space, budget, trial_seed, method, runner, journal, stop).Run();
}

}  // namespace harness
