#include "harness/progress.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "plots/experiment_records.h"

namespace harness {
namespace {

constexpr double kRepaintSeconds = 0.5;
constexpr double kPlainLineSeconds = 30.0;

// "12 trials, best 0.4312 steps/s".
std::string Trials(int count, double best, std::string_view unit) {
  return fmt::format(
      "{} trials, best {}", count,
      std::isnan(best) ? "none" : fmt::format("{:.4g} {}", best, unit));
}

}  // namespace

Progress::Progress(const Manifest& manifest,
                   std::filesystem::path experiment_folder, bool terminal,
                   std::FILE* out)
    : manifest_(manifest),
      folder_(std::move(experiment_folder)),
      terminal_(terminal),
      out_(out),
      runs_(ReadStatus(manifest, folder_)),
      next_update_s_(-std::numeric_limits<double>::infinity()) {}

void Progress::RunEnded(int run, const std::string& problem) {
  RunStatus& status = runs_[run];
  status = ReadRunStatus(status.run, manifest_.budget, folder_);
  const std::string name = status.run.Name();
  if (!problem.empty()) {
    Clear();
    fmt::print(out_, "{}: failed: {}\n", name, problem);
  } else if (!terminal_) {
    fmt::print(out_, "{}: {}{}{}; {}{}\n", name,
               Trials(status.trials, status.incumbent_value, status.unit),
               status.remaining ? ", " : "",
               status.remaining ? plots::RemainingText(*status.remaining) : "",
               RunsDone(), TimeLeft());
  }
  std::fflush(out_);
}

void Progress::Update(double now_s) {
  now_s_ = now_s;
  if (now_s < next_update_s_) {
    return;
  }
  const bool first = std::isinf(next_update_s_);
  if (first) {
    begin_s_ = now_s;
    spent_before_ = BudgetsSpent(runs_);
  }
  next_update_s_ = now_s + (terminal_ ? kRepaintSeconds : kPlainLineSeconds);
  Refresh();
  if (terminal_) {
    Clear();
    const std::string text = FormatStatus(manifest_, runs_, SecondsLeft());
    fmt::print(out_, "{}", text);
    painted_lines_ = static_cast<int>(std::ranges::count(text, '\n'));
  } else if (!first) {
    int trials = 0;
    double best = trials::kUnknown;
    std::string_view unit;
    for (const RunStatus& status : runs_) {
      trials += status.trials;
      best = std::fmax(best, status.incumbent_value);
      unit = status.trials > 0 ? status.unit : unit;
    }
    // Throughputs of different problems cannot be compared.
    fmt::print(out_, "{}; {}{}\n", RunsDone(),
               manifest_.problems.size() == 1
                   ? Trials(trials, best, unit)
                   : fmt::format("{} trials", trials),
               TimeLeft());
  }
  std::fflush(out_);
}

void Progress::Clear() {
  if (painted_lines_ > 0) {
    // To the start of the block, then erase from there on.
    fmt::print(out_, "\x1b[{}F\x1b[J", painted_lines_);
    painted_lines_ = 0;
    std::fflush(out_);
  }
}

// Finished runs do not change; only the others are read again.
void Progress::Refresh() {
  for (RunStatus& status : runs_) {
    if (status.state != RunState::kDone) {
      status = ReadRunStatus(status.run, manifest_.budget, folder_);
    }
  }
}

double Progress::SecondsLeft() const {
  const double spent = BudgetsSpent(runs_);
  const double left = static_cast<double>(runs_.size()) - spent;
  return (now_s_ - begin_s_) * left / (spent - spent_before_);
}

std::string Progress::RunsDone() const {
  return fmt::format("{} of {} runs done", Done(), runs_.size());
}

std::string Progress::TimeLeft() const {
  return Done() == runs_.size()
             ? ""
             : fmt::format(", about {} left", FormatDuration(SecondsLeft()));
}

std::size_t Progress::Done() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      runs_,
      [](const RunStatus& status) { return status.state == RunState::kDone; }));
}

}  // namespace harness
