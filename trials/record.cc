#include "trials/record.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/knobs.h"

namespace trials {
namespace {

using common::InputError;

// The names of the files.
template <typename Record>
constexpr std::string_view kName{};
template <>
constexpr std::string_view kName<Trial> = "trials";
template <>
constexpr std::string_view kName<StepRecord> = "steps";
template <>
constexpr std::string_view kName<FitRecord> = "fits";
template <>
constexpr std::string_view kName<SuggestionTime> = "thinking";
template <>
constexpr std::string_view kName<PlanRecord> = "plans";

// The cells of a row, taken from left to right, once its check value is seen
// to be right.
class RowReader {
 public:
  // `plain`: the number of columns of a file without other knobs.
  RowReader(std::string_view row, std::size_t plain, const KnobColumns& columns)
      : columns_(columns) {
    const std::size_t comma = row.rfind(',');
    const std::string_view body = row.substr(0, comma);
    if (comma == std::string_view::npos ||
        row.substr(comma + 1) !=
            fmt::format("{:08x}", common::RowCheck(body))) {
      throw InputError(
          "the row does not match its check value: it was damaged or edited");
    }
    cells_ = common::Split(body, ',');
    const std::size_t expected = plain + columns.custom.size() -
                                 columns.absent.size() +
                                 (columns.suggestion ? 1 : 0);
    if (cells_.size() != expected) {
      throw InputError(fmt::format("{} cells where {} are expected",
                                   cells_.size(), expected));
    }
  }

  void Read(int& value) {
    const std::string_view text = Next();
    const std::optional<int> number = common::ParseInt(text);
    if (!number) {
      throw InputError(
          fmt::format("cell {}: '{}' is not an integer", next_, text));
    }
    value = *number;
  }

  void Read(double& value) {
    try {
      value = common::ParseDouble(Next());
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("cell {}: {}", next_, e.what()));
    }
  }

  void Read(std::optional<double>& value) {
    const bool known = !cells_[next_].empty();
    Read(value.emplace());
    if (!known) {
      value.reset();
    }
  }

  void Read(std::optional<int>& value) {
    if (columns_.suggestion) {
      Read(value.emplace());
    }
  }

  void Read(std::string& text) { text = Next(); }

  void Read(ParallelConfig& config) {
    for (const Knob& knob : BuiltInKnobs()) {
      if (!common::Contains(columns_.absent, knob.name)) {
        int value = 0;
        Read(value);
        knob.Set(config, value);
      }
    }
  }

  void Read(std::vector<CustomValue>& values) {
    for (const std::string& knob : columns_.custom) {
      values.push_back({knob, std::string(Next())});
    }
  }

  template <common::Named E>
  void Read(E& value) {
    FromText(Next(), value);
  }

 private:
  std::string_view Next() { return cells_[next_++]; }

  const KnobColumns& columns_;
  std::vector<std::string_view> cells_;
  std::size_t next_ = 0;
};

// Appends a cell, or those of a configuration, each with a comma behind it.
void Append(int value, std::string& row) { row += std::to_string(value) + ","; }
void Append(double value, std::string& row) {
  row += common::ExactText(value) + ",";
}
void Append(const std::optional<double>& value, std::string& row) {
  Append(value.value_or(kUnknown), row);
}
void Append(const std::optional<int>& value, std::string& row) {
  if (value) {
    Append(*value, row);
  }
}
void Append(const std::string& text, std::string& row) {
  row += AsCell(text) + ",";
}
void Append(const ParallelConfig& config, std::string& row) {
  row += BuiltInKnobs().Cells(config) + ",";
}
void Append(const std::vector<CustomValue>& values, std::string& row) {
  for (const CustomValue& custom : values) {
    Append(custom.value, row);
  }
}
template <common::Named E>
void Append(E value, std::string& row) {
  row += fmt::format("{},", ToString(value));
}

template <typename Record>
RecordFile MakeFile(const KnobColumns& columns = {}) {
  std::string header = fmt::format("# oppa {} 1\n", kName<Record>);
  const Record none;
  VisitFields(none, [&](const char* name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, ParallelConfig>) {
      for (const Knob& knob : BuiltInKnobs()) {
        header +=
            common::Contains(columns.absent, knob.name) ? "" : knob.name + ",";
      }
    } else if constexpr (std::is_same_v<Field, std::vector<CustomValue>>) {
      for (const std::string& knob : columns.custom) {
        header += knob + ",";
      }
    } else if constexpr (std::is_same_v<Field, std::optional<int>>) {
      header += columns.suggestion ? fmt::format("{},", name) : "";
    } else {
      header += fmt::format("{},", name);
    }
  });
  return {fmt::format("{}.csv", kName<Record>), header + "check\n"};
}

