// What the command line of a training job and the machine say about the job.

#ifndef JOBS_JOB_DRAFT_H_
#define JOBS_JOB_DRAFT_H_

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "jobs/init.h"
#include "jobs/machine_detection.h"
#include "trials/parallel_config.h"
#include "trials/programs/adapter.h"

namespace jobs {

// The cluster that predictions are for, a name of experiments/clusters: the
// usual one of the GPU, or, for an unknown GPU or number of hosts, another one.
struct Likeness {
  std::string cluster;
  std::string note;  // for the manifest; may be empty
};

// Nothing if the simulator has no cluster for the devices.
[[nodiscard]] std::optional<Likeness> LikenessOf(const Machine& machine);

// A job before its manifest is written.
struct JobDraft {
  Machine machine;
  trials::AdapterJob job;
  std::optional<trials::Adapter> adapter;
  std::optional<trials::ParallelConfig> present;
  std::vector<std::string> notes;
  std::optional<Likeness> like;  // without a cluster file
};

// Errors: throws InputError for what the command line does not say and the
// options lack, with the option to give.
[[nodiscard]] JobDraft DraftJob(const InitOptions& options);

// The text as a string of a manifest, with its quotes.
[[nodiscard]] std::string TomlString(const std::string& text);

}  // namespace jobs

#endif  // JOBS_JOB_DRAFT_H_
