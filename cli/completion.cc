// Completion for shells, from the definitions of the verbs.

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cli/command_line.h"

namespace cli {
namespace {

// Text inside single quotes of a shell, with characters that zsh's _arguments
// and _describe interpret.
std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else if (c == ':' || c == '[' || c == ']') {
      quoted += fmt::format("\\{}", c);
    } else {
      quoted += c;
    }
  }
  return quoted;
}

// The completions that zsh offers for a value.
std::string ZshValues(const Option& option) {
  if (!option.choices.empty()) {
    return fmt::format("({})", fmt::join(option.choices, " "));
  }
  const std::string& value = option.IsArgument() ? option.name : option.value;
  return value == "FILE" || value == "FOLDER" || value == "RUN" ? "_files"
                                                                : " ";
}

}  // namespace

std::string BashCompletion(const Verbs& verbs) {
  Words names;
  std::string cases;
  for (const Verb& verb : verbs) {
    names.push_back(verb.name);
    Words options;
    Words arguments;
    for (const Option& option : verb.options) {
      if (option.IsArgument()) {
        arguments.insert(arguments.end(), option.choices.begin(),
                         option.choices.end());
        continue;
      }
      options.push_back(option.name);
      if (!option.IsFlag()) {
        cases += fmt::format("    '{} {} '*) words='{}' ;;\n", verb.name,
                             option.name, fmt::join(option.choices, " "));
      }
    }
    options.emplace_back("--help");
    cases += fmt::format("    '{} '*' -'*) words='{}' ;;\n", verb.name,
                         fmt::join(options, " "));
    if (!arguments.empty()) {
      cases += fmt::format("    '{} '*) words='{}' ;;\n", verb.name,
                           fmt::join(arguments, " "));
    }
  }
  return fmt::format(
      R"(# Completion of oppa for bash, printed by `oppa completion bash`.
_oppa() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=
  # The command, the word before the cursor and the word at it.
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD - 1]}} $current" in
{}  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words='{} --help --version'; fi
  # Without words, bash completes the names of files.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _oppa oppa
)",
      cases, fmt::join(names, " "));
}

std::string ZshCompletion(const Verbs& verbs) {
  std::string commands;
  std::string cases;
  for (const Verb& verb : verbs) {
    commands += fmt::format("    '{}:{}'\n", verb.name, Quoted(verb.summary));
    cases += fmt::format("    {})\n      _arguments", verb.name);
    for (const Option& option : verb.options) {
      const std::string values = ZshValues(option);
      if (option.IsArgument()) {
        cases += fmt::format(" \\\n        '{}:{}:{}'",
                             option.repeated   ? "*"
                             : option.required ? ""
                                               : ":",
                             option.name, values);
      } else {
        cases += fmt::format(
            " \\\n        '{}{}[{}]{}'", option.repeated ? "*" : "",
            option.name, Quoted(option.help),
            option.IsFlag() ? "" : ":" + Quoted(option.value) + ":" + values);
      }
    }
    cases += " \\\n        '--help[print help]' ;;\n";
  }
  return fmt::format(R"(#compdef oppa
# Completion of oppa for zsh, printed by `oppa completion zsh`.
_oppa() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _oppa ]; then
  _oppa "$@"
else
  compdef _oppa oppa
fi
)",
                     commands, cases);
}

}  // namespace cli
