// Imports trials that were measured elsewhere, as observations.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment.h"
#include "trials/parallel_config.h"
#include "trials/rules.h"
#include "trials/tables/measured_rows.h"
#include "trials/trial.h"

namespace harness {

// Reads a table of trials (ReadHistory). A row without outcome
// completed if it has a step time or throughput, else it failed. Without a
// column throughput_variance or step_time_stddev_s, the standard deviation is
// taken as 5% of the throughput. Other columns are ignored and named in
// `notes`, among them those of the program's own trials.csv.
// Errors: throws InputError "file:line: ..." for a cell that is not valid, for
// a header without a known column or with two columns of one meaning, and for a
// row that completed without throughput.
[[nodiscard]] std::vector<trials::Trial> ReadTrialTable(
    const std::filesystem::path& path, const trials::KnobSet& knobs,
    const trials::StepSize& step, std::vector<std::string>& notes,
    const trials::Rule::Context& context = {});

// Adds the trials of the files to every run of the experiment, behind the
// trials on record. Those outside of Testbed::limits have failed, with a note.
// Configurations that are not candidates, and those that were tried before, are
// left out. A finished run is unfinished then. Returns what was done, one line
// each. Errors: as ReadTrialTable, CheckRecords and Journal; nothing is written
// if a file is wrong.
std::vector<std::string> ImportTrials(
    const Experiment& experiment,
    const std::vector<std::filesystem::path>& files);

}  // namespace harness
