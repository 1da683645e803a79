// The records of a run: what is written, and how it is read back.
//
//   results/<experiment>/experiment.json                 what was asked
//   results/<experiment>/[<problem>/]problem.json        what is known of it
//   results/<experiment>/[<problem>/]<method>/<repeat>/
//       trials.csv steps.csv fits.csv thinking.csv run.json
//
// docs/record_format.md gives column, unit and meaning of each.

#ifndef TRIALS_RECORD_H_
#define TRIALS_RECORD_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "trials/measurement.h"
#include "trials/knobs.h"

namespace trials {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// One row of trials.csv. NaN fields are written empty.
struct TrialRecord {
  int trial = 0;      // from 1
  int candidate = 0;  // index into the search space
  ParallelConfig config;
  Outcome outcome = Outcome::kFailed;
  int steps = 0;
  double throughput_steps_per_s = kUnknown;  // Eq. 28, after outlier removal
  double throughput_variance = kUnknown;
  double peak_memory_bytes = kUnknown;
  double setup_s = 0.0;
  double duration_s = 0.0;                  // what the trial cost
  double elapsed_s = 0.0;                   // search time when it ended
  double incumbent_steps_per_s = kUnknown;  // best completed trial so far
  double exact_steps_per_s = kUnknown;  // noise-free, where the backend knows
  std::string chosen_by;
  std::string message;  // one line
};

struct StepRecord {
  int trial = 0;
  int step = 0;  // from 1
  double step_time_s = 0.0;
};

// One learned hyperparameter of one surrogate before one trial.
struct FitRecord {
  int trial = 0;
  std::string surrogate;
  std::string parameter;
  double value = 0.0;
};

struct ThinkingRecord {
  int trial = 0;
  double wall_s = 0.0;
  double cpu_s = 0.0;
};

// A CSV file of records: its name, its version line and its header.
struct RecordFile {
  std::string_view name;     // "trials.csv"
  std::string_view version;  // "# oppa trials 1"
  std::string header;        // column names, comma-separated
};

[[nodiscard]] const RecordFile& TrialsFile();
[[nodiscard]] const RecordFile& StepsFile();
[[nodiscard]] const RecordFile& FitsFile();
[[nodiscard]] const RecordFile& ThinkingFile();

// One row without its newline. Numbers are written so that they read back as
// the same double.
[[nodiscard]] std::string ToRow(const TrialRecord& record);
[[nodiscard]] std::string ToRow(const StepRecord& record);
[[nodiscard]] std::string ToRow(const FitRecord& record);
[[nodiscard]] std::string ToRow(const ThinkingRecord& record);

// Read one row back. Errors: throw InputError saying what is wrong with it.
[[nodiscard]] TrialRecord ParseTrialRow(std::string_view row);
[[nodiscard]] StepRecord ParseStepRow(std::string_view row);
[[nodiscard]] FitRecord ParseFitRow(std::string_view row);
[[nodiscard]] ThinkingRecord ParseThinkingRow(std::string_view row);

// Read a whole file of a run's folder: a missing file is no rows, a last line
// without its newline is dropped (it was being written when the run was cut).
// Errors: throw InputError "file:line: ..." for anything else that is wrong.
[[nodiscard]] std::vector<TrialRecord> ReadTrials(
    const std::filesystem::path& run_folder);
[[nodiscard]] std::vector<StepRecord> ReadSteps(
    const std::filesystem::path& run_folder);
[[nodiscard]] std::vector<FitRecord> ReadFits(
    const std::filesystem::path& run_folder);
[[nodiscard]] std::vector<ThinkingRecord> ReadThinking(
    const std::filesystem::path& run_folder);

// run.json: where a run's records come from.
struct RunInfo {
  std::string experiment;
  std::string problem;  // "" when the experiment has no axis over problems
  std::string method;
  int repeat = 0;  // from 1
  std::uint64_t seed = 0;
  std::string backend;  // "simulator", "replay"
  std::string manifest;
  std::string manifest_hash;
  std::string commit;
  bool dirty = false;
  std::string host;
  std::string version;
  std::string command;
  bool finished = false;
  std::string finish_reason;  // "time budget", "trial budget", "method done",
                              // "space exhausted"
};

// problem.json: what a figure needs to know about one problem.
struct ProblemInfo {
  std::string name;         // "" when the experiment has no axis
  std::string description;  // one line for people: model, batch, cluster
  std::string backend;      // "simulator", "replay": named in every figure
  int gpus = 0;
  int candidates = 0;
  int feasible = -1;                      // -1: unknown
  double optimum_steps_per_s = kUnknown;  // noise-free exhaustive optimum
  std::string optimum_config;
  int q_max = 0;
  double time_budget_s = kUnknown;  // NaN: none
  int trial_budget = 0;             // 0: none
};

// experiment.json: the run matrix, in the order of the manifest.
struct ExperimentInfo {
  struct Method {
    std::string name;   // folder name
    std::string label;  // in legends: "OPPA", "VANILLA-BO"
  };
  std::string name;
  std::string title;
  std::vector<std::string> problems;  // {""} when there is no axis
  std::vector<Method> methods;
  int repeats = 0;
  // Figures and tables to draw (names of plots/report.h); empty: the default
  // set.
  std::vector<std::string> figures;
};

// The content of run.json.
[[nodiscard]] std::string ToJson(const RunInfo& info);

// Written through a temporary file and a rename, so a reader never sees half.
void Write(const std::filesystem::path& folder,
           const RunInfo& info);  // run.json
void Write(const std::filesystem::path& folder,
           const ProblemInfo& info);  // problem.json
void Write(const std::filesystem::path& folder,
           const ExperimentInfo& info);  // experiment.json
// Errors: throw InputError when the file is missing or cannot be understood.
[[nodiscard]] RunInfo ReadRunInfo(const std::filesystem::path& run_folder);
[[nodiscard]] ProblemInfo ReadProblemInfo(
    const std::filesystem::path& problem_folder);
[[nodiscard]] ExperimentInfo ReadExperimentInfo(
    const std::filesystem::path& experiment_folder);

// results/<experiment>/[<problem>/] and .../<method>/<repeat>.
[[nodiscard]] std::filesystem::path ProblemFolder(
    const std::filesystem::path& experiment_folder, const std::string& problem);
[[nodiscard]] std::filesystem::path RunFolder(
    const std::filesystem::path& experiment_folder,
    const std::string& problem,
    const std::string& method,
    int repeat);

}  // namespace trials

#endif  // TRIALS_RECORD_H_
