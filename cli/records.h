// What the verbs print about the records of an experiment.

#ifndef CLI_RECORDS_H_
#define CLI_RECORDS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "plots/report.h"

namespace cli {

void PrintNotes(const std::vector<std::string>& notes);

// Prints why the records are not a complete result, on standard error. Returns
// the exit code.
[[nodiscard]] int PrintFailures(const std::vector<std::string>& failures);

// Writes the tables and figures of an experiment and prints the summary.
// Returns the exit code.
[[nodiscard]] int PrintReport(const std::filesystem::path& folder,
                              const plots::ReportOptions& options);

}  // namespace cli

#endif  // CLI_RECORDS_H_
