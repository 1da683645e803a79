// Help, man page and reference page, from the definitions of the verbs.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "harness/provenance.h"
#include "plots/table.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

constexpr std::size_t kWidth = 80;

constexpr std::string_view kPurpose =
    "find the fastest parallelism configuration for training a neural network";

using Row = std::pair<std::string, std::string>;  // a term and its meaning
using Rows = std::vector<Row>;

const Rows kProgramOptions = {
    {"-h, --help", "print help; `oppa help COMMAND` explains one command"},
    {"-V, --version", "print version, commit, compiler and data folder"},
};
const Rows kExamples = {
    {"oppa matrix experiments/smoke.toml", "check an experiment"},
    {"oppa run experiments/smoke.toml", "run it, or resume it"},
    {"oppa run experiments/external.toml", "tune your own training program"},
    {"oppa simulate experiments/qwen-8gpu.toml --all", "no GPU needed"},
};
const Rows kExitCodes = {
    {"0", "success"},
    {"1",
     "something that was requested did not succeed: a run, a figure, "
     "writing the output"},
    {"2", "bad input; nothing was written"},
    {"128 + n", "interrupted by signal n; rerun the command to resume"},
};
const Rows kVariables = {
    {trials::kExperimentsVariable,
     "folder with clusters/, frameworks/, gpus/, hardware/, validation/ and "
     "workloads/ (default: the installed one)"},
    {trials::kDataVariable, "folder of published measurements"},
    {"OPPA_THREADS",
     "threads for the suggestions of each run (default: a share of the "
     "cores)"},
    {"NO_COLOR", "no colors on a terminal"},
};
constexpr std::string_view kDocumentation =
    "Documentation: README.md and docs/, installed in share/doc/oppa.";

// A chapter of the manual (level 1), a group of commands (2) or a command (3).
struct Section {
  int level = 1;
  std::string title;      // "oppa run"
  std::string arguments;  // of a command: " [OPTIONS] FILE"
  std::string text;
  Rows rows;
  Words examples;  // command lines
};

Section Describe(const Verb& verb) {
  Section section{.level = 3, .title = "oppa " + verb.name};
  section.text = verb.summary + ".";
  section.text[0] = static_cast<char>(std::toupper(section.text[0]));
  section.text += verb.description.empty() ? "" : " " + verb.description;
  section.examples = verb.examples;
  std::string arguments;
  for (const Option& option : verb.options) {
    section.rows.emplace_back(
        option.name + (option.value.empty() ? "" : " " + option.value),
        option.help);
    if (option.IsArgument()) {
      const std::string name = option.name + (option.repeated ? "..." : "");
      arguments += option.required ? " " + name : " [" + name + "]";
    } else {
      section.arguments = " [OPTIONS]";
    }
  }
  section.arguments += arguments;
  section.arguments += verb.command != nullptr ? " [-- COMMAND...]" : "";
  return section;
}

std::vector<Section> Manual(const Verbs& verbs) {
  std::vector<Section> manual = {{.title = "Options", .rows = kProgramOptions},
                                 {.title = "Commands"}};
  std::string group;
  for (const Verb& verb : verbs) {
    if (verb.group != group) {
      group = verb.group;
      manual.push_back({.level = 2, .title = group});
    }
    manual.push_back(Describe(verb));
  }
  manual.push_back({.title = "Exit status", .rows = kExitCodes});
  manual.push_back({.title = "Environment", .rows = kVariables});
  manual.push_back({.title = "See also", .text = std::string(kDocumentation)});
  return manual;
}

// Lines of at most kWidth columns, all but the first from column `indent`.
std::string Wrapped(std::string_view text, std::size_t indent) {
  return fmt::format("{}\n", fmt::join(plots::Wrap(text, kWidth - indent),
                                       "\n" + std::string(indent, ' ')));
}

std::string Table(const Rows& rows, std::size_t width) {
  std::string text;
  for (const auto& [term, meaning] : rows) {
    text +=
        fmt::format("  {:<{}}  {}", term, width, Wrapped(meaning, width + 4));
  }
  return text;
}

