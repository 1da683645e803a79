// The one place that names concrete methods.

#ifndef HARNESS_REGISTRY_H_
#define HARNESS_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/backends.h"
#include "harness/manifest.h"
#include "methods/method.h"

namespace harness {

// A method that manifests may name. A new one is a line in registry.cc.
struct MethodEntry {
  std::string name;         // in manifests and folders
  std::string label;        // in legends
  std::string description;  // one line, for `oppa methods`
  // Makes the method from its options and a seed.
  // Errors: throws InputError for options that cannot be.
  std::function<std::unique_ptr<methods::Method>(
      const methods::Problem&, const common::TomlTable&, std::uint64_t)>
      make;
  // The method of which this one is an ablation or a variant; its own name for
  // that method. "": no family.
  std::string family = {};
};

// All methods, in the order in which they are listed.
[[nodiscard]] const std::vector<MethodEntry>& Methods();
[[nodiscard]] const MethodEntry* FindMethod(std::string_view name);

// What a method is told of a problem. `backend` outlives the result.
[[nodiscard]] methods::Problem ProblemOf(const Backend& backend, int q_max);

// Makes a method and sees that its table holds no key that nobody asked for.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] std::unique_ptr<methods::Method> MakeMethod(
    const MethodSpec& method,
    const methods::Problem& problem,
    std::uint64_t seed);

}  // namespace harness

#endif  // HARNESS_REGISTRY_H_
