#include "jobs/plan/launch.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/process.h"
#include "jobs/plan/k8s_launch.h"
#include "plots/table.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;

constexpr std::string_view kHere = "$here";  // the folder of the script

void ReplaceAll(const std::string& from, std::string_view to,
                std::string& text) {
  for (std::size_t at = text.find(from); at != text.npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Adds a copy of the config.json, so that the folder can be moved to the
// machine, and names what is in the folder relative to the script.
void MakeMovable(const Job& job, const fs::path& folder,
                 trials::RenderedJob& launch) {
  fs::path config;
  if (!job.config_json.empty()) {
    config = fs::absolute(job.config_json);
    const fs::path copy = folder / "config.json";
    if (config.lexically_normal() != copy.lexically_normal()) {
      launch.files.push_back({copy, common::ReadFile(config)});
    }
    for (trials::RenderedFile& file : launch.files) {
      ReplaceAll(config.string(), copy.string(), file.content);
    }
  }
  for (auto* words : {&launch.words, &launch.environment}) {
    for (std::string& word : *words) {
      if (!config.empty()) {
        ReplaceAll(config.string(), fmt::format("{}/config.json", kHere), word);
      }
      ReplaceAll(folder.string(), kHere, word);
    }
  }
}

// The command with each option on its own line.
std::string ShellCommand(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) {
      text += word.starts_with("--") ? " \\\n  " : " ";
    }
    text += trials::ShellWord(word);
  }
  return text;
}

std::string Script(const Job& job, const trials::ParallelConfig& config,
                   const trials::RenderedJob& launch, const fs::path& folder,
                   bool slurm) {
  const trials::Cluster& cluster = job.cluster;
  std::string text = "#!/usr/bin/env bash\n";
  if (slurm) {
    text += fmt::format(
        "#SBATCH --job-name={}\n#SBATCH --nodes={}\n"
        "#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n"
        "#SBATCH --exclusive\n",
        common::ShellLine({job.workload.name}), cluster.launchers(),
        cluster.launched_gpus());
  }
  text +=
      fmt::format("# {} on {} GPUs, batch {} x {} tokens: {}\n",
                  job.workload.name, cluster.gpus(), job.workload.batch_size,
                  job.workload.sequence_length, ToString(config));
  for (const std::string& note : launch.notes) {
    text += fmt::format("# {}\n", note);
  }
  text += slurm ? "# Submit it in the folder of the program.\n"
          : cluster.launchers() > 1
              ? "# Start it on every node, in the folder of the program, with "
                "the name of the\n# first node: HEAD_NODE=node1 launch.sh\n"
              : "# Start it in the folder of the program.\n";
  text += "set -euo pipefail\n";
  // Slurm runs a copy of the script.
  text += slurm ? fmt::format("here={}  # this folder\n",
                              common::ShellLine({folder.string()}))
                : "here=$(cd \"$(dirname \"$0\")\" && pwd)\n";
  if (slurm) {
    text +=
        "mapfile -t hosts < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")"
        "\nexport HEAD_NODE=${hosts[0]}\n";
  } else if (cluster.launchers() > 1) {
    text += ": \"${HEAD_NODE:?must be the name of the first node}\"\n";
  }
  for (const std::string& variable : launch.environment) {
    text += "export " + trials::ShellWord(variable) + "\n";
  }
  return text + (slurm ? "srun --kill-on-bad-exit=1 " : "exec ") +
         ShellCommand(launch.words) + "\n";
}

}  // namespace

