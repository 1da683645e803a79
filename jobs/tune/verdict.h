// What repeated measurements of the best configurations decide: the command
// line to use.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.h"
#include "jobs/tune/finals.h"
#include "jobs/tune/tune_job.h"
#include "trials/parallel_config.h"
#include "trials/programs/trial_rendering.h"

namespace jobs {

struct Verdict {
  std::vector<Finalist>
      ranked;  // other than kPresent, fastest first; not empty
  std::optional<StepTime> present;
  std::optional<SpeedUp> speed_up;  // of the fastest over the present one
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
