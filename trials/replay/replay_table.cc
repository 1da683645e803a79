#include "trials/replay/replay_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
// The reader truncates long file names in its own messages, on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-truncation"
#include <libfccp/csv.h>
#pragma GCC diagnostic pop

#include "trials/text.h"

namespace trials {
namespace {

constexpr double kBytesPerGb = 1e9;

// Columns that are no field of ParallelConfig.
enum Column : std::size_t {
  kScenario,
  kGpus,
  kStatus,
  kStepTime,
  kPeakMemory,
  kColumns,
};
constexpr std::array<std::string_view, kColumns> kColumnNames = {
    "scenario", "gpus", "status", "step_time_s", "peak_memory_gb"};
constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

// A CSV file with a header. fast-cpp-csv-parser reads lines and cells (byte
// order mark, line ends, quotes); its CSVReader wants the columns at compile
// time and cannot tell which it ignored, so the header is ours. Empty lines and
// lines that start with # are passed over.
class CsvFile {
 public:
  explicit CsvFile(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      throw InputError(fmt::format("{}: no such file", path_));
    }
    reader_.emplace(path_);
    if (!NextLine()) {
      throw InputError(fmt::format("{}: the header line is missing", path_));
    }
    header_.assign(cells_.begin(), cells_.end());
    for (std::size_t i = 0; i < header_.size(); ++i) {
      AddColumn(i);
    }
  }

  // Goes to the next row; false at the end of the file.
  bool Next() {
    if (!NextLine()) {
      return false;
    }
    if (cells_.size() != header_.size()) {
      Fail(fmt::format(
          "{} cells where the header has {}", cells_.size(), header_.size()));
    }
    return true;
  }

  // Throws unless the header has all of these.
  void Need(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const bool is_field = FindConfigField(name) != nullptr;
      const bool there =
          std::any_of(fields_.begin(), fields_.end(), [&](const auto& f) {
            return f.second->name == name;
          });
      if (is_field ? there : columns_[ColumnOf(name)] != kAbsent) {
        continue;
      }
      throw InputError(
          fmt::format("{}:{}: the column '{}' is missing; the header has {}",
                      path_,
                      header_line_,
                      name,
                      fmt::join(header_, ", ")));
    }
  }

  // The cell of a column in this row; "" where the table has no such column.
  [[nodiscard]] std::string_view Cell(Column column) const {
    const std::size_t at = columns_[column];
    return at == kAbsent ? std::string_view() : cells_[at];
  }

  // The number in a cell; it must be positive.
  [[nodiscard]] double Number(Column column) const {
    double value = 0.0;
    try {
      value = ParseDouble(Cell(column));
    } catch (const std::invalid_argument&) {
      value = 0.0;
    }
    if (!std::isfinite(value) || value <= 0.0) {
      Fail(fmt::format("{} must be a number above 0, not '{}'",
                       kColumnNames[column],
                       Cell(column)));
    }
    return value;
  }

  [[nodiscard]] ParallelConfig Config() const {
    ParallelConfig config;
    for (const auto& [at, field] : fields_) {
      const bool size =
          field->name == "dp" || field->name == "tp" || field->name == "pp";
      if (cells_[at].empty() && !size) {
        continue;
      }
      try {
        SetField(config, *field, cells_[at]);
      } catch (const std::invalid_argument& e) {
        Fail(e.what());
      }
    }
    return config;
  }

