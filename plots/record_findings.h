// What keeps records from being the result that they look like.

#pragma once

#include <filesystem>
#include <string>

#include "plots/experiment_records.h"

namespace trials {
class RecordList;
}

namespace plots {

// Adds lines to the notes or failures of `records` about methods of the
// problem: none of its trials completed, it chose none of them, or another
// method has the same. `prefix` names the problem, as in "b64: ".
void AddFindings(const std::string& prefix, const ProblemRecords& problem,
                 ExperimentRecords& records);

// Adds a note if the folder of the experiment has runs that the last `oppa
// run`, which wrote experiment.json, did not name.
void AddOtherRuns(const std::filesystem::path& folder,
                  const trials::RecordList& list, ExperimentRecords& records);

}  // namespace plots
