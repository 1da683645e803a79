#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/custom_knobs.h"
#include "trials/knobs.h"
#include "trials/search_space.h"

namespace trials {
namespace {

std::filesystem::path RuleSetPath(const common::TomlTable& table,
                                  const std::string& name,
                                  const std::filesystem::path& rules_folder) {
  const bool is_path = name.find('/') != std::string::npos ||
                       std::filesystem::path(name).extension() == ".rules";
  const std::filesystem::path path =
      is_path ? table.Folder() / name : rules_folder / (name + ".rules");
  if (common::IsFile(path)) {
    return path;
  }
  std::vector<std::string> known;
  for (const auto& file : common::ListFolder(rules_folder)) {
    if (file.extension() == ".rules") {
      known.push_back(file.stem().string());
    }
  }
  table.Fail(
      "rule_sets",
      fmt::format(
          "unknown rule set '{}'{}: there is no {}; known: {}", name,
          common::DidYouMean(name, known), path.string(),
          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

// The values that a manifest lists for one knob, ascending, each once.
std::vector<int> ReadGrid(const common::TomlTable& table,
                          const std::string& key, const Knob& knob) {
  std::set<int> values;
  for (const std::int64_t value : table.GetInts(key)) {
    ParallelConfig config;
    table.At(key, [&] { knob.SetChecked(config, value); });
    values.insert(knob.Get(config));
  }
  if (values.empty()) {
    table.Fail(key,
               fmt::format("{} is an empty list; leave the key out for the "
                           "default values",
                           key));
  }
  return {values.begin(), values.end()};
}

// The numbers of GPUs of a space, ascending, each once.
std::vector<int> ReadGpus(const common::TomlTable& table) {
  std::set<int> gpus;
  for (const std::int64_t count : table.GetInts("gpus")) {
    if (count < 1 || count > std::numeric_limits<int>::max()) {
      table.Fail("gpus", fmt::format("gpus has {}: must be at least 1", count));
    }
    gpus.insert(static_cast<int>(count));
  }
  if (table.Has("gpus") && gpus.empty()) {
    table.Fail("gpus",
               "gpus is an empty list; leave the key out for all GPUs of the "
               "cluster");
  }
  return {gpus.begin(), gpus.end()};
}

}  // namespace

SearchSpaceOptions ReadSearchSpaceOptions(
    const common::TomlTable& table, const std::filesystem::path& rules_folder,
    const KnobSet& knobs) {
  SearchSpaceOptions options;
  options.knobs = ReadCustomKnobs(table, knobs);
  options.where = table.Where();
  options.gpus = ReadGpus(table);
  for (const std::string& name : table.GetStrings("rule_sets")) {
    const auto rules =
        ReadRuleSet(RuleSetPath(table, name, rules_folder), options.knobs);
    options.rules.insert(options.rules.end(), rules.begin(), rules.end());
  }
  for (const std::string& rule : table.GetStrings("rules")) {
    options.rules.push_back(
        Rule::Parse(rule, "manifest", table.Where("rules"), options.knobs));
  }
  for (const std::string& key : table.Keys()) {
    if (key == "rule_sets" || key == "rules" || key == "custom" ||
        key == "gpus") {
      continue;
    }
    if (const Knob* const knob = options.knobs.FindFlag(key)) {
      table.Fail(key,
                 fmt::format("{0} is a flag of one configuration: list sizes, "
                             "such as {1} = [1, 2, 4, 8]",
                             key, knob->name));
    }
    try {
      const Knob& knob = options.knobs.Require(key);
      if (!knob.texts.empty()) {
        table.Fail(key,
                   fmt::format("{} is a knob of [space.custom], which lists "
                               "its values",
                               key));
      }
      const std::vector<int> values = ReadGrid(table, key, knob);
      if (const std::string problem = GridProblem(knob, values);
          !problem.empty()) {
        table.Fail(key, problem);
      }
      if (!options.values.emplace(knob.name, values).second) {
        table.Fail(key, fmt::format("{} is given twice", knob.name));
      }
    } catch (const common::InputError&) {
      throw;
    } catch (const std::invalid_argument& e) {
      table.Fail(
          key, std::string(e.what()) + "; and rules, rule_sets, gpus, custom");
    }
  }
  return options;
}

}  // namespace trials
