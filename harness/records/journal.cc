#include "harness/records/journal.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"

namespace harness {
namespace {

constexpr const char* kSums = ".sums";

[[noreturn]] void Refuse(const std::filesystem::path& path,
                         const std::string& reason) {
  throw common::InputError(
      fmt::format("{}: {}: rows are missing; restore the file, or move {} away "
                  "to repeat the run",
                  path.string(), reason, path.parent_path().string()));
}

// The number of records that belong to the first `trials` trials.
template <typename Record>
std::size_t CountUpTo(const std::vector<Record>& records, std::size_t trials) {
  return std::ranges::find_if(records,
                              [trials](const Record& record) {
                                return std::cmp_greater(record.trial, trials);
                              }) -
         records.begin();
}

// Copies the step times to their trials.
void TakeSteps(const std::filesystem::path& folder,
               const std::vector<trials::StepRecord>& steps,
               std::vector<trials::Trial>& committed) {
  std::size_t step = 0;
  for (trials::Trial& trial : committed) {
    std::vector<double>& step_times_s = trial.measurement.step_times_s;
    for (; step < steps.size() && steps[step].trial == trial.number &&
           std::cmp_equal(steps[step].step, step_times_s.size() + 1);
         ++step) {
      step_times_s.push_back(steps[step].step_time_s);
    }
    if (std::cmp_not_equal(step_times_s.size(), trial.steps)) {
      Refuse(folder / trials::FileOf<trials::StepRecord>().name,
             fmt::format("{} of the {} steps of trial {}", step_times_s.size(),
                         trial.steps, trial.number));
    }
  }
}

std::string UnknownTime(const trials::Trial& trial) {
  return ToRow(trials::SuggestionTime{trial.number, trials::kUnknown,
                                      trials::kUnknown}) +
         "\n";
}

template <typename Record>
std::string RowsOf(const std::vector<Record>& records) {
  std::string rows;
  for (const Record& record : records) {
    rows += ToRow(record) + "\n";
  }
  return rows;
}

// Says how many rows follow the first `kept` ones.
template <typename Record>
void NoteDropped(const trials::Rows<Record>& rows, std::size_t kept,
                 std::vector<std::string>& notes) {
  const std::size_t dropped = rows.records.size() - kept;
  const bool cut = rows.ends.back() < rows.text.size();
  if (dropped > 0 || cut) {
    notes.push_back(
        fmt::format("{}: dropped {} rows{} of a trial that was not committed",
                    trials::FileOf<Record>().name, dropped,
                    cut ? " and an incomplete one" : ""));
  }
}

// `names` and those of `others` that it lacks.
std::vector<std::string> Union(std::vector<std::string> names,
                               const std::vector<std::string>& others) {
  for (const std::string& name : others) {
    if (!common::Contains(names, name)) {
      names.push_back(name);
    }
  }
  return names;
}

// The trial with a value for each of these columns: "" of a knob that it lacks.
trials::Trial WithColumns(trials::Trial trial,
                          const trials::KnobColumns& columns) {
  std::vector<trials::CustomValue> all;
  for (const std::string& knob : columns.custom) {
    const auto found = std::ranges::find_if(
        trial.custom, [&](const auto& value) { return value.knob == knob; });
    all.push_back({knob, found == trial.custom.end() ? "" : found->value});
  }
  trial.custom = std::move(all);
  if (columns.suggestion) {
    trial.suggestion = trial.suggestion.value_or(trial.number);
  }
  return trial;
}

using Texts = std::array<std::string_view, 5>;
constexpr std::size_t kFits = 2;  // places in it
constexpr std::size_t kTimes = 3;

std::array<std::string, 5> NamesOfFiles() {
  return {trials::FileOf<trials::Trial>().name,
          trials::FileOf<trials::StepRecord>().name,
          trials::FileOf<trials::FitRecord>().name,
          trials::FileOf<trials::SuggestionTime>().name,
          trials::FileOf<trials::PlanRecord>().name};
}

// For each trial with rows in the files: the hash of its rows in each of them.
// A file of such lines shows which rows of an unfinished run were changed.
std::map<int, std::vector<std::string>> SumsOf(const Texts& files) {
  std::map<int, std::vector<std::string>> sums;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (const std::string_view row : common::Split(files[f], '\n')) {
      if (const auto trial = common::ParseInt(row.substr(0, row.find(',')))) {
        std::vector<std::string>& of_trial = sums[*trial];
        of_trial.resize(files.size());
        of_trial[f] = fmt::format(
            "{:016x}", common::Hash(fmt::format("{}{}", of_trial[f], row)));
      }
    }
  }
  return sums;
}

std::string SumsText(const Texts& files) {
  std::string text;
  for (const auto& [trial, sums] : SumsOf(files)) {
    text += fmt::format("{} {}\n", trial, fmt::join(sums, " "));
  }
  return text;
}

// Refuses rows that have other sums than when they were written; only on
// request those that a search can do without.
void CheckSums(const std::filesystem::path& folder, const Texts& files,
               bool checks_all) {
  const auto sums = SumsOf(files);
  const std::string text =
      common::ReadFileIfExists(folder / kSums).value_or("");
  for (const std::string_view line : common::Split(text, '\n')) {
    const auto cells = common::Split(line, ' ');
    const auto found = sums.find(common::ParseInt(cells[0]).value_or(0));
    for (std::size_t f = 0; found != sums.end() && f < files.size() &&
                            cells.size() == files.size() + 1;
         ++f) {
      const bool is_needed = f != kFits && f != kTimes;
      if ((is_needed || checks_all) && found->second[f] != cells[f + 1]) {
        throw common::InputError(fmt::format(
            "{}: the rows of trial {} are not those that were written; restore "
            "the file, or move {} away to repeat the run",
            (folder / NamesOfFiles()[f]).string(), cells[0], folder.string()));
      }
    }
  }
}

}  // namespace

