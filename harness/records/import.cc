#include "harness/records/import.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "harness/backends.h"
#include "harness/records/inputs.h"
#include "harness/records/journal.h"
#include "harness/run_one.h"
#include "harness/search.h"
#include "trials/workload.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

using trials::Knob;
using trials::Outcome;
using trials::Trial;

// Of an imported throughput whose spread is not known, relative to it.
constexpr double kRelativeDeviation = 0.05;

// A column that gives the throughput, the memory or the spread: its factor to
// SI units; `inverse`: a time per step.
struct Quantity {
  std::string_view name;
  double factor = 1.0;
  bool inverse = false;
};
constexpr std::array<Quantity, 5> kSpeeds = {{{"throughput_steps_per_s"},
                                              {"step_time_s", 1.0, true},
                                              {"step_time_ms", 1e-3, true},
                                              {"samples_per_s"},
                                              {"tokens_per_s"}}};
constexpr std::array<Quantity, 3> kPeaks = {{{"peak_memory_bytes"},
                                             {"peak_memory_mib", 1048576.0},
                                             {"peak_memory_gb", 1e9}}};
constexpr std::array<std::string_view, 5> kOthers = {
    "outcome", "message", "throughput_variance", "step_time_stddev_s",
    "chosen_by"};

// The names of outcomes that tools and tables use.
Outcome OutcomeOf(std::string_view text) {
  static const std::map<std::string_view, Outcome> other = {
      {"ok", Outcome::kCompleted},    {"success", Outcome::kCompleted},
      {"oom", Outcome::kOutOfMemory}, {"timeout", Outcome::kTimedOut},
      {"error", Outcome::kFailed},    {"crash", Outcome::kFailed}};
  if (const auto found = other.find(text); found != other.end()) {
    return found->second;
  }
  Outcome outcome{};
  trials::FromText(text, outcome);
  return outcome;
}

class TrialTable {
 public:
  TrialTable(const fs::path& path, const trials::KnobSet& knobs,
             const StepSize& step)
      : table_(common::CsvTable::Read(path)), knobs_(knobs), step_(step) {
    std::set<std::string> ignored;
    for (std::size_t i = 0; i < table_.header().size(); ++i) {
      if (!TakeColumn(i)) {
        ignored.insert(table_.header()[i]);
      }
    }
    speed_ = Only(kSpeeds);
    peak_ = Only(kPeaks);
    if (!speed_ && !columns_.contains("outcome")) {
      FailHeader(
          "no column has the speed of a trial: give step_time_s, step_time_ms, "
          "throughput_steps_per_s, samples_per_s or tokens_per_s");
    }
    if (knob_columns_.empty()) {
      FailHeader("no column is a parameter of a configuration, such as dp");
    }
    if (!ignored.empty()) {
      note_ = fmt::format("{}: ignored columns: {}", path.string(),
                          fmt::join(ignored, ", "));
    }
  }

  [[nodiscard]] const std::string& note() const { return note_; }

  [[nodiscard]] std::vector<Trial> Trials() {
    std::vector<Trial> all;
    for (const common::CsvTable::Row& row : table_.rows()) {
      row_ = &row;
      all.push_back(ReadTrial());
    }
    return all;
  }

 private:
  bool TakeColumn(std::size_t at) {
    const std::string& name = table_.header()[at];
    const Knob* const knob = knobs_.Find(name) == nullptr
                                 ? knobs_.FindFlag(name)
                                 : knobs_.Find(name);
    if (knob != nullptr) {
      if (!knob_columns_.emplace(knob, at).second) {
        FailHeader(fmt::format("two columns give '{}', one of them is '{}'",
                               knob->name, name));
      }
      return true;
    }
    const auto is = [&](const auto& known) { return known.name == name; };
    if (std::any_of(kSpeeds.begin(), kSpeeds.end(), is) ||
        std::any_of(kPeaks.begin(), kPeaks.end(), is) ||
        std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end()) {
      if (!columns_.emplace(name, at).second) {
        FailHeader(fmt::format("the column '{}' comes twice", name));
      }
      return true;
    }
    return false;
  }

  // The first quantity of a list that the table has. The table of an earlier
  // search may have several forms of one.
  template <std::size_t N>
  [[nodiscard]] const Quantity* Only(
      const std::array<Quantity, N>& quantities) const {
    for (const Quantity& quantity : quantities) {
      if (columns_.contains(quantity.name)) {
        return &quantity;
      }
    }
    return nullptr;
  }

