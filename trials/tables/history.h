// Trials in the files of other tuners.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/csv_table.h"
#include "trials/rules.h"

namespace trials {

// A table with the columns of MeasuredRow: that of the file, or what one of
// experiments/histories makes of the file of another tuner:
//
//   title = "..."             the tuner and its file
//   needs = ["a", "b"]        it is the file's if the header has these columns
//   prefixes = ["params_"]    taken off other columns
//   [columns]                 column = "column of MeasuredRow"; "": no effect
//   [[skip]]                  rows that are left out: column, is
//   [[cells]]                 column, is: set = {column of MeasuredRow = cell}
//   [[compute]]               column of MeasuredRow = value, an expression of
//                             rules, where the cell of the column `from` is not
//                             empty
//
// A folder is that of DeepSpeed's autotuner: a row for each folder in it, with
// the keys of its JSON files. `context`: values of the variables of the job.
// `notes` gets a line that says what is read as what.
// Errors: throws InputError "file:line: ...", also for an expression whose
// value is no integer.
[[nodiscard]] common::CsvTable ReadHistory(const std::filesystem::path& path,
                                           const Rule::Context& context,
                                           std::vector<std::string>& notes);

// Whether a folder is one that ReadHistory reads.
[[nodiscard]] bool IsHistoryFolder(const std::filesystem::path& path);

}  // namespace trials
