// What predicts the candidates of a problem, as testbeds hold it.

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trials/cluster.h"
#include "trials/predictions.h"
#include "trials/workload.h"

namespace trials {
struct Framework;
}  // namespace trials

namespace harness {

// A source of predictions for one problem.
struct PredictionSource {
  // The machine and the changes, one line for display: "simulator of
  // a100-selene (8 x A100-SXM4-80GB), megatron-core; memory x 0.5".
  std::string description;
  // Everything that the predictions depend on except the tables of the problem:
  // settings and the contents of files. For run hashes.
  std::string identity;
  std::function<trials::Predictions()> predict;
};

// The source with that name, "" for the table [predictions].
// Errors: throws InputError with a remedy if there is no such source.
using PredictionsByName =
    std::function<PredictionSource(const std::string& name)>;

// What is simulated: hardware and software.
struct System {
  trials::Cluster cluster;
  std::shared_ptr<const trials::Framework> framework;
  std::string framework_name;                 // for display
  std::vector<std::filesystem::path> inputs;  // its files, for run hashes
};

// The job that predictions are for, and what runs its trials.
struct PredictedJob {
  trials::Workload workload;
  std::vector<System> systems;  // one for each GPU type of the machine
  // The systems are simulated: predictions of them would be the ground truth.
  bool simulated = false;
};

}  // namespace harness
