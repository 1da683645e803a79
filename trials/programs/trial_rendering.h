// The command line and the environment of an external training program, with
// placeholders such as {tp} and {max_steps}.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/json.h"
#include "trials/cluster.h"
#include "trials/programs/command_options.h"
#include "trials/search_space.h"
#include "trials/trial_runner.h"

namespace trials {

// The value of a parameter; of one that follows from the others and the batch
// size, the value that it has.
[[nodiscard]] int ValueOf(const Knob& knob, const ParallelConfig& config,
                          int batch_size);

// Parameters in which configurations differ that give the program the same
// words; none for a program whose words name no parameter: it reads OPPA_TRIAL.
[[nodiscard]] std::vector<std::string> UnnamedParameters(
    const CommandOptions& options, const SearchSpace& space);

// The values of all placeholders by name: every parameter, {config},
// {max_steps}, {seed}, {gpus}, {nodes}, {gpus_per_node}, {node_rank},
// {master_addr} ("" where the job does not name it) and {master_port}.
[[nodiscard]] std::map<std::string, std::string> Placeholders(
    const CommandOptions& options, const Cluster& cluster,
    const TrialRequest& request);

// The command line of a trial, with its placeholders replaced and LaunchWords
// (rank_launch.h) ahead.
[[nodiscard]] std::vector<std::string> TrialWords(const CommandOptions& options,
                                                  const Cluster& cluster,
                                                  const TrialRequest& request);

// Renders the job with what the adapter adds: flags, variables and files in the
// folder `files`, which the caller writes. `as_given`: the user's own settings
// instead of those of the configuration. Errors: as Adapter::Render.
[[nodiscard]] RenderedJob RenderTrial(const CommandOptions& options,
                                      const Cluster& cluster,
                                      const TrialRequest& request,
                                      const std::filesystem::path& files,
                                      bool as_given = false);

// The job with a configuration, for the user: without what an adapter adds for
// trials. {max_steps} and {seed} are those of the request, {node_rank} and
// {master_addr} stay. A program whose words name no parameter reads them from
// OPPA_TRIAL, which is in the environment of the job.
[[nodiscard]] RenderedJob RenderJob(const CommandOptions& options,
                                    const Cluster& cluster,
                                    const TrialRequest& request,
                                    const std::filesystem::path& files);

// The job that the manifest describes, without a configuration.
[[nodiscard]] AdapterJob JobOf(const CommandOptions& options,
                               const Cluster& cluster);

// The value of each parameter by its name, as in OPPA_TRIAL.
[[nodiscard]] common::Json ParametersAsJson(const KnobSet& knobs,
                                            const ParallelConfig& config,
                                            int batch_size);

// The environment of a trial: that of this process without OMP_NUM_THREADS,
// then OPPA_TRIAL (the whole request as JSON), OPPA_<FIELD>, OPPA_MAX_STEPS,
// OPPA_SEED, then the variables of the manifest.
[[nodiscard]] std::vector<std::string> TrialEnvironment(
    const CommandOptions& options, const Cluster& cluster,
    const TrialRequest& request);

}  // namespace trials