// The columns in the header of `text`: custom ones are those behind the
// configuration that a new file lacks. Nothing for another header.
template <typename Record>
std::optional<KnobColumns> ColumnsOf(std::string_view text) {
  const auto cells = [](std::string_view header) {
    const std::size_t line = header.find('\n') + 1;
    return common::Split(header.substr(line, header.find('\n', line) - line),
                         ',');
  };
  KnobColumns columns;
  if constexpr (std::is_same_v<Record, Trial>) {
    const std::vector<std::string_view> plain = cells(FileOf<Trial>().header);
    const std::vector<std::string_view> own = cells(text);
    for (const std::string_view column : own) {
      if (column == "suggestion") {
        columns.suggestion = true;
      } else if (!common::Contains(plain, column)) {
        columns.custom.emplace_back(column);
      }
    }
    for (const Knob& knob : BuiltInKnobs()) {
      if (!knob.required && !common::Contains(own, knob.name)) {
        columns.absent.push_back(knob.name);
      }
    }
  }
  return text.starts_with(MakeFile<Record>(columns).header)
             ? std::optional(std::move(columns))
             : std::nullopt;
}

}  // namespace

std::optional<LikelyAssumption> LikelyAssumptionOf(
    const std::vector<FitRecord>& fits) {
  constexpr std::string_view kPrefix = "share[";
  constexpr double kLikely = 0.5;
  std::optional<LikelyAssumption> likely;
  for (const FitRecord& fit : fits) {
    if (fit.trial == fits.back().trial && fit.parameter.starts_with(kPrefix) &&
        fit.value >= (likely ? likely->probability : kLikely)) {
      likely = {fit.parameter.substr(kPrefix.size(),
                                     fit.parameter.size() - kPrefix.size() - 1),
                fit.value};
    }
  }
  return likely;
}

