#include "harness/journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"

namespace harness {
namespace {

using common::InputError;
using trials::RecordFile;

std::string Header(const RecordFile& file) {
  return fmt::format("{}\n{}\n", file.version, file.header);
}

// The rows of a file with the bytes that precede the end of each.
template <typename Record>
struct Rows {
  std::vector<Record> records;
  std::vector<std::string> lines;
  bool has_header = false;
};

// Reads the rows of a file. A last line that is cut off or does not parse is
// left out; a damaged line before it is an error.
template <typename Record>
Rows<Record> ReadRows(const std::filesystem::path& folder,
                      const RecordFile& file,
                      Record (*parse)(std::string_view)) {
  const std::filesystem::path path = folder / file.name;
  const std::string text = common::ReadFileIfExists(path).value_or("");
  Rows<Record> rows;
  std::vector<std::string_view> lines = common::Split(text, '\n');
  lines.pop_back();
  if (lines.size() < 2) {
    return rows;  // cut off in the header: nothing was committed
  }
  if (lines[0] != file.version || lines[1] != file.header) {
    throw InputError(
        fmt::format("{}:1: written by another version of the program: use "
                    "another --results folder, or remove {}",
                    path.string(),
                    folder.string()));
  }
  rows.has_header = true;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    try {
      rows.records.push_back(parse(lines[i]));
      rows.lines.emplace_back(lines[i]);
    } catch (const InputError& e) {
      if (i + 1 < lines.size()) {
        throw InputError(fmt::format("{}:{}: {}; remove {} to run it again",
                                     path.string(),
                                     i + 1,
                                     e.what(),
                                     folder.string()));
      }
    }
  }
  return rows;
}

// The rows from `begin` on that belong to `trial`.
template <typename Record>
std::size_t CountOf(const std::vector<Record>& records,
                    std::size_t begin,
                    int trial) {
  std::size_t end = begin;
  while (end < records.size() && records[end].trial == trial) {
    ++end;
  }
  return end - begin;
}

// The header and the first `count` rows of a file.
template <typename Record>
std::string Kept(const RecordFile& file,
                 const Rows<Record>& rows,
                 std::size_t count) {
  std::string text = Header(file);
  for (std::size_t i = 0; i < count; ++i) {
    text += rows.lines[i] + "\n";
  }
  return text;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, int fd)
    : path_(std::move(path)), fd_(fd) {}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::Append(const std::string& text) {
  common::WriteAll(fd_, path_, text);
  if (!text.empty() && ::fdatasync(fd_) != 0) {
    common::ThrowErrno(path_, "write");
  }
}

Journal::Journal(std::filesystem::path run_folder, double lease_timeout_s)
    : folder_(std::move(run_folder)), lease_(folder_, lease_timeout_s) {
  const auto rows =
      ReadRows(folder_, trials::TrialsFile(), trials::ParseTrialRow);
  const auto steps =
      ReadRows(folder_, trials::StepsFile(), trials::ParseStepRow);
  const auto fits = ReadRows(folder_, trials::FitsFile(), trials::ParseFitRow);
  const auto thinking =
      ReadRows(folder_, trials::ThinkingFile(), trials::ParseThinkingRow);
  std::size_t step = 0;
  for (const trials::TrialRecord& record : rows.records) {
    const std::size_t count = CountOf(steps.records, step, record.trial);
    const std::size_t index = committed_.size();
    if (count != static_cast<std::size_t>(record.steps) ||
        index >= thinking.records.size() ||
        thinking.records[index].trial != record.trial) {
      break;
    }
    Trial& trial = committed_.emplace_back();
    trial.record = record;
    trial.thinking = thinking.records[index];
    for (; trial.step_times_s.size() < count; ++step) {
      trial.step_times_s.push_back(steps.records[step].step_time_s);
    }
  }
  const int last = static_cast<int>(committed_.size());
  std::size_t fit_count = 0;
  while (fit_count < fits.records.size() &&
         fits.records[fit_count].trial <= last) {
    known_fits_.push_back(fits.lines[fit_count++]);
  }
  // Files of this epoch, which no earlier writer has open. The committing one
  // first: a crash in between leaves nothing committed whose other rows are
  // gone.
  const auto publish = [this](const RecordFile& file, const std::string& text) {
    return std::make_unique<AppendFile>(
        folder_ / file.name, lease_.PublishOpen(std::string(file.name), text));
  };
  trials_ = publish(trials::TrialsFile(),
                    Kept(trials::TrialsFile(), rows, committed_.size()));
  steps_ = publish(trials::StepsFile(), Kept(trials::StepsFile(), steps, step));
  thinking_ =
      publish(trials::ThinkingFile(),
              Kept(trials::ThinkingFile(), thinking, committed_.size()));
  fits_ =
      publish(trials::FitsFile(), Kept(trials::FitsFile(), fits, fit_count));
}

bool Journal::CheckFits(const std::vector<trials::FitRecord>& fits) {
  std::string missing;
  for (const trials::FitRecord& fit : fits) {
    std::string row = ToRow(fit);
    if (checked_fits_ < known_fits_.size()) {
      if (known_fits_[checked_fits_++] != row) {
        return false;
      }
    } else {
      missing += row + "\n";
    }
  }
  fits_->Append(missing);
  return true;
}

void Journal::Commit(const Trial& trial,
                     const std::vector<trials::FitRecord>& fits) {
  std::string rows;
  int step = 0;
  for (const double time_s : trial.step_times_s) {
    rows +=
        ToRow(trials::StepRecord{trial.record.trial, ++step, time_s}) + "\n";
  }
  steps_->Append(rows);
  rows.clear();
  for (const trials::FitRecord& fit : fits) {
    rows += ToRow(fit) + "\n";
  }
  fits_->Append(rows);
  thinking_->Append(ToRow(trial.thinking) + "\n");
  lease_.Check();
  trials_->Append(ToRow(trial.record) + "\n");
  lease_.Check();  // only now is it known that the next holder sees the row
}

}  // namespace harness
