// The reports that a training program prints or writes for oppa.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "trials/measurement.h"

namespace trials {

// One report: the word "oppa" and a JSON object with any of
//
//   oppa {"step_time_s": 0.412}                a step has ended
//   oppa {"peak_memory_bytes": 1.9e10}         of any GPU, so far
//   oppa {"loss": 2.31}                        of a step; null: not finite
//   oppa {"skipped": true}                     a step that was not applied
//   oppa {"status": "out_of_memory", "message": "..."}   "failed", "diverged"
struct TrialReport {
  std::optional<double> step_time_s;        // in [1e-6, 1e6]
  std::optional<double> peak_memory_bytes;  // >= 0
  std::optional<double> loss;               // NaN: not finite
  bool is_skipped = false;
  std::optional<Outcome> status;  // kOutOfMemory, kFailed, kDiverged
  std::string message;
};

// Finds reports in the lines of a program's output.
//
// Several processes that print to one pipe mix their output: reports may be
// anywhere in a line, and if a process writes the word and the object
// separately ("oppaoppa  {...}{...}"), an object may come after another one or
// in one of the next lines. An object without its word counts if it is a step
// or a peak and a word without an object came before it.
class ReportReader {
 public:
  struct Line {
    std::vector<TrialReport> reports;
    std::string broken;  // the first truncated report of the line; or ""
  };
  // Errors: throws std::invalid_argument for an intact object with an
  // impossible value or an unknown key.
  [[nodiscard]] Line Read(std::string_view line);

 private:
  // The next brace that may open a report, from `at` on; npos if there is none.
  // Counts the words without an object before it.
  std::size_t NextBrace(std::string_view line, std::size_t at, bool& has_word);

  int words_ = 0;        // "oppa" without an object, in recent lines
  int lines_since_ = 0;  // the last one
};

// Splits text that arrives in pieces into lines, which a carriage return ends,
// too, as those of progress bars. Only the beginning of a line longer than
// kLongest bytes is kept, and no empty line.
class LineReader {
 public:
  static constexpr std::size_t kLongest = 65536;
  using OnLine = std::function<void(std::string_view line)>;

  void Take(std::string_view piece, const OnLine& on_line);
  // The last line, if nothing ends it.
  void Finish(const OnLine& on_line);

 private:
  std::string line_;
};

// The folder for temporary files: /tmp where TMPDIR names none.
[[nodiscard]] std::filesystem::path TemporaryFolder();

// A file to which the program appends reports.
class ReportFile {
 public:
  // Creates the file, empty; in the folder for temporary files where the path
  // cannot be written.
  explicit ReportFile(const std::filesystem::path& path);
  // Removes it.
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  // Absolute.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // At most 1 MiB of the text that was not read yet. After 64 MiB the file is
  // at its end.
  [[nodiscard]] std::string Read();

 private:
  std::filesystem::path path_;
  common::Descriptor file_;
  std::size_t left_ = std::size_t{64} << 20U;
};

}  // namespace trials
