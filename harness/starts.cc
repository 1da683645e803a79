#include "harness/starts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/hash.h"
#include "trials/parallel_config.h"

namespace harness {
namespace {

using trials::ChosenBy;

// The candidate that a text of the manifest names.
int FindStart(const Manifest& manifest, const ProblemSpec& problem,
              const std::string& text, const trials::SearchSpace& space) {
  const auto fail = [&](const std::string& reason) {
    throw common::InputError(fmt::format(
        "{}: start '{}'{}{}: {}", manifest.starts.where, text,
        problem.name.empty() ? "" : " of problem ", problem.name, reason));
  };
  try {
    // As it is, because the rows of a measured table need not be canonical.
    if (const std::optional<int> exact =
            space.Find(ParseParallelConfig(text, space.knobs()))) {
      return *exact;
    }
    const trials::Completed completed = Complete(text, space);
    const std::optional<int> found = space.Find(completed.config);
    if (!found) {
      fail(
          "not in the search space; `oppa space FILE --csv` lists it, and "
          "`oppa space FILE --why` the constraints");
    }
    return *found;
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    fail(e.what());
  }
  return -1;
}

}  // namespace

std::vector<methods::Suggestion> StartsOf(const Manifest& manifest,
                                          const ProblemSpec& problem,
                                          int repeat,
                                          const trials::SearchSpace& space) {
  std::vector<methods::Suggestion> starts;
  std::vector<int> open(space.size());
  std::iota(open.begin(), open.end(), 0);
  for (const std::string& text : manifest.starts.configs) {
    const int candidate = FindStart(manifest, problem, text, space);
    const auto at = std::ranges::find(open, candidate);
    if (at == open.end()) {
      throw common::InputError(fmt::format(
          "{}: start '{}' is {}, which is already named; remove one",
          manifest.starts.where, text,
          ToString(space[candidate], space.knobs())));
    }
    open.erase(at);
    starts.push_back({.candidate = candidate, .chosen_by = ChosenBy::kGiven});
  }
  if (std::cmp_greater(manifest.starts.common, open.size())) {
    throw common::InputError(fmt::format(
        "{}: common_starts = {}, but problem '{}' has only {} other "
        "configurations; lower it",
        manifest.starts.where, manifest.starts.common, problem.name,
        open.size()));
  }
  std::mt19937_64 engine(common::DeriveSeed(
      fmt::format("start/{}/{}", manifest.seed, problem.name),
      static_cast<std::uint64_t>(repeat)));
  for (int i = 0; i < manifest.starts.common; ++i) {
    const auto first = static_cast<std::size_t>(i);
    const std::size_t drawn = std::uniform_int_distribution<std::size_t>(
        first, open.size() - 1)(engine);
    std::swap(open[first], open[drawn]);
    starts.push_back(
        {.candidate = open[first], .chosen_by = ChosenBy::kRandom});
  }
  return starts;
}

}  // namespace harness
