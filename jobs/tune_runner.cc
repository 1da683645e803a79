#include "jobs/tune_runner.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"

namespace jobs {
namespace {

using trials::Outcome;

constexpr int kAlike = 3;

double StepTimeOf(const trials::Measurement& measurement) {
  const double rate =
      trials::EstimateThroughput(measurement.step_times_s).steps_per_s;
  return 1.0 / rate;
}

}  // namespace

std::string Describe(const trials::Measurement& measurement,
                     double tokens_per_step) {
  std::string text;
  const double step_s = StepTimeOf(measurement);
  if (std::isfinite(step_s)) {
    text = fmt::format("{:.4g} s a step, {:.4g} tokens/s", step_s,
                       tokens_per_step / step_s);
  }
  if (measurement.peak_memory_bytes) {
    text += fmt::format("{}{:.2f} GB", text.empty() ? "" : ", ",
                        *measurement.peak_memory_bytes / 1e9);
  }
  if (measurement.outcome == Outcome::kTerminatedEarly) {
    return text + fmt::format(", slower: stopped after {} steps",
                              measurement.step_times_s.size());
  }
  if (measurement.outcome == Outcome::kCompleted) {
    return text;
  }
  std::string outcome(ToString(measurement.outcome));
  std::replace(outcome.begin(), outcome.end(), '_', ' ');
  return fmt::format("{}: {}", outcome, common::Printable(measurement.message));
}

trials::Measurement TuneRunner::Run(const trials::TrialRequest& request) {
  trials::Measurement measurement = inner_.Run(request);
  const bool complete = measurement.outcome == Outcome::kCompleted;
  const double step_s = StepTimeOf(measurement);
  const bool best = complete && (best_s_ == 0.0 || step_s < best_s_);
  best_s_ = best ? step_s : best_s_;
  fmt::print("trial {:<3} {}: {}{}\n", ++trials_,
             trials::ToString(request.candidate.config(), knobs_),
             Describe(measurement, tokens_per_step_),
             best ? "  <- best so far" : "");
  std::fflush(stdout);
  const bool broken = measurement.outcome == Outcome::kFailed &&
                      measurement.step_times_s.empty();
  any_ran_ = any_ran_ || !broken;
  alike_ = broken && measurement.message == message_ ? alike_ + 1
           : broken                                  ? 1
                                                     : 0;
  message_ = broken ? measurement.message : "";
  if (!any_ran_ && alike_ >= kAlike) {
    broken_ = fmt::format("the first {} trials failed alike: {}", kAlike,
                          common::Printable(message_));
  }
  return measurement;
}

}  // namespace jobs
