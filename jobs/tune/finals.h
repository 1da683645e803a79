// The end of a search: repeated measurements of the best configurations, their
// comparison, and what they decide: the command line to use.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/fields.h"
#include "common/json.h"
#include "common/statistics.h"
#include "jobs/tune/loss_change.h"
#include "jobs/tune/tune_job.h"
#include "plots/page.h"
#include "trials/adapters/adapter.h"
#include "trials/parallel_config.h"

namespace jobs {

// In files and on the terminal: the job as it is, with its present
// configuration.
inline constexpr const char* kPresent = plots::kYours;

// One configuration, run once in each round.
struct Finalist {
  std::string config;  // its text, or kPresent
  // Step times without the first step, one list for each round that succeeded.
  std::vector<std::vector<double>> rounds;
  std::optional<double> peak_memory_bytes;
  std::optional<double> duration_s = std::nullopt;  // of all rounds
  // Of the rounds that succeeded and had any.
  std::optional<std::vector<trials::LossCurve>> losses = std::nullopt;

  OPPA_FIELDS(Finalist, config, rounds, peak_memory_bytes, duration_s, losses);
};

// finals.json.
struct Finals {
  int trials = 0;  // of the search that they follow
  std::vector<Finalist> finalists;

  OPPA_FIELDS(Finals, trials, finalists);
};

// What the file has; nothing of an earlier version.
// Errors: throws InputError for a damaged file and for an impossible time.
[[nodiscard]] Finals ReadFinals(const std::filesystem::path& file);

// The mean time of a step with its standard error. Rounds are independent
// starts of the program, and steps of one round are alike, so the variance of
// the mean is the larger one of
//
//   s_steps^2 / n   and   s_rounds^2 / R,
//
// the variance of the n steps and that of the means of the R rounds.
struct StepTime {
  double mean_s = 0.0;
  double standard_error_s = 0.0;
  int steps = 0;
};

// Nothing if no round has a step.
[[nodiscard]] std::optional<StepTime> MeanStepTime(const Finalist& finalist);

// How many times as fast `a` is as `b`, with its 95% interval on the logarithm:
// ln(t_b / t_a) +- 1.96 sqrt((se_a / t_a)^2 + (se_b / t_b)^2), and the
// two-sided p-value of equal times (a normal approximation).
struct SpeedUp {
  common::Estimate factor;
  double p = 1.0;
  [[nodiscard]] bool Differs() const { return p < 0.05; }
};
[[nodiscard]] SpeedUp Compare(const StepTime& a, const StepTime& b);

// Whether another round may show that a finalist is the fastest. After `rounds`
// rounds it cannot if another one is faster and the lower end of the interval
// of Compare is above 1.05. The margin covers a difference between starts of
// the program, of which one round shows nothing. kPresent stays.
[[nodiscard]] bool Contends(const Finalist& finalist,
                            const std::vector<Finalist>& all,
                            std::size_t rounds);

// "1.23 times [1.18, 1.29]"
[[nodiscard]] std::string ToString(const SpeedUp& speed_up);

// Runs the best `count` configurations of the search, also those that were
// stopped early, perhaps because of noise, and the job as it is once in each
// round, as long as they contend, so that a drift of the machine meets all of
// them; a third round only if it fits into the minutes. Prints each run. What
// finals.json has of an interrupted call after as many trials is not measured
// again. After a stop signal, returns what has been measured.
[[nodiscard]] std::vector<Finalist> MeasureFinalists(TuneJob& job, int count);

struct Verdict {
  std::vector<Finalist> ranked;  // without kPresent, fastest first; not empty
  std::optional<StepTime> present;
  std::optional<SpeedUp> speed_up;  // of the fastest over the present one
  std::optional<LossChange>
      loss;  // of the fastest; nothing: not read, or not used
  bool keeps_present = false;

  // What it recommends: a configuration or kPresent.
  [[nodiscard]] std::string config() const;
  [[nodiscard]] StepTime time() const;
};

// Keeps the present configuration unless another one is measurably faster.
// `present`: its text; "": unknown. Nothing if no other configuration ran.
[[nodiscard]] std::optional<Verdict> Judge(
    const std::vector<Finalist>& finalists, const std::string& present);

// The job that a verdict recommends, as the user starts it.
struct BestJob {
  // Nothing for the user's own command line without a known configuration.
  std::optional<trials::ParallelConfig> config;
  trials::RenderedJob rendered;
  std::string note;  // about the command line, with a newline; "": none
};
[[nodiscard]] BestJob BestOf(const TuneJob& job, const Verdict& verdict);

// The content of best.json.
[[nodiscard]] common::Json ToJson(const Verdict& verdict, const BestJob& best,
                                  const TuneJob& job);

// The comparison of the finalists, the command line and its gain.
[[nodiscard]] std::string ToText(const Verdict& verdict, const BestJob& best,
                                 const TuneJob& job);

// Writes best.sh, best.json and the framework's own files.
void WriteBest(const Verdict& verdict, const BestJob& best, const TuneJob& job);

}  // namespace jobs
