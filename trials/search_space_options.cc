#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/search_space.h"

namespace trials {
namespace {

// Fields that stand at their default in an enumerated space, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kFixed =
    {{{"micro_batch_size",
       "it follows from batch_size / (dp * microbatches); restrict "
       "microbatches, or give a rule such as \"$micro_batch_size > 8\""}}};

std::filesystem::path RuleSetPath(const common::TomlTable& table,
                                  const std::string& name,
                                  const std::filesystem::path& rules_folder) {
  const bool is_path = name.find('/') != std::string::npos ||
                       std::filesystem::path(name).extension() == ".rules";
  const std::filesystem::path path =
      is_path ? table.Folder() / name : rules_folder / (name + ".rules");
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    return path;
  }
  std::vector<std::string> known;
  for (const auto& entry :
       std::filesystem::directory_iterator(rules_folder, error)) {
    if (entry.path().extension() == ".rules") {
      known.push_back(entry.path().stem().string());
    }
  }
  std::sort(known.begin(), known.end());
  table.Fail(
      "rule_sets",
      fmt::format(
          "unknown rule set '{}'{}: there is no {}; known: {}",
          name,
          common::DidYouMean(name, known),
          path.string(),
          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

// The values that a manifest lists for one field, ascending, each once.
std::vector<int> ReadGrid(const common::TomlTable& table,
                          const std::string& key,
                          const ConfigField& field) {
  std::set<int> values;
  for (const std::int64_t value : table.GetInts(key)) {
    try {
      ParallelConfig config;
      SetField(config, field, value);
      values.insert(field.get(config));
    } catch (const std::invalid_argument& e) {
      table.Fail(key, e.what());
    }
  }
  if (values.empty()) {
    table.Fail(key,
               fmt::format("{} is an empty list; leave the key out for the "
                           "default values",
                           key));
  }
  return {values.begin(), values.end()};
}

}  // namespace

std::string GridProblem(std::string_view name, const std::vector<int>& values) {
  const auto* const fixed =
      std::find_if(kFixed.begin(), kFixed.end(), [&](const auto& each) {
        return each.first == name;
      });
  if (fixed == kFixed.end()) {
    return "";
  }
  const int otherwise = FindConfigField(name)->get(ParallelConfig{});
  if (values == std::vector<int>{otherwise}) {
    return "";
  }
  return fmt::format("{} can only be [{}] here, not [{}]: {}",
                     name,
                     otherwise,
                     fmt::join(values, ", "),
                     fixed->second);
}

SearchSpaceOptions ReadSearchSpaceOptions(
    const common::TomlTable& table, const std::filesystem::path& rules_folder) {
  SearchSpaceOptions options;
  options.where = table.Where();
  for (const std::string& name : table.GetStrings("rule_sets")) {
    const auto rules = ReadRuleSet(RuleSetPath(table, name, rules_folder));
    options.rules.insert(options.rules.end(), rules.begin(), rules.end());
  }
  for (const std::string& rule : table.GetStrings("rules")) {
    options.rules.push_back(
        Rule::Parse(rule, "manifest", table.Where("rules")));
  }
  for (const std::string& key : table.Keys()) {
    if (key == "rule_sets" || key == "rules") {
      continue;
    }
    const ConfigField* field = FindConfigField(key);
    if (field == nullptr) {
      table.Fail(key, UnknownField(key) + "; and rules, rule_sets");
    }
    const std::vector<int> values = ReadGrid(table, key, *field);
    if (const std::string problem = GridProblem(field->name, values);
        !problem.empty()) {
      table.Fail(key, problem);
    }
    if (!options.values.emplace(field->name, values).second) {
      table.Fail(key, fmt::format("{} is given twice", field->name));
    }
  }
  return options;
}

}  // namespace trials
