#include "studies/fits.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/units.h"
#include "harness/manifest/manifest.h"
#include "harness/testbeds/testbeds.h"
#include "plots/experiment_records.h"
#include "trials/workload.h"

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

// The coefficients of surrogates::PredictedMean, with their meanings.
const std::map<std::string, std::string>& PredictedTerms() {
  static const std::map<std::string, std::string> terms = {
      {"level", "logarithm at the median of the predictions"},
      {"slope", "of the logarithm over that of the prediction"},
      {"difference", "share of the physical terms in the mean"},
      {"assumption", "share of another assumption, such as attention"}};
  return terms;
}

Estimate CoefficientOf(const History& history, const std::string& name) {
  Estimate estimate = RangeOf(history, fmt::format("prior[{}]", name));
  const Values& last = history.fits.back();
  const auto deviation = last.find(fmt::format("prior_log_stddev[{}]", name));
  if (deviation != last.end() && PredictedTerms().contains(name)) {
    estimate.low = estimate.value - kNormal95 * deviation->second;
    estimate.high = estimate.value + kNormal95 * deviation->second;
  } else if (deviation != last.end()) {
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
      if (!common::Contains(surrogates, record.surrogate)) {
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

// Whether it models the logarithm of its target, around predictions.
bool IsLogarithmic(const FittedSurrogate& surrogate) {
  return std::ranges::any_of(
      surrogate.coefficients, [](const FittedParameter& coefficient) {
        return PredictedTerms().contains(coefficient.name);
      });
}

// The cost model that the surrogate was fitted with. Names and readings of
// terms do not depend on the cluster.
const std::vector<CostTerm>& TermsOf(const FittedSurrogate& surrogate) {
  static const std::vector<CostTerm> none;
  static const auto physical_time = surrogates::PhysicalTimeTerms({});
  static const auto printed_time = surrogates::PrintedTimeTerms({});
  static const auto physical_memory =
      surrogates::PhysicalMemoryTerms({.sp = true, .attention = true});
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
  const auto predicted = PredictedTerms().find(coefficient);
  if (predicted != PredictedTerms().end()) {
    return predicted->second;
  }
  const CostTerm* term = Find(surrogate, coefficient);
  return term == nullptr ? "" : term->meaning;
}

std::string UnitOf(const FittedSurrogate& surrogate) {
  if (IsLogarithmic(surrogate)) {
    return "";
  }
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

namespace {

using common::Json;

plots::Cell Number(double value) {
  return {std::isnan(value) ? "" : fmt::format("{:.3g}", value), value};
}

plots::Cell IntervalCell(const Estimate& estimate) {
  return plots::Figures(std::isnan(estimate.low)
                            ? ""
                            : fmt::format("{} - {}", Number(estimate.low).text,
                                          Number(estimate.high).text));
}

// The sizes of the problem in the manifest.
surrogates::JobSizes SizesOf(const harness::ProblemSpec& problem) {
  const double capacity_bytes =
      harness::MakeTestbed(problem).machine.memory_bytes();
  if (!problem.workload.Has("model")) {
    return {.capacity_bytes = capacity_bytes};
  }
  return surrogates::SizesOf(trials::ReadWorkload(problem.workload),
                             capacity_bytes);
}

// Sizes, or a note saying why there are none.
std::pair<surrogates::JobSizes, std::string> FindSizes(
    const std::filesystem::path& manifest_path, const trials::RunInfo& run) {
  const std::string& problem = run.problem;
  try {
    const harness::Manifest manifest = harness::ReadManifest(
        manifest_path,
        {.settings = run.settings.value_or(std::vector<std::string>()),
         .held_out = true});
    for (const harness::ProblemSpec& spec : manifest.problems) {
      if (spec.name == problem) {
        return {SizesOf(spec), ""};
      }
    }
    return {{},
            fmt::format("{} has no problem '{}': no physical units; give "
                        "--manifest",
                        manifest_path.string(), problem)};
  } catch (const std::exception& e) {
    return {{},
            fmt::format("no physical units ({}); give --manifest", e.what())};
  }
}

plots::Table KernelTable(const FittedSurrogate& surrogate) {
  plots::Table table;
  for (const auto& [name, estimate] : surrogate.length_scales) {
    table.Add({{"length scale (of the parameter's range)", name},
               {"value", Number(estimate.value)},
               {"last fits", IntervalCell(estimate)}});
  }
  return table;
}

plots::Table ScaleTable(const FittedSurrogate& surrogate,
                        const surrogates::JobSizes& sizes) {
  const bool memory = IsMemory(surrogate);
  const bool logarithmic = IsLogarithmic(surrogate);
  const bool in_gb = memory && !logarithmic && sizes.capacity_bytes > 0.0;
  const double factor = in_gb ? sizes.capacity_bytes / 1e9 : 1.0;
  const char* unit = logarithmic ? "of the logarithm"
                     : in_gb     ? "GB"
                     : memory    ? "capacity"
                                 : "steps/s";
  const auto words = [](const std::string& name) {
    return name == "signal_stddev"   ? "unexplained by the prior"
           : name == "family_stddev" ? "shared by a family of configurations"
           : name == "misfit_stddev" ? "nugget, of single configurations"
                                     : "noise of a measurement";
  };
  plots::Table table;
  for (const auto& [name, e] : surrogate.scales) {
    table.Add({{fmt::format("standard deviation ({})", unit), words(name)},
               {"value", Number(e.value * factor)},
               {"last fits", IntervalCell(Scaled(e, factor))}});
  }
  return table;
}

plots::Row RowOf(const std::string& name, const Reading& reading,
                 const std::string& meaning) {
  return {{"prior", name},
          {"value", Number(reading.estimate.value)},
          {"unit", reading.unit},
          {"95%", IntervalCell(reading.estimate)},
          {"by model", Number(reading.expected.value_or(trials::kUnknown))},
          {"meaning", meaning}};
}

// In physical units where possible, else unchanged.
plots::Table CoefficientTable(const FittedSurrogate& surrogate,
                              const surrogates::JobSizes& sizes) {
  plots::Table table;
  for (const FittedParameter& value : surrogate.coefficients) {
    table.Add(
        RowOf(value.name,
              ReadingOf(surrogate, value, sizes)
                  .value_or(Reading{value.estimate, UnitOf(surrogate), {}}),
              MeaningOf(surrogate, value.name)));
  }
  return table;
}

Json ToJson(const Estimate& estimate) {
  Json json = {{"value", estimate.value}};
  if (!std::isnan(estimate.low)) {
    json["low"] = estimate.low;
    json["high"] = estimate.high;
  }
  return json;
}

Json ToJson(const std::vector<FittedParameter>& values) {
  Json json = Json::object();
  for (const FittedParameter& value : values) {
    json[value.name] = ToJson(value.estimate);
  }
  return json;
}

Json ToJson(const FittedSurrogate& surrogate,
            const surrogates::JobSizes& sizes) {
  Json json = {{"length_scales", ToJson(surrogate.length_scales)},
               {"standard_deviations", ToJson(surrogate.scales)},
               {"coefficients", Json::array()}};
  for (const FittedParameter& value : surrogate.coefficients) {
    Json one = {{"name", value.name},
                {"meaning", MeaningOf(surrogate, value.name)},
                {"unit", UnitOf(surrogate)}};
    one.update(ToJson(value.estimate));
    if (const auto reading = ReadingOf(surrogate, value, sizes)) {
      Json physical = ToJson(reading->estimate);
      physical["unit"] = reading->unit;
      if (reading->expected) {
        physical["by_model"] = *reading->expected;
      }
      one["physical"] = physical;
    }
    json["coefficients"].push_back(one);
  }
  return json;
}

std::string NameOf(const trials::RunInfo& run) {
  return fmt::format("{}/{}{}{}/{}", run.experiment, run.problem,
                     run.problem.empty() ? "" : "/", run.method, run.repeat);
}

}  // namespace

std::string FitsText(const trials::RunInfo& run, const FittedRun& fitted,
                     const surrogates::JobSizes& sizes,
                     const std::string& note) {
  std::string text =
      fmt::format("{}, before trial {}{}\n", NameOf(run), fitted.trial,
                  run.finished ? "" : " (not finished)");
  if (!note.empty()) {
    text += note + "\n";
  }
  for (const FittedSurrogate& surrogate : fitted.surrogates) {
    text += fmt::format("\n{}\n\n", surrogate.name);
    text += ToText(CoefficientTable(surrogate, sizes));
    for (const plots::Table& table :
         {ScaleTable(surrogate, sizes), KernelTable(surrogate)}) {
      if (!table.rows.empty()) {
        text += "\n" + ToText(table);
      }
    }
  }
  return text +
         "\nThese are effective numbers: communication that overlaps with "
         "computation costs nothing.\n`by model` follows from the model's "
         "shape. The interval of a coefficient is 95% of its\nposterior; other "
         "intervals are the range over the last fits. A long length scale "
         "means\nthat the parameter matters little beyond the prior.\n";
}

std::string FitsJson(const trials::RunInfo& run, const FittedRun& fitted,
                     const surrogates::JobSizes& sizes,
                     const std::string& note) {
  Json json = {{"experiment", run.experiment}, {"problem", run.problem},
               {"method", run.method},         {"repeat", run.repeat},
               {"finished", run.finished},     {"trial", fitted.trial}};
  if (!note.empty()) {
    json["note"] = note;
  }
  for (const FittedSurrogate& surrogate : fitted.surrogates) {
    json["surrogates"][surrogate.name] = ToJson(surrogate, sizes);
  }
  return common::ToText(json, 2) + "\n";
}

plots::Table LearnedNumbers(const std::filesystem::path& run_folder) {
  plots::Table numbers;
  const auto records =
      trials::ReadRows<trials::FitRecord>(run_folder, true).records;
  if (records.empty()) {
    return numbers;
  }
  const trials::RunInfo run = trials::ReadRunInfo(run_folder);
  FittedRun fitted;
  try {
    fitted = FittedAt(records);
  } catch (const common::InputError&) {
    return numbers;  // no method of this kind
  }
  const surrogates::JobSizes sizes = FindSizes(run.manifest, run).first;
  for (const FittedSurrogate& surrogate : fitted.surrogates) {
    for (const FittedParameter& value : surrogate.coefficients) {
      if (const auto reading = ReadingOf(surrogate, value, sizes)) {
        numbers.Add(RowOf(surrogate.name + ": " + value.name, *reading,
                          MeaningOf(surrogate, value.name)));
      }
    }
  }
  return numbers;
}

int Fits(const FitsVerbOptions& options, std::ostream& out) {
  std::error_code error;
  if (!std::filesystem::exists(options.run_folder / "run.json", error)) {
    throw common::InputError(
        fmt::format("{}: this folder holds no run: give one, "
                    "results/EXPERIMENT/[PROBLEM/]METHOD/REPEAT",
                    options.run_folder.string()));
  }
  const trials::RunInfo run = trials::ReadRunInfo(options.run_folder);
  trials::RequireWhole(options.run_folder, run);
  const std::vector<trials::FitRecord> records =
      trials::ReadRows<trials::FitRecord>(options.run_folder).records;
  FittedRun fitted;
  try {
    fitted = FittedAt(records, options.trial);
  } catch (const common::InputError& e) {
    throw common::InputError(
        fmt::format("{}: {}", options.run_folder.string(), e.what()));
  }
  const auto [sizes, note] =
      FindSizes(options.manifest.empty() ? std::filesystem::path(run.manifest)
                                         : options.manifest,
                run);
  const auto print = options.json ? FitsJson : FitsText;
  out << print(run, fitted, sizes, note);
  const auto estimates = plots::RemainingByTrial(records);
  const auto remaining = estimates.find(fitted.trial);
  if (!options.json && remaining != estimates.end()) {
    out << fmt::format("\nremaining before trial {}: {}\n", fitted.trial,
                       plots::RemainingText(remaining->second));
  }
  return 0;
}

}  // namespace studies
