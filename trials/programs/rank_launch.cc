#include "trials/programs/rank_launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/process.h"
#include "common/text.h"
#include "trials/containment/contained_process.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::EnvironmentValue;
using common::InputError;
using Ranks = CommandOptions::Ranks;

constexpr int kSshFailed = 255;  // the exit code of ssh itself
constexpr double kLookAtRankSeconds = 0.1;
constexpr double kSlurmAnswerSeconds = 30.0;
constexpr double kHostEndSeconds = 15.0;  // after its patience

int EnvironmentNumber(const char* name) {
  return common::ParseInt(EnvironmentValue(name)).value_or(0);
}

// The first line that a command of Slurm prints; "" if it fails.
std::string AskSlurm(const std::vector<std::string>& words) {
  const common::CommandResult result = common::RunCommand(
      words, common::CurrentEnvironment(), kSlurmAnswerSeconds);
  return result.exit_code != 0 ? ""
                               : std::string(common::Trim(result.output.substr(
                                     0, result.output.find('\n'))));
}

// The hosts of the cluster.
std::vector<std::string> HostsOf(const CommandOptions& options,
                                 const Cluster& cluster) {
  const auto count = static_cast<std::size_t>(cluster.nodes);
  if (options.hosts.size() < count) {
    throw InputError(fmt::format(
        "the hostfile has {} of {} nodes ({}): add hosts, or give --gpus {}x{}",
        options.hosts.size(), count, fmt::join(options.hosts, ", "),
        options.hosts.size(), cluster.gpus_per_node));
  }
  return {options.hosts.begin(), options.hosts.begin() + cluster.nodes};
}

}  // namespace

std::vector<std::string> ReadHosts(const fs::path& file) {
  std::vector<std::string> hosts;
  const std::string text = common::ReadFile(file);
  for (std::string_view line : common::Split(text, '\n')) {
    line = common::Trim(line.substr(0, line.find('#')));
    const std::string host(line.substr(0, line.find_first_of(" \t")));
    if (host.starts_with('-') || host.find(',') != std::string::npos) {
      throw InputError(fmt::format(
          "{}: invalid host '{}': write a host on each line, as for ssh",
          file.string(), host));
    }
    if (!host.empty()) {
      hosts.push_back(host);
    }
  }
  if (hosts.empty()) {
    throw InputError(
        fmt::format("{}: no hosts: write a host on each line", file.string()));
  }
  return hosts;
}

std::vector<std::string> LaunchWords(const CommandOptions& options,
                                     const Cluster& cluster) {
  if (options.ranks == Ranks::kOne) {
    return {};
  }
  std::vector<std::string> words = options.rank_wrapper;
  if (!options.hosts.empty()) {
    words.insert(words.end(),
                 {"--hosts",
                  fmt::format("{}", fmt::join(HostsOf(options, cluster), ",")),
                  "--folder", options.folder.string(), "--", "env"});
    words.insert(words.end(), options.environment.begin(),
                 options.environment.end());
    return words;
  }
  const int per_node =
      options.ranks == Ranks::kPerGpu ? cluster.gpus_per_node : 1;
  // The job has one task a node, with all its cores: --overcommit shares them
  // among the ranks.
  const std::vector<std::string> srun = {
      "srun",
      fmt::format("--nodes={}", cluster.nodes),
      fmt::format("--ntasks={}", cluster.nodes * per_node),
      fmt::format("--ntasks-per-node={}", per_node),
      "--overcommit",
      "--kill-on-bad-exit=1",
      "--input=none",
      "--export=ALL",
      "--chdir=" + options.folder.string()};
  words.insert(words.begin(), srun.begin(), srun.end());
  words.emplace_back("--");
  return words;
}

std::string MasterAddress(const CommandOptions& options) {
  if (options.ranks == Ranks::kOne) {
    return "localhost";
  }
  if (!options.hosts.empty()) {
    const std::string& host = options.hosts.front();
    return host.substr(host.find('@') + 1);  // npos + 1 is 0
  }
  return AskSlurm({"sinfo", "--noheader", "--Node", "--format=%o",
                   "--nodes=" + EnvironmentValue("SLURM_JOB_NODELIST")});
}

std::string DescribeNodes(const CommandOptions& options,
                          const Cluster& cluster) {
  if (options.ranks == Ranks::kOne) {
    return "";
  }
  if (!options.hosts.empty()) {
    return fmt::format("ssh on {}", fmt::join(HostsOf(options, cluster), ", "));
  }
  const std::string job = EnvironmentValue("SLURM_JOB_ID");
  if (job.empty()) {
    throw InputError(
        "[backend] ranks are started with srun, and this is not in an "
        "allocation of Slurm: give `oppa tune` --slurm or --hostfile, `oppa "
        "run` --dispatch slurm, or ranks = \"one\" and a program that starts "
        "them itself");
  }
  const std::string names = EnvironmentValue("SLURM_JOB_NODELIST");
  const int nodes = EnvironmentNumber("SLURM_JOB_NUM_NODES");
  const int on_node = EnvironmentNumber("SLURM_GPUS_ON_NODE");
  const int gpus = on_node > 0 ? on_node : cluster.gpus_per_node;
  if (nodes != cluster.nodes || gpus != cluster.gpus_per_node) {
    throw InputError(fmt::format(
        "--gpus is {0}x{1}, and the allocation, job {2}, has {3}x{4} ({5}): "
        "give --gpus {3}x{4}, or allocate {0} nodes with {1} GPUs",
        cluster.nodes, cluster.gpus_per_node, job, nodes, gpus, names));
  }
  return fmt::format("srun on {}, the {} nodes of job {}", names, nodes, job);
}

