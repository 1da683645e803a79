// The vocabulary of the command line: each verb is data that its group returns.
// Parser, help, man page, reference page and completion derive from it.

#ifndef CLI_VERB_H_
#define CLI_VERB_H_

#include <climits>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.h"

namespace cli {

using Words = std::vector<std::string>;

// An option ("--jobs") or an argument ("FILE") of a verb.
struct Option {
  std::string name;
  std::string value;  // of an option, for people: "N"; empty: a flag
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

// Options that write to `target`, which outlives them. Help names a default
// other than 0 and "".
[[nodiscard]] Option Flag(std::string name, std::string help, bool& target);
[[nodiscard]] Option Text(std::string name,
                          std::string value,
                          std::string help,
                          std::string& target);
[[nodiscard]] Option Path(std::string name,
                          std::string value,
                          std::string help,
                          std::filesystem::path& target);
[[nodiscard]] Option Integer(std::string name,
                             std::string value,
                             std::string help,
                             int& target,
                             int low = 1,
                             int high = INT_MAX);
// A number of seconds > 0.
[[nodiscard]] Option Seconds(std::string name,
                             std::string help,
                             double& target);
// One of `choices`.
[[nodiscard]] Option Choice(std::string name,
                            std::string value,
                            std::string help,
                            const Words& choices,
                            std::function<void(const std::string&)> set);
// Values separated by commas, or repeated.
[[nodiscard]] Option List(std::string name,
                          std::string value,
                          std::string help,
                          std::vector<std::string>& target);
[[nodiscard]] Option List(std::string name,
                          std::string value,
                          std::string help,
                          std::vector<int>& target);  // >= 1

// An integer in the range. Errors: throws InputError with the range.
[[nodiscard]] int ParseInteger(const std::string& text,
                               int low = 1,
                               int high = INT_MAX);

// A positional argument; as the last one, `repeated` takes all that follow.
[[nodiscard]] Option Required(Option option);
[[nodiscard]] Option Repeated(Option option);

// Both, in this order.
[[nodiscard]] Options operator+(Options a, Options b);

struct Verb {
  std::string group;  // heading in help; empty: not for people
  std::string name;
  std::string summary;      // a line without a period
  std::string description;  // further sentences
  Options options;          // arguments first
  Words examples;           // command lines
  // Returns the exit code: 0, or 1 when something that was requested did not
  // succeed. `words` is the whole command line. Bad input is thrown.
  std::function<int(const Words& words)> run;
};
using Verbs = std::vector<Verb>;

inline constexpr const char* kExperiments = "Experiments";
inline constexpr const char* kProblems = "Problems";
inline constexpr const char* kStudies = "Studies";
inline constexpr const char* kReference = "Reference";

}  // namespace cli

#endif  // CLI_VERB_H_
