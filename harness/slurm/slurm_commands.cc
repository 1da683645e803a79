#include "harness/slurm/slurm_commands.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"
#include "harness/stop.h"

namespace harness {
namespace {

constexpr int kDefaultMaxArraySize = 1001;
constexpr std::size_t kMaxJobName = 64;

// What a job gets of the caller's environment.
constexpr std::string_view kVariables =
    "PATH HOME USER LOGNAME SHELL LANG LC_ALL TZ TMPDIR XDG_CONFIG_HOME "
    "OPPA_DATA OPPA_SLURM_SITE LD_LIBRARY_PATH SLURM_CONF CUDA_HOME NCCL_HOME "
    "PYTHONPATH VIRTUAL_ENV CONDA_PREFIX HF_HOME";

// The command of a job: `part` is what it is of its submission, `needs` are the
// options that only it has.
std::vector<std::string> Words(const SlurmOptions& options,
                               const SlurmPlace& place, const std::string& part,
                               const std::vector<std::string>& needs,
                               const std::filesystem::path& output) {
  std::vector<std::string> words = {
      "sbatch",       "--parsable",
      "--no-requeue", "--open-mode=append",
      "--export=ALL", "--chdir=" + place.directory.string()};
  const auto add = [&words](std::string_view name, const std::string& value) {
    if (!value.empty()) {
      words.push_back(fmt::format("--{}={}", name, value));
    }
  };
  add("partition", options.partition);
  add("account", options.account);
  add("qos", options.qos);
  add("constraint", options.constraint);
  if (options.time_minutes > 0) {
    add("time", std::to_string(options.time_minutes));
  }
  if (options.memory_mb > 0) {
    add("mem", fmt::format("{}M", options.memory_mb));
  }
  add("exclude", fmt::format("{}", fmt::join(place.bad_nodes, ",")));
  words.insert(words.end(), options.options.begin(), options.options.end());
  add("job-name", JobName(place.experiment));
  add("comment", fmt::format("oppa:{}:{}", place.token, part));
  words.insert(words.end(), needs.begin(), needs.end());
  add("output", output.string());
  words.insert(words.end(),
               {(place.folder / "task.sh").string(), place.program.string(),
                place.folder.string(), part});
  return words;
}

std::vector<std::string> Resources(const SlurmOptions& options, int nodes,
                                   int gpus_per_node) {
  // The ranks of a node share the cores of its task. One that drives a GPU has
  // several threads: its own, those of NCCL, of transfers and of data loaders.
  constexpr int kCpusPerGpu = 4;
  const int cpus = options.cpus > 0 ? options.cpus
                                    : std::max(1, kCpusPerGpu * gpus_per_node);
  std::vector<std::string> words = {fmt::format("--nodes={}", nodes),
                                    "--ntasks-per-node=1",
                                    fmt::format("--cpus-per-task={}", cpus)};
  if (gpus_per_node > 0) {
    words.push_back(fmt::format("--gres=gpu:{}", gpus_per_node));
  }
  return words;
}

constexpr int kSubmitAttempts = 3;

// The controller did not answer in time. It may have accepted the job.
bool IsTransient(const std::string& errors) {
  return errors.find("contact slurm controller") != std::string::npos ||
         errors.find("timed out") != std::string::npos ||
         errors.find("Connection refused") != std::string::npos ||
         errors.find("temporarily") != std::string::npos;
}

// The id of a job with this comment; 0 if there is none.
std::int64_t FindByComment(const std::string& comment,
                           const std::vector<std::string>& environment) {
  const common::CommandResult result = RunSlurmCommand(
      {"squeue", "--noheader", "--me", "--states=all", "--format=%F|%k"},
      environment);
  return FindComment(result.output, comment);
}

}  // namespace

std::vector<SlurmArray> MakeArrays(const std::vector<Job>& jobs,
                                   int max_array_size) {
  std::map<std::tuple<int, int, int>, SlurmArray> arrays;
  for (const Job& job : jobs) {
    const int base = job.id / max_array_size * max_array_size;
    SlurmArray& array = arrays[{base, job.nodes, job.gpus_per_node}];
    array.base = base;
    array.nodes = job.nodes;
    array.gpus_per_node = job.gpus_per_node;
    array.tasks.push_back(job.id - base);
  }
  std::vector<SlurmArray> result;
  for (auto& [key, array] : arrays) {
    std::ranges::sort(array.tasks);
    result.push_back(std::move(array));
  }
  return result;
}

std::string JobName(const std::string& experiment) {
  return ("oppa-" + experiment).substr(0, kMaxJobName);
}

std::string ArraySpec(const std::vector<int>& tasks, int max_running) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size();) {
    std::size_t end = i + 1;
    while (end < tasks.size() && tasks[end] == tasks[end - 1] + 1) {
      ++end;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", tasks[i]);
    if (end - i > 1) {
      text += fmt::format("-{}", tasks[end - 1]);
    }
    i = end;
  }
  return max_running > 0 ? fmt::format("{}%{}", text, max_running) : text;
}

