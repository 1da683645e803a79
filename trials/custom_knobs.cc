#include "trials/custom_knobs.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "trials/knobs.h"
#include "trials/record.h"

namespace trials {
namespace {

using common::TomlTable;

enum class Type { kString, kBoolean, kNumber };
constexpr std::array<std::string_view, 3> kTypeNames = {"strings", "booleans",
                                                        "numbers"};

// The type of a value that is written as this text in TOML.
Type TypeOf(std::string_view text) {
  if (text.starts_with('"') || text.starts_with('\'')) {
    return Type::kString;
  }
  return text == "true" || text == "false" ? Type::kBoolean : Type::kNumber;
}

// The texts of the list `key` of a table, and their type.
std::pair<std::vector<std::string>, Type> ReadTexts(const TomlTable& table,
                                                    const std::string& key,
                                                    const std::string& name) {
  std::vector<std::string> texts;
  for (const TomlTable::Leaf& leaf : table.Leaves()) {
    if (leaf.path == key) {
      texts = leaf.values;
    }
  }
  if (texts.empty()) {
    table.Fail(key,
               fmt::format("{} is an empty list: give its values, the present "
                           "one first",
                           name));
  }
  const Type type = TypeOf(texts.front());
  for (const std::string& text : texts) {
    if (TypeOf(text) != type) {
      table.Fail(
          key,
          fmt::format("{}: {} and {} are values of different types: write all "
                      "as {} or all as strings",
                      name, texts.front(), text,
                      kTypeNames.at(static_cast<std::size_t>(type))));
    }
  }
  return {type == Type::kString ? table.GetStrings(key) : texts, type};
}

void CheckTexts(const TomlTable& table, const std::string& key,
                const std::string& name,
                const std::vector<std::string>& texts) {
  for (auto text = texts.begin(); text != texts.end(); ++text) {
    if (std::find(texts.begin(), text, *text) != text) {
      table.Fail(key, fmt::format("{}: '{}' is listed twice", name, *text));
    }
    if (text->empty() || *text != AsCell(*text) ||
        text->find_first_of("=\"") != std::string::npos ||
        common::Trim(*text) != *text) {
      table.Fail(key,
                 fmt::format("invalid value '{}' for {}: records and `--pc` "
                             "cannot hold empty texts, commas, quotes, '=', "
                             "line breaks or outer spaces",
                             common::Printable(*text), name));
    }
  }
}

KnobScale ReadScale(const TomlTable& table, const std::string& name, Type type,
                    const std::vector<double>& numbers) {
  const std::string scale = table.GetString(
      "scale", type == Type::kNumber ? "linear" : "categorical");
  if (scale == "categorical") {
    return KnobScale::kCategory;
  }
  if (scale != "log" && scale != "linear") {
    const std::vector<std::string> known = {"log", "linear", "categorical"};
    table.Fail(
        "scale",
        fmt::format("unknown scale '{}' of {}{}; known: {}", scale, name,
                    common::DidYouMean(scale, known), fmt::join(known, ", ")));
  }
  if (type != Type::kNumber) {
    table.Fail("scale",
               fmt::format("{} has {} as values, which have no scale '{}': "
                           "use \"categorical\" or numbers",
                           name, kTypeNames.at(static_cast<std::size_t>(type)),
                           scale));
  }
  if (scale == "linear") {
    return KnobScale::kLinear;
  }
  if (*std::ranges::min_element(numbers) <= 0.0) {
    table.Fail("scale",
               fmt::format("{} has a value that is not above 0, which has no "
                           "logarithm: use scale = \"linear\"",
                           name));
  }
  return KnobScale::kLog2;
}

// The knob of one key: `table` has the list at `key`, and the scale, if any.
Knob ReadKnob(const TomlTable& table, const std::string& key,
              const std::string& name) {
  auto [texts, type] = ReadTexts(table, key, name);
  CheckTexts(table, key, name, texts);
  std::vector<double> numbers;
  if (type == Type::kNumber) {
    try {
      std::ranges::transform(texts, std::back_inserter(numbers),
                             common::ParseDouble);
    } catch (const std::invalid_argument& e) {
      table.Fail(key, fmt::format("{}: {}", name, e.what()));
    }
  }
  std::vector<int> indices = common::Indices(texts.size());
  Knob knob;
  knob.name = name;
  knob.label = name;
  knob.minimum = 0;
  knob.maximum = static_cast<int>(texts.size()) - 1;
  knob.grid = {fmt::format("{}", fmt::join(texts, ", ")),
               [indices](const Workload&, int) { return indices; }};
  knob.storage = Knob::Custom{};
  knob.required = true;
  // Without a table there is no key `scale`: a knob may have that name.
  knob.scale =
      ReadScale(key == "values" ? table : TomlTable(), name, type, numbers);
  knob.texts = std::move(texts);
  knob.numbers = std::move(numbers);
  return knob;
}

// Errors: throws InputError for a key other than `values` and `scale`, and
// without `values`.
void CheckKeys(const TomlTable& custom, const TomlTable& table,
               const std::string& name) {
  const std::vector<std::string> known = {"values", "scale"};
  for (const std::string& key : table.Keys()) {
    if (!common::Contains(known, key)) {
      table.Fail(key, fmt::format("unknown key '{}' of {}{}; known: {}", key,
                                  name, common::DidYouMean(key, known),
                                  fmt::join(known, ", ")));
    }
  }
  if (!table.Has("values")) {
    custom.Fail(
        name,
        fmt::format("{} needs values = [...], the present one first", name));
  }
}

// Records have other columns of these names.
bool IsRecordColumn(std::string_view name) {
  const std::string header = TrialsHeader({.custom = {}, .suggestion = true});
  const auto columns = common::Split(
      common::Trim(std::string_view(header).substr(header.find('\n'))), ',');
  return common::Contains(columns, name);
}

}  // namespace

KnobSet ReadCustomKnobs(const TomlTable& space, const KnobSet& base) {
  KnobSet knobs = base;
  if (!space.Has("custom")) {
    return knobs;
  }
  const TomlTable custom = space.RequireTable("custom");
  for (const std::string& name : custom.Keys()) {
    const bool is_table = custom.IsTable(name);
    const TomlTable table = is_table ? custom.GetTable(name) : custom;
    if (is_table) {
      CheckKeys(custom, table, name);
    }
    if (IsRecordColumn(name) && knobs.Find(name) == nullptr) {
      custom.Fail(name,
                  fmt::format("knob '{}': records have a column of this name: "
                              "choose another",
                              name));
    }
    Knob knob = ReadKnob(table, is_table ? "values" : name, name);
    knobs = custom.At(name, [&] { return knobs.With(std::move(knob)); });
  }
  return knobs;
}

}  // namespace trials
