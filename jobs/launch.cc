#include "jobs/launch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace jobs {
namespace {

namespace fs = std::filesystem;

// A folder that exists as long as the object.
class Scratch {
 public:
  Scratch() {
    std::string name =
        (fs::temp_directory_path() / "oppa-plan-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("could not create a folder in " +
                               fs::temp_directory_path().string());
    }
    path_ = name;
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool IsConfigFile(const std::string& word) {
  const std::string extension = fs::path(word).extension().string();
  return extension == ".json" || extension == ".yaml" || extension == ".toml";
}

// The usual command on this machine; `empty`: the folder that gets an empty
// file for each configuration file that the command names.
std::vector<std::string> UsualWords(const Job& job,
                                    const trials::Adapter& adapter,
                                    const fs::path& empty) {
  std::vector<std::string> words;
  for (std::string word : adapter.command()) {
    constexpr std::string_view kPlaceholder = "{gpus_per_node}";
    const std::size_t at = word.find(kPlaceholder);
    if (at != std::string::npos) {
      word.replace(at, kPlaceholder.size(),
                   std::to_string(job.cluster.gpus_per_node));
    }
    if (IsConfigFile(word)) {
      std::ofstream(empty / word) << (word.ends_with(".json") ? "{}\n" : "");
    }
    words.push_back(word);
    if (words.size() == 1 && word == "torchrun" && job.cluster.nodes > 1) {
      words.push_back(fmt::format("--nnodes={}", job.cluster.nodes));
    }
  }
  return words;
}

}  // namespace

std::optional<trials::Adapter> FindAdapter(const std::string& name) {
  std::vector<std::string> names = trials::Adapter::Names();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return trials::Adapter::Find(name);
  }
  std::reverse(names.begin(), names.end());
  for (const std::string& candidate : names) {
    trials::Adapter adapter = trials::Adapter::Find(candidate);
    if (adapter.framework() == name) {
      return adapter;
    }
  }
  return std::nullopt;
}

std::string LaunchText(const Job& job, const trials::ParallelConfig& config) {
  if (!job.framework.adapter || job.framework.adapter->command().empty()) {
    return "";
  }
  const trials::Adapter& adapter = *job.framework.adapter;
  const Scratch scratch;
  const trials::RenderedJob rendered =
      adapter.Render({UsualWords(job, adapter, scratch.path()), scratch.path(),
                      job.workload, job.cluster},
                     config, trials::Adapter::Purpose::kUse, "", {});
  std::string text = fmt::format("command ({}): {}\n", adapter.title(),
                                 trials::CommandLine(rendered));
  for (const trials::RenderedFile& file : rendered.files) {
    text += fmt::format("{} with these keys:\n{}", file.path.string(),
                        file.content);
    text += file.content.ends_with('\n') ? "" : "\n";
  }
  return text;
}

}  // namespace jobs
