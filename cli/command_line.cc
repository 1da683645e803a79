#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "cli/page.h"
#include "common/text.h"

namespace cli {
namespace {

Words PublicNames(const Verbs& verbs) {
  Words names;
  for (const Verb& verb : verbs) {
    if (!verb.group.empty()) {
      names.push_back(verb.name);
    }
  }
  return names;
}

Verb DefineHelp(const Verbs& others) {
  const auto name = std::make_shared<std::string>();
  Option command = Bind("COMMAND", "the command to explain", *name);
  command.choices = PublicNames(others);
  return {.group = kReference,
          .name = "help",
          .summary = "explain a command",
          .options = {command},
          .run = [name](const Words&) {
            fmt::print("{}", name->empty()
                                 ? HelpText(PublicVerbs())
                                 : HelpText(FindVerb(AllVerbs(), *name)));
            return 0;
          }};
}

}  // namespace

Verbs AllVerbs() {
  Verbs all;
  for (const auto group :
       {PlanVerbs, TuneVerbs, MatrixVerbs, RunVerbs, RecordVerbs, PageVerbs,
        SlurmVerbs, ProblemVerbs, StudyVerbs, AdapterVerbs, ProgramVerbs}) {
    std::ranges::move(group(), std::back_inserter(all));
  }
  all.push_back(DefineHelp(all));
  return all;
}

Verbs PublicVerbs() {
  Verbs verbs = AllVerbs();
  std::erase_if(verbs, [](const Verb& verb) { return verb.group.empty(); });
  return verbs;
}

const Verb& FindVerb(const Verbs& verbs, const std::string& name) {
  const auto found = std::ranges::find(verbs, name, &Verb::name);
  if (found == verbs.end()) {
    throw common::InputError(
        fmt::format("unknown {} '{}'{}; `oppa help` lists the commands",
                    name.starts_with('-') ? "option" : "command", name,
                    common::DidYouMean(name, PublicNames(verbs))));
  }
  return *found;
}

int Execute(const Words& words) {
  const Verbs verbs = AllVerbs();
  if (words.size() < 2) {
    fmt::print(stderr, "{}", HelpText(PublicVerbs()));
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
