// The vocabulary of the command line: each verb is data that its group returns.
// Parser, help, man page, reference page and completion derive from it.

#pragma once

#include <climits>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/text.h"

namespace cli {

using Words = std::vector<std::string>;

// An option ("--jobs N"), a flag ("--json") or an argument ("FILE") of a verb.
struct Option {
  std::string name;
  std::string value;  // of an option, in the help: "N"
  std::string help;
  // Receives each value; a flag receives "". Errors: throws InputError with the
  // rule that the value breaks.
  std::function<void(const std::string&)> set;
  bool required = false;
  bool repeated = false;  // may be given several times
  Words choices;          // for completion; empty: anything

  [[nodiscard]] bool IsArgument() const { return !name.starts_with('-'); }
  [[nodiscard]] bool IsFlag() const { return !IsArgument() && value.empty(); }
};
using Options = std::vector<Option>;

// `term` is a name with the value of an option: "--jobs N".
[[nodiscard]] Option MakeOption(std::string_view term, std::string help,
                                std::function<void(const std::string&)> set);

struct Range {
  int low = 1;
  int high = INT_MAX;
};
// Reads a value of an option. Lists are separated by commas.
// Errors: throw InputError with the rule that the text breaks.
void Read(const std::string& text, Range range, int& target);
// > 0; a range that begins at 0 also allows 0.
void Read(const std::string& text, Range range, double& target);
inline void Read(const std::string& /*text*/, Range /*range*/, bool& target) {
  target = true;
}
template <typename T>
requires std::is_assignable_v<T&, const std::string&>
void Read(const std::string& text, Range /*range*/, T& target) {
  target = text;
}
template <typename T>
void Read(const std::string& text, Range range, std::optional<T>& target) {
  Read(text, range, target.emplace());
}
template <typename T>
void Read(const std::string& text, Range range, std::vector<T>& target) {
  for (const std::string_view part : common::Split(text, ',')) {
    Read(std::string(part), range, target.emplace_back());
  }
}

// An option that is read into `target`, which must outlive it. The help names
// the default of a number, unless it is 0.
template <typename T>
[[nodiscard]] Option Bind(std::string_view term, std::string help, T& target,
                          Range range = {}) {
  if constexpr (std::is_same_v<T, int>) {
    help += target == 0 ? "" : " (default: " + std::to_string(target) + ")";
  }
  Option option = MakeOption(
      term, std::move(help),
      [&target, range](const std::string& text) { Read(text, range, target); });
  option.repeated = requires { target.push_back({}); }
  &&!std::is_same_v<T, std::string>;
  return option;
}

// An option whose values, which may have commas, are added to `target`.
template <typename T>
[[nodiscard]] Option BindEach(std::string_view term, std::string help,
                              std::vector<T>& target) {
  Option option = MakeOption(
      term, std::move(help),
      [&target](const std::string& text) { target.emplace_back(text); });
  option.repeated = true;
  return option;
}

// One of `choices`.
[[nodiscard]] Option Choice(std::string_view term, std::string help,
                            const Words& choices,
                            std::function<void(const std::string&)> set);

[[nodiscard]] Option Required(Option option);

// Both, in this order.
[[nodiscard]] Options operator+(Options a, Options b);

struct Verb {
  std::string group;  // heading in help; empty: hidden
  std::string name;
  std::string summary;      // a line without a period
  std::string description;  // further sentences
  Options options;          // arguments first
  Words examples;           // command lines
  // Receives the words after "--", a command line; nullptr: there is none.
  std::shared_ptr<Words> command = nullptr;
  // Returns the exit code: 0, or 1 when something that was requested did not
  // succeed. `words` is the whole command line. Bad input is thrown.
  std::function<int(const Words& words)> run;
};
using Verbs = std::vector<Verb>;

inline constexpr const char* kJobs = "Your training job";
inline constexpr const char* kExperiments = "Experiments";
inline constexpr const char* kProblems = "Problems";
inline constexpr const char* kStudies = "Studies";
inline constexpr const char* kReference = "Reference";

}  // namespace cli
