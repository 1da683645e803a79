// Completion for shells: the program itself says what may follow.

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.h"

namespace cli {
namespace {

// The script runs this program on each request: `oppa complete -- WORDS`.
constexpr const char* kBash =
    R"(# Completion of oppa for bash, printed by `oppa completion bash`.
_oppa() {
  local current=${COMP_WORDS[COMP_CWORD]} words
  words=$("${COMP_WORDS[0]/#\~/$HOME}" complete -- \
    "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -d: -f1)
  # Without words, bash completes the names of files.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _oppa oppa
)";

constexpr const char* kZsh = R"(#compdef oppa
# Completion of oppa for zsh, printed by `oppa completion zsh`.
_oppa() {
  local -a found=("${(@f)$(${(Q)~words[1]} complete -- \
    "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found[1] ]]; then
    _describe value found
  else
    _files
  fi
}
if [ "$funcstack[1]" = _oppa ]; then
  _oppa "$@"
else
  compdef _oppa oppa
fi
)";

// A line for a word, with its meaning in a form that zsh's _describe reads.
std::string Line(const std::string& word, const std::string& meaning) {
  return fmt::format("{}:{}\n", word, meaning);
}

}  // namespace

std::string CompletionScript(const std::string& shell) {
  return shell == "bash" ? kBash : kZsh;
}

std::string Completions(const Verbs& verbs, const Words& words) {
  std::string lines;
  if (words.size() < 2) {
    for (const Verb& verb : verbs) {
      lines += Line(verb.name, verb.summary);
    }
    return lines + Line("--help", "print help") +
           Line("--version", "print the version");
  }
  const auto verb = std::ranges::find(verbs, words.front(), &Verb::name);
  if (verb == verbs.end()) {
    return "";
  }
  const bool asks_for_option = words.back().starts_with('-');
  for (const Option& option : verb->options) {
    if (option.name == words[words.size() - 2] && !option.IsFlag()) {
      lines.clear();  // its value
      for (const std::string& choice : option.choices) {
        lines += Line(choice, option.help);
      }
      return lines;
    }
    if (asks_for_option && !option.IsArgument()) {
      lines += Line(option.name, option.help);
    } else if (!asks_for_option && option.IsArgument()) {
      for (const std::string& choice : option.choices) {
        lines += Line(choice, option.help);
      }
    }
  }
  return lines + (asks_for_option ? Line("--help", "print help") : "");
}

}  // namespace cli
