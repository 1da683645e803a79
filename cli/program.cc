// methods, completion, man, version.

#include <memory>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "common/error.h"
#include "harness/method_text.h"
#include "harness/provenance.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

Verb MethodsVerb() {
  struct Arguments {
    std::string name;
    bool json = false;
    bool markdown = false;
  };
  const auto all = std::make_shared<Arguments>();
  return {.group = kReference,
          .name = "methods",
          .summary = "list the search methods, or the options of one",
          .options = {Text("NAME", "", "list the options of it", all->name),
                      Flag("--json", "print JSON", all->json),
                      Flag("--markdown",
                           "print the page docs/methods.md",
                           all->markdown)},
          .examples = {"oppa methods oppa"},
          .run = [all](const Words&) {
            fmt::print("{}",
                       all->markdown ? harness::MethodsMarkdown()
                       : all->json   ? harness::MethodsJson(all->name)
                                     : harness::MethodsText(all->name));
            return 0;
          }};
}

Verb CompletionVerb() {
  const auto shell = std::make_shared<std::string>();
  return {.group = kReference,
          .name = "completion",
          .summary = "print a completion script for bash or zsh",
          .options = {Required(
              Choice("SHELL",
                     "",
                     "bash or zsh",
                     {"bash", "zsh"},
                     [shell](const std::string& text) { *shell = text; }))},
          .examples = {"source <(oppa completion bash)"},
          .run = [shell](const Words&) {
            fmt::print("{}",
                       *shell == "bash" ? BashCompletion(AllVerbs())
                                        : ZshCompletion(AllVerbs()));
            return 0;
          }};
}

Verb ManVerb() {
  const auto markdown = std::make_shared<bool>(false);
  return {.group = kReference,
          .name = "man",
          .summary = "print the man page",
          .options = {Flag("--markdown", "as Markdown", *markdown)},
          .examples = {"oppa man | man -l -"},
          .run = [markdown](const Words&) {
            fmt::print(
                "{}",
                *markdown ? ReferencePage(AllVerbs()) : ManPage(AllVerbs()));
            return 0;
          }};
}

Verb VersionVerb() {
  return {.group = kReference,
          .name = "version",
          .summary = "print version, commit, compiler and data folder",
          .run = [](const Words&) {
            const harness::Commit& commit = harness::BuildCommit();
            fmt::print("{} (commit {}{})\n{}\n",
                       harness::ProgramVersion(),
                       commit.hash,
                       commit.dirty ? ", modified" : "",
                       harness::BuildTools());
            try {
              fmt::print("data: {}\n", trials::ExperimentsFolder().string());
            } catch (const common::InputError& e) {
              fmt::print("data: {}\n", e.what());
            }
            return 0;
          }};
}

}  // namespace

Verbs ProgramVerbs() {
  return {MethodsVerb(), CompletionVerb(), ManVerb(), VersionVerb()};
}

}  // namespace cli
