#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "common/text.h"

namespace cli {
namespace {

Verb HelpVerb(const Verbs& others) {
  const auto name = std::make_shared<std::string>();
  Option command = Text("COMMAND", "", "the command to explain", *name);
  for (const Verb& verb : others) {
    if (!verb.group.empty()) {
      command.choices.push_back(verb.name);
    }
  }
  return {.group = kReference,
          .name = "help",
          .summary = "explain a command",
          .options = {command},
          .run = [name](const Words&) {
            const Verbs verbs = AllVerbs();
            fmt::print("{}",
                       name->empty() ? HelpText(verbs)
                                     : HelpText(FindVerb(verbs, *name)));
            return 0;
          }};
}

}  // namespace

Verbs AllVerbs() {
  Verbs all;
  for (const auto group : {PlanVerbs,
                           ExperimentVerbs,
                           SlurmVerbs,
                           ProblemVerbs,
                           StudyVerbs,
                           ProgramVerbs}) {
    std::ranges::move(group(), std::back_inserter(all));
  }
  all.push_back(HelpVerb(all));
  return all;
}

const Verb& FindVerb(const Verbs& verbs, const std::string& name) {
  Words known;
  for (const Verb& verb : verbs) {
    if (verb.name == name) {
      return verb;
    }
    if (!verb.group.empty()) {
      known.push_back(verb.name);
    }
  }
  throw common::InputError(
      fmt::format("unknown {} '{}'{}; `oppa help` lists the commands",
                  name.starts_with('-') ? "option" : "command",
                  name,
                  common::DidYouMean(name, known)));
}

int Execute(const Words& words) {
  const Verbs verbs = AllVerbs();
  if (words.size() < 2) {
    fmt::print(stderr, "{}", HelpText(verbs));
    return 2;
  }
  std::string name = words[1];
  if (name == "-h" || name == "--help") {
    name = "help";
  } else if (name == "-V" || name == "--version") {
    name = "version";
  }
  const Verb& verb = FindVerb(verbs, name);
  if (!Parse(verb, Words(words.begin() + 2, words.end()))) {
    fmt::print("{}", HelpText(verb));
    return 0;
  }
  return verb.run(words);
}

}  // namespace cli
