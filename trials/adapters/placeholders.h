// Placeholders such as {tp} and {max_steps} in the words of a command line.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace trials {

// The word with its placeholders replaced: "--tp={tp}" -> "--tp=4". Braces
// around anything but a name are kept, and "{{name}}" becomes "{name}".
// Errors: throws std::invalid_argument for an unknown name.
[[nodiscard]] std::string Expand(
    std::string_view word, const std::map<std::string, std::string>& values);

// The word that Expand makes this text of.
[[nodiscard]] std::string Literal(std::string_view text);

}  // namespace trials
