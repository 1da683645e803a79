// The one place that names concrete methods.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/testbed.h"
#include "methods/method.h"
#include "methods/options.h"

namespace harness {

// A method with the options of its table, on one problem.
struct ConfiguredMethod {
  std::function<std::unique_ptr<methods::Method>(std::uint64_t seed)> make;
  // Estimates every candidate by the method's own model without trials; NaN
  // where the model has no estimate. Empty: it has no such model.
  // Errors: throws InputError for input that the model lacks.
  std::function<trials::Predictions()> estimates;
  // The source of predictions that it starts from; "" is the table
  // [predictions]. Absent: none.
  std::optional<std::string> predictions;
  // The files whose content it depends on: those that its options name, and the
  // facts of the table if it reads them.
  std::vector<std::filesystem::path> files;
};

// A method that a manifest can select. To add one, add a row to registry.cc.
struct MethodEntry {
  std::string name;         // in manifests and folders
  std::string label;        // in legends
  std::string description;  // one line, for `oppa methods`
  // Reads the options from the table [method.NAME].
  // Errors: throws InputError for invalid options; the functions of the result
  // throw it for a problem that the method cannot search.
  std::function<ConfiguredMethod(const methods::Problem&,
                                 const common::TomlTable&)>
      configure;
  std::vector<methods::OptionText> options = {};  // with their defaults
  bool estimates = false;  // ConfiguredMethod::estimates is not empty
  // The method that has the same options with other defaults; "" if none.
  std::string variant_of = {};
  // The family: the name of the method that this one is an ablation or a
  // variant of (that method has its own name here). "": no family.
  std::string family = {};
  // See methods::Problem::workload. On a measured table that facts describe, it
  // is their workload, and the candidates have all settings of the rows.
  bool reads_workload = false;
};

// All methods, in the order in which they are listed.
[[nodiscard]] const std::vector<MethodEntry>& Methods();
[[nodiscard]] std::vector<std::string> MethodNames();
[[nodiscard]] const MethodEntry* FindMethod(std::string_view name);

// Throws the error for a method that is not in `known`; `where` is its place in
// a manifest, or the option of the command line.
[[noreturn]] void UnknownMethod(const std::string& where,
                                const std::string& name,
                                const std::vector<std::string>& known);

// The problem as methods see it. `testbed` must outlive the result.
[[nodiscard]] methods::Problem ProblemOf(const Testbed& testbed, int q_max);

// The method of a manifest, with its options.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] ConfiguredMethod Configure(const MethodSpec& method,
                                         const methods::Problem& problem);

// Makes a method from its specification.
// Errors: throws InputError with the place in the manifest for an unknown key
// and for invalid options.
[[nodiscard]] std::unique_ptr<methods::Method> MakeMethod(
    const MethodSpec& method, const methods::Problem& problem,
    std::uint64_t seed);

}  // namespace harness
