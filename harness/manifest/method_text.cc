#include "harness/manifest/method_text.h"

#include <vector>

#include <fmt/format.h>

#include "common/json.h"
#include "harness/registry.h"

namespace harness {
namespace {

const MethodEntry& RequireMethod(const std::string& name) {
  if (const MethodEntry* method = FindMethod(name)) {
    return *method;
  }
  UnknownMethod("oppa methods", name, MethodNames());
}

common::Json ToJson(const MethodEntry& method, bool with_options) {
  common::Json json = {{"name", method.name},
                       {"label", method.label},
                       {"description", method.description}};
  if (with_options) {
    json["options"] = common::Json::array();
    for (const methods::OptionText& option : method.options) {
      json["options"].push_back({{"key", option.key},
                                 {"default", option.value},
                                 {"range", option.range},
                                 {"meaning", option.meaning},
                                 {"paper", option.reference}});
    }
  }
  return json;
}

// The options whose defaults differ from those of `base`.
std::string Differences(const MethodEntry& method, const MethodEntry& base) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < method.options.size(); ++i) {
    const methods::OptionText& option = method.options[i];
    if (option.value != base.options[i].value) {
      values.push_back(fmt::format("`{} = {}`", option.key, option.value));
    }
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace

std::string MethodsText(const std::string& name) {
  std::string text;
  if (name.empty()) {
    for (const MethodEntry& method : Methods()) {
      text += fmt::format("{:<36} {}\n", method.name, method.description);
    }
    return text;
  }
  const MethodEntry& method = RequireMethod(name);
  text = fmt::format("{}: {}\n", method.name, method.description);
  for (const methods::OptionText& option : method.options) {
    text += fmt::format(
        "\n{} = {}  ({})\n    {}{}\n", option.key, option.value, option.range,
        option.meaning,
        option.reference.empty() ? "" : fmt::format(" [{}]", option.reference));
  }
  return method.options.empty() ? text + "\nIt has no options.\n" : text;
}

std::string MethodsJson(const std::string& name) {
  if (!name.empty()) {
    return common::ToText(ToJson(RequireMethod(name), true), 2) + "\n";
  }
  common::Json list = common::Json::array();
  for (const MethodEntry& method : Methods()) {
    list.push_back(ToJson(method, false));
  }
  return common::ToText(list, 2) + "\n";
}

std::string MethodsMarkdown() {
  std::string text =
      "# Methods and their options\n\n"
      "`oppa methods --markdown` writes this page. `experiment.methods` of a "
      "manifest names methods, and\n`[method.NAME]` sets their options "
      "([manifest_format.md](manifest_format.md)).\n";
  for (const MethodEntry& method : Methods()) {
    text += fmt::format("\n## {}\n\n{} ({}).\n", method.name, method.label,
                        method.description);
    if (!method.variant_of.empty()) {
      text += fmt::format("\nOptions of `{}`, with {}.\n", method.variant_of,
                          Differences(method, *FindMethod(method.variant_of)));
    } else if (!method.options.empty()) {
      text +=
          "\n| key | default | range | meaning | paper |\n"
          "| --- | --- | --- | --- | --- |\n";
      for (const methods::OptionText& option : method.options) {
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", option.key,
                            option.value, option.range, option.meaning,
                            option.reference);
      }
    }
  }
  return text;
}

}  // namespace harness
