// The sources of predictions of each backend: what they simulate.

#ifndef HARNESS_TESTBEDS_PREDICTION_SOURCES_H_
#define HARNESS_TESTBEDS_PREDICTION_SOURCES_H_

#include <filesystem>
#include <functional>
#include <string>

#include "common/error.h"
#include "harness/spec.h"
#include "harness/testbeds/predictions.h"
#include "trials/search_space.h"
#include "trials/trained_job.h"
#include "trials/workload.h"

namespace trials {
class ReplayTable;
}

namespace harness {

// Simulates the candidates on the machine that [predictions] names, with what
// it lacks taken from `own`, the machine of the problem. `simulated`: `own`
// runs the trials, so that predictions for it would be the ground truth. Of a
// resizable machine, each candidate is simulated on its part of the system.
// `space` must outlive the result, here and below.
// Errors: throw InputError with a place and a remedy.
[[nodiscard]] PredictionsByName SimulatedPredictions(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::Workload& workload, const System& own, bool simulated,
    const trials::Machine& machine);

// Simulates the scenario of a measured table as its facts describe it.
// `path` is that of the table, and `architecture` that of the problem's GPU.
[[nodiscard]] PredictionsByName TablePredictions(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::ReplayTable& table, const std::filesystem::path& path,
    const std::string& architecture);

// The job of a measured table, read once, by the facts that [predictions] names
// or that the table's name selects.
// Errors: the function throws InputError for facts that are incomplete, and for
// rows with different workloads.
[[nodiscard]] std::function<const trials::TrainedJob*()> DescribedJob(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::ReplayTable& table, const std::filesystem::path& path);

// The same sources, each of which is read and predicted once.
[[nodiscard]] PredictionsByName Memoized(PredictionsByName predictions);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_PREDICTION_SOURCES_H_
