// The verb `page`, and the page of a search with what the search learned.

#pragma once

#include <filesystem>

#include "cli/verb.h"
#include "plots/page.h"

namespace cli {

// Writes page.html of an experiment folder with the learned numbers of the run,
// if it has any, and returns its path. Errors: as plots::WritePage.
std::filesystem::path WriteSearchPage(
    const std::filesystem::path& experiment_folder,
    plots::PageOptions options = {});

[[nodiscard]] Verbs PageVerbs();

}  // namespace cli
