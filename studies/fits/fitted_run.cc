#include "studies/fits/fitted_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/units.h"

namespace studies {
namespace {

using common::kNormal95;

// "dp" from "length_scale[dp]", if `parameter` is of that kind.
std::optional<std::string> Inside(std::string_view parameter,
                                  std::string_view kind) {
  if (!parameter.starts_with(kind) || !parameter.ends_with(']') ||
      parameter.size() < kind.size() + 2 || parameter[kind.size()] != '[') {
    return std::nullopt;
  }
  parameter.remove_prefix(kind.size() + 1);
  parameter.remove_suffix(1);
  return std::string(parameter);
}

using Values = std::map<std::string, double>;  // by parameter, of one fit

// Records of one surrogate: its parameters in order and its last fits.
struct History {
  std::vector<std::string> parameters;  // of the last fit
  std::vector<Values> fits;             // the last one at the end
};

History HistoryOf(const std::vector<trials::FitRecord>& records,
                  const std::string& surrogate, int trial, int fits) {
  std::map<int, Values> by_trial;
  History history;
  for (const trials::FitRecord& record : records) {
    if (record.surrogate != surrogate || record.trial > trial) {
      continue;
    }
    by_trial[record.trial][record.parameter] = record.value;
    if (record.trial == trial) {
      history.parameters.push_back(record.parameter);
    }
  }
  const int skipped = std::max(static_cast<int>(by_trial.size()) - fits, 0);
  for (auto it = std::next(by_trial.begin(), skipped); it != by_trial.end();
       ++it) {
    history.fits.push_back(it->second);
  }
  return history;
}

Estimate RangeOf(const History& history, const std::string& parameter) {
  Estimate estimate;
  for (const Values& fit : history.fits) {
    const auto found = fit.find(parameter);
    if (found != fit.end()) {
      estimate.value = found->second;
      estimate.low = std::fmin(estimate.low, found->second);
      estimate.high = std::fmax(estimate.high, found->second);
    }
  }
  return estimate;
}

Estimate CoefficientOf(const History& history, const std::string& name) {
  Estimate estimate = RangeOf(history, fmt::format("prior[{}]", name));
  const Values& last = history.fits.back();
  const auto deviation = last.find(fmt::format("prior_log_stddev[{}]", name));
  if (deviation != last.end()) {
    const double factor = std::exp(kNormal95 * deviation->second);
    estimate.low = estimate.value / factor;
    estimate.high = estimate.value * factor;
  }
  return estimate;
}

FittedSurrogate SurrogateOf(const History& history, const std::string& name) {
  static const std::set<std::string> scales = {"signal_stddev", "family_stddev",
                                               "misfit_stddev", "noise_stddev"};
  FittedSurrogate learned{.name = name};
  for (const std::string& parameter : history.parameters) {
    if (const auto dimension = Inside(parameter, "length_scale")) {
      learned.length_scales.push_back(
          {*dimension, RangeOf(history, parameter)});
    } else if (const auto coefficient = Inside(parameter, "prior")) {
      learned.coefficients.push_back(
          {*coefficient, CoefficientOf(history, *coefficient)});
    } else if (parameter == "trust") {
      learned.trust = RangeOf(history, parameter);
    } else if (scales.contains(parameter)) {
      learned.scales.push_back({parameter, RangeOf(history, parameter)});
    }
  }
  return learned;
}

}  // namespace

FittedRun FittedAt(const std::vector<trials::FitRecord>& records, int trial,
                   int fits) {
  FittedRun run;
  std::vector<std::string> surrogates;
  for (const trials::FitRecord& record : records) {
    if ((trial == 0 || record.trial <= trial) &&
        record.parameter == "log_posterior" && record.surrogate != "choice") {
      run.trial = std::max(run.trial, record.trial);
      if (std::find(surrogates.begin(), surrogates.end(), record.surrogate) ==
          surrogates.end()) {
        surrogates.push_back(record.surrogate);
      }
    }
  }
  if (run.trial == 0) {
    throw common::InputError(fmt::format(
        "no surrogate was fitted{}: its trials so far were random, or its "
        "method fits none",
        trial == 0 ? "" : fmt::format(" before trial {}", trial)));
  }
  for (const std::string& name : surrogates) {
    const History history = HistoryOf(records, name, run.trial, fits);
    if (!history.parameters.empty()) {
      run.surrogates.push_back(SurrogateOf(history, name));
    }
  }
  return run;
}

}  // namespace studies
