// Predictions by the model of a planner.

#ifndef HARNESS_TESTBEDS_PLANNER_PREDICTIONS_H_
#define HARNESS_TESTBEDS_PLANNER_PREDICTIONS_H_

#include "common/error.h"
#include "harness/spec.h"
#include "harness/testbed.h"
#include "harness/testbeds/predictions.h"

namespace harness {

// The sources of a backend, and those with a planner (`planner = "textbook"` in
// [predictions] or [predictions.NAME]), whose model estimates every candidate
// without trials and without the simulator. The planner sees the problem as a
// method does. The backend's space must outlive the result; the backend itself
// need not.
// Errors: throws InputError with its place for an unknown planner, one without
// a model, and invalid options.
[[nodiscard]] PredictionsByName WithPlanners(const ProblemSpec& problem,
                                             const Testbed& testbed);

// Reads the planner of the settings, if there is one: errors as above.
void CheckPlanner(const PredictionSettings& settings, const Testbed& testbed);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_PLANNER_PREDICTIONS_H_
