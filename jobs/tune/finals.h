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
  // How its rounds ended that did not succeed.
  std::optional<std::vector<trials::Outcome>> failures = std::nullopt;

  OPPA_FIELDS(Finalist, config, rounds, peak_memory_bytes, duration_s, losses,
              failures);

  [[nodiscard]] bool Failed() const { return failures && !failures->empty(); }
};

// finals.json.
struct Finals {
  int trials = 0;  // of the search that they follow
  std::vector<Finalist> finalists;
  std::optional<int> changes = std::nullopt;  // that were accepted before them

  OPPA_FIELDS(Finals, trials, finalists, changes);
};

// What the file has; nothing of an earlier version.
// Errors: throws InputError for a damaged file and for an impossible time.
[[nodiscard]] Finals ReadFinals(const std::filesystem::path& file);

// How much rounds differ. Each is a start of the program of its own. A finalist
// has two or three, so their differences are pooled over all finalists: with
// m_ir the mean of round r of finalist i, and m_i that of its R_i rounds,
//
//   v = sum_ir (m_ir / m_i - 1)^2 / f,   f = sum_i (R_i - 1).
struct RoundSpread {
  double variance = 0.0;  // v
  int freedom = 0;        // f
};
[[nodiscard]] RoundSpread SpreadOfRounds(const std::vector<Finalist>& all);

// The mean time of a step with its standard error. Steps of one round are
// alike, so the variance of the mean m of n steps in R rounds is
//
//   max(s_steps^2 / n, m^2 v / R) + r^2 / 12,
//
// where r is the unit of the last decimal place of the times, as a log prints
// them (0 with six places or more). Steps that differ by more than r / 2
// average it: r^2 / (12 n).
struct StepTime {
  double mean_s = 0.0;
  double standard_error_s = 0.0;
  int steps = 0;
  int freedom = 0;  // that of the spread of rounds; 0: not known
};

// Nothing if no round has a step.
[[nodiscard]] std::optional<StepTime> MeanStepTime(
    const Finalist& finalist, const RoundSpread& spread = {});

// How many times as fast `a` is as `b`, with its 95% interval on the logarithm:
// ln(t_b / t_a) +- q sqrt((se_a / t_a)^2 + (se_b / t_b)^2), and the two-sided
// p-value of equal times. q is the 97.5% quantile of Student's t with the
// smaller number of degrees of freedom; of the normal distribution if that is
// 0.
struct SpeedUp {
  common::Estimate factor;
  double p = 1.0;
  [[nodiscard]] bool Differs() const { return p < 0.05; }
};
[[nodiscard]] SpeedUp Compare(const StepTime& a, const StepTime& b);

// Whether another round may show that a finalist is the fastest. After `rounds`
// rounds it cannot if another one is faster and the lower end of the interval
// of Compare is above 1.05; above 1.15 after one, which shows nothing of how
// starts of the program differ. kPresent stays.
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
  // Without kPresent, fastest first, and then those of which a round failed;
  // not empty.
  std::vector<Finalist> ranked;
  RoundSpread spread;
  std::optional<Finalist> yours;    // kPresent, if it was measured
  std::optional<StepTime> present;  // of it; absent if no round ran
  std::optional<SpeedUp> speed_up;  // of the fastest over the present one
  std::optional<LossChange>
      loss;  // of the fastest; nothing: not read, or not used
  bool keeps_present = false;

  // What it recommends: a configuration or kPresent.
  [[nodiscard]] std::string config() const;
  [[nodiscard]] StepTime time() const;
};

// Keeps the present configuration unless another one is measurably faster and,
// unlike it, never failed.
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
