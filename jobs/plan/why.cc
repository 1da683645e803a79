#include "jobs/plan/why.h"

#include <stdexcept>

#include <fmt/format.h>

#include "common/units.h"
#include "jobs/plan/completion.h"
#include "jobs/plan/remedies.h"

namespace jobs {
namespace {

using common::kGiga;
using trials::ParallelConfig;

std::string MemoryReason(const Forecaster& forecaster, const Prediction& one) {
  const double allowed = forecaster.AllowedBytes();
  const double headroom = forecaster.options().headroom;
  return fmt::format(
      "it needs {:.1f} GB, and {:.1f} GB are allowed ({:.1f} GB, {:.0f}% of "
      "which stay free); the largest part is {}; it fits with probability "
      "{:.2f}, and would take {:.3g} s per step",
      one.peak_memory_bytes / kGiga, allowed / kGiga,
      allowed / (1.0 - headroom) / kGiga, 100.0 * headroom,
      LargestComponent(forecaster.Report(one.config).memory),
      one.fit_probability, one.step_time_s);
}

std::string NearestText(const Forecaster& forecaster, const Forecast& forecast,
                        const Settings& settings) {
  if (forecast.layouts.empty()) {
    return RemediesText(forecaster.job(), forecaster.options());
  }
  const Prediction& nearest =
      NearestLayout(forecaster.job(), forecast, settings);
  return fmt::format("the nearest that is offered: {}, {:.3g} s per step: {}\n",
                     LayoutName(nearest.config), nearest.step_time_s,
                     ToString(nearest.config));
}

std::string ComparedText(const Forecaster& forecaster, const Forecast& forecast,
                         const Prediction& one) {
  const auto shares = [&](const Prediction& of) {
    return ToString(SharesOf(forecaster.Report(of.config).busiest));
  };
  const Prediction& best = forecast.layouts.front().best;
  if (one.step_time_s <= best.step_time_s) {
    return fmt::format("the fastest: {:.3g} s per step; {}\n", one.step_time_s,
                       shares(one));
  }
  return fmt::format(
      "{:.3g} s per step, {:.1f}% slower than {} ({:.3g} s); {}, against {}\n",
      one.step_time_s, 100.0 * (one.step_time_s / best.step_time_s - 1.0),
      LayoutName(best.config), best.step_time_s, shares(one), shares(best));
}

// The answer about the configuration whose unnamed values are the best.
std::string Explain(const Forecaster& forecaster, const Forecast& forecast,
                    const std::string& text) {
  const Job& job = forecaster.job();
  const Completed completed = CompleteSettings(forecaster, forecast, text);
  const ParallelConfig& config = completed.config;
  const std::string answer = ToString(config) + "\n" + completed.notes;
  if (!completed.is_candidate) {
    const auto violations = Violations(job, config, JobRules(job));
    if (!violations.empty()) {
      return answer + fmt::format("not offered: {}\n", violations.front()) +
             NearestText(forecaster, forecast, completed.settings);
    }
  }
  const Prediction one = forecaster.Predict(config);
  return answer +
         (forecaster.Fits(one)
              ? ComparedText(forecaster, forecast, one)
              : fmt::format("not offered: {}\n",
                            MemoryReason(forecaster, one)) +
                    NearestText(forecaster, forecast, completed.settings));
}

}  // namespace

std::string Why(const Forecaster& forecaster, const Forecast& forecast,
                const std::string& config) {
  try {  // a line as printed has the shares of the step after the layout
    return Explain(forecaster, forecast, config.substr(0, config.find(": ")));
  } catch (const trials::InvalidPlan& e) {
    return fmt::format("{}\nnot offered: {}\n", config, e.reason());
  } catch (const std::invalid_argument& e) {
    throw common::InputError(fmt::format("--why {}: {}", config, e.what()));
  }
}

}  // namespace jobs
