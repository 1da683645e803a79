// The testbeds whose trials are programs on the cluster, in wall-clock time.

#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "harness/testbed.h"
#include "trials/adapters/adapter.h"
#include "trials/cluster.h"
#include "trials/programs/command_runner.h"
#include "trials/programs/rank_launch.h"
#include "trials/programs/trial_rendering.h"

namespace harness {

// The program that trials run: the user's job.
class ProgramJob {
 public:
  // The runner must outlive the object.
  ProgramJob(trials::CommandOptions options, trials::Cluster cluster,
             trials::CommandRunner& runner)
      : options_(std::move(options)),
        cluster_(std::move(cluster)),
        runner_(runner) {}

  // Trials can run with the user's own settings instead of a configuration's.
  [[nodiscard]] bool RunsAsGiven() const { return options_.adapter != nullptr; }
  // Precondition: RunsAsGiven() or !as_given.
  void RunAsGiven(bool as_given) { runner_.RunAsGiven(as_given); }

  // The job with the configuration of a request, with its files in the given
  // folder.
  [[nodiscard]] trials::RenderedJob Render(
      const trials::TrialRequest& request,
      const std::filesystem::path& files) const {
    return trials::RenderJob(options_, cluster_, request, files);
  }
  [[nodiscard]] const trials::CommandOptions& options() const {
    return options_;
  }
  // As predictions see it.
  [[nodiscard]] const trials::Cluster& cluster() const { return cluster_; }

  // Where and how the ranks of several nodes start; see trials::DescribeNodes.
  [[nodiscard]] std::string Nodes() const {
    return trials::DescribeNodes(options_, cluster_);
  }

  // Keeps the output of trials in the folder.
  void KeepLogs(const std::filesystem::path& folder) {
    runner_.KeepLogs(folder);
  }

 private:
  trials::CommandOptions options_;
  trials::Cluster cluster_;
  trials::CommandRunner& runner_;
};

// A program that the manifest names. Format: docs/external-trials.md.
[[nodiscard]] Testbed MakeCommand(const ProblemSpec& problem);

// Trials that a client of `oppa serve` runs; see docs/python.md.
[[nodiscard]] Testbed MakeClient(const ProblemSpec& problem);

// oppa-train, next to the program oppa, with the model, batch and sequence
// length of [workload] and the memory of a GPU of [cluster] as its capacity.
[[nodiscard]] Testbed MakeTrainer(const ProblemSpec& problem);

}  // namespace harness