// A line of roff with all special characters escaped.
std::string Roff(std::string_view text) {
  std::string line;
  for (const char c : text) {
    line += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
}

std::string RoffRow(const Row& row) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", Roff(row.first),
                     Roff(row.second));
}

}  // namespace

std::string HelpText(const Verbs& verbs) {
  constexpr std::size_t kColumn = 13;
  std::string text =
      fmt::format("oppa: {}\n\nUsage: oppa COMMAND [ARGUMENTS]\n", kPurpose);
  std::string group;
  for (const Verb& verb : verbs) {
    text += verb.group == group ? "" : fmt::format("\n{}\n", verb.group);
    text += Table({{verb.name, verb.summary}}, kColumn);
    group = verb.group;
  }
  text += "\nOptions\n" + Table(kProgramOptions, kColumn);
  text += "\nExamples\n" + Table(kExamples, 46);
  return text + fmt::format("\n{}\n", kDocumentation);
}

std::string HelpText(const Verb& verb) {
  Section section = Describe(verb);
  section.rows.emplace_back("-h, --help", "print this help");
  std::size_t width = 0;
  for (const Row& row : section.rows) {
    width = std::max(width, row.first.size());
  }
  std::string text =
      fmt::format("{}\nUsage: {}{}\n\n{}", Wrapped(section.text, 0),
                  section.title, section.arguments, Table(section.rows, width));
  if (!verb.examples.empty()) {
    text += fmt::format("\nExamples\n  {}\n", fmt::join(verb.examples, "\n  "));
  }
  return text;
}

std::string ManPage(const Verbs& verbs) {
  std::string text = fmt::format(
      ".TH OPPA 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\noppa \\- {}\n"
      ".SH SYNOPSIS\n.B oppa\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n",
      harness::ProgramVersion(), kPurpose);
  for (Section section : Manual(verbs)) {
    const bool command = section.level == 3;
    if (section.level == 1) {
      std::ranges::transform(section.title, section.title.begin(), ::toupper);
    }
    text += section.level == 1 ? ".SH " : command ? ".TP\n\\fB" : ".SS ";
    text += Roff(section.title) + (command ? "\\fR" : "") +
            Roff(section.arguments) + "\n";
    text += section.text.empty() ? "" : Roff(section.text) + "\n";
    text += command ? ".RS\n" : "";
    for (const Row& row : section.rows) {
      text += RoffRow(row);
    }
    for (const std::string& example : section.examples) {
      text += RoffRow({"Example", example});
    }
    text += command ? ".RE\n" : "";
  }
  return text;
}

std::string ReferencePage(const Verbs& verbs) {
  std::string text = fmt::format(
      "# Command line\n\n<!-- Generated by `oppa man --markdown`; do not edit. "
      "-->\n\n`oppa`: {}.\n\n    oppa COMMAND [ARGUMENTS]\n\n"
      "`oppa help COMMAND` prints the help of a command. `oppa completion` and "
      "`oppa man` print what an\ninstallation puts in place: completion for "
      "bash and zsh, and the man page.\n",
      kPurpose);
  for (const Section& section : Manual(verbs)) {
    text += fmt::format("\n{} {}\n", std::string(section.level + 1, '#'),
                        section.title);
    text += section.text.empty() ? "" : "\n" + section.text + "\n";
    if (section.level == 3) {
      text += fmt::format("\n    {}{}\n", section.title, section.arguments);
    }
    if (!section.rows.empty()) {
      text += "\n| name | meaning |\n| --- | --- |\n";
    }
    for (const auto& [term, meaning] : section.rows) {
      text += fmt::format("| `{}` | {} |\n", term, meaning);
    }
    if (!section.examples.empty()) {
      text += fmt::format("\nExamples:\n\n    {}\n",
                          fmt::join(section.examples, "\n    "));
    }
  }
  return text;
}

}  // namespace cli
