#include "trials/record.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/text.h"

namespace trials {
namespace {

// Text that may stand in one cell: no separator, no line break.
std::string Cell(std::string text) {
  std::replace(text.begin(), text.end(), ',', ';');
  std::replace_if(
      text.begin(),
      text.end(),
      [](char c) { return c == '\n' || c == '\r'; },
      ' ');
  return text;
}

// The row with its check value behind it.
std::string Checked(std::string row) {
  return fmt::format("{},{:08x}", row, common::RowCheck(row));
}

// The cells of a row, taken from left to right, once its check value is seen
// to be right.
class RowReader {
 public:
  RowReader(std::string_view row, std::size_t columns) {
    const std::size_t comma = row.rfind(',');
    const std::string_view body = row.substr(0, comma);
    if (comma == std::string_view::npos ||
        row.substr(comma + 1) !=
            fmt::format("{:08x}", common::RowCheck(body))) {
      throw common::InputError(
          "the row does not match its check value: it was damaged or edited");
    }
    cells_ = common::Split(body, ',');
    if (cells_.size() != columns) {
      throw common::InputError(fmt::format(
          "{} cells where {} are expected", cells_.size(), columns));
    }
  }

  std::string_view Next() { return cells_[next_++]; }

  int NextInt() {
    const std::string_view text = Next();
    int value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw common::InputError(
          fmt::format("cell {}: '{}' is not an integer", next_, text));
    }
    return value;
  }

  double NextDouble() {
    try {
      return common::ParseDouble(Next());
    } catch (const std::invalid_argument& e) {
      throw common::InputError(fmt::format("cell {}: {}", next_, e.what()));
    }
  }

 private:
  std::vector<std::string_view> cells_;
  std::size_t next_ = 0;
};

constexpr std::size_t kTrialColumns = 14;  // besides those of the configuration

// Parses every complete line of a record file after its version and header.
template <typename Record>
std::vector<Record> ReadRecords(const std::filesystem::path& folder,
                                const RecordFile& file,
                                Record (*parse)(std::string_view)) {
  const std::filesystem::path path = folder / file.name;
  std::vector<Record> records;
  const std::string text = common::ReadFileIfExists(path).value_or("");
  std::vector<std::string_view> lines = common::Split(text, '\n');
  lines.pop_back();  // what follows the last newline: nothing, or half a line
  for (std::size_t i = 0; i < lines.size(); ++i) {
    try {
      if (i == 0 && lines[i] != file.version) {
        throw common::InputError(fmt::format(
            "'{}' where '{}' is expected; was it written by another version?",
            lines[i],
            file.version));
      }
      if (i == 1 && lines[i] != file.header) {
        throw common::InputError(
            fmt::format("the header is not '{}'", file.header));
      }
      if (i > 1) {
        records.push_back(parse(lines[i]));
      }
    } catch (const common::InputError& e) {
      throw common::InputError(
          fmt::format("{}:{}: {}", path.string(), i + 1, e.what()));
    }
  }
  return records;
}

}  // namespace

const RecordFile& TrialsFile() {
  static const RecordFile file{
      "trials.csv",
      "# oppa trials 1",
      "trial,candidate," + BuiltInKnobs().Columns() +
          ",outcome,steps,throughput_steps_per_s,throughput_variance,peak_"
          "memory_bytes,"
          "setup_s,duration_s,elapsed_s,incumbent_steps_per_s,exact_steps_per_"
          "s,chosen_by,message,check"};
  return file;
}

const RecordFile& StepsFile() {
  static const RecordFile file{
      "steps.csv", "# oppa steps 1", "trial,step,step_time_s,check"};
  return file;
}

const RecordFile& FitsFile() {
  static const RecordFile file{
      "fits.csv", "# oppa fits 1", "trial,surrogate,parameter,value,check"};
  return file;
}

const RecordFile& ThinkingFile() {
  static const RecordFile file{
      "thinking.csv", "# oppa thinking 1", "trial,wall_s,cpu_s,check"};
  return file;
}

