// plan.

#include <memory>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "common/error.h"

namespace cli {

Verbs PlanVerbs() {
  const auto manifest = std::make_shared<std::string>();
  return {{.name = "plan",
           .summary = "plan a training job",
           .options = {Required(
               Bind("FILE", "moved: use `oppa matrix`", *manifest))},
           .run = [manifest](const Words&) -> int {
             throw common::InputError(fmt::format(
                 "plan: the run matrix of a manifest is printed by `oppa "
                 "matrix {}`",
                 *manifest));
           }}};
}

}  // namespace cli
