// The records of a run: their content, and functions to write and read them.
//
//   results/<experiment>/experiment.json                 what was asked
//   results/<experiment>/[<problem>/]problem.json        what is known of it
//   results/<experiment>/[<problem>/]<method>/<repeat>/
//       trials.csv steps.csv fits.csv thinking.csv run.json
//
// docs/record_format.md gives column, unit and meaning of each.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"
#include "trials/objective.h"
#include "trials/remaining.h"
#include "trials/trial.h"

namespace trials {

// One row of steps.csv.
struct StepRecord {
  int trial = 0;
  int step = 0;  // from 1
  double step_time_s = 0.0;

  OPPA_FIELDS(StepRecord, trial, step, step_time_s);
};

// One row of fits.csv: a learned hyperparameter of a surrogate before a trial.
struct FitRecord {
  int trial = 0;
  std::string surrogate;
  std::string parameter;
  double value = 0.0;

  OPPA_FIELDS(FitRecord, trial, surrogate, parameter, value);
};

// What the trials of a search hold against its predictions.
struct LikelyAssumption {
  std::string assumption;  // Predictions::Alternative
  double probability = 0.0;
};

// The most probable of the last trial that has fits, from one half on; nothing
// where the predictions themselves, or none in particular, are.
[[nodiscard]] std::optional<LikelyAssumption> LikelyAssumptionOf(
    const std::vector<FitRecord>& fits);

// One row of thinking.csv: the suggestion time of a trial.
struct SuggestionTime {
  int trial = 0;
  double wall_s = 0.0;
  double cpu_s = 0.0;

  OPPA_FIELDS(SuggestionTime, trial, wall_s, cpu_s);
};

// One row of plans.csv: the plan of a trial. Trials of configurations have
// none.
struct PlanRecord {
  int trial = 0;
  std::string plan;

  OPPA_FIELDS(PlanRecord, trial, plan);
};

// A CSV file of records: its name and its first two lines.
struct RecordFile {
  std::string name;    // "trials.csv"
  std::string header;  // version line and column names, each with its newline
};

// The columns of trials.csv that depend on who wrote it.
struct KnobColumns {
  std::vector<std::string> custom;  // knobs that are not built in
  // Built-in knobs without a column, because they are newer than the file: its
  // trials have their defaults, which is how programs behaved before.
  std::vector<std::string> absent = {};
  bool suggestion = false;  // the column of Trial::suggestion

  friend bool operator==(const KnobColumns&, const KnobColumns&) = default;
};

[[nodiscard]] std::string TrialsHeader(const KnobColumns& columns);

// The functions below exist for Trial, StepRecord, FitRecord, SuggestionTime
// and PlanRecord. Columns follow from the field lists.
template <typename Record>
[[nodiscard]] const RecordFile& FileOf();

// Text that can be a cell: ';' for commas and spaces for line breaks.
[[nodiscard]] std::string AsCell(std::string text);

// One row without its newline, with its check value. Numbers are written so
// that they read back as the same double; NaN is an empty cell.
template <typename Record>
[[nodiscard]] std::string ToRow(const Record& record);

// The inverse of ToRow; `columns`: those of TrialsHeader.
// Errors: throws InputError that describes the error.
template <typename Record>
[[nodiscard]] Record ParseRow(std::string_view row,
                              const KnobColumns& columns = {});

// The complete rows of a file.
template <typename Record>
struct Rows {
  std::vector<Record> records;
  KnobColumns columns;            // see TrialsHeader
  std::string text;               // of the file, from its header on
  std::vector<std::size_t> ends;  // in `text`: of the header and of each row