std::string TaskScript(const SlurmOptions& options) {
  return fmt::format(
      R"(#!/bin/sh
# What sbatch starts for every job of a submission of `oppa run`. It gets
#   $1  the program, oppa
#   $2  the folder of the submission
#   $3  a number N: task i of the array executes the command of line id N + i
#       of tasks.jsonl there, a search, and prints to log/N-i.txt;
#       trial: the trial that trial.json there describes;
#       finish: after all arrays, retries of what the machine failed, and the
#       report
# The searches resume from their records, so a job may be submitted again:
# `oppa matrix MANIFEST --dispatch slurm` prints the commands. To change the
# options of sbatch or what runs here before the program, edit [slurm] of the
# manifest or ~/.config/oppa/slurm.toml (docs/slurm.md), not this copy.
{}exec "$1" run-task "$2" "$3"
)",
      fmt::join(
          common::Map(options.setup,
                      [](const std::string& line) { return line + "\n"; }),
          ""));
}

std::vector<std::string> SbatchArray(const SlurmOptions& options,
                                     const SlurmPlace& place,
                                     const SlurmArray& array) {
  std::vector<std::string> needs =
      Resources(options, array.nodes, array.gpus_per_node);
  needs.insert(needs.begin(),
               "--array=" + ArraySpec(array.tasks, options.max_running));
  const std::string part = std::to_string(array.base);
  return Words(options, place, part, needs,
               place.folder / "log" / (part + "-%a.txt"));
}

std::vector<std::string> SbatchFinish(const SlurmOptions& options,
                                      const SlurmPlace& place,
                                      const std::vector<std::int64_t>& arrays) {
  return Words(options, place, "finish",
               {fmt::format("--dependency=afterany:{}", fmt::join(arrays, ":")),
                "--kill-on-invalid-dep=yes", "--nodes=1", "--ntasks=1"},
               FinishLog(place.folder));
}

std::vector<std::string> SbatchTrial(const SlurmOptions& options,
                                     const SlurmPlace& place, int nodes,
                                     int gpus_per_node) {
  return Words(options, place, "trial",
               Resources(options, nodes, gpus_per_node),
               place.folder / "log.txt");
}

std::filesystem::path TaskLog(const std::filesystem::path& folder, int base,
                              int task) {
  return folder / "log" / fmt::format("{}-{}.txt", base, task);
}

std::filesystem::path FinishLog(const std::filesystem::path& folder) {
  return folder / "log" / "finish.txt";
}

std::vector<std::string> SlurmEnvironment(
    const std::vector<std::string>& also) {
  std::map<std::string, std::string> variables;
  const auto take = [&variables](const std::string& name) {
    if (const char* value = std::getenv(name.c_str())) {
      variables[name] = value;
    }
  };
  for (const std::string_view name : common::Split(kVariables, ' ')) {
    take(std::string(name));
  }
  variables["OMP_NUM_THREADS"] = "1";
  for (const std::string& entry : also) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      take(entry);
    } else {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return common::Map(variables, [](const auto& variable) {
    return variable.first + "=" + variable.second;
  });
}

