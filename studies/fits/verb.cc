#include "studies/fits/verb.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "harness/backends.h"
#include "harness/manifest.h"
#include "plots/table.h"
#include "trials/workload.h"

namespace studies {
namespace {

using Json = nlohmann::ordered_json;

std::string Number(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.3g}", value);
}

std::string Interval(const Estimate& estimate) {
  return std::isnan(estimate.low)
             ? ""
             : fmt::format(
                   "{} - {}", Number(estimate.low), Number(estimate.high));
}

// What the manifest tells of the problem's sizes.
KnownSizes SizesOf(const harness::ProblemSpec& problem) {
  KnownSizes sizes{.capacity_bytes =
                       harness::MakeBackend(problem).memory_capacity_bytes};
  if (!problem.workload.Has("model")) {
    return sizes;  // replayed: the table does not tell
  }
  const trials::Workload workload = trials::ReadWorkload(problem.workload);
  sizes.parameters =
      static_cast<double>(trials::ParameterCount(workload.model));
  sizes.bytes_per_value =
      workload.precision == trials::Precision::kFp32 ? 4.0 : 2.0;
  sizes.layers = workload.model.layers;
  sizes.hidden_size = workload.model.hidden_size;
  sizes.tokens =
      static_cast<double>(workload.batch_size) * workload.sequence_length;
  return sizes;
}

// Sizes, or a note saying why there are none.
std::pair<KnownSizes, std::string> FindSizes(
    const std::filesystem::path& manifest_path, const std::string& problem) {
  try {
    const harness::Manifest manifest = harness::ReadManifest(manifest_path);
    for (const harness::ProblemSpec& spec : manifest.problems) {
      if (spec.name == problem) {
        return {SizesOf(spec), ""};
      }
    }
    return {{},
            fmt::format("{} has no problem '{}': no physical units; give "
                        "--manifest",
                        manifest_path.string(),
                        problem)};
  } catch (const std::exception& e) {
    return {{},
            fmt::format("no physical units ({}); give --manifest", e.what())};
  }
}

plots::Table KernelTable(const LearnedSurrogate& surrogate) {
  plots::Table table{
      .header = {"length scale (of the field's range)", "", "last fits"}};
  for (const LearnedValue& value : surrogate.length_scales) {
    table.rows.push_back(
        {value.name, Number(value.estimate.value), Interval(value.estimate)});
  }
  return table;
}

plots::Table ScaleTable(const LearnedSurrogate& surrogate,
                        const KnownSizes& sizes) {
  const bool memory = surrogate.name == "memory";
  const bool in_gb = memory && sizes.capacity_bytes > 0.0;
  const double factor = in_gb ? sizes.capacity_bytes / 1e9 : 1.0;
  plots::Table table{.header = {fmt::format("standard deviation ({})",
                                            in_gb    ? "GB"
                                            : memory ? "capacity"
                                                     : "steps/s"),
                                "",
                                "last fits"}};
  const auto words = [](const std::string& name) -> std::string {
    if (name == "signal_stddev") {
      return "what the prior does not explain";
    }
    return name == "misfit_stddev" ? "of single configurations"
                                   : "noise of a measurement";
  };
  for (const LearnedValue& value : surrogate.scales) {
    const Estimate& e = value.estimate;
    table.rows.push_back(
        {words(value.name),
         Number(e.value * factor),
         Interval({e.value * factor, e.low * factor, e.high * factor})});
  }
  return table;
}

// In physical units where there are any, else as it stands.
plots::Table CoefficientTable(const LearnedSurrogate& surrogate,
                              const KnownSizes& sizes) {
  plots::Table table{
      .header = {"prior", "", "unit", "95%", "by model", "stands for"},
      .last_is_name = true};
  for (const LearnedValue& value : surrogate.coefficients) {
    const Reading reading =
        ReadingOf(surrogate, value, sizes)
            .value_or(Reading{value.estimate, UnitOf(surrogate), {}});
    table.rows.push_back({value.name,
                          Number(reading.estimate.value),
                          reading.unit,
                          Interval(reading.estimate),
                          reading.expected ? Number(*reading.expected) : "",
                          MeaningOf(surrogate, value.name)});
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

Json ToJson(const std::vector<LearnedValue>& values) {
  Json json = Json::object();
  for (const LearnedValue& value : values) {
    json[value.name] = ToJson(value.estimate);
  }
  return json;
}

Json ToJson(const LearnedSurrogate& surrogate, const KnownSizes& sizes) {
  Json json = {{"length_scales", ToJson(surrogate.length_scales)},
               {"standard_deviations", ToJson(surrogate.scales)},
               {"coefficients", Json::array()}};
  for (const LearnedValue& value : surrogate.coefficients) {
    Json one = {{"name", value.name},
                {"stands_for", MeaningOf(surrogate, value.name)},
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
  return fmt::format("{}/{}{}{}/{}",
                     run.experiment,
                     run.problem,
                     run.problem.empty() ? "" : "/",
                     run.method,
                     run.repeat);
}

}  // namespace

std::string FitsText(const trials::RunInfo& run,
                     const LearnedRun& learned,
                     const KnownSizes& sizes,
                     const std::string& note) {
  std::string text = fmt::format("{}, before trial {}{}\n",
                                 NameOf(run),
                                 learned.trial,
                                 run.finished ? "" : " (not finished)");
  if (!note.empty()) {
    text += note + "\n";
  }
  for (const LearnedSurrogate& surrogate : learned.surrogates) {
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
         "\nEffective numbers: what overlaps with computation costs nothing. "
         "`by model`: what the\nmodel's shape says. The interval of a "
         "coefficient is 95% of its posterior; other intervals\nare the range "
         "over the last fits. A long length scale: the field matters little "
         "beyond the prior.\n";
}

std::string FitsJson(const trials::RunInfo& run,
                     const LearnedRun& learned,
                     const KnownSizes& sizes,
                     const std::string& note) {
  Json json = {{"experiment", run.experiment},
               {"problem", run.problem},
               {"method", run.method},
               {"repeat", run.repeat},
               {"finished", run.finished},
               {"trial", learned.trial}};
  if (!note.empty()) {
    json["note"] = note;
  }
  for (const LearnedSurrogate& surrogate : learned.surrogates) {
    json["surrogates"][surrogate.name] = ToJson(surrogate, sizes);
  }
  return json.dump(2) + "\n";
}

int Fits(const FitsVerbOptions& options) {
  const trials::RunInfo run = trials::ReadRunInfo(options.run_folder);
  LearnedRun learned;
  try {
    learned =
        Learned(trials::ReadRows<trials::FitRecord>(options.run_folder).records,
                options.trial);
  } catch (const common::InputError& e) {
    throw common::InputError(
        fmt::format("{}: {}", options.run_folder.string(), e.what()));
  }
  const auto [sizes, note] =
      FindSizes(options.manifest.empty() ? std::filesystem::path(run.manifest)
                                         : options.manifest,
                run.problem);
  const auto print = options.json ? FitsJson : FitsText;
  fmt::print("{}", print(run, learned, sizes, note));
  return 0;
}

}  // namespace studies
