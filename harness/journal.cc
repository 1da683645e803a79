#include "harness/journal.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trials/text.h"

namespace harness {
namespace {

using trials::InputError;
using trials::RecordFile;

// How long a writer that was just killed may take to let go of its lock.
constexpr double kLockPatienceSeconds = 5.0;

[[noreturn]] void ThrowErrno(const std::filesystem::path& path,
                             std::string_view what) {
  throw std::runtime_error(
      fmt::format("{}: cannot {}: {}", path.string(), what, strerror(errno)));
}

struct flock WholeFile(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

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
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  Rows<Record> rows;
  std::vector<std::string_view> lines = trials::Split(text, '\n');
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

// Keeps the header and the first `rows` rows of a file.
template <typename Record>
void Keep(AppendFile& out,
          const RecordFile& file,
          const Rows<Record>& rows,
          std::size_t count) {
  if (!rows.has_header) {
    out.Truncate(0);
    out.Append(Header(file));
    return;
  }
  std::uintmax_t bytes = Header(file).size();
  for (std::size_t i = 0; i < count; ++i) {
    bytes += rows.lines[i].size() + 1;
  }
  out.Truncate(bytes);
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    ThrowErrno(path_, "open");
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

bool AppendFile::Lock(double patience_s) {
  using Clock = std::chrono::steady_clock;
  const auto give_up = Clock::now() + std::chrono::duration<double>(patience_s);
  while (true) {
    struct flock lock = WholeFile(F_WRLCK);
    if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) {
      return true;
    }
    if (errno != EAGAIN && errno != EACCES) {
      ThrowErrno(path_, "lock");
    }
    if (Clock::now() >= give_up) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void AppendFile::Truncate(std::uintmax_t bytes) {
  struct stat now {};
  if (::fstat(fd_, &now) == 0 && now.st_size == static_cast<off_t>(bytes)) {
    return;
  }
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0 ||
      ::fdatasync(fd_) != 0) {
    ThrowErrno(path_, "truncate");
  }
}

void AppendFile::Append(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      ThrowErrno(path_, "write");
    }
    done += static_cast<std::size_t>(written);
  }
  if (!text.empty() && ::fdatasync(fd_) != 0) {
    ThrowErrno(path_, "write");
  }
}

bool IsBeingWritten(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = run_folder / trials::TrialsFile().name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  struct flock lock = WholeFile(F_RDLCK);
  const bool held =
      ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return held;
}

Journal::Journal(std::filesystem::path run_folder)
    : folder_(std::move(run_folder)),
      trials_(folder_ / trials::TrialsFile().name),
      steps_(folder_ / trials::StepsFile().name),
      fits_(folder_ / trials::FitsFile().name),
      thinking_(folder_ / trials::ThinkingFile().name) {
  if (!trials_.Lock(kLockPatienceSeconds)) {
    throw InputError(
        fmt::format("{}: another process is writing these records: wait for "
                    "it, or stop it",
                    folder_.string()));
  }
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
  // The committing file first: a crash in between leaves nothing committed
  // whose other rows are gone.
  Keep(trials_, trials::TrialsFile(), rows, committed_.size());
  Keep(steps_, trials::StepsFile(), steps, step);
  Keep(thinking_, trials::ThinkingFile(), thinking, committed_.size());
  const int last = static_cast<int>(committed_.size());
  std::size_t fit_count = 0;
  while (fit_count < fits.records.size() &&
         fits.records[fit_count].trial <= last) {
    known_fits_.push_back(fits.lines[fit_count++]);
  }
  Keep(fits_, trials::FitsFile(), fits, fit_count);
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
  fits_.Append(missing);
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
  steps_.Append(rows);
  rows.clear();
  for (const trials::FitRecord& fit : fits) {
    rows += ToRow(fit) + "\n";
  }
  fits_.Append(rows);
  thinking_.Append(ToRow(trial.thinking) + "\n");
  trials_.Append(ToRow(trial.record) + "\n");
}

}  // namespace harness
