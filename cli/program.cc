// methods, completion, man, version.

#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "common/json.h"
#include "harness/provenance.h"
#include "harness/registry.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

int Print(const std::string& text) {
  fmt::print("{}", text);
  return 0;
}

int ListMethodsVerb(bool json) {
  if (json) {
    common::Json list = common::Json::array();
    for (const harness::MethodEntry& method : harness::Methods()) {
      list.push_back({{"name", method.name},
                      {"label", method.label},
                      {"description", method.description}});
    }
    fmt::print("{}\n", common::ToText(list, 2));
    return 0;
  }
  for (const harness::MethodEntry& method : harness::Methods()) {
    fmt::print("{:<36} {}\n", method.name, method.description);
  }
  return 0;
}

Verb DefineMethods() {
  const auto json = std::make_shared<bool>(false);
  return {.group = kReference,
          .name = "methods",
          .summary = "list the search methods",
          .options = {Bind("--json", "print JSON", *json)},
          .run = [json](const Words&) { return ListMethodsVerb(*json); }};
}

Verb DefineCompletion() {
  const auto script = std::make_shared<std::string (*)(const Verbs&)>();
  return {.group = kReference,
          .name = "completion",
          .summary = "print a completion script for bash or zsh",
          .options = {Required(Choice("SHELL",
                                      "bash or zsh",
                                      {"bash", "zsh"},
                                      [script](const std::string& shell) {
                                        *script = shell == "bash"
                                                      ? BashCompletion
                                                      : ZshCompletion;
                                      }))},
          .examples = {"source <(oppa completion bash)"},
          .run = [script](const Words&) {
            return Print((*script)(PublicVerbs()));
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
                     harness::ProgramVersion(),
                     commit.hash,
                     commit.dirty ? ", modified" : "",
                     harness::BuildTools(),
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
  return {DefineMethods(), DefineCompletion(), DefineMan(), DefineVersion()};
}

}  // namespace cli