  [[noreturn]] void Fail(const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", path_, line_, message));
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& unknown() const {
    return unknown_;
  }

 private:
  static std::size_t ColumnOf(std::string_view name) {
    return static_cast<std::size_t>(
        std::find(kColumnNames.begin(), kColumnNames.end(), name) -
        kColumnNames.begin());
  }

  void AddColumn(std::size_t at) {
    header_line_ = line_;
    const std::string& name = header_[at];
    const std::size_t column = ColumnOf(name);
    if (column != kColumns) {
      if (columns_[column] != kAbsent) {
        Fail(fmt::format("the column '{}' comes twice", name));
      }
      columns_[column] = at;
      return;
    }
    const ConfigField* field = FindConfigField(name);
    if (field == nullptr) {
      unknown_.push_back(name);
      return;
    }
    for (const auto& [other, known] : fields_) {
      if (known == field) {
        Fail(fmt::format("the columns '{}' and '{}' are the same field",
                         header_[other],
                         name));
      }
    }
    fields_.emplace_back(at, field);
  }

  bool NextLine() {
    char* text = reader_->next_line();
    while (text != nullptr && (Trim(text).empty() || *text == '#')) {
      text = reader_->next_line();
    }
    line_ = reader_->get_file_line();
    cells_.clear();
    if (text == nullptr) {
      return false;
    }
    using Quotes = io::double_quote_escape<',', '"'>;
    try {
      while (true) {
        char* end = text + (Quotes::find_next_column_end(text) - text);
        const bool last = *end == '\0';
        *end = '\0';
        char* next = end + 1;
        Quotes::unescape(text, end);
        cells_.push_back(Trim({text, static_cast<std::size_t>(end - text)}));
        if (last) {
          return true;
        }
        text = next;
      }
    } catch (const io::error::escaped_string_not_closed&) {
      Fail("a quote is opened but not closed");
    }
  }

  std::string path_;
  std::optional<io::LineReader> reader_;
  unsigned line_ = 0;
  unsigned header_line_ = 0;
  std::vector<std::string_view> cells_;  // of this row, in the reader's buffer
  std::vector<std::string> header_;
  std::array<std::size_t, kColumns> columns_ = {
      kAbsent, kAbsent, kAbsent, kAbsent, kAbsent};
  std::vector<std::pair<std::size_t, const ConfigField*>> fields_;
  std::vector<std::string> unknown_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2.0;
}

// Gathers the rows of one scenario by configuration.
class Gathering {
 public:
  void Add(const CsvFile& file) {
    const double gpus = file.Number(kGpus);
    if (gpus != std::trunc(gpus) || gpus > std::numeric_limits<int>::max()) {
      file.Fail(fmt::format("gpus must be a whole number, not {}", gpus));
    }
    if (gpus_ != 0 && gpus_ != static_cast<int>(gpus)) {
      file.Fail(fmt::format(
          "this row has {} GPUs and earlier ones of its scenario have {}",
          gpus,
          gpus_));
    }
    gpus_ = static_cast<int>(gpus);
    const ParallelConfig config = file.Config();
    const auto [at, is_new] = index_.try_emplace(config, rows_.size());
    if (is_new) {
      rows_.push_back({.config = config});
      step_times_s_.emplace_back();
    }
    ReplayRow& row = rows_[at->second];
    ++row.measurements;
    if (Ran(file)) {
      step_times_s_[at->second].push_back(file.Number(kStepTime));
      AddPeak(file, row);
    }
  }

  [[nodiscard]] std::vector<ReplayRow> Rows() const {
    std::vector<ReplayRow> rows = rows_;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].out_of_memory = step_times_s_[i].empty();
      if (!rows[i].out_of_memory) {
        rows[i].step_time_s = Median(step_times_s_[i]);
      }
    }
    return rows;
  }

  [[nodiscard]] int gpus() const { return gpus_; }

 private:
  static bool Ran(const CsvFile& file) {
    const std::string_view status = file.Cell(kStatus);
    if (status != "ok" && status != "oom") {
      file.Fail(fmt::format("status must be ok or oom, not '{}'", status));
    }
    return status == "ok";
  }

  static void AddPeak(const CsvFile& file, ReplayRow& row) {
    if (!file.Cell(kPeakMemory).empty()) {
      row.peak_memory_bytes = std::max(row.peak_memory_bytes.value_or(0.0),
                                       file.Number(kPeakMemory) * kBytesPerGb);
    }
  }

  int gpus_ = 0;
  std::map<ParallelConfig, std::size_t> index_;
  std::vector<ReplayRow> rows_;
  std::vector<std::vector<double>> step_times_s_;
};

// A list for a message, cut where it gets long.
std::string Some(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kMost = 20;
  const auto size = static_cast<std::ptrdiff_t>(names.size());
  return fmt::format(
      "{}{}",
      fmt::join(names.begin(), names.begin() + std::min(size, kMost), ", "),
      size > kMost ? fmt::format(" and {} more", size - kMost) : "");
}

}  // namespace

ReplayTable ReplayTable::Read(const std::filesystem::path& path,
                              const std::string& scenario) {
  CsvFile file(path);
  file.Need({"scenario", "gpus", "dp", "tp", "pp", "status", "step_time_s"});
  Gathering gathering;
  while (file.Next()) {
    if (file.Cell(kScenario) == scenario) {
      gathering.Add(file);
    }
  }
  ReplayTable table;
  table.path_ = path.string();
  table.scenario_ = scenario;
  table.gpus_ = gathering.gpus();
  table.rows_ = gathering.Rows();
  table.unknown_columns_ = file.unknown();
  if (table.rows_.empty()) {
    const std::vector<std::string> known = ScenarioNames(path);
    throw InputError(fmt::format("{}: no scenario '{}'{}; scenarios: {}",
                                 path.string(),
                                 scenario,
                                 DidYouMean(scenario, known),
                                 Some(known)));
  }
  return table;
}

std::vector<ParallelConfig> ReplayTable::configs() const {
  std::vector<ParallelConfig> configs;
  for (const ReplayRow& row : rows_) {
    configs.push_back(row.config);
  }
  return configs;
}

std::string ReplayTable::Warning() const {
  if (unknown_columns_.empty()) {
    return "";
  }
  return fmt::format(
      "{}: columns that name no field of a configuration are left out, and "
      "rows that differ only there count as repeats: {}",
      path_,
      fmt::join(unknown_columns_, ", "));
}

std::vector<std::string> ScenarioNames(const std::filesystem::path& path) {
  CsvFile file(path);
  file.Need({"scenario"});
  std::vector<std::string> names;
  while (file.Next()) {
    const std::string_view name = file.Cell(kScenario);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace trials