// The committed part of the files of a run, as texts with their headers.
struct Journal::Contents {
  // `dropped`: the number of trials to leave out at the end.
  explicit Contents(const std::filesystem::path& folder,
                    const trials::KnobColumns& wanted = {},
                    std::size_t dropped = 0, bool checks_all = false);

  [[nodiscard]] Texts Files() const {
    return {trials, steps, fits, suggestion_times, plans};
  }

  std::string trials, steps, fits, suggestion_times, plans;
  std::vector<trials::Trial> committed;
  std::vector<std::string> known_fits;
  trials::KnobColumns columns;
  std::vector<std::string> notes;

 private:
  // Refuses trials that are not in order.
  void TakeTrials(const std::filesystem::path& folder,
                  const trials::Rows<trials::Trial>& rows, std::size_t count);
  // The rows of the first `count` trials. Refuses records of trials beyond the
  // next one, and notes what it drops.
  template <typename Record>
  std::string Head(const std::filesystem::path& folder,
                   const trials::Rows<Record>& rows, std::size_t count);
  void AddUnknownTimes(std::size_t known);
};

template <typename Record>
std::string Journal::Contents::Head(const std::filesystem::path& folder,
                                    const trials::Rows<Record>& rows,
                                    std::size_t count) {
  const std::string& name = trials::FileOf<Record>().name;
  if (!rows.records.empty() &&
      std::cmp_greater(rows.records.back().trial, count + 1)) {
    Refuse(folder / trials::FileOf<trials::Trial>().name,
           fmt::format("ends after trial {}, but {} has trial {}", count, name,
                       rows.records.back().trial));
  }
  const std::size_t kept = CountUpTo(rows.records, count);
  NoteDropped(rows, kept, notes);
  return rows.Head(kept);
}

// Rows of a file with other columns are written again.
void Journal::Contents::TakeTrials(const std::filesystem::path& folder,
                                   const trials::Rows<trials::Trial>& rows,
                                   std::size_t count) {
  for (std::size_t i = 0; i < rows.records.size(); ++i) {
    if (std::cmp_not_equal(rows.records[i].number, i + 1)) {
      Refuse(folder / trials::FileOf<trials::Trial>().name,
             fmt::format("trial {} is in the place of trial {}",
                         rows.records[i].number, i + 1));
    }
  }
  committed.assign(rows.records.begin(),
                   rows.records.begin() + static_cast<std::ptrdiff_t>(count));
  if (rows.columns == columns) {
    trials = rows.Head(count);
    return;
  }
  for (trials::Trial& trial : committed) {
    trial = WithColumns(std::move(trial), columns);
  }
  trials = trials::TrialsHeader(columns) + RowsOf(committed);
}

Journal::Contents::Contents(const std::filesystem::path& folder,
                            const trials::KnobColumns& wanted,
                            std::size_t dropped, bool checks_all) {
  using trials::ReadRows;
  const auto rows = ReadRows<trials::Trial>(folder);
  const auto step_rows = ReadRows<trials::StepRecord>(folder, true);
  const auto fit_rows = ReadRows<trials::FitRecord>(folder, true);
  const auto times = ReadRows<trials::SuggestionTime>(folder, true);
  const auto plan_rows = ReadRows<trials::PlanRecord>(folder, true);
  const std::size_t count = rows.records.size() - dropped;
  columns.custom = Union(rows.columns.custom, wanted.custom);
  columns.suggestion = rows.columns.suggestion || wanted.suggestion;
  NoteDropped(rows, rows.records.size(), notes);
  TakeTrials(folder, rows, count);
  steps = Head(folder, step_rows, count);
  fits = Head(folder, fit_rows, count);
  suggestion_times = Head(folder, times, count);
  plans = Head(folder, plan_rows, count);

  TakeSteps(folder, step_rows.records, committed);
  SetPlans(plan_rows.records, committed);
  for (std::size_t i = 0; i < CountUpTo(fit_rows.records, count); ++i) {
    known_fits.push_back(fit_rows.Row(i));
  }
  CheckSums(folder, {rows.Head(count), steps, fits, suggestion_times, plans},
            checks_all);
  AddUnknownTimes(CountUpTo(times.records, count));
}

