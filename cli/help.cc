// Help, man page and reference page, from the definitions of the verbs.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "common/text.h"
#include "harness/provenance.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

constexpr std::size_t kWidth = 80;

constexpr std::string_view kPurpose =
    "find the fastest parallelism configuration for training a neural network";

using Row = std::pair<std::string, std::string>;  // a term and its meaning

const std::array<Row, 2> kProgramOptions = {
    Row{"-h, --help", "print help; `oppa help COMMAND` explains one command"},
    Row{"-V, --version", "print version, commit, compiler and data folder"},
};
const std::array<Row, 4> kExamples = {
    Row{"oppa matrix experiments/smoke.toml", "check an experiment"},
    Row{"oppa run experiments/smoke.toml", "run it, or resume it"},
    Row{"oppa run experiments/external.toml", "tune your own training program"},
    Row{"oppa simulate experiments/qwen-8gpu.toml --all", "no GPU needed"},
};
const std::array<Row, 4> kExitCodes = {
    Row{"0", "success"},
    Row{"1",
        "something that was requested did not succeed: a run, a figure, "
        "writing the output"},
    Row{"2", "bad input; nothing was written"},
    Row{"128 + n", "interrupted by signal n; rerun the command to resume"},
};
const std::array<Row, 3> kVariables = {
    Row{trials::kExperimentsVariable,
        "folder with clusters/, frameworks/, gpus/, hardware/, validation/ and "
        "workloads/ (default: the installed one)"},
    Row{trials::kDataVariable, "folder of published measurements"},
    Row{"OPPA_THREADS",
        "threads for the suggestions of each run (default: a share of the "
        "cores)"},
};
constexpr std::string_view kDocumentation =
    "Documentation: README.md and docs/, installed in share/doc/oppa.";

// "[--jobs N]" in a synopsis; "--jobs N" in a list.
std::string Term(const Option& option) {
  return option.name + (option.value.empty() ? "" : " " + option.value);
}

std::string Synopsis(const Verb& verb) {
  std::string text = "oppa " + verb.name;
  std::string arguments;
  bool options = false;
  for (const Option& option : verb.options) {
    if (option.IsArgument()) {
      const std::string name = option.name + (option.repeated ? "..." : "");
      arguments += option.required ? " " + name : " [" + name + "]";
    } else {
      options = true;
    }
  }
  return text + (options ? " [OPTIONS]" : "") + arguments +
         (verb.command != nullptr ? " [-- COMMAND...]" : "");
}

std::vector<Row> OptionRows(const Verb& verb) {
  std::vector<Row> rows;
  for (const Option& option : verb.options) {
    rows.emplace_back(Term(option), option.help);
  }
  return rows;
}

std::string Sentence(const Verb& verb) {
  std::string text = verb.summary + ".";
  text[0] = static_cast<char>(std::toupper(text[0]));
  return verb.description.empty() ? text : text + " " + verb.description;
}

// Calls `heading` for each group and `item` for its verbs.
template <typename Heading, typename Item>
void ForEachGroup(const Verbs& verbs, Heading heading, Item item) {
  std::string group;
  for (const Verb& verb : verbs) {
    if (verb.group != group) {
      group = verb.group;
      heading(group);
    }
    item(verb);
  }
}

// Lines of at most kWidth columns, from column `indent`.
std::string Wrapped(std::string_view text, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;
  for (const std::string_view word : common::Split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

template <typename Rows>
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

template <typename Rows>
std::string RoffTable(const Rows& rows) {
  std::string text;
  for (const auto& [term, meaning] : rows) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", Roff(term), Roff(meaning));
  }
  return text;
}

template <typename Rows>
std::string MarkdownTable(std::string_view heading, const Rows& rows) {
  std::string text = fmt::format("| {} | meaning |\n| --- | --- |\n", heading);
  for (const auto& [term, meaning] : rows) {
    text += fmt::format("| `{}` | {} |\n", term, meaning);
  }
  return text;
}

}  // namespace

