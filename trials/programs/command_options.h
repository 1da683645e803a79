// The settings of an external training program in a manifest.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/knob_set.h"
#include "trials/workload.h"

namespace trials {

// The [backend] table of type "command". Format: docs/external-trials.md.
struct CommandOptions {
  // The number of processes of the program, and how they are started.
  enum class Ranks {
    kOne,      // oppa starts one; it may start others (torchrun, mpirun)
    kPerNode,  // srun or ssh, one on each node of the cluster
    kPerGpu,   // srun, one for each GPU
  };
  KnobSet knobs = BuiltInKnobs();
  std::vector<std::string> program;      // program and arguments; no shell
  std::vector<std::string> environment;  // "NAME=value", additional
  std::filesystem::path folder;          // where it starts
  Ranks ranks = Ranks::kOne;
  std::vector<std::string> hosts;         // with per-node: for ssh; empty: srun
  std::vector<std::string> rank_wrapper;  // `oppa contain`, for each rank
  double timeout_s = 3600.0;              // of a trial; > 0
  double silence_s = 600.0;               // without a report: hung; > 0
  // Steps ahead of those that are requested; a part of the set-up. >= 0.
  int warmup_steps = 0;
  double patience_s = 10.0;          // from SIGTERM to SIGKILL; >= 0
  std::int64_t log_bytes = 1 << 20;  // of the output that is kept; > 0
  // Strings in the output that mean out of memory.
  std::vector<std::string> out_of_memory = UsualLogPatterns().out_of_memory;
  // `framework`: renders the command line of a trial; nullptr if there is none.
  std::shared_ptr<const Adapter> adapter;
  // The patterns of the adapter, with those of [backend.log] instead where
  // given.
  std::shared_ptr<const LogPatterns> log;
  Workload workload;  // what the job trains; for the adapter and the log
};

constexpr std::array<std::string_view, 3> NamesOf(
    CommandOptions::Ranks /*type*/) {
  return {"one", "per-node", "per-gpu"};
}

// Errors: throws InputError with the place of an invalid value, of an unknown
// placeholder, and of a program that does not exist.
[[nodiscard]] CommandOptions ReadCommandOptions(
    const common::TomlTable& table, const KnobSet& knobs = BuiltInKnobs());

// Reads the table without `program` and `ranks`, for a program that is known.
[[nodiscard]] CommandOptions ReadTrialOptions(
    const common::TomlTable& table, const KnobSet& knobs = BuiltInKnobs());

}  // namespace trials