  [[noreturn]] void FailHeader(const std::string& message) const {
    table_.Fail(table_.header_line(), message);
  }
  [[noreturn]] void FailCell(std::size_t column,
                             const std::string& message) const {
    throw common::InputError(fmt::format("{}:{}:{}: column '{}': {}",
                                         table_.path(), row_->line, column + 1,
                                         table_.header()[column], message));
  }
  [[noreturn]] void FailRow(const std::string& message) const {
    table_.Fail(row_->line, message);
  }

  [[nodiscard]] std::string_view Cell(std::string_view column) const {
    const auto found = columns_.find(column);
    return found == columns_.end()
               ? std::string_view()
               : std::string_view(row_->cells[found->second]);
  }

  // A number above 0; NaN for an empty cell.
  [[nodiscard]] double Number(std::string_view column) const {
    const std::string_view text = Cell(column);
    if (text.empty() || text == "nan" || text == "NaN") {
      return trials::kUnknown;
    }
    double value = 0.0;
    try {
      value = common::ParseDouble(text);
    } catch (const std::invalid_argument&) {
      value = 0.0;
    }
    if (!std::isfinite(value) || value <= 0.0) {
      FailCell(columns_.find(column)->second,
               fmt::format("'{}': must be a number above 0, or empty", text));
    }
    return value;
  }

  [[nodiscard]] double StepsPerS() const {
    if (speed_ == nullptr) {
      return trials::kUnknown;
    }
    const double value = Number(speed_->name);
    if (speed_->name == "samples_per_s" || speed_->name == "tokens_per_s") {
      const double per_step =
          speed_->name == "samples_per_s" ? step_.samples : step_.tokens;
      if (per_step <= 0.0) {
        FailHeader(fmt::format(
            "'{}' needs the batch and the sequence length of [workload]: give "
            "step_time_s or throughput_steps_per_s",
            speed_->name));
      }
      return value / per_step;
    }
    return speed_->inverse ? 1.0 / (speed_->factor * value) : value;
  }

  [[nodiscard]] trials::ParallelConfig Config() const {
    trials::ParallelConfig config;
    for (const Knob& knob : knobs_) {
      const auto column = knob_columns_.find(&knob);
      if (column == knob_columns_.end() ||
          row_->cells[column->second].empty()) {
        continue;
      }
      const std::string& text = row_->cells[column->second];
      try {
        if (table_.header()[column->second] == knob.flag.name) {
          knob.SetFlag(config, text);
        } else {
          knob.SetChecked(config, text);
        }
      } catch (const std::invalid_argument& e) {
        FailCell(column->second, e.what());
      }
    }
    return Canonical(config, knobs_);
  }

  [[nodiscard]] Outcome OutcomeOfRow(double steps_per_s) const {
    if (Cell("outcome").empty()) {
      return std::isnan(steps_per_s) ? Outcome::kFailed : Outcome::kCompleted;
    }
    try {
      return OutcomeOf(Cell("outcome"));
    } catch (const common::InputError& e) {
      FailCell(columns_.find("outcome")->second, e.what());
    }
  }

  [[nodiscard]] double Variance(double steps_per_s) const {
    const double variance = Number("throughput_variance");
    if (!std::isnan(variance)) {
      return variance;
    }
    // d(1/t) = dt / t^2.
    const double deviation_s = Number("step_time_stddev_s");
    const double deviation = std::isnan(deviation_s)
                                 ? kRelativeDeviation * steps_per_s
                                 : deviation_s * steps_per_s * steps_per_s;
    return deviation * deviation;
  }

  [[nodiscard]] Trial ReadTrial() const {
    const trials::ParallelConfig config = Config();
    const double steps_per_s = StepsPerS();
    trials::Measurement measurement;
    measurement.outcome = OutcomeOfRow(steps_per_s);
    measurement.message = std::string(Cell("message"));
    if (peak_ != nullptr) {
      const double peak = Number(peak_->name);
      if (!std::isnan(peak)) {
        measurement.peak_memory_bytes = peak * peak_->factor;
      }
    }
    const bool ran = measurement.outcome == Outcome::kCompleted ||
                     measurement.outcome == Outcome::kTerminatedEarly;
    if (ran && std::isnan(steps_per_s)) {
      FailRow(
          "this trial ran, but the row has neither a step time nor a "
          "throughput");
    }
    Trial trial = trials::MakeTrial(0, config, measurement);
    trial.custom = CustomValues(config, knobs_);
    if (ran) {
      trial.throughput = {steps_per_s, Variance(steps_per_s), 1};
    }
    trial.chosen_by = trials::ChosenBy::kImported;
    return trial;
  }

