#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/page.h"
#include "common/text.h"

namespace cli {
namespace {

using common::InputError;

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

void Set(const Option& option, const Words& values) {
  if (values.size() > 1 && !option.repeated) {
    throw InputError(fmt::format("{} is given twice", option.name));
  }
  for (const std::string& value : values) {
    try {
      option.set(value);
    } catch (const InputError& e) {
      throw InputError(fmt::format("{} {}: {}", option.name, value, e.what()));
    }
  }
}

// The words that no option consumed: an unknown option explains the others.
void RejectExtras(const Verb& verb, Words extras) {
  std::erase(extras, "--");  // CLI11 keeps it
  if (extras.empty()) {
    return;
  }
  const char* remedy = verb.command != nullptr && verb.command->empty()
                           ? "; your command line comes after --"
                           : "";
  const auto unknown = std::ranges::find_if(extras, [](const auto& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (unknown == extras.end()) {
    throw InputError(fmt::format("{}: unexpected argument '{}'{}", verb.name,
                                 extras.front(), remedy));
  }
  const std::string name = unknown->substr(0, unknown->find('='));
  const Words known = common::NamesIn(verb.options, &Option::name);
  const std::string near = common::DidYouMean(name, known);
  throw InputError(
      fmt::format("{}: unknown option '{}'{}; `oppa help {}` lists the options",
                  verb.name, name, near.empty() ? remedy : near, verb.name));
}

// Passes the words after the verb to its options. False: help was requested.
// Errors: throws InputError that names the invalid word.
bool Parse(const Verb& verb, const Words& all) {
  auto end = all.end();
  if (verb.command != nullptr) {
    end = std::ranges::find(all, "--");
    verb.command->assign(end == all.end() ? end : end + 1, all.end());
  }
  const Words words(all.begin(), end);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false;
  app.add_flag("-h,--help", help);
  std::vector<std::pair<const Option*, CLI::Option*>> added;
  for (const Option& option : verb.options) {
    if (option.IsFlag()) {
      app.add_flag_callback(option.name, [&option] { option.set(""); });
      continue;
    }
    CLI::Option* one = app.add_option(option.name, CLI::callback_t());
    one->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (option.IsArgument() && option.repeated) {
      one->expected(-1);
    }
    added.emplace_back(&option, one);
  }
  try {
    app.parse(Words(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& e) {
    RejectExtras(verb, app.remaining());
    const std::string reason = e.what();
    throw InputError(
        fmt::format("{}: {}", verb.name,
                    e.get_name() == "ArgumentMismatch"
                        ? reason.substr(0, reason.find(':')) + " needs a value"
                        : reason));
  }
  if (help) {
    return false;
  }
  RejectExtras(verb, app.remaining());
  for (const auto& [option, parsed] : added) {
    Set(*option, parsed->results());
    if (option->name == "--results") {
      common::GuardFolder(parsed->count() == 0 ? "results"
                                               : parsed->results().back());
    }
    if (option->required && parsed->count() == 0) {
      throw InputError(
          fmt::format("{}: {} is missing; `oppa help {}` explains "
                      "the command",
                      verb.name, option->name, verb.name));
    }
  }
  return true;
}

}  // namespace

Verbs AllVerbs() {
  Verbs all;
  for (const auto group :
       {PlanVerbs, TuneVerbs, ServeVerbs, MatrixVerbs, RunVerbs, RecordVerbs,
        PageVerbs, SlurmVerbs, ProblemVerbs, StudyVerbs, ClaimVerbs,
        AdapterVerbs, ProgramVerbs}) {
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
    throw InputError(
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