std::string ToRow(const TrialRecord& record) {
  std::string row = fmt::format("{},{},{},",
                                record.trial,
                                record.candidate,
                                BuiltInKnobs().Cells(record.config));
  row += fmt::format("{},{},", ToString(record.outcome), record.steps);
  for (const double value : {record.throughput_steps_per_s,
                             record.throughput_variance,
                             record.peak_memory_bytes,
                             record.setup_s,
                             record.duration_s,
                             record.elapsed_s,
                             record.incumbent_steps_per_s,
                             record.exact_steps_per_s}) {
    row += common::ExactText(value) + ",";
  }
  row += fmt::format("{},{}", Cell(record.chosen_by), Cell(record.message));
  return Checked(std::move(row));
}

std::string ToRow(const StepRecord& record) {
  return Checked(fmt::format("{},{},{}",
                             record.trial,
                             record.step,
                             common::ExactText(record.step_time_s)));
}

std::string ToRow(const FitRecord& record) {
  return Checked(fmt::format("{},{},{},{}",
                             record.trial,
                             Cell(record.surrogate),
                             Cell(record.parameter),
                             common::ExactText(record.value)));
}

std::string ToRow(const ThinkingRecord& record) {
  return Checked(fmt::format("{},{},{}",
                             record.trial,
                             common::ExactText(record.wall_s),
                             common::ExactText(record.cpu_s)));
}

TrialRecord ParseTrialRow(std::string_view row) {
  RowReader reader(row, kTrialColumns + BuiltInKnobs().size());
  TrialRecord record;
  record.trial = reader.NextInt();
  record.candidate = reader.NextInt();
  for (const Knob& knob : BuiltInKnobs()) {
    knob.Set(record.config, reader.NextInt());
  }
  try {
    record.outcome = ParseOutcome(reader.Next());
  } catch (const std::invalid_argument& e) {
    throw common::InputError(e.what());
  }
  record.steps = reader.NextInt();
  record.throughput_steps_per_s = reader.NextDouble();
  record.throughput_variance = reader.NextDouble();
  record.peak_memory_bytes = reader.NextDouble();
  record.setup_s = reader.NextDouble();
  record.duration_s = reader.NextDouble();
  record.elapsed_s = reader.NextDouble();
  record.incumbent_steps_per_s = reader.NextDouble();
  record.exact_steps_per_s = reader.NextDouble();
  record.chosen_by = reader.Next();
  record.message = reader.Next();
  return record;
}

StepRecord ParseStepRow(std::string_view row) {
  RowReader reader(row, 3);
  StepRecord record;
  record.trial = reader.NextInt();
  record.step = reader.NextInt();
  record.step_time_s = reader.NextDouble();
  return record;
}

FitRecord ParseFitRow(std::string_view row) {
  RowReader reader(row, 4);
  FitRecord record;
  record.trial = reader.NextInt();
  record.surrogate = reader.Next();
  record.parameter = reader.Next();
  record.value = reader.NextDouble();
  return record;
}

ThinkingRecord ParseThinkingRow(std::string_view row) {
  RowReader reader(row, 3);
  ThinkingRecord record;
  record.trial = reader.NextInt();
  record.wall_s = reader.NextDouble();
  record.cpu_s = reader.NextDouble();
  return record;
}

std::vector<TrialRecord> ReadTrials(const std::filesystem::path& run_folder) {
  return ReadRecords<TrialRecord>(run_folder, TrialsFile(), ParseTrialRow);
}

std::vector<StepRecord> ReadSteps(const std::filesystem::path& run_folder) {
  return ReadRecords<StepRecord>(run_folder, StepsFile(), ParseStepRow);
}

std::vector<FitRecord> ReadFits(const std::filesystem::path& run_folder) {
  return ReadRecords<FitRecord>(run_folder, FitsFile(), ParseFitRow);
}

std::vector<ThinkingRecord> ReadThinking(
    const std::filesystem::path& run_folder) {
  return ReadRecords<ThinkingRecord>(
      run_folder, ThinkingFile(), ParseThinkingRow);
}

std::filesystem::path ProblemFolder(
    const std::filesystem::path& experiment_folder,
    const std::string& problem) {
  return problem.empty() ? experiment_folder : experiment_folder / problem;
}

std::filesystem::path RunFolder(const std::filesystem::path& experiment_folder,
                                const std::string& problem,
                                const std::string& method,
                                int repeat) {
  return ProblemFolder(experiment_folder, problem) / method /
         std::to_string(repeat);
}

}  // namespace trials
