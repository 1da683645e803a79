#include "methods/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace methods {
namespace {

std::string RangeOf(const Integer& option) {
  return fmt::format("integer >= {}", option.least);
}
std::string RangeOf(const Number& option) {
  return option.most < std::numeric_limits<double>::max()
             ? fmt::format("number from {} to {}", option.least, option.most)
             : fmt::format("number >= {}", option.least);
}
std::string RangeOf(const Boolean& /*option*/) { return "true or false"; }
std::string RangeOf(const Choice& option) {
  const auto last = option.names.end() - 1;
  return fmt::format("\"{}\" or \"{}\"",
                     fmt::join(option.names.begin(), last, "\", \""),
                     *last);
}

std::string ValueOf(const Integer& option) {
  return std::to_string(*option.value);
}
std::string ValueOf(const Number& option) {
  return fmt::format("{}", *option.value);
}
std::string ValueOf(const Boolean& option) {
  return *option.value ? "true" : "false";
}
std::string ValueOf(const Choice& option) {
  return fmt::format("\"{}\"", option.names[option.chosen]);
}

void Read(const common::TomlTable& table,
          const std::string& key,
          const Integer& option) {
  *option.value = table.GetIntIn(key, *option.value, option.least);
}
void Read(const common::TomlTable& table,
          const std::string& key,
          const Number& option) {
  const double value = table.GetDouble(key, *option.value);
  if (!(value >= option.least && value <= option.most)) {
    table.Fail(key,
               fmt::format("{} = {}: must be a {}",
                           key,
                           common::ExactText(value),
                           RangeOf(option)));
  }
  *option.value = value;
}
void Read(const common::TomlTable& table,
          const std::string& key,
          const Boolean& option) {
  *option.value = table.GetBool(key, *option.value);
}
void Read(const common::TomlTable& table,
          const std::string& key,
          const Choice& option) {
  const std::string name = table.GetString(key, option.names[option.chosen]);
  const auto found = std::find(option.names.begin(), option.names.end(), name);
  if (found == option.names.end()) {
    table.Fail(key,
               fmt::format("invalid value '{}' for {}{}: must be {}",
                           name,
                           key,
                           common::DidYouMean(name, option.names),
                           RangeOf(option)));
  }
  option.choose(static_cast<std::size_t>(found - option.names.begin()));
}

}  // namespace

void ReadOptions(const common::TomlTable& table,
                 const Problem& problem,
                 const std::vector<Option>& options) {
  const std::vector<std::string> keys = table.Keys();
  const auto given = [&keys](const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const Option& option : options) {
    if (given(option.former_key)) {
      table.Fail(option.former_key,
                 fmt::format("unknown key '{}' (did you mean its new name "
                             "'{}'?)",
                             option.former_key,
                             option.key));
    }
    std::visit([&](const auto& value) { Read(table, option.key, value); },
               option.value);
    const std::string error =
        option.check && given(option.key) ? option.check(problem) : "";
    if (!error.empty()) {
      table.Fail(option.key, error);
    }
  }
}

std::vector<OptionText> Describe(const std::vector<Option>& options) {
  std::vector<OptionText> texts;
  for (const Option& option : options) {
    std::visit(
        [&](const auto& value) {
          texts.push_back({option.key,
                           ValueOf(value),
                           RangeOf(value),
                           option.meaning,
                           option.reference});
        },
        option.value);
  }
  return texts;
}

}  // namespace methods
