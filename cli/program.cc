// methods, completion, man, version.

#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "common/error.h"
#include "harness/manifest/method_text.h"
#include "harness/provenance.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

int Print(const std::string& text) {
  fmt::print("{}", text);
  return 0;
}

Verb DefineMethods() {
  struct Own {
    std::string name;
    bool json = false;
    bool markdown = false;
  };
  const auto own = std::make_shared<Own>();
  return {
      .group = kReference,
      .name = "methods",
      .summary = "list the search methods, or the options of one",
      .options = {Bind("NAME", "list the options of this method", own->name),
                  Bind("--json", "print JSON", own->json),
                  Bind("--markdown",
                       "print all methods with their options as a page",
                       own->markdown)},
      .examples = {"oppa methods oppa"},
      .run = [own](const Words&) {
        return Print(own->markdown ? harness::MethodsMarkdown()
                     : own->json   ? harness::MethodsJson(own->name)
                                   : harness::MethodsText(own->name));
      }};
}

Verb DefineCompletion() {
  const auto shell = std::make_shared<std::string>();
  return {
      .group = kReference,
      .name = "completion",
      .summary = "print a completion script for bash or zsh",
      .options = {Required(
          Choice("SHELL", "bash or zsh", {"bash", "zsh"},
                 [shell](const std::string& text) { *shell = text; }))},
      .examples = {"source <(oppa completion bash)"},
      .run = [shell](const Words&) { return Print(CompletionScript(*shell)); }};
}

// The command that the scripts call.
Verb DefineComplete() {
  const auto words = std::make_shared<Words>();
  return {.name = "complete",
          .summary = "print what may follow words of a command line",
          .command = words,
          .run = [words](const Words&) {
            return Print(Completions(PublicVerbs(), *words));
          }};
}

Verb DefineMan() {
  const auto markdown = std::make_shared<bool>(false);
  return {.group = kReference,
          .name = "man",
          .summary = "print the man page",
          .options = {Bind("--markdown", "print it as Markdown", *markdown)},
          .examples = {"oppa man | man -l -"},
          .run = [markdown](const Words&) {
            return Print((*markdown ? ReferencePage : ManPage)(PublicVerbs()));
          }};
}

std::string VersionText() {
  const harness::Commit& commit = harness::BuildCommit();
  std::string data;
  try {
    data = trials::ExperimentsFolder().string();
  } catch (const common::InputError& e) {
    data = e.what();
  }
  return fmt::format("{} (commit {}{})\n{}\ndata: {}\n",
                     harness::ProgramVersion(), commit.hash,
                     commit.dirty ? ", modified" : "", harness::BuildTools(),
                     data);
}

Verb DefineVersion() {
  return {.group = kReference,
          .name = "version",
          .summary = "print version, commit, compiler and data folder",
          .run = [](const Words&) { return Print(VersionText()); }};
}

}  // namespace

Verbs ProgramVerbs() {
  return {DefineMethods(), DefineCompletion(), DefineComplete(), DefineMan(),
          DefineVersion()};
}

}  // namespace cli
