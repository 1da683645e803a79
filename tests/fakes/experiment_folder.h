// A small experiment on the simulator, with its manifest and its records in a
// separate folder.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace fakes {

// A temporary folder in which manifests find the project's models, clusters
// and rules.
class ExperimentFolder : public TemporaryFolder {
 public:
  ExperimentFolder() {
    const auto experiments = fakes::SourceFolder() / "experiments";
    for (const char* name : {"workloads", "clusters", "rules"}) {
      std::filesystem::create_directory_symlink(experiments / name,
                                                path() / name);
    }
  }
};

// Tables of a manifest: a model on 8 GPUs.
inline constexpr std::string_view kWorkload = R"([workload]
model = "workloads/qwen2-1.5b.json"
batch_size = 64
sequence_length = 1024
)";
inline constexpr std::string_view kCluster = R"([cluster]
file = "clusters/a5000-8.toml"
)";

// A whole manifest: that model on the simulator, in a space of nearly a
// thousand configurations. `methods`: "\"random\", \"oppa\""; `budget`: the
// lines of that table.
[[nodiscard]] inline std::string SmallManifest(std::string_view methods,
                                               std::string_view budget) {
  std::string text = "[experiment]\nmethods = [";
  text.append(methods).append("]\nrepeats = 2\n\n");
  text.append("[backend]\ntype = \"simulator\"\n\n");
  text.append(kWorkload).append("\n").append(kCluster);
  text.append("\n[space]\nrule_sets = [\"colossalai\"]\n");
  text.append("dp_bucket_mb = [16]\nzero_bucket_mb = [16]\n\n");
  return text.append("[budget]\n").append(budget);
}

// All records in the folder that must not depend on the circumstances, by path.
[[nodiscard]] inline std::map<std::string, std::string> Records(
    const std::filesystem::path& results) {
  std::map<std::string, std::string> records;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(results)) {
    const std::string name = entry.path().filename().string();
    if (name == "trials.csv" || name == "steps.csv" || name == "fits.csv") {
      records[std::filesystem::relative(entry.path(), results).string()] =
          ReadFile(entry.path());
    }
  }
  return records;
}

}  // namespace fakes
