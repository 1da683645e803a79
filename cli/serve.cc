// serve.

#include "jobs/tune/serve.h"

#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line.h"
#include "cli/verb_options.h"

namespace cli {

Verbs ServeVerbs() {
  const auto own = std::make_shared<jobs::ServeOptions>();
  return {
      {.group = kJobs,
       .name = "serve",
       .summary = "run a search whose trials are yours, over JSON lines",
       .description =
           "Reads requests from standard input and writes answers to standard "
           "output, one JSON object in a line, for programs in any language; "
           "Python has the package oppa. The records are those of `oppa run`, "
           "so a search resumes after a kill.",
       .options =
           {Required(Bind("FILE", "manifest of one search", own->manifest)),
            Bind("--results FOLDER",
                 "folder of all records (default: oppa-results next to FILE)",
                 own->results),
            BindEach("--set KEY=VALUE",
                     "use this value of a key instead of the manifest's",
                     own->overrides.settings),
            Bind("--accept-changed",
                 "continue records of other input, with their trials as "
                 "observations",
                 own->accept_changed)},
       .examples = {"echo '{\"op\": \"ask\"}' | oppa serve tune.toml"},
       .run = [own](const Words& words) {
         own->command = common::ShellLine(common::WithoutSecrets(words));
         return jobs::Serve(*own, std::cin, std::cout);
       }}};
}

}  // namespace cli
