// Flags in the words of a command line.
//
// A flag is named as the program takes it:
//
//   --flag    "--flag value" or "--flag=value"
//   --flag=   "--flag=value" only, "--flag" for "--flag=true" (absl, nanoGPT)
//   a.flag    "a.flag=value", also after "+" or "++" (Hydra)
//   flag:     "flag:value", a subcommand (tyro), which ends the flags before it
//
// "--noflag", "--no-flag" and "--a.no-flag" are the value "false" of a flag
// with dashes.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trials {

// The value of a flag; "" for one without a value, nothing if the words lack
// the flag or turn one without a value off. Names may be written with '-' or
// '_'. The last one counts.
[[nodiscard]] std::optional<std::string> FlagValue(
    const std::vector<std::string>& words, std::string_view flag,
    bool has_value);

// Sets the flag where it is, or adds it at the end, as "--flag=value" where the
// options of the program are written so. `value` is ignored for a flag without
// a value.
void SetFlagWord(std::vector<std::string>& words, std::string_view flag,
                 bool has_value, const std::string& value);

// Removes the flag and its value wherever they are; not "--noflag".
void RemoveFlag(std::vector<std::string>& words, std::string_view flag,
                bool has_value);

// The same of an option of which nobody knows whether it takes a value: "true"
// where none follows. RemoveOption removes "--no-option", too.
[[nodiscard]] std::optional<std::string> OptionValue(
    const std::vector<std::string>& words, std::string_view option);
void RemoveOption(std::vector<std::string>& words, std::string_view option);

// The names of the options as they are written, "--flag" and Hydra's "a.flag",
// each once.
[[nodiscard]] std::vector<std::string> OptionNames(
    const std::vector<std::string>& words);
// Whether two names are the same but for '-' and '_'.
[[nodiscard]] bool SameName(std::string_view a, std::string_view b);

// A value as a number; whether two values are the same number, or the same text
// in any case.
[[nodiscard]] std::optional<double> AsNumber(const std::string& value);
[[nodiscard]] bool SameText(const std::string& a, const std::string& b);

// Removes a subcommand ("flag:") and all words behind it, and returns them;
// none if the words lack it.
[[nodiscard]] std::vector<std::string> TakeSubcommand(
    std::vector<std::string>& words, std::string_view subcommand);

}  // namespace trials