std::optional<trials::RenderedJob> RenderLaunch(
    const Job& job, const trials::ParallelConfig& config,
    const fs::path& folder) {
  const auto& adapter = job.framework.adapter;
  if (!adapter || adapter->command().empty()) {
    return std::nullopt;
  }
  auto launch = adapter->RenderUsual(
      {{}, {}, job.workload, job.cluster, job.config_json, job.config_file},
      config, folder);
  trials::Training training = job.workload.training;
  training.offload = {};  // a setting of the adapter
  training.fp32_gradients &= !adapter->Sets("fp32_gradients");
  const trials::Training& usual = adapter->training();
  if (launch.refusal.empty() &&
      (!training.IsUsual() || training.loss_chunks != usual.loss_chunks ||
       training.packed_tokens != usual.packed_tokens)) {
    const std::string differs = ToString(training);
    launch.refusal = fmt::format(
        "its usual program trains all weights with AdamW, and not with {}: set "
        "the sizes above in yours",
        differs.empty() ? "the loss in one part" : differs);
  }
  return launch;
}

std::string LaunchText(const Job& job, const trials::ParallelConfig& config,
                       std::size_t columns) {
  const auto launch = RenderLaunch(job, config);
  if (!launch) {
    return "";
  }
  const std::string& title = job.framework.adapter->title();
  if (!launch->refusal.empty()) {
    return plots::WrapLines(
        fmt::format("no command ({}): {}\n", title, launch->refusal), columns);
  }
  // On a terminal the command begins a line, for it to be copied.
  std::string text = fmt::format(
      "command ({}):{}{}\n", title, columns > 0 ? "\n" : " ",
      columns > 0 ? CommandLine(*launch, columns) : CommandLine(*launch));
  for (const trials::RenderedFile& file : launch->files) {
    text += file.program
                ? fmt::format("{}: --write DIR writes it\n", file.path.string())
                : fmt::format("{} with these keys:\n{}", file.path.string(),
                              file.content);
  }
  for (const std::string& note : launch->notes) {
    text += plots::WrapLines(fmt::format("note: {}\n", note), columns);
  }
  return text;
}

common::Json LaunchJson(const Job& job, const trials::ParallelConfig& config) {
  common::Json json = {{"command", ""},
                       {"files", common::Json::object()},
                       {"notes", common::Json::array()},
                       {"refusal", ""}};
  const auto launch = RenderLaunch(job, config);
  if (launch && !launch->refusal.empty()) {
    json["refusal"] = launch->refusal;
  } else if (launch) {
    json["command"] = CommandLine(*launch);
    for (const trials::RenderedFile& file : launch->files) {
      json["files"][file.path.string()] = file.content;
    }
    json["notes"] = launch->notes;
  }
  return json;
}

std::string WriteLaunch(const Job& job, const trials::ParallelConfig& config,
                        const LaunchFolder& folder) {
  const fs::path path = fs::absolute(folder.path);
  auto launch = RenderLaunch(job, config, path);
  if (!launch) {
    throw InputError(fmt::format(
        "--write: no adapter starts {}; --framework takes {}",
        job.framework.name, fmt::join(trials::Adapter::Names(), ", ")));
  }
  if (!launch->refusal.empty()) {
    throw InputError(fmt::format(
        "--write: {}: {}", job.framework.adapter->title(), launch->refusal));
  }
  MakeMovable(job, path, *launch);
  const fs::path script = path / (folder.k8s     ? "trainjob.yaml"
                                  : folder.slurm ? "job.sbatch"
                                                 : "launch.sh");
  const std::string content =
      folder.k8s ? TrainJobText(job, config, *launch, folder.queue)
                 : Script(job, config, *launch, path, folder.slurm);
  launch->files.push_back({script, content});
  for (const trials::RenderedFile& file : launch->files) {
    const auto old = common::ReadFileIfExists(file.path);
    if (old && *old != file.content && !folder.force) {
      throw InputError(fmt::format(
          "--write: {} exists with another content; --force replaces it",
          file.path.string()));
    }
  }
  std::string text;
  for (const trials::RenderedFile& file : launch->files) {
    common::StoreFile(file.path, file.content,
                      file.path == script && !folder.k8s ? 0776 : 0666);
    text += fmt::format("wrote {}\n", file.path.string());
  }
  return text;
}

}  // namespace jobs