std::string HelpText(const Verbs& verbs) {
  constexpr std::size_t kColumn = 13;
  std::string text =
      fmt::format("oppa: {}\n\nUsage: oppa COMMAND [ARGUMENTS]\n", kPurpose);
  ForEachGroup(
      verbs,
      [&](const std::string& group) { text += fmt::format("\n{}\n", group); },
      [&](const Verb& verb) {
        text += Table(std::array{Row{verb.name, verb.summary}}, kColumn);
      });
  text += "\nOptions\n" + Table(kProgramOptions, kColumn);
  text += "\nExamples\n" + Table(kExamples, 46);
  return text + fmt::format("\n{}\n", kDocumentation);
}

std::string HelpText(const Verb& verb) {
  std::string text = fmt::format("{}\nUsage: {}\n", Wrapped(Sentence(verb), 0),
                                 Synopsis(verb));
  std::vector<Row> rows = OptionRows(verb);
  rows.emplace_back("-h, --help", "print this help");
  std::size_t width = 0;
  for (const Row& row : rows) {
    width = std::max(width, row.first.size());
  }
  text += "\n" + Table(rows, width);
  if (!verb.examples.empty()) {
    text += fmt::format("\nExamples\n  {}\n", fmt::join(verb.examples, "\n  "));
  }
  return text;
}

std::string ManPage(const Verbs& verbs) {
  std::string text = fmt::format(
      ".TH OPPA 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\noppa \\- {}\n"
      ".SH SYNOPSIS\n.B oppa\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n.SH COMMANDS\n",
      harness::ProgramVersion(), kPurpose);
  ForEachGroup(
      verbs,
      [&](const std::string& group) {
        text += fmt::format(".SS {}\n", Roff(group));
      },
      [&](const Verb& verb) {
        text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n.RS\n",
                            Roff("oppa " + verb.name),
                            Roff(Synopsis(verb).substr(5 + verb.name.size())),
                            Roff(Sentence(verb)));
        text += RoffTable(OptionRows(verb)) + ".RE\n";
      });
  text += ".SH OPTIONS\n" + RoffTable(kProgramOptions);
  text += ".SH EXIT STATUS\n" + RoffTable(kExitCodes);
  text += ".SH ENVIRONMENT\n" + RoffTable(kVariables);
  text += ".SH EXAMPLES\n.nf\n";
  ForEachGroup(
      verbs, [](const std::string&) {},
      [&](const Verb& verb) {
        for (const std::string& example : verb.examples) {
          text += Roff(example) + "\n";
        }
      });
  return text + fmt::format(".fi\n.SH SEE ALSO\n{}\n", Roff(kDocumentation));
}

std::string ReferencePage(const Verbs& verbs) {
  std::string text = fmt::format(
      "# Command line\n\n<!-- Generated by `oppa man --markdown`; do not edit. "
      "-->\n\n`oppa`: {}.\n\n    oppa COMMAND [ARGUMENTS]\n\n"
      "`oppa help COMMAND` prints the help of a command. `oppa completion` and "
      "`oppa man` print what an\ninstallation puts in place: completion for "
      "bash and zsh, and the man page.\n\n{}",
      kPurpose, MarkdownTable("option", kProgramOptions));
  ForEachGroup(
      verbs,
      [&](const std::string& group) {
        text += fmt::format("\n## {}\n", group);
      },
      [&](const Verb& verb) {
        text += fmt::format("\n### oppa {}\n{}\n\n    {}\n", verb.name,
                            Sentence(verb), Synopsis(verb));
        if (!verb.options.empty()) {
          text += "\n" + MarkdownTable("option", OptionRows(verb));
        }
        if (!verb.examples.empty()) {
          text += fmt::format("\nExamples:\n\n    {}\n",
                              fmt::join(verb.examples, "\n    "));
        }
      });
  text += "\n## Exit codes\n\n" + MarkdownTable("code", kExitCodes);
  return text + "\n## Environment variables\n\n" +
         MarkdownTable("variable", kVariables);
}

}  // namespace cli
