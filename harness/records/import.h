// Imports trials that were measured elsewhere, as observations.

#ifndef HARNESS_RECORDS_IMPORT_H_
#define HARNESS_RECORDS_IMPORT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "trials/knobs.h"
#include "trials/trial.h"

namespace harness {

// The numbers that convert samples/s and tokens/s.
struct StepSize {
  double samples = 0.0;  // sequences per step; 0: unknown
  double tokens = 0.0;   // tokens per step; 0: unknown
};

// Reads a table of trials: a column per knob (name, alias or flag), the step
// time (step_time_s, step_time_ms) or the throughput
// (throughput_steps_per_s, samples_per_s, tokens_per_s), the peak memory
// (peak_memory_bytes, _mib, _gb), outcome and message. A row without outcome
// completed if it has a step time or throughput, else it failed. Without
// throughput_variance or step_time_stddev_s, the standard deviation is taken as
// 5% of the throughput. Other columns are ignored and named in `notes`, among
// them those of the program's own trials.csv.
// Errors: throws InputError "file:line:column: ..." for a cell that is not
// valid, and "file:line: ..." for a header without a known column or with two
// columns of one meaning, and for a row that completed without throughput.
[[nodiscard]] std::vector<trials::Trial> ReadTrialTable(
    const std::filesystem::path& path, const trials::KnobSet& knobs,
    const StepSize& step, std::vector<std::string>& notes);

// Adds the trials of the files to every run of the experiment, behind the
// trials on record. Configurations that are not candidates, and those that were
// tried before, are left out. A finished run is unfinished then. Returns what
// was done, one line each.
// Errors: as ReadTrialTable, CheckRecords and Journal; nothing is written if a
// file is wrong.
std::vector<std::string> ImportTrials(
    const Manifest& manifest, const std::filesystem::path& experiment_folder,
    const std::vector<std::filesystem::path>& files);

}  // namespace harness

#endif  // HARNESS_RECORDS_IMPORT_H_
