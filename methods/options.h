// The options of a method, one row each. The parser of [method.NAME] in a
// manifest, its errors, `oppa methods NAME` and docs/methods.md derive from the
// rows.

#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/toml_table.h"
#include "methods/method.h"

namespace methods {

// The variable that stores an option (initially its default), and the valid
// values.
struct Integer {
  int* value;
  int least;
};
struct Number {
  double* value;
  double least;
  double most = std::numeric_limits<double>::max();
};
struct Boolean {
  bool* value;
};
// A name that is defined elsewhere, such as a table of the manifest.
struct Text {
  std::string* value;
  std::string range;  // for display: "the name of a table [predictions.NAME]"
};
// A CSV file that the method reads.
struct CsvFile {
  std::string* path;  // "": none
};
// One of several names.
struct Choice {
  std::vector<std::string> names;
  std::size_t chosen = 0;
  std::function<void(std::size_t)> choose;
};
template <typename T>
Choice ChoiceOf(T& value,
                std::initializer_list<std::pair<std::string_view, T>> values) {
  Choice choice;
  std::vector<T> all;
  for (const auto& [name, each] : values) {
    if (each == value) {
      choice.chosen = all.size();
    }
    choice.names.emplace_back(name);
    all.push_back(each);
  }
  choice.choose = [&value, all](std::size_t i) { value = all[i]; };
  return choice;
}

struct Option {
  std::string key;  // in [method.NAME]
  std::variant<Integer, Number, Boolean, Text, CsvFile, Choice> value;
  std::string meaning;    // one sentence
  std::string reference;  // to the paper, "": none
  // The reason why a given value is invalid; "" if it is valid.
  std::function<std::string(const Problem&)> check = nullptr;
};

// The option that names the source of a method's predictions: "" is the table
// [predictions] of the manifest.
[[nodiscard]] Option PredictionsOption(std::string& source);

// How throughput is estimated from the steps of a trial.
[[nodiscard]] std::vector<Option> OptionsOf(trials::ThroughputOptions& options);

// A struct of options has a function next to it that lists its rows,
//
//   std::vector<Option> OptionsOf(MyOptions& options);
//
// and, if the method starts from predictions, one that returns their source
// (see Problem::predict), or nothing where other options turn them off:
//
//   std::optional<std::string> PredictionsOf(const MyOptions& options);
//
// Reads the options that the table contains; the others keep their values.
// Errors: throws InputError with the place for a value outside its range.
// Unknown keys are found by TomlTable::RejectUnknownKeys.
void ReadOptions(const common::TomlTable& table, const Problem& problem,
                 const std::vector<Option>& options);
template <typename T>
[[nodiscard]] T ReadOptions(const common::TomlTable& table,
                            const Problem& problem, T options = {}) {
  ReadOptions(table, problem, OptionsOf(options));
  return options;
}

// The files that the options name.
[[nodiscard]] std::vector<std::filesystem::path> FilesOf(
    const std::vector<Option>& options);

// An option as text, for display.
struct OptionText {
  std::string key;
  std::string value;  // the default, in TOML
  std::string range;  // "an integer >= 1"
  std::string meaning;
  std::string reference;
};
[[nodiscard]] std::vector<OptionText> Describe(
    const std::vector<Option>& options);

}  // namespace methods
