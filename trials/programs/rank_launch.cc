#include "trials/programs/rank_launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/pattern.h"
#include "common/process.h"
#include "common/text.h"
#include "trials/containment/contained_process.h"
#include "trials/programs/error_line.h"
#include "trials/programs/trial_report.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::EnvironmentValue;
using common::InputError;
using Ranks = CommandOptions::Ranks;

constexpr int kSshFailed = 255;  // the exit code of ssh itself
constexpr int kConnectSeconds = 30;
constexpr const char* kAnswer = "oppa: the host answers";
constexpr int kLookAtHostMilliseconds = 100;
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
  // A name or an address of IPv6, and the words of DeepSpeed and Open MPI.
  static const common::Pattern form(
      R"(^(([\w.-]+@)?(\w[\w.-]*|[\da-fA-F]*:[\da-fA-F:.]*:[\w.%]*)))"
      R"((\s+(slots|max_slots|max-slots)\s*=\s*[1-9]\d*)*$)");
  std::map<std::string, unsigned> lines;  // of the hosts
  std::vector<std::string> hosts;
  const std::string content = common::ReadFile(file);
  unsigned number = 0;
  for (std::string_view line :
       common::Split(common::WithoutByteOrderMark(content), '\n')) {
    ++number;
    line = common::Trim(line.substr(0, line.find('#')));
    const auto found = form.Find(line);
    if (!line.empty() && found.empty()) {
      throw InputError(fmt::format(
          "{}:{}: '{}' is not 'HOST', 'USER@HOST' or 'HOST slots=N'; a port "
          "belongs into ~/.ssh/config (Host, Port)",
          file.string(), number, line));
    }
    if (!line.empty()) {
      hosts.emplace_back(found[1]);
      const auto [other, is_new] = lines.emplace(found[3], number);
      if (!is_new) {
        throw InputError(
            fmt::format("{}:{}: the host '{}' is that of line {}: write it "
                        "once",
                        file.string(), number, found[3], other->second));
      }
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
                      const std::optional<int>& status,
                      const std::string& said) {
  // What ssh says of a host that another try does not reach, either; and what
  // srun says of nodes that it may.
  static const common::Pattern for_good(
      R"(Permission denied \(|Could not resolve|Host key verification failed|)"
      R"(Too many authentication failures|no matching|Bad (configuration|owner))");
  static const common::Pattern for_now(
      R"((?i)timed out|unable to contact|expired|complet|fail(ed|ure)|busy|)"
      R"(temporar|try again|connection|transport|down)");
  const auto refused = [&said](const std::string& remedy) {
    throw std::runtime_error(
        fmt::format("the ranks cannot be started: {}; {}", said, remedy));
  };
  if (!options.hosts.empty()) {
    if (!status || !WIFEXITED(*status) || WEXITSTATUS(*status) != kSshFailed) {
      return "";
    }
    if (for_good.IsIn(said)) {
      refused("make `ssh -o BatchMode=yes HOST true` succeed for that host");
    }
    return said.empty() ? "ssh cannot reach a host, or lost it" : said;
  }
  if (options.ranks == Ranks::kOne) {
    return "";
  }
  const std::string job = EnvironmentValue("SLURM_JOB_ID");
  const std::string state =
      AskSlurm({"squeue", "--noheader", "--format=%T", "--jobs=" + job});
  if (!state.empty() && state != "RUNNING") {
    return fmt::format("job {} is in state {}", job, state);
  }
  if (!said.empty() && !for_now.IsIn(said)) {
    refused(fmt::format("compare --gpus with the nodes of job {}", job));
  }
  return said;
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
  return fmt::format(
      "echo {} >&2; cd {} && exec {}", common::ShellLine({kAnswer}),
      common::ShellLine({task.folder.string()}), common::ShellLine(words));
}

// One host's ssh.
class HostShell {
 public:
  HostShell(const RankTask& task, const std::string& oppa, std::size_t rank,
            int input)
      : host_(task.hosts[rank]) {
    std::array<int, 2> ends = Pipe();
    errors_ = common::Descriptor(ends[0]);
    const common::Descriptor errors(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pid_ = common::StartProcess(
        {.words = {"ssh", "-T", "-o", "BatchMode=yes", "-o",
                   fmt::format("ConnectTimeout={}", kConnectSeconds), "-o",
                   "ServerAliveInterval=15", host_,
                   RemoteLine(task, oppa, rank)},
         .environment = common::CurrentEnvironment(),
         .input = input,
         .errors = errors.get(),
         .own_group = true});
    if (pid_ < 0) {
      throw std::runtime_error(
          fmt::format("cannot start ssh: {}", strerror(errno)));
    }
  }

  // A pipe's ends, for reading and writing.
  static std::array<int, 2> Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error(
          fmt::format("cannot make a pipe: {}", strerror(errno)));
    }
    return ends;
  }

  // Prints what is there on stderr.
  void Forward() {
    std::array<char, 4096> piece{};
    ssize_t got = 0;
    while ((got = ::read(errors_.get(), piece.data(), piece.size())) > 0) {
      std::string text(piece.data(), static_cast<std::size_t>(got));
      lines_.Take(text, [this](std::string_view line) { Take(line); });
      if (const std::size_t at = text.find(kAnswer); at != std::string::npos) {
        text.erase(at, std::string_view(kAnswer).size() + 1);
      }
      Print(text);
    }
    if (got == 0) {
      errors_.Close();
    }
  }

  // Prints the rest, and, if ssh failed, the host and its reason. Returns the
  // exit code.
  int End(int status) {
    Forward();
    lines_.Finish([this](std::string_view line) { Take(line); });
    const int code = late_ ? kSshFailed : common::ExitCode(status);
    if (code == kSshFailed) {
      Print(fmt::format(
          "{}{}: {}\n", kSshFailure, host_,
          late_ ? fmt::format("no answer for {} s", 2 * kConnectSeconds)
          : last_.empty() ? std::string("it ended silently")
                          : last_));
    }
    return code;
  }

  // Ends the ssh of a host on which nothing starts.
  void EndIfLate(double now_s) {
    if (!answers_ && !late_ && now_s - begin_s_ > 2 * kConnectSeconds) {
      late_ = true;
      ::kill(pid_, SIGKILL);
    }
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int errors() const { return errors_.get(); }

 private:
  static void Print(const std::string& text) {
    try {
      common::WriteAll(STDERR_FILENO, "", text);
    } catch (const std::runtime_error&) {  // there is no reader
    }
  }

  void Take(std::string_view line) {
    answers_ = answers_ || line == kAnswer;
    last_ = line == kAnswer ? last_ : common::Trim(line);
  }

  std::string host_;
  pid_t pid_ = -1;
  common::Descriptor errors_;
  LineReader lines_;
  std::string last_;
  bool answers_ = false;
  bool late_ = false;
  double begin_s_ = common::SteadySeconds();
};

// The hosts' programs end when this pipe does, also with this process.
int RunOnHosts(const RankTask& task, const std::string& oppa,
               const std::function<bool()>& stop) {
  const std::array<int, 2> ends = HostShell::Pipe();
  const common::Descriptor input(ends[0]);
  common::Descriptor pipe(ends[1]);
  std::vector<HostShell> running;
  for (std::size_t i = 0; i < task.hosts.size(); ++i) {
    running.emplace_back(task, oppa, i, input.get());
  }
  int code = 0;
  double kill_s = std::numeric_limits<double>::infinity();
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    const auto found = std::ranges::find(running, ended, &HostShell::pid);
    if (found != running.end()) {
      const int host_code = found->End(status);
      code = code == 0 ? host_code : code;
      running.erase(found);
      continue;
    }
    const double now_s = common::SteadySeconds();
    if (std::isinf(kill_s) && (code != 0 || stop())) {
      kill_s = now_s + task.patience_s + kHostEndSeconds;
      pipe.Close();
    }
    std::vector<pollfd> said;
    for (HostShell& shell : running) {
      shell.Forward();
      shell.EndIfLate(now_s);
      said.push_back({shell.errors(), POLLIN, 0});
      if (now_s >= kill_s) {
        ::kill(shell.pid(), SIGKILL);
      }
    }
    ::poll(said.data(), said.size(), kLookAtHostMilliseconds);
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
