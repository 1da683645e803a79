// Executes jobs as array tasks of Slurm.

#ifndef HARNESS_SLURM_SLURM_H_
#define HARNESS_SLURM_SLURM_H_

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/dispatcher.h"
#include "harness/slurm/slurm_state.h"
#include "harness/slurm/slurm_tasks.h"

namespace harness {

// Submit gives the jobs to sbatch, as one array for each kind of need and
// each stretch of MaxArraySize ids, and a last job that starts when the arrays
// are through: `oppa run-task FOLDER finish`, which submits again what the
// machine failed and then reports. So nothing of ours has to stay alive.
//
// Poll asks squeue, at most every few seconds and for all jobs at once, and
// `is_done` about each job's record: what the record says counts, whatever
// Slurm says. Jobs that the last job submits again are followed too. A job
// that is done but still held in the queue is cancelled there.
//
// The destructor leaves jobs alone.
//
// Errors: Submit throws std::runtime_error with sbatch's own message, after
// cancelling what it had submitted; nothing is submitted twice when the
// controller's answer is lost.
class Slurm final : public Dispatcher {
 public:
  using IsDone = std::function<bool(const Job&)>;

  // `submission` says everything but the arrays.
  Slurm(SlurmSubmission submission,
        std::filesystem::path experiment_folder,
        IsDone is_done);

  void Submit(const std::vector<Job>& jobs) override;
  // With what is known of earlier submissions.
  void Submit(const std::vector<SlurmTask>& tasks);
  [[nodiscard]] std::vector<JobReport> Poll(double wait_s) override;

  [[nodiscard]] const SlurmSubmission& submission() const {
    return submission_;
  }

 private:
  [[nodiscard]] std::vector<JobReport> Look();

  SlurmSubmission submission_;
  std::filesystem::path experiment_folder_;
  IsDone is_done_;
  std::map<std::string, Job> waiting_;  // by name, until they have ended
  std::map<std::string, bool> started_;
  double next_look_s_ = 0.0;  // steady clock
};

// The commands of a submission as a script for people to read, with the ids
// that are known only later as words in capitals.
[[nodiscard]] std::string FormatSubmission(const SlurmSubmission& submission,
                                           const std::vector<Job>& jobs,
                                           int max_array_size);

}  // namespace harness

#endif  // HARNESS_SLURM_SLURM_H_
