#include "studies/fits/verb.h"

#include <cmath>
#include <ostream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/json.h"
#include "harness/manifest/manifest.h"
#include "harness/testbed.h"
#include "plots/experiment_records.h"
#include "plots/table.h"
#include "trials/workload.h"

namespace studies {
namespace {

using common::Json;

using common::Estimate;

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
  const bool memory = surrogate.name == "memory";
  const bool in_gb = memory && sizes.capacity_bytes > 0.0;
  const double factor = in_gb ? sizes.capacity_bytes / 1e9 : 1.0;
  const char* unit = in_gb ? "GB" : memory ? "capacity" : "steps/s";
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
               {"last fits", IntervalCell({e.value * factor, e.low * factor,
                                           e.high * factor})}});
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
  if (surrogate.trust) {
    json["trust"] = ToJson(*surrogate.trust);
  }
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
    if (surrogate.trust) {
      text += fmt::format("trust in the predictions: {} (last fits: {})\n\n",
                          Number(surrogate.trust->value).text,
                          IntervalCell(*surrogate.trust).text);
    }
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
         "shape. "
         "The interval of a coefficient is 95% of its\nposterior; other "
         "intervals "
         "are the range over the last fits. A long length scale means\nthat "
         "the "
         "parameter matters little beyond the prior.\n";
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
