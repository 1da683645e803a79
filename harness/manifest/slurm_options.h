// The Slurm settings of a site and of a manifest.

#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"
#include "common/toml_table.h"

namespace harness {

// How jobs are submitted. Every value but `setup` becomes a word on the command
// line of sbatch; no shell is involved.
struct SlurmOptions {
  enum class Resources {
    kAuto,     // the cluster's for real backends, one core for simulated ones
    kCluster,  // the nodes and GPUs of the manifest's cluster
    kCpu,      // cores only
  };
  std::string partition;  // empty: the site's default, as for the next three
  std::string account;
  std::string qos;
  std::string constraint;
  int time_minutes = 0;  // limit of a task; >= 0; 0: the partition's
  int cpus = 0;          // per task; 0: four per GPU, at least one
  int memory_mb = 0;     // per node; >= 0; 0: the site's default
  Resources resources = Resources::kAuto;
  int max_running = 0;  // tasks at a time; >= 0; 0: as many as fit
  int retries = 2;      // of a run after failures of the machine; >= 0
  bool requeue_until_done = false;   // continue in a new job after a time limit
  std::vector<std::string> options;  // more of sbatch's, "--name=value"
  std::vector<std::string> environment;  // variables that jobs get as well
  std::vector<std::string> setup;  // lines of sh before the program starts

  // Without `resources`, which the arrays of a submission contain.
  OPPA_FIELDS(SlurmOptions, partition, account, qos, constraint, time_minutes,
              cpus, memory_mb, max_running, retries, requeue_until_done,
              options, environment, setup);
};

constexpr std::array<std::string_view, 3> NamesOf(SlurmOptions::Resources) {
  return {"auto", "cluster", "cpu"};
}

// Reads the keys of a [slurm] table over `defaults`.
// Errors: throws InputError with the place of an invalid value, of an option
// that oppa sets itself, and of an unknown key.
[[nodiscard]] SlurmOptions ReadSlurmOptions(const common::TomlTable& table,
                                            const SlurmOptions& defaults);

// Reads the site's file, which has the same keys: $OPPA_SLURM_SITE, or
// oppa/slurm.toml in the user's configuration folder ($XDG_CONFIG_HOME,
// ~/.config). It is optional.
[[nodiscard]] std::filesystem::path SlurmSiteFile();

// The site's options, overridden by the manifest's table.
[[nodiscard]] SlurmOptions SlurmOptionsFor(const common::TomlTable& manifest);

}  // namespace harness
