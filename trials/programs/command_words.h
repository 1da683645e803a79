// Flags in the words of a command line.

#ifndef TRIALS_PROGRAMS_COMMAND_WORDS_H_
#define TRIALS_PROGRAMS_COMMAND_WORDS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trials {

// The value of a flag that is written "--flag value" or "--flag=value"; "" for
// a flag without a value, nothing if the words lack the flag. Names may be
// written with '-' or '_'. The last one counts.
[[nodiscard]] std::optional<std::string> FlagValue(
    const std::vector<std::string>& words, std::string_view flag,
    bool has_value);

// Sets the flag where it is, or adds it at the end. `value` is ignored for a
// flag without a value.
void SetFlagWord(std::vector<std::string>& words, std::string_view flag,
                 bool has_value, const std::string& value);

// Removes the flag and its value wherever they are.
void RemoveFlag(std::vector<std::string>& words, std::string_view flag,
                bool has_value);

}  // namespace trials

#endif  // TRIALS_PROGRAMS_COMMAND_WORDS_H_