  // The header and the first `count` rows.
  [[nodiscard]] std::string Head(std::size_t count) const {
    return text.substr(0, ends[count]);
  }
  // A row without its newline.
  [[nodiscard]] std::string Row(std::size_t index) const {
    return text.substr(ends[index], ends[index + 1] - ends[index] - 1);
  }
};

// Reads a file of a run's folder. A missing file has no rows; nor does a file
// that ends in its header. A last line without its newline was being written
// when the run was interrupted; it is dropped. `drop_damaged_end` also drops a
// last row that is damaged.
// Errors: throws InputError "file:line: ..." for anything else that is wrong.
template <typename Record>
[[nodiscard]] Rows<Record> ReadRows(const std::filesystem::path& run_folder,
                                    bool drop_damaged_end = false);

// The row of a trial in plans.csv; absent for a configuration.
[[nodiscard]] std::optional<PlanRecord> PlanRecordOf(const Trial& trial);
// Sets the plan of every trial that has one; other rows are left out.
void SetPlans(const std::vector<PlanRecord>& plans, std::vector<Trial>& trials);

// Trials without step times.
[[nodiscard]] std::vector<Trial> ReadTrials(
    const std::filesystem::path& run_folder);

// The folder of figures beside those of methods, whose data may have the name
// of a file of a run: trials.csv.
inline constexpr std::string_view kFigureFolder = "figures";

// The folders of runs in a folder of results, sorted.
// Errors: throws InputError for a folder that cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> RunFoldersBelow(
    const std::filesystem::path& results);

// The reason why a run ended.
enum class FinishReason {
  kUnfinished,
  kTimeBudget,
  kTrialBudget,
  kMethodDone,
  kSpaceExhausted,
  kStopCondition,
};
constexpr std::array<std::string_view, 6> NamesOf(FinishReason /*type*/) {
  return {"",
          "time budget",
          "trial budget",
          "method done",
          "space exhausted",
          "stop condition"};
}

// One input of a run: a key of the manifest and its value, or a file and a hash
// of its content.
struct RunInput {
  std::string name;   // "workload.batch_size", "file train.py"
  std::string value;  // "64", "90b1a5c0f3d2e417"

  friend bool operator==(const RunInput&, const RunInput&) = default;

  OPPA_FIELDS(RunInput, name, value);
};

// The limits of a search. They decide when it ends, and no trial depends on
// them, except for one that the end of the time cuts off.
struct SearchBounds {
  std::optional<double> time_s = std::nullopt;  // absent: none
  int trials = 0;                               // 0: none
  std::optional<std::string> stop_when = std::nullopt;

  friend bool operator==(const SearchBounds&, const SearchBounds&) = default;

  OPPA_FIELDS(SearchBounds, time_s, trials, stop_when);
};

// A change of the input that the user accepted: the trials up to `after_trial`
// are from before.
struct AcceptedChange {
  int after_trial = 0;
  std::vector<std::string> changes;  // one line each

  OPPA_FIELDS(AcceptedChange, after_trial, changes);
};

// One file of a finished run: what it contained. A file that is not in the seal
// did not exist.
struct SealedFile {
  std::string name;  // "trials.csv"
  int rows = 0;
  std::string hash;  // of its content

  OPPA_FIELDS(SealedFile, name, rows, hash);
};

// run.json: the provenance of the records of a run.
struct RunInfo {
  std::string experiment;
  std::string problem;  // "" when the experiment has no axis over problems
  std::string method;
  int repeat = 0;  // from 1
  std::uint64_t seed = 0;
  std::string backend;  // "simulator", "replay", "command"
  std::string manifest;
  // Each "table.key=value" that replaced one of the manifest's. Absent: none.
  std::optional<std::vector<std::string>> settings = std::nullopt;
  std::string manifest_hash;
  // Everything that the trials depend on, and the limits of the search.
  std::optional<std::vector<RunInput>> inputs = std::nullopt;
  std::optional<SearchBounds> bounds = std::nullopt;
  // Absent: none.
  std::optional<std::vector<AcceptedChange>> accepted = std::nullopt;
  std::string commit;
  bool dirty = false;
  std::string host;
  std::string version;
  std::string command;
  bool finished = false;
  FinishReason finish_reason = FinishReason::kUnfinished;
  // After the last trial; absent for methods without an estimate.
  std::optional<Remaining> remaining = std::nullopt;
  // How many times the predicted computation the trials took; absent where the
  // job is not predicted.
  std::optional<double> computation = std::nullopt;
  // The seal of a finished run.
  std::optional<std::vector<SealedFile>> files = std::nullopt;

