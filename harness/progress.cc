#include "harness/progress.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace harness {
namespace {

constexpr double kRepaintSeconds = 0.5;
constexpr double kPlainLineSeconds = 10.0;

}  // namespace

Progress::Progress(const Manifest& manifest,
                   std::filesystem::path experiment_folder,
                   bool terminal,
                   std::FILE* out)
    : manifest_(manifest),
      folder_(std::move(experiment_folder)),
      terminal_(terminal),
      out_(out),
      runs_(ReadStatus(manifest, folder_)),
      next_update_s_(-std::numeric_limits<double>::infinity()) {}

void Progress::RunEnded(int run, const std::string& problem) {
  RunStatus& status = runs_[static_cast<std::size_t>(run)];
  status = ReadRunStatus(status.run, manifest_.budget, folder_);
  const std::string name = status.run.Name();
  if (!problem.empty()) {
    Clear();
    fmt::print(out_, "{}: failed: {}\n", name, problem);
  } else if (!terminal_) {
    fmt::print(
        out_,
        "{}: {} trials, best {}; {}\n",
        name,
        status.trials,
        std::isnan(status.incumbent_steps_per_s)
            ? "none"
            : fmt::format("{:.4g} steps/s", status.incumbent_steps_per_s),
        Summary());
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
    painted_lines_ =
        static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  } else if (!first) {
    fmt::print(out_, "{}\n", Summary());
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

// What is done stays as it is; only the others are read again.
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

std::string Progress::Summary() const {
  const auto done =
      std::count_if(runs_.begin(), runs_.end(), [](const RunStatus& status) {
        return status.state == RunState::kDone;
      });
  return fmt::format("{} of {} runs done, about {} left",
                     done,
                     runs_.size(),
                     FormatDuration(SecondsLeft()));
}

}  // namespace harness
