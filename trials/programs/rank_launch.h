// How the processes of a trial are started on several nodes: with srun in an
// allocation of Slurm, or with ssh on the hosts of a file.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trials/cluster.h"
#include "trials/programs/command_options.h"

namespace trials {

// The hosts of a file, one on each line: "node1", "user@node2 slots=8"; '#'
// begins a comment.
// Errors: throws InputError "file:line: ..." for a host with a port, one that
// comes twice and other text, and for a file without hosts.
[[nodiscard]] std::vector<std::string> ReadHosts(
    const std::filesystem::path& file);

// The words that start the program on the nodes, ahead of its own.
[[nodiscard]] std::vector<std::string> LaunchWords(
    const CommandOptions& options, const Cluster& cluster);

// The address of the first node; "localhost" if oppa starts one process.
[[nodiscard]] std::string MasterAddress(const CommandOptions& options);

// "srun on n[1-4], the 4 nodes of job 17"; "" if oppa starts one process.
// Errors: throws InputError, with the remedies, where this process cannot start
// the ranks: outside of an allocation of Slurm, in one with other nodes or GPUs
// than the cluster, or with too few hosts.
[[nodiscard]] std::string DescribeNodes(const CommandOptions& options,
                                        const Cluster& cluster);

// Why the end of the ranks is not the trial's fault: the connection to a host
// was lost, or the job of Slurm ends; "" otherwise. `status`: as by waitpid(2);
// `said`: ErrorLine::launch().
// Errors: throws std::runtime_error where ssh or srun say why they never start
// the ranks, so that another try does not help.
[[nodiscard]] std::string LostNodes(const CommandOptions& options,
                                    const std::optional<int>& status,
                                    const std::string& said);

// The program of one node, or, with hosts, of each.
struct RankTask {
  std::vector<std::string> words;  // {node_rank} is replaced
  std::filesystem::path folder;    // where it starts; empty: here
  double patience_s = 5.0;         // see ContainedProcess::Spec
  bool remote = false;             // the end of stdin is a request to stop
  std::vector<std::string> hosts;
};

// Runs the program as a ContainedProcess, with the output of this process as
// its own; with hosts, `oppa contain --remote` on each by ssh, until the first
// one fails. Ends after `stop`, too, when nothing runs any more. Returns the
// exit code of the first that failed, 128 + n after signal n, 255 if ssh lost a
// host, or did not reach it in a minute: then a line on stderr names it and
// gives ssh's reason. `oppa`: the path of this program, here and on the hosts.
// Errors: throws std::runtime_error if the program cannot be started.
[[nodiscard]] int RunRanks(const RankTask& task, const std::string& oppa,
                           const std::function<bool()>& stop);

}  // namespace trials
