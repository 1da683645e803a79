#include "harness/journal.h"

#include <cerrno>
#include <utility>

#include <unistd.h>

#include "common/error.h"
#include "common/files.h"

namespace harness {
namespace {

// The number of records from `begin` on that belong to `trial`.
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

// The number of records that belong to the first `trials` trials.
template <typename Record>
std::size_t CountUpTo(const std::vector<Record>& records, std::size_t trials) {
  std::size_t end = 0;
  while (end < records.size() &&
         std::cmp_less_equal(records[end].trial, trials)) {
    ++end;
  }
  return end;
}

template <typename Record>
std::string RowsOf(const std::vector<Record>& records) {
  std::string rows;
  for (const Record& record : records) {
    rows += ToRow(record) + "\n";
  }
  return rows;
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

template <typename Record>
std::unique_ptr<AppendFile> Journal::Publish(const std::string& text) const {
  const std::string& name = trials::FileOf<Record>().name;
  return std::make_unique<AppendFile>(folder_ / name,
                                      lease_.PublishOpen(name, text));
}

Journal::Journal(std::filesystem::path run_folder, double lease_timeout_s)
    : folder_(std::move(run_folder)), lease_(folder_, lease_timeout_s) {
  using trials::ReadRows;
  const auto rows = ReadRows<trials::Trial>(folder_, true);
  const auto steps = ReadRows<trials::StepRecord>(folder_, true);
  const auto fits = ReadRows<trials::FitRecord>(folder_, true);
  const auto times = ReadRows<trials::SuggestionTime>(folder_, true);
  const auto plans = ReadRows<trials::PlanRecord>(folder_, true);
  std::size_t step = 0;
  for (const trials::Trial& row : rows.records) {
    const std::size_t count = CountOf(steps.records, step, row.number);
    const std::size_t index = committed_.size();
    if (std::cmp_not_equal(count, row.steps) || index >= times.records.size() ||
        times.records[index].trial != row.number) {
      break;
    }
    std::vector<double>& step_times_s =
        committed_.emplace_back(row).measurement.step_times_s;
    for (; step_times_s.size() < count; ++step) {
      step_times_s.push_back(steps.records[step].step_time_s);
    }
  }
  SetPlans(plans.records, committed_);
  const std::size_t fit_count = CountUpTo(fits.records, committed_.size());
  for (std::size_t i = 0; i < fit_count; ++i) {
    known_fits_.push_back(fits.Row(i));
  }
  // Files of this epoch, which no earlier writer has open. The committing one
  // first: a crash in between leaves nothing committed whose other rows are
  // gone.
  trials_ = Publish<trials::Trial>(rows.Head(committed_.size()));
  steps_ = Publish<trials::StepRecord>(steps.Head(step));
  suggestion_times_ =
      Publish<trials::SuggestionTime>(times.Head(committed_.size()));
  fits_ = Publish<trials::FitRecord>(fits.Head(fit_count));
  if (!plans.records.empty()) {
    plans_ = Publish<trials::PlanRecord>(
        plans.Head(CountUpTo(plans.records, committed_.size())));
  }
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

void Journal::Commit(const trials::Trial& trial,
                     const trials::SuggestionTime& suggestion_time,
                     const std::vector<trials::FitRecord>& fits) {
  std::vector<trials::StepRecord> steps;
  for (const double time_s : trial.measurement.step_times_s) {
    steps.push_back({trial.number, static_cast<int>(steps.size()) + 1, time_s});
  }
  steps_->Append(RowsOf(steps));
  fits_->Append(RowsOf(fits));
  suggestion_times_->Append(ToRow(suggestion_time) + "\n");
  if (!trial.plan.empty()) {
    if (!plans_) {
      plans_ = Publish<trials::PlanRecord>();
    }
    plans_->Append(ToRow(trials::PlanRecord{trial.number, trial.plan}) + "\n");
  }
  lease_.Check();
  trials_->Append(ToRow(trial) + "\n");
  lease_.Check();  // only now is it known that the next holder sees the row
}

}  // namespace harness
