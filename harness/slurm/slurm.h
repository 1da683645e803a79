// Executes jobs as array tasks of Slurm.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/dispatcher.h"
#include "harness/slurm/submission.h"

namespace harness {

// Submit submits one array for each set of equal resources and each range of
// MaxArraySize ids, and a last job that starts after the arrays have ended:
// `oppa run-task FOLDER finish`, which retries the runs that failed because of
// the machine and then reports. Therefore no process of oppa has to stay alive.
//
// Poll calls squeue, at most every few seconds and for all jobs at once, and
// reads the records. If a run is done according to its records, the state in
// Slurm does not matter, and a job of that run that is still held is cancelled.
// Poll also follows the jobs that the last job submits.
//
// The destructor does not cancel jobs.
//
// Errors: Submit throws std::runtime_error with sbatch's own message, after
// cancelling what it had submitted. If the controller's answer is lost, nothing
// is submitted twice.
class Slurm final : public Dispatcher {
 public:
  // `submission`: complete except for the arrays.
  Slurm(SlurmSubmission submission, std::filesystem::path experiment_folder);

  void Submit(const std::vector<Job>& jobs) override;
  // With the history of earlier submissions.
  void Submit(const std::vector<SlurmTask>& tasks);
  [[nodiscard]] std::vector<JobReport> Poll(double wait_s) override;

  [[nodiscard]] const SlurmSubmission& submission() const {
    return submission_;
  }

 private:
  [[nodiscard]] std::vector<JobReport> Look();

  SlurmSubmission submission_;
  std::filesystem::path experiment_folder_;
  std::map<std::string, Job> waiting_;  // by name, until they have ended
  std::map<std::string, bool> started_;
  double next_look_s_ = 0.0;  // steady clock
};

// The commands of a submission as a readable script. Job ids that are not known
// yet are placeholders in capitals.
[[nodiscard]] std::string FormatSubmission(const SlurmSubmission& submission,
                                           const std::vector<Job>& jobs,
                                           int max_array_size);

}  // namespace harness
