#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/manifest/manifest.h"
#include "harness/names.h"
#include "harness/registry.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

// Keys of a method's table that are not options of the method.
constexpr std::array<std::string_view, 2> kOwnKeys = {"base", "label"};

constexpr std::size_t kMostMethods = 1000;

// Every list in a method's table makes variants of the method, named
// METHOD-OPTION-VALUE.
std::vector<MethodSpec> ExpandVariants(const MethodSpec& method) {
  std::vector<MethodSpec> variants{method};
  for (const std::string& key : method.options.Keys()) {
    if (common::Contains(kOwnKeys, key)) {
      continue;
    }
    std::vector<MethodSpec> expanded;
    for (const MethodSpec& variant : variants) {
      for (auto& [text, table] : variant.options.Alternatives(key)) {
        if (expanded.size() >= kMostMethods) {
          method.options.Fail(
              key, fmt::format("the lists of method '{}' make more than {} "
                               "variants: shorten them",
                               method.name, kMostMethods));
        }
        MethodSpec& next = expanded.emplace_back(variant);
        next.options = table;
        if (!text.empty()) {
          next.name += fmt::format("-{}-{}", NamePart(key), NamePart(text));
          next.label += fmt::format(" {}={}", key, text);
        }
      }
    }
    variants = std::move(expanded);
  }
  return variants;
}

// The registered methods and those of tables.
std::vector<std::string> KnownMethods(const TomlTable& tables) {
  std::vector<std::string> names = MethodNames();
  for (const std::string& name : tables.Keys()) {
    if (FindMethod(name) == nullptr) {
      names.push_back(name);
    }
  }
  return names;
}

// One method by name: a table [method.NAME], the registry's, or both.
MethodSpec ReadMethod(const TomlTable& tables, const std::string& name) {
  MethodSpec method;
  method.name = name;
  if (tables.Has(name)) {
    method.options = tables.GetTable(name);
  }
  method.base = method.options.GetString("base", name);
  const MethodEntry* entry = FindMethod(method.base);
  if (entry == nullptr) {
    const std::vector<std::string> known = MethodNames();
    if (method.options.Has("base")) {
      UnknownMethod(method.options.Where("base"), method.base, known);
    }
    throw InputError(
        fmt::format("{}: unknown method '{}'{}: use one of {}, or set base = "
                    "\"...\" to the "
                    "method that it is a variant of",
                    method.options.Where(), name,
                    common::DidYouMean(name, known), fmt::join(known, ", ")));
  }
  CheckName(tables, name, "method", name);
  method.label = method.options.GetString(
      "label", method.base == name ? entry->label : name);
  return method;
}

// Appends a method and its variants. Names are unique.
void AppendMethod(const TomlTable& tables, const std::string& name,
                  const std::string& where, std::vector<MethodSpec>& methods) {
  const std::vector<std::string> known = KnownMethods(tables);
  if (!common::Contains(known, name)) {
    UnknownMethod(where, name, known);
  }
  for (MethodSpec& variant : ExpandVariants(ReadMethod(tables, name))) {
    CheckName(tables, name, "method", variant.name);
    if (common::Contains(methods, variant.name, &MethodSpec::name)) {
      throw InputError(fmt::format(
          "{}: method '{}' is listed twice: remove one", where, variant.name));
    }
    methods.push_back(std::move(variant));
  }
}

}  // namespace

std::vector<MethodSpec> ReadMethods(const TomlTable& root,
                                    const TomlTable& experiment,
                                    const ManifestOverrides& overrides) {
  (void)experiment.Has("methods");  // a known key, also when it is overridden
  const TomlTable tables = root.GetTable("method");
  // Tables of methods that the experiment does not use are checked, too.
  std::vector<MethodSpec> methods;
  const std::vector<std::string> names = tables.Keys();
  if (names.size() > kMostMethods) {
    tables.Fail(names[kMostMethods],
                fmt::format("{} tables of methods; at most {} are read",
                            names.size(), kMostMethods));
  }
  for (const std::string& name : names) {
    AppendMethod(tables, name, tables.Where(name), methods);
  }
  methods.clear();
  if (!overrides.methods.empty()) {
    for (const std::string& name : overrides.methods) {
      AppendMethod(tables, name, "--methods", methods);
    }
    return methods;
  }
  if (!experiment.Has("methods")) {
    for (const std::string& key : experiment.Keys()) {
      if (const std::string hint =
              common::DidYouMean(key, std::vector<std::string>{"methods"});
          !hint.empty()) {
        experiment.Fail(
            key, fmt::format("unknown key 'experiment.{}'{}", key, hint));
      }
    }
    throw InputError(
        fmt::format("{}: experiment.methods is missing: name at least one, as "
                    "in methods = [\"random\", \"oppa\"]",
                    experiment.Where()));
  }
  for (const auto& [text, table] : experiment.Alternatives("methods")) {
    AppendMethod(tables, table.RequireString("methods"), table.Where("methods"),
                 methods);
  }
  return methods;
}

}  // namespace harness