  common::CsvTable table_;
  const trials::KnobSet& knobs_;
  StepSize step_;
  std::map<std::string_view, std::size_t> columns_;
  std::map<const Knob*, std::size_t> knob_columns_;
  const Quantity* speed_ = nullptr;
  const Quantity* peak_ = nullptr;
  const common::CsvTable::Row* row_ = nullptr;
  std::string note_;
};

// The size of a step by [workload], whose other keys are not needed.
StepSize SizeOf(const ProblemSpec& problem) {
  const double batch = problem.workload.GetDouble("batch_size", 0.0);
  return {batch, batch * problem.workload.GetDouble("sequence_length", 0.0)};
}

// What became of the rows of the files in one run.
struct Counts {
  int imported = 0;
  int tried = 0;
  int others = 0;     // not in the space
  std::string first;  // of those
};

Counts ImportInto(const Manifest& manifest, const RunSpec& run,
                  const Backend& backend, const fs::path& experiment_folder,
                  const std::vector<Trial>& trials) {
  const fs::path folder = run.Folder(experiment_folder);
  common::CreateFolders(folder);
  if (IsFinished(folder)) {
    Reopen(folder);
  }
  Journal journal(folder, Lease::kTimeoutSeconds, CustomNames(*backend.space));
  if (!common::EntryExists(folder / "run.json")) {
    journal.lease().Publish(
        "run.json", ToJson(DescribeRun(manifest, run, backend, "import")));
  }
  std::set<int> tried;
  double elapsed_s = 0.0;
  Incumbent incumbent(PriceOf(backend));
  for (const Trial& trial : journal.committed()) {
    tried.insert(FindCandidate(trial, *backend.space).value_or(-1));
    elapsed_s = trial.elapsed_s;
    incumbent.Add(trial);
  }
  Counts counts;
  int number = static_cast<int>(journal.committed().size());
  for (Trial trial : trials) {
    const std::optional<int> candidate = FindCandidate(trial, *backend.space);
    if (!candidate) {
      counts.first =
          counts.others++ == 0 ? CandidateLabel(trial) : counts.first;
      continue;
    }
    if (!tried.insert(*candidate).second) {
      ++counts.tried;
      continue;
    }
    trial.number = ++number;
    trial.candidate = *candidate;
    trial.elapsed_s = elapsed_s;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    journal.Commit(trial, {number, trials::kUnknown, trials::kUnknown}, {});
    ++counts.imported;
  }
  return counts;
}

}  // namespace

std::vector<Trial> ReadTrialTable(const fs::path& path,
                                  const trials::KnobSet& knobs,
                                  const StepSize& step,
                                  std::vector<std::string>& notes) {
  TrialTable table(path, knobs, step);
  if (!table.note().empty()) {
    notes.push_back(table.note());
  }
  return table.Trials();
}

std::vector<std::string> ImportTrials(const Manifest& manifest,
                                      const fs::path& experiment_folder,
                                      const std::vector<fs::path>& files) {
  CheckRecords(manifest, experiment_folder);
  std::vector<std::string> notes;
  std::map<const ProblemSpec*, Backend> backends;
  std::map<const ProblemSpec*, std::vector<Trial>> trials;
  for (const ProblemSpec& problem : manifest.problems) {
    const Backend& backend =
        backends.emplace(&problem, MakeBackend(problem)).first->second;
    for (const fs::path& file : files) {
      std::vector<std::string> found;
      for (Trial& trial : ReadTrialTable(file, backend.space->knobs(),
                                         SizeOf(problem), found)) {
        trials[&problem].push_back(std::move(trial));
      }
      if (&problem == &manifest.problems.front()) {
        notes.insert(notes.end(), found.begin(), found.end());
      }
    }
  }
  for (const RunSpec& run : RunMatrix(manifest)) {
    const Counts counts = ImportInto(manifest, run, backends.at(run.problem),
                                     experiment_folder, trials[run.problem]);
    std::string line =
        fmt::format("{}: {} trials imported", run.Name(), counts.imported);
    if (counts.tried > 0) {
      line += fmt::format(
          ", {} left out because their configuration was tried "
          "before",
          counts.tried);
    }
    if (counts.others > 0) {
      line += fmt::format(
          ", {} left out because they are not in the search "
          "space (first: {})",
          counts.others, counts.first);
    }
    notes.push_back(std::move(line));
  }
  return notes;
}

}  // namespace harness
