// Keys, tokens and passwords in command lines, which records do not show.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace common {

// What stands in records in place of a secret.
inline constexpr std::string_view kHidden = "***";

// The words of a command line, with kHidden for what looks like a secret: the
// value of an option or variable that is named like one (--api-key X,
// HF_TOKEN=X, ?token=X), passwords in URLs, Authorization headers, and words in
// the format of known services. `--tokenizer X` and `--max-tokens 4096` stay.
[[nodiscard]] std::vector<std::string> WithoutSecrets(
    std::vector<std::string> words);

// The same for a text that is, or quotes, a line of a shell.
[[nodiscard]] std::string WithoutSecrets(std::string_view text);

}  // namespace common
