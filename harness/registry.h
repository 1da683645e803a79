// The one place that names concrete methods.

#ifndef HARNESS_REGISTRY_H_
#define HARNESS_REGISTRY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/spec.h"
#include "harness/testbed.h"
#include "methods/method.h"
#include "methods/options.h"

namespace harness {

// A method that a manifest can select. To add one, add a row to registry.cc.
struct MethodEntry {
  std::string name;         // in manifests and folders
  std::string label;        // in legends
  std::string description;  // one line, for `oppa methods`
  // Makes the method from its table [method.NAME] and a seed.
  // Errors: throws InputError for invalid options.
  std::function<std::unique_ptr<methods::Method>(
      const methods::Problem&, const common::TomlTable&, std::uint64_t)>
      make;
  std::vector<methods::OptionText> options = {};  // with their defaults
  // The method that has the same options with other defaults; "" if none.
  std::string variant_of = {};
  // The family: the name of the method that this one is an ablation or a
  // variant of (that method has its own name here). "": no family.
  std::string family = {};
  // The source of predictions that the method with these options starts from;
  // "" is the table [predictions]. Empty, or returns nothing: it uses none.
  std::function<std::optional<std::string>(const methods::Problem&,
                                           const common::TomlTable&)>
      predictions = {};
  // See methods::Problem::workload. On a measured table that facts describe, it
  // is their workload, and the candidates have all settings of the rows.
  bool reads_workload = false;
  // Reads the options, and returns a function that estimates every candidate by
  // the method's own model without trials; NaN where the model has no estimate.
  // Empty: the method has no such model. The function throws InputError for
  // input that the model lacks.
  using Estimates = std::function<trials::Predictions()>;
  std::function<Estimates(const methods::Problem&, const common::TomlTable&)>
      estimates = {};
  // The files whose content the method with these options depends on: those
  // that the options name, and the facts of the table if it reads them.
  std::function<std::vector<std::filesystem::path>(const methods::Problem&,
                                                   const common::TomlTable&)>
      files = [](const auto&, const auto&) {
        return std::vector<std::filesystem::path>();
      };
};

// All methods, in the order in which they are listed.
[[nodiscard]] const std::vector<MethodEntry>& Methods();
[[nodiscard]] const MethodEntry* FindMethod(std::string_view name);

// Throws the error for a method that is not in `known`; `where` is its place in
// a manifest, or the option of the command line.
[[noreturn]] void UnknownMethod(const std::string& where,
                                const std::string& name,
                                const std::vector<std::string>& known);

// The files of MethodEntry::files.
[[nodiscard]] std::vector<std::filesystem::path> FilesOf(
    const MethodSpec& method, const methods::Problem& problem);

// The problem as methods see it. `backend` must outlive the result.
[[nodiscard]] methods::Problem ProblemOf(const Testbed& testbed, int q_max);

// The source of predictions that the method starts from; nothing if it uses
// none.
[[nodiscard]] std::optional<std::string> PredictionsOf(
    const MethodSpec& method, const methods::Problem& problem);

// Makes a method from its specification.
// Errors: throws InputError with the place in the manifest for an unknown key
// and for invalid options.
[[nodiscard]] std::unique_ptr<methods::Method> MakeMethod(
    const MethodSpec& method, const methods::Problem& problem,
    std::uint64_t seed);

}  // namespace harness

#endif  // HARNESS_REGISTRY_H_
