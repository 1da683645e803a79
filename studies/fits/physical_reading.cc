#include "studies/fits/physical_reading.h"

#include <algorithm>
#include <vector>

namespace studies {
namespace {

using surrogates::CostTerm;
using Kind = surrogates::Reading::Kind;

bool Has(const FittedSurrogate& surrogate, std::string_view name) {
  return std::any_of(
      surrogate.coefficients.begin(), surrogate.coefficients.end(),
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