std::string LostNodes(const CommandOptions& options,
                      const std::optional<int>& status) {
  if (!options.hosts.empty()) {
    return status && WIFEXITED(*status) && WEXITSTATUS(*status) == kSshFailed
               ? "ssh cannot reach a host, or lost it"
               : "";
  }
  if (options.ranks == Ranks::kOne) {
    return "";
  }
  const std::string job = EnvironmentValue("SLURM_JOB_ID");
  const std::string state =
      AskSlurm({"squeue", "--noheader", "--format=%T", "--jobs=" + job});
  return state.empty() || state == "RUNNING"
             ? ""
             : fmt::format("job {} is in state {}", job, state);
}

namespace {

std::vector<std::string> WithNodeRank(std::vector<std::string> words,
                                      const std::string& rank) {
  constexpr std::string_view kName = "{node_rank}";
  for (std::string& word : words) {
    for (std::size_t at = 0; (at = word.find(kName, at)) != std::string::npos;
         at += rank.size()) {
      word.replace(at, kName.size(), rank);
    }
  }
  return words;
}

bool InputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char ignored = 0;
  return ::poll(&input, 1, 0) > 0 && ::read(STDIN_FILENO, &ignored, 1) == 0;
}

int RunHere(const RankTask& task, const std::function<bool()>& stop) {
  ContainedProcess::Spec spec;
  spec.words = WithNodeRank(task.words, EnvironmentValue("SLURM_NODEID"));
  spec.environment = common::CurrentEnvironment();
  spec.folder = task.folder;
  spec.patience_s = task.patience_s;
  ContainedProcess process(spec);
  const auto take = [](ContainedProcess::Stream stream, std::string_view text) {
    const bool is_output = stream == ContainedProcess::Stream::kOutput;
    try {
      common::WriteAll(is_output ? STDOUT_FILENO : STDERR_FILENO, "", text);
    } catch (const std::runtime_error&) {  // there is no reader
    }
  };
  while (process.Read(kLookAtRankSeconds, take)) {
    if (stop() || (task.remote && InputEnded())) {
      process.End();
    }
  }
  if (process.start_error() != 0) {
    throw std::runtime_error(fmt::format("cannot start {}: {}",
                                         spec.words.front(),
                                         strerror(process.start_error())));
  }
  const int code = common::ExitCode(process.wait_status().value_or(SIGKILL));
  return task.remote ? std::min(code, kSshFailed - 1) : code;
}

// The line that a shell of the host runs. Other variables, which may be
// secrets, are not in a command line; a login there sets what it needs.
std::string RemoteLine(const RankTask& task, const std::string& oppa,
                       std::size_t rank) {
  std::vector<std::string> words = common::CurrentEnvironment();
  std::erase_if(words, [](const std::string& variable) {
    return std::ranges::none_of(
        std::array{"OPPA_", "PATH=", "LD_LIBRARY_PATH=", "PYTHON", "CONDA_",
                   "VIRTUAL_ENV=", "CUDA_", "NCCL_", "GLOO_"},
        [&](const char* name) { return variable.starts_with(name); });
  });
  words.insert(words.begin(), "env");
  words.insert(words.end(),
               {oppa, "contain", "--remote",
                fmt::format("--patience-s={:g}", task.patience_s), "--"});
  const auto program = WithNodeRank(task.words, std::to_string(rank));
  words.insert(words.end(), program.begin(), program.end());
  return fmt::format("cd {} && exec {}",
                     common::ShellLine({task.folder.string()}),
                     common::ShellLine(words));
}

// The hosts' programs end when this pipe does, also with this process.
int RunOnHosts(const RankTask& task, const std::string& oppa,
               const std::function<bool()>& stop) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error(
        fmt::format("cannot make a pipe: {}", strerror(errno)));
  }
  const common::Descriptor input(ends[0]);
  common::Descriptor pipe(ends[1]);
  std::set<pid_t> running;
  for (std::size_t i = 0; i < task.hosts.size(); ++i) {
    const pid_t ssh = common::StartProcess(
        {.words = {"ssh", "-T", "-o", "BatchMode=yes", "-o",
                   "ServerAliveInterval=15", task.hosts[i],
                   RemoteLine(task, oppa, i)},
         .environment = common::CurrentEnvironment(),
         .input = input.get(),
         .own_group = true});
    if (ssh < 0) {
      throw std::runtime_error(
          fmt::format("cannot start ssh: {}", strerror(errno)));
    }
    running.insert(ssh);
  }
  int code = 0;
  double kill_s = std::numeric_limits<double>::infinity();
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (running.erase(ended) > 0) {
      code = code == 0 ? common::ExitCode(status) : code;
      continue;
    }
    const double now_s = common::SteadySeconds();
    if (std::isinf(kill_s) && (code != 0 || stop())) {
      kill_s = now_s + task.patience_s + kHostEndSeconds;
      pipe.Close();
    }
    for (const pid_t ssh : running) {
      if (now_s >= kill_s) {
        ::kill(ssh, SIGKILL);
      }
    }
    std::this_thread::sleep_for(
        std::chrono::duration<double>(kLookAtRankSeconds));
  }
  return code;
}

}  // namespace

int RunRanks(const RankTask& task, const std::string& oppa,
             const std::function<bool()>& stop) {
  return task.hosts.empty() ? RunHere(task, stop)
                            : RunOnHosts(task, oppa, stop);
}

}  // namespace trials