std::string AsCell(std::string text) {
  std::ranges::replace(text, ',', ';');
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

template <typename Record>
const RecordFile& FileOf() {
  static const RecordFile file = MakeFile<Record>();
  return file;
}

std::string TrialsHeader(const KnobColumns& columns) {
  return MakeFile<Trial>(columns).header;
}

template <typename Record>
std::string ToRow(const Record& record) {
  std::string row;
  VisitFields(record,
              [&row](const char*, const auto& field) { Append(field, row); });
  row.pop_back();
  return fmt::format("{},{:08x}", row, common::RowCheck(row));
}

template <typename Record>
Record ParseRow(std::string_view row, const KnobColumns& columns) {
  const std::string& header = FileOf<Record>().header;
  RowReader reader(
      row, static_cast<std::size_t>(std::ranges::count(header, ',')), columns);
  Record record;
  VisitFields(record,
              [&reader](const char*, auto& field) { reader.Read(field); });
  return record;
}

template <typename Record>
Rows<Record> ReadRows(const std::filesystem::path& run_folder,
                      bool drop_damaged_end) {
  const RecordFile& file = FileOf<Record>();
  const std::filesystem::path path = run_folder / file.name;
  Rows<Record> rows{.text = common::ReadFileIfExists(path).value_or(""),
                    .ends = {file.header.size()}};
  if (file.header.starts_with(rows.text)) {
    rows.text = file.header;
    return rows;
  }
  const auto columns = ColumnsOf<Record>(rows.text);
  if (!columns) {
    throw InputError(
        fmt::format("{}:1: written by another version of the program: use "
                    "another --results folder, or move {} away",
                    path.string(), run_folder.string()));
  }
  rows.columns = *columns;
  rows.ends.front() = MakeFile<Record>(rows.columns).header.size();
  std::size_t end = 0;
  while ((end = rows.text.find('\n', rows.ends.back())) != std::string::npos) {
    const std::size_t begin = rows.ends.back();
    try {
      rows.records.push_back(ParseRow<Record>(
          std::string_view(rows.text).substr(begin, end - begin),
          rows.columns));
      rows.ends.push_back(end + 1);
    } catch (const InputError& e) {
      if (drop_damaged_end &&
          rows.text.find('\n', end + 1) == std::string::npos) {
        break;
      }
      throw InputError(fmt::format("{}:{}: {}; move {} away to repeat the run",
                                   path.string(), rows.ends.size() + 2,
                                   e.what(), run_folder.string()));
    }
  }
  return rows;
}

#define OPPA_RECORD(Record)                                       \
  template const RecordFile& FileOf<Record>();                    \
  template std::string ToRow(const Record&);                      \
  template Record ParseRow(std::string_view, const KnobColumns&); \
  template Rows<Record> ReadRows(const std::filesystem::path&, bool)
OPPA_RECORD(Trial);
OPPA_RECORD(StepRecord);
OPPA_RECORD(FitRecord);
OPPA_RECORD(SuggestionTime);
OPPA_RECORD(PlanRecord);
#undef OPPA_RECORD

void SetPlans(const std::vector<PlanRecord>& plans,
              std::vector<Trial>& trials) {
  for (const PlanRecord& plan : plans) {
    if (plan.trial >= 1 && std::cmp_less_equal(plan.trial, trials.size())) {
      trials[static_cast<std::size_t>(plan.trial) - 1].plan = plan.plan;
    }
  }
}

std::optional<PlanRecord> PlanRecordOf(const Trial& trial) {
  return trial.IsPlan() ? std::optional(PlanRecord{trial.number, trial.plan})
                        : std::nullopt;
}

std::vector<Trial> ReadTrials(const std::filesystem::path& run_folder) {
  std::vector<Trial> trials = ReadRows<Trial>(run_folder).records;
  SetPlans(ReadRows<PlanRecord>(run_folder).records, trials);
  return trials;
}

std::vector<std::filesystem::path> RunFoldersBelow(
    const std::filesystem::path& results) {
  std::vector<std::filesystem::path> runs;
  std::error_code error;
  std::filesystem::recursive_directory_iterator next(results, error);
  for (const std::filesystem::recursive_directory_iterator end;
       !error && next != end; next.increment(error)) {
    const std::filesystem::path folder = next->path().parent_path();
    if (next->path().filename() == FileOf<Trial>().name &&
        folder.filename() != kFigureFolder) {
      runs.push_back(folder);
    }
  }
  if (error) {
    throw common::InputError(results.string() + ": " + error.message() +
                             "; name a folder of results");
  }
  std::ranges::sort(runs);
  return runs;
}

std::filesystem::path ProblemFolder(
    const std::filesystem::path& experiment_folder,
    const std::string& problem) {
  return problem.empty() ? experiment_folder : experiment_folder / problem;
}

std::filesystem::path RunFolder(const std::filesystem::path& experiment_folder,
                                const std::string& problem,
                                const std::string& method, int repeat) {
  return ProblemFolder(experiment_folder, problem) / method /
         std::to_string(repeat);
}

}  // namespace trials
