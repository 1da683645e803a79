// A job for Kubernetes: a TrainJob of Kubeflow Trainer.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/json.h"
#include "jobs/job.h"
#include "trials/adapters/adapter.h"

namespace jobs {

// What oppa writes into and reads from a TrainJob: annotations "oppa/NAME".
inline constexpr const char* kAnnotationPrefix = "oppa/";
inline constexpr const char* kTrainJobVersion = "trainer.kubeflow.org/v1alpha1";

// The resource that a container asks for: "nvidia.com/gpu", "amd.com/gpu".
[[nodiscard]] std::string GpuResource(const trials::Gpu& gpu);

// The words without what Kubeflow Trainer says to torchrun by its environment
// (PET_NNODES, ...): the nodes, the processes of each and their rendezvous.
[[nodiscard]] std::vector<std::string> WithoutRendezvous(
    std::vector<std::string> words);

// A ConfigMap with the files of `folder`, which the containers have in /oppa,
// and the TrainJob, as YAML. `queue`: a LocalQueue of Kueue; "": not queued.
// Errors: throws InputError for a launch that is not torchrun's.
[[nodiscard]] std::string TrainJobText(const Job& job,
                                       const trials::ParallelConfig& config,
                                       const trials::RenderedJob& launch,
                                       const std::string& queue);

}  // namespace jobs
