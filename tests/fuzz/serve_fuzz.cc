// Any requests to `oppa serve` are answered, one line of JSON each, in
// sentences; the records that they leave can be read again.

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "common/error.h"
#include "common/json.h"
#include "jobs/tune/serve.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fuzz/input_file.h"

namespace {

// The answers, after the first line, to requests in a folder of results.
std::ptrdiff_t CountAnswers(const std::filesystem::path& manifest,
                            const std::filesystem::path& results,
                            const std::string& requests) {
  std::istringstream in(requests);
  std::ostringstream out;
  if (jobs::Serve({.manifest = manifest, .results = results}, in, out) != 0) {
    std::abort();
  }
  std::istringstream lines(out.str());
  std::ptrdiff_t count = -1;
  for (std::string line; std::getline(lines, line); ++count) {
    const common::Json answer = common::ParseJson(line, "answer");
    const std::string error = answer.value("error", "");
    if (error.find("json.exception") != std::string::npos) {
      std::abort();
    }
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const fakes::ExperimentFolder folder;
  const std::filesystem::path manifest = folder.path() / "m.toml";
  const std::filesystem::path results = folder.path() / "results";
  if (!std::filesystem::exists(manifest)) {
    fuzz::Write(manifest,
                std::string(fakes::kWorkload) + std::string(fakes::kCluster) +
                    "[backend]\ntype = \"client\"\n[experiment]\nmethods = "
                    "[\"random\"]\n[space]\nrule_sets = [\"colossalai\"]\n"
                    "dp_bucket_mb = [16]\nzero_bucket_mb = [16]\n"
                    "[budget]\ntrials = 3\nq_max = 2\n");
  }
  std::filesystem::remove_all(results);
  const std::string requests(fuzz::Text(data, size));
  const auto lines = std::ranges::count(requests, '\n') +
                     (requests.empty() || requests.ends_with('\n') ? 0 : 1);
  if (CountAnswers(manifest, results, requests) > lines) {
    std::abort();
  }
  (void)CountAnswers(manifest, results, "{\"op\": \"trials\"}\n");
  return 0;
}