common::CommandResult RunSlurmCommand(
    const std::vector<std::string>& words,
    const std::vector<std::string>& environment) {
  // Slurm itself gives up after MessageTimeout, 10 s by default.
  constexpr double kLimitSeconds = 120.0;
  constexpr double kStoppingSeconds = 10.0;  // what is started to clean up
  const bool stopping = StopSignal() != 0;
  return common::RunCommand(
      words, environment, stopping ? kStoppingSeconds : kLimitSeconds,
      [stopping] { return !stopping && StopSignal() != 0; });
}

std::int64_t ParseJobId(std::string_view output) {
  const std::string_view id = output.substr(0, output.find(';'));
  return common::ParseInt64(common::Trim(id), 1).value_or(0);
}

std::int64_t FindComment(std::string_view output, std::string_view comment) {
  for (const std::string_view line : common::Split(output, '\n')) {
    const auto bar = line.find('|');
    if (bar != std::string_view::npos &&
        common::Trim(line.substr(bar + 1)) == comment) {
      return ParseJobId(line.substr(0, bar));
    }
  }
  return 0;
}

int ParseMaxArraySize(std::string_view output) {
  for (const std::string_view line : common::Split(output, '\n')) {
    if (line.starts_with("MaxArraySize")) {
      return common::ParseInt(common::Trim(line.substr(line.find('=') + 1)), 1)
          .value_or(kDefaultMaxArraySize);
    }
  }
  return kDefaultMaxArraySize;
}

int MaxArraySize() {
  return ParseMaxArraySize(
      RunSlurmCommand({"scontrol", "show", "config"}).output);
}

std::int64_t Sbatch(const std::vector<std::string>& words,
                    const std::vector<std::string>& environment) {
  const auto comment = std::ranges::find_if(words, [](const std::string& word) {
    return word.starts_with("--comment=");
  });
  common::CommandResult result;
  for (int attempt = 1; attempt <= kSubmitAttempts; ++attempt) {
    result = RunSlurmCommand(words, environment);
    if (result.exit_code == 0) {
      if (const std::int64_t id = ParseJobId(result.output); id > 0) {
        return id;
      }
    }
    const bool stops = StopSignal() != 0;  // it may have submitted the job
    if (!stops && !IsTransient(result.errors)) {
      break;
    }
    if (!stops) {
      std::this_thread::sleep_for(std::chrono::seconds(2 * attempt));
    }
    const std::int64_t id =
        FindByComment(comment->substr(comment->find('=') + 1), environment);
    if (id > 0) {
      return id;
    }
    if (stops) {
      break;
    }
  }
  std::string why(common::Trim(result.errors));
  std::ranges::replace(why, '\n', ' ');
  throw std::runtime_error(fmt::format(
      "sbatch: {}; command: {}", why.empty() ? "no job id in its output" : why,
      common::ShellLine(words)));
}

std::string Cancel(const std::vector<std::string>& jobs,
                   const std::string& experiment) {
  if (jobs.empty()) {
    return "";
  }
  std::vector<std::string> words = {"scancel", "--quiet"};
  if (!experiment.empty()) {
    words.push_back("--name=" + JobName(experiment));
  }
  words.insert(words.end(), jobs.begin(), jobs.end());
  const common::CommandResult result = RunSlurmCommand(words);
  return result.exit_code == 0 ? "" : std::string(common::Trim(result.errors));
}

std::string Cancel(const std::vector<std::int64_t>& job_ids,
                   const std::string& experiment) {
  return Cancel(
      common::Map(job_ids, [](std::int64_t id) { return std::to_string(id); }),
      experiment);
}

void CheckFolder(const std::filesystem::path& folder) {
  if (folder.string().find_first_of("%\\\n") != std::string::npos) {
    throw common::InputError(fmt::format(
        "--results {}: '%', '\\' and line breaks have a meaning for sbatch and "
        "cannot be in the path: use another folder",
        folder.string()));
  }
}

}  // namespace harness
