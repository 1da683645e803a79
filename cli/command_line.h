// The command line: all verbs, the parser that turns words into a call of a
// verb, and the help.

#pragma once

#include <string>

#include "cli/verb.h"

namespace cli {

// The verbs of each file in this folder. Every call binds the options to new
// values.
[[nodiscard]] Verbs PlanVerbs();     // plan.cc
[[nodiscard]] Verbs AdapterVerbs();  // adapters.cc
[[nodiscard]] Verbs TuneVerbs();     // tune.cc
[[nodiscard]] Verbs ServeVerbs();    // serve.cc
[[nodiscard]] Verbs MatrixVerbs();   // matrix.cc
[[nodiscard]] Verbs RunVerbs();      // run.cc
[[nodiscard]] Verbs RecordVerbs();   // records.cc
[[nodiscard]] Verbs SlurmVerbs();    // slurm.cc
[[nodiscard]] Verbs ProblemVerbs();  // problem.cc
[[nodiscard]] Verbs StudyVerbs();    // studies.cc
[[nodiscard]] Verbs ClaimVerbs();    // claims.cc
[[nodiscard]] Verbs ProgramVerbs();  // program.cc

// All of them, in the order of the help.
[[nodiscard]] Verbs AllVerbs();
// The verbs except those that only the program itself calls.
[[nodiscard]] Verbs PublicVerbs();

// Errors: throws InputError for an unknown name, with the nearest known one.
[[nodiscard]] const Verb& FindVerb(const Verbs& verbs, const std::string& name);

// Executes a command line of this program, the program's name first. Returns
// its exit code. Errors: throws InputError for words that cannot be parsed.
[[nodiscard]] int Execute(const Words& words);

// The output of `oppa --help`, `oppa VERB --help`, `oppa man` and `oppa man
// --markdown`, from the public verbs.
[[nodiscard]] std::string HelpText(const Verbs& verbs);
[[nodiscard]] std::string HelpText(const Verb& verb);
[[nodiscard]] std::string ManPage(const Verbs& verbs);
[[nodiscard]] std::string ReferencePage(const Verbs& verbs);

// The script that makes bash or zsh ask this program for completions, and its
// answer: what may follow words of a command line, the last of which is being
// typed. A line "word:meaning" for each; none where any text or file may.
[[nodiscard]] std::string CompletionScript(const std::string& shell);
[[nodiscard]] std::string Completions(const Verbs& verbs, const Words& words);

}  // namespace cli
