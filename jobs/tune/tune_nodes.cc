#include "jobs/tune/tune_nodes.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/adapters/command_words.h"

namespace jobs {
namespace {

using common::InputError;
using WordList = std::vector<std::string>;

std::string ProgramName(const std::string& word) {
  return std::filesystem::path(word).filename().string();
}

// Slurm's times: "90", "90:00", "1:30:00", "1-12", "1-12:30", "1-12:30:00".
int MinutesOf(const std::string& text) {
  const std::size_t dash = text.find('-');
  const bool days = dash != std::string::npos;
  std::string_view clock = text;
  clock.remove_prefix(days ? dash + 1 : 0);
  std::vector<std::string_view> parts = common::Split(clock, ':');
  if (days) {
    parts.insert(parts.begin(), std::string_view(text).substr(0, dash));
  }
  // The minutes of a day, an hour, a minute and a second.
  constexpr std::array<double, 4> kUnits = {1440.0, 60.0, 1.0, 1.0 / 60.0};
  const std::size_t first = days ? 0 : parts.size() == 3 ? 1 : 2;
  double minutes = 0.0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = common::ParseInt(parts[i], 0);
    if (!value || first + i >= kUnits.size()) {
      throw InputError(fmt::format(
          "--sbatch: '{}': a time is MINUTES, H:MM:SS or DAYS-H:MM:SS", text));
    }
    minutes += *value * kUnits[first + i];
  }
  return std::max(1, static_cast<int>(minutes));
}

}  // namespace

WordList OnNodes(WordList words) {
  const auto launcher = std::ranges::find(words, "torchrun", ProgramName);
  if (launcher == words.end() || trials::FlagValue(words, "--nnodes", true)) {
    return words;
  }
  const auto index = launcher - words.begin();
  trials::RemoveFlag(words, "--standalone", false);
  words.insert(words.begin() + index + 1,
               {"--nnodes={nodes}", "--rdzv_id=oppa", "--rdzv_backend=c10d",
                "--rdzv_endpoint={master_addr}:{master_port}"});
  return words;
}

ManifestLine RanksLine(const WordList& words, int nodes) {
  constexpr std::array<std::string_view, 4> kStarters = {
      "srun", "mpirun", "mpiexec", "deepspeed"};
  // In a shell of salloc, which is not on a node of the allocation.
  const bool elsewhere = std::getenv("SLURM_JOB_ID") != nullptr &&
                         std::getenv("SLURMD_NODENAME") == nullptr;
  if ((nodes == 1 && !elsewhere) ||
      common::Contains(kStarters, ProgramName(words.front()))) {
    return {};
  }
  return {"ranks", "\"per-node\"", "srun starts the program on each node"};
}

ManifestSection SlurmSection(const NodeOptions& options, int cpus) {
  if (options.slurm.empty() && options.sbatch.empty()) {
    return {};
  }
  ManifestSection section = {"slurm", "Jobs of Slurm: docs/slurm.md."};
  if (cpus > 0) {
    section.lines = {{"resources", "\"cpu\"", "no GPUs without --gpu"},
                     {"cpus", std::to_string(cpus)}};
  }
  constexpr std::array<std::string_view, 4> kKeys = {"partition", "account",
                                                     "qos", "constraint"};
  WordList others;
  for (const std::string_view word : common::Split(options.sbatch, ' ')) {
    if (word.empty()) {
      continue;
    }
    if (!word.starts_with("--")) {
      throw InputError(
          fmt::format("--sbatch: '{}': write options as --name=value", word));
    }
    const auto parts = common::Split(word.substr(2), '=');
    const std::string name(parts.front());
    const std::string value(parts.back());
    if (name == "time") {
      section.lines.push_back(
          {"time_minutes", std::to_string(MinutesOf(value))});
    } else if (common::Contains(kKeys, name)) {
      section.lines.push_back({name, TomlString(value)});
    } else {
      others.emplace_back(word);
    }
  }
  if (!others.empty()) {
    section.lines.push_back({"options", TomlList(others)});
  }
  return section;
}

}  // namespace jobs