  OPPA_FIELDS(RunInfo, experiment, problem, method, repeat, seed, backend,
              manifest, settings, manifest_hash, inputs, bounds, accepted,
              commit, dirty, host, version, command, finished, finish_reason,
              remaining, computation, files);

  void SetUnfinished() {
    finished = false;
    finish_reason = FinishReason::kUnfinished;
    remaining.reset();
    computation.reset();
    files.reset();
  }
};

// problem.json: the facts about one problem that figures need.
struct ProblemInfo {
  std::string name;         // "" when the experiment has no axis
  std::string description;  // one line to display: model, batch, cluster
  std::string backend;      // named in every figure
  int gpus = 0;
  int candidates = 0;
  int feasible = -1;  // -1: unknown
  // Noise-free throughput of the exhaustive optimum, by the objective.
  double optimum_steps_per_s = kUnknown;
  std::string optimum_config;
  int q_max = 0;
  double time_budget_s = kUnknown;  // NaN: none
  int trial_budget = 0;             // 0: none
  // The memory of one GPU; absent where it is not known.
  std::optional<double> memory_capacity_bytes = std::nullopt;
  // Tokens of one step; absent where the workload is not known.
  std::optional<double> tokens_per_step = std::nullopt;
  // The predictions that methods start from, one line for each source. Absent:
  // no method of the experiment uses any.
  std::optional<std::vector<std::string>> predictions = std::nullopt;
  std::optional<TradeOff> trade_off = std::nullopt;  // absent: time alone

  [[nodiscard]] Valuation valuation() const {
    return trade_off ? trade_off->valuation() : Valuation{};
  }
};

// experiment.json: the run matrix, in the order of the manifest.
struct ExperimentInfo {
  struct Method {
    std::string name;   // folder name
    std::string label;  // in legends: "OPPA", "VANILLA-BO"
    // The name of the method that this one is an ablation or a variant of; that
    // method has its own name here. Absent: no family.
    std::optional<std::string> family = std::nullopt;

    OPPA_FIELDS(Method, name, label, family);
  };
  std::string name;
  std::string title;
  std::vector<std::string> problems;  // {""} if there is no axis
  std::vector<Method> methods;
  int repeats = 0;
  // Figures and tables to draw (names of plots/report.h); empty: the default
  // set.
  std::vector<std::string> figures;
  // The problems of the manifest whose results must not be used to choose
  // settings. Those that are not in `problems` were left out. Absent: no such
  // problems.
  std::optional<std::vector<std::string>> held_out = std::nullopt;

  OPPA_FIELDS(ExperimentInfo, name, title, problems, methods, repeats, figures,
              held_out);
};

// The content of run.json, problem.json and experiment.json.
[[nodiscard]] std::string ToJson(const RunInfo& info);
[[nodiscard]] std::string ToJson(const ProblemInfo& info);
[[nodiscard]] std::string ToJson(const ExperimentInfo& info);

// Written through a temporary file and a rename, so a reader never sees a
// partial file.
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

// The seal of the files that a run's folder contains now. Every row is read, so
// that a damaged file is not sealed.
// Errors: throws InputError for a file that cannot be read or is damaged.
[[nodiscard]] std::vector<SealedFile> SealFiles(
    const std::filesystem::path& run_folder);

// Checks that a folder holds the run that its run.json describes: problem,
// method and repeat are those of its path, and the files of a finished run are
// those of its seal.
// Errors: throws InputError with the file, what is wrong and the remedy.
void RequireWhole(const std::filesystem::path& run_folder, const RunInfo& info);

// results/<experiment>/[<problem>/] and .../<method>/<repeat>.
[[nodiscard]] std::filesystem::path ProblemFolder(
    const std::filesystem::path& experiment_folder, const std::string& problem);
[[nodiscard]] std::filesystem::path RunFolder(
    const std::filesystem::path& experiment_folder, const std::string& problem,
    const std::string& method, int repeat);

}  // namespace trials
