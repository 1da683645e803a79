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

using common::Estimate;
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
      if (std::ranges::find(surrogates, record.surrogate) == surrogates.end()) {
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

namespace {

using surrogates::CostTerm;
using Kind = surrogates::Reading::Kind;

bool Has(const FittedSurrogate& surrogate, std::string_view name) {
  return std::ranges::any_of(
      surrogate.coefficients,
      [&](const FittedParameter& value) { return value.name == name; });
}

bool IsMemory(const FittedSurrogate& surrogate) {
  return surrogate.name == "memory";
}

// The cost model that the surrogate was fitted with. Names and readings of
// terms do not depend on the cluster.
const std::vector<CostTerm>& TermsOf(const FittedSurrogate& surrogate) {
  static const std::vector<CostTerm> none;
  static const auto physical_time = surrogates::PhysicalTimeTerms({});
  static const auto printed_time = surrogates::PrintedTimeTerms({});
  static const auto physical_memory = surrogates::PhysicalMemoryTerms();
  static const auto printed_memory = surrogates::PrintedMemoryTerms({});
  if (surrogate.coefficients.size() < 2) {
    return none;  // a constant mean
  }
  if (IsMemory(surrogate)) {
    return Has(surrogate, "gradients") ? physical_memory : printed_memory;
  }
  return Has(surrogate, "constant") ? physical_time : printed_time;
}

// The term with a recorded name; null if there is none.
const CostTerm* Find(const FittedSurrogate& surrogate,
                     const std::string& recorded) {
  for (const CostTerm& term : TermsOf(surrogate)) {
    std::string name = term.name;
    std::replace(name.begin(), name.end(), ',', ';');  // as records write it
    if (name == recorded) {
      return &term;
    }
  }
  return nullptr;
}

Estimate Scaled(const Estimate& estimate, double factor) {
  return {estimate.value * factor, estimate.low * factor,
          estimate.high * factor};
}

// amount / c; the ends of the interval are exchanged.
Estimate Inverse(const Estimate& estimate, double amount) {
  return {amount / estimate.value, amount / estimate.high,
          amount / estimate.low};
}

}  // namespace

std::string MeaningOf(const FittedSurrogate& surrogate,
                      const std::string& coefficient) {
  const CostTerm* term = Find(surrogate, coefficient);
  return term == nullptr ? "" : term->meaning;
}

std::string UnitOf(const FittedSurrogate& surrogate) {
  if (IsMemory(surrogate)) {
    return "capacity";
  }
  return surrogate.coefficients.size() > 1 ? "s" : "steps/s";
}

std::optional<Reading> ReadingOf(const FittedSurrogate& surrogate,
                                 const FittedParameter& coefficient,
                                 const surrogates::JobSizes& sizes) {
  const CostTerm* term = Find(surrogate, coefficient.name);
  if (term == nullptr) {
    return std::nullopt;
  }
  const auto& [kind, amount_of] = term->reading;
  const double amount = amount_of == nullptr ? 0.0 : amount_of(sizes);
  const Estimate& c = coefficient.estimate;
  if (kind == Kind::kMemory && sizes.capacity_bytes > 0.0) {
    return Reading{Scaled(c, sizes.capacity_bytes / 1e9), "GB",
                   amount > 0.0 ? std::optional(amount / 1e9) : std::nullopt};
  }
  if (!(amount > 0.0)) {
    return std::nullopt;
  }
  switch (kind) {
    case Kind::kBandwidth:
      return Reading{Inverse(c, amount / 1e9), "GB/s", {}};
    case Kind::kFlopRate:
      return Reading{Inverse(c, amount / 1e12), "TFLOP/s", {}};
    case Kind::kLatency:
      return Reading{Scaled(c, 1e6 / amount), "us", {}};
    case Kind::kPlain:
    case Kind::kMemory:
      break;
  }
  return std::nullopt;
}

}  // namespace studies
