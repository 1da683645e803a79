// Finds a faster configuration of a training job: preflight, search, repeated
// measurements of the best, and the command line to use.

#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "jobs/tune/tune_job.h"

namespace jobs {

struct TuneOptions {
  std::filesystem::path manifest;  // of a search with type = "command"
  std::string command;             // the command line of oppa, for records
  int finalists = 3;               // measured again at the end; 0: none
  bool accept_changed = false;     // see harness::PrepareRecords
  MakeTrialJobs trial_jobs;        // empty: trials run in this process
  std::filesystem::path profile;   // of the present job (Profile); "": none
  // Writes the result page of a folder and returns its path; called after every
  // trial and at the end. Empty: no page. If it throws, the search continues.
  std::function<std::filesystem::path(const std::filesystem::path&)> write_page;
  Reporter reporter;  // shows the progress and the result
};

// Runs, or resumes, the whole search. Returns the exit code: 0; 1 if no
// configuration works or the first three trials fail alike; 128 + n after
// signal n, or harness::kStoppedEarly if nodes were lost, when the same command
// resumes. Errors: throws InputError for a manifest that is not of one search
// with a program, LeaseLost while another process tunes in the folder.
[[nodiscard]] int Tune(const TuneOptions& options);

}  // namespace jobs