void Journal::Contents::AddUnknownTimes(std::size_t known) {
  if (known == committed.size()) {
    return;
  }
  notes.push_back(fmt::format("{}: no suggestion time of trials {} to {}",
                              trials::FileOf<trials::SuggestionTime>().name,
                              known + 1, committed.size()));
  for (; known < committed.size(); ++known) {
    suggestion_times += UnknownTime(committed[known]);
  }
}

void AppendFile::Append(const std::string& text) const {
  common::WriteAll(file.get(), path, text);
  if (!text.empty() && ::fdatasync(file.get()) != 0) {
    common::ThrowErrno(path, "write");
  }
}

template <typename Record>
AppendFile Journal::Publish(const std::string& text) const {
  const std::string& name = trials::FileOf<Record>().name;
  return {folder_ / name, lease_.PublishOpen(name, text)};
}

Journal::Journal(std::filesystem::path run_folder, double lease_timeout_s,
                 const trials::KnobColumns& columns)
    : folder_(std::move(run_folder)), lease_(folder_, lease_timeout_s) {
  Take(Contents(folder_, columns));
}

// Publishes files of this epoch, which no earlier writer has open. The
// committing one first: a crash in between leaves nothing committed whose other
// rows are gone.
void Journal::Take(Contents contents) {
  committed_ = std::move(contents.committed);
  known_fits_ = std::move(contents.known_fits);
  columns_ = std::move(contents.columns);
  notes_ = std::move(contents.notes);
  common::Remove(folder_ / kSums);  // of rows that may get other columns
  trials_ = Publish<trials::Trial>(contents.trials);
  steps_ = Publish<trials::StepRecord>(contents.steps);
  suggestion_times_ =
      Publish<trials::SuggestionTime>(contents.suggestion_times);
  fits_ = Publish<trials::FitRecord>(contents.fits);
  if (contents.plans != trials::FileOf<trials::PlanRecord>().header) {
    plans_ = Publish<trials::PlanRecord>(contents.plans);
  }
  sums_ = {folder_ / kSums,
           lease_.PublishOpen(kSums, SumsText(contents.Files()))};
}

void Journal::DropLast() { Take(Contents(folder_, columns_, 1)); }

void Journal::SkipFits(int trial) {
  const std::string prefix = std::to_string(trial) + ",";
  while (checked_fits_ < known_fits_.size() &&
         known_fits_[checked_fits_].starts_with(prefix)) {
    ++checked_fits_;
  }
}

std::vector<std::string> CheckJournal(const std::filesystem::path& run_folder) {
  const Journal::Contents contents(run_folder, {}, 0, true);
  std::vector<std::string> notes = contents.notes;
  if (!contents.committed.empty() && !common::EntryExists(run_folder / kSums)) {
    notes.push_back(fmt::format(
        "{} is missing, which a kill can leave: until the run goes on, a "
        "changed row would not be noticed",
        kSums));
  }
  return notes;
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
  if (!missing.empty()) {
    common::Remove(folder_ / kSums);  // until it is computed again
    fits_.Append(missing);
  }
  return true;
}

// The rows that commit come first: opening completes thinking.csv.
void Journal::CommitImported(const std::vector<trials::Trial>& trials) {
  std::string rows;
  std::string times;
  for (const trials::Trial& trial : trials) {
    rows += ToRow(WithColumns(trial, columns_)) + "\n";
    times += UnknownTime(trial);
  }
  lease_.Check();
  trials_.Append(rows);
  lease_.Check();
  suggestion_times_.Append(times);
}

void Journal::Commit(const trials::Trial& trial,
                     const trials::SuggestionTime& suggestion_time,
                     const std::vector<trials::FitRecord>& fits) {
  const trials::Trial row = WithColumns(trial, columns_);
  std::vector<trials::StepRecord> steps;
  for (const double time_s : trial.measurement.step_times_s) {
    steps.push_back({trial.number, static_cast<int>(steps.size()) + 1, time_s});
  }
  const std::string trial_row = ToRow(row) + "\n";
  const std::string step_rows = RowsOf(steps);
  const std::string fit_rows = RowsOf(fits);
  const std::string time_row = ToRow(suggestion_time) + "\n";
  std::string plan_row;
  steps_.Append(step_rows);
  fits_.Append(fit_rows);
  suggestion_times_.Append(time_row);
  if (const auto plan = PlanRecordOf(trial)) {
    if (!plans_) {
      plans_ = Publish<trials::PlanRecord>();
    }
    plan_row = ToRow(*plan) + "\n";
    plans_->Append(plan_row);
  }
  lease_.Check();
  // Rows without a sum are not checked, so it need not be durable.
  common::WriteAll(
      sums_.file.get(), sums_.path,
      SumsText({trial_row, step_rows, fit_rows, time_row, plan_row}));
  trials_.Append(trial_row);
  lease_.Check();  // only now is it known that the next holder sees the row
}

}  // namespace harness
