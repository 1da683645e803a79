// The predictions of candidates that an experiment passes to methods.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/testbed.h"
#include "trials/machine.h"
#include "trials/predictions.h"
#include "trials/search_space.h"

namespace trials {
class ReplayTable;
}  // namespace trials

namespace harness {

// The names of all sources, "" first.
[[nodiscard]] std::vector<std::string> PredictionNames(
    const common::TomlTable& predictions);

// Simulates the candidates on the machine that [predictions] names, with what
// it lacks taken from `own`, on which trials run. Of a resizable machine, each
// candidate is simulated on its part of the system. Trials on several GPU types
// need a machine with one, and none of these types may make the predictions the
// ground truth. `space` must outlive the result, here and below.
// Errors: throw InputError with a place and a remedy.
[[nodiscard]] PredictionsByName SimulatedPredictions(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const PredictedJob& own, const trials::Machine& machine);

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

// The sources, each of which is read and predicted once.
[[nodiscard]] PredictionsByName Memoized(PredictionsByName predictions);

// The sources of a testbed: the simulator, for Testbed::predicted, the table of
// the testbed, and those that need neither: a planner
// (`planner = "textbook"` in [predictions] or [predictions.NAME]), whose model
// estimates every candidate without trials, and earlier jobs (`from`; see
// EarlierJobs). They see the problem as a method does. The testbed's space must
// outlive the result; the testbed itself need not.
// Errors: throws InputError with its place for an unknown planner, one without
// a model, invalid options, and as EarlierJobs.
[[nodiscard]] PredictionsByName PredictionsOf(const ProblemSpec& problem,
                                              const Testbed& testbed);

// Reads the planners of all sources: errors as above.
void CheckPlanners(const ProblemSpec& problem, const Testbed& testbed);

}  // namespace harness
