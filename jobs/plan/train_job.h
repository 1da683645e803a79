// A recommender for Kubernetes: from a TrainJob of Kubeflow Trainer to the same
// TrainJob with the machine and the layout that a plan finds.

#pragma once

#include <string>

#include "jobs/plan/forecast_request.h"

namespace jobs {

// The documents, YAML or JSON, where the TrainJob has the nodes, the GPUs of
// each and, in its words and environment, the configuration with the most
// tokens per second and GPU; of several sizes of the machine, too. Reasons are
// annotations. What the request lacks is read from annotations (oppa/model),
// from the words, and from the node selector of the GPU. Other documents, and
// what is not understood, stay as they are.
// Errors: throws InputError that names the key, for what cannot be known or
// set.
[[nodiscard]] std::string RecommendTrainJob(const ForecastRequest& request,
                                            const std::string& text);

}  // namespace jobs
