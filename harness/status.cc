#include "harness/status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/json.h"
#include "common/output.h"
#include "common/ranges.h"
#include "common/text.h"
#include "harness/records/inputs.h"
#include "harness/records/lease.h"
#include "plots/experiment_records.h"

namespace harness {
namespace {

double Fraction(const Budget& budget, const RunStatus& status) {
  double fraction = 0.0;
  if (budget.trials > 0) {
    fraction = static_cast<double>(status.trials) / budget.trials;
  }
  if (std::isfinite(budget.time_s)) {
    fraction = std::max(fraction, status.elapsed_s / budget.time_s);
  }
  return std::min(fraction, 1.0);
}

// Turns throughputs into values in the unit of the objective.
void ToValues(const std::filesystem::path& problem_folder,
              std::vector<trials::Trial>& trials, RunStatus& status) {
  if (status.run.problem->objective != trials::Objective::kTime &&
      common::EntryExists(problem_folder / "problem.json")) {
    const trials::ProblemInfo problem = trials::ReadProblemInfo(problem_folder);
    plots::ToValues(problem, trials);
    status.unit = problem.valuation().unit();
  }
}

void ReadRecords(const std::filesystem::path& folder,
                 const std::filesystem::path& problem_folder,
                 const trials::RecordList& list,
                 const trials::SearchBounds& bounds, RunStatus& status) {
  const trials::RunInfo info = trials::ReadRunInfo(folder);
  trials::RequireWhole(folder, info);
  list.Require(info);
  std::vector<trials::Trial> trials = trials::ReadTrials(folder);
  if (!trials.empty()) {
    status.trials = trials.back().number;
    status.elapsed_s = trials.back().elapsed_s;
    status.incumbent_steps_per_s = trials.back().incumbent_steps_per_s;
    ToValues(problem_folder, trials, status);
    status.incumbent_value = trials.back().incumbent_steps_per_s;
  }
  const auto times = trials::ReadRows<trials::SuggestionTime>(folder);
  for (const trials::SuggestionTime& row : times.records) {
    status.thinking_s += std::isnan(row.wall_s) ? 0.0 : row.wall_s;
  }
  if (info.finished) {
    status.remaining = info.remaining;
  } else {
    const auto estimates = plots::RemainingByTrial(
        trials::ReadRows<trials::FitRecord>(folder, true).records);
    if (!estimates.empty()) {
      status.remaining = estimates.rbegin()->second;
    }
  }
  if (info.finished &&
      Grows(info.finish_reason, info.bounds.value_or(bounds), bounds)) {
    status.state = RunState::kStopped;
    status.message = "ended at a smaller budget";
  } else if (info.finished) {
    status.state = RunState::kDone;
    status.message = ToString(info.finish_reason);
  } else {
    status.state = IsLeased(folder) ? RunState::kRunning : RunState::kStopped;
  }
}

// Sums over runs.
struct Totals {
  int runs = 0;
  std::map<RunState, int> states;
  int trials = 0;
  double fraction = 0.0;
  double thinking_s = 0.0;

  void Add(const RunStatus& status) {
    ++runs;
    ++states[status.state];
    trials += status.trials;
    fraction += status.state == RunState::kDone ? 1.0 : status.fraction;
    thinking_s += status.thinking_s;
  }
  [[nodiscard]] int In(RunState state) const {
    const auto found = states.find(state);
    return found == states.end() ? 0 : found->second;
  }
  [[nodiscard]] int done() const { return In(RunState::kDone); }
};

Totals TotalsOf(const std::vector<RunStatus>& runs) {
  Totals totals;
  for (const RunStatus& status : runs) {
    totals.Add(status);
  }
  return totals;
}

std::map<const MethodSpec*, Totals> TotalsByMethod(
    const std::vector<RunStatus>& runs) {
  std::map<const MethodSpec*, Totals> totals;
  for (const RunStatus& status : runs) {
    totals[status.run.method].Add(status);
  }
  return totals;
}

// "  2 pending, 1 failed": the states that have no column.
std::string Others(const Totals& part) {
  std::vector<std::string> texts;
  for (const auto& [count, what] :
       {std::pair(part.In(RunState::kPending), "pending"),
        std::pair(part.In(RunState::kFailed) + part.In(RunState::kLost),
                  "failed"),
        std::pair(part.In(RunState::kDamaged), "damaged")}) {
    if (count > 0) {
      texts.push_back(fmt::format("{} {}", count, what));
    }
  }
  return texts.empty() ? "" : fmt::format("  {}", fmt::join(texts, ", "));
}

// "trial budget; expected gain 0.8%, ...".
std::string Message(const RunStatus& status) {
  return status.remaining ? fmt::format("{}{}{}", status.message,
                                        status.message.empty() ? "" : "; ",
                                        plots::RemainingText(*status.remaining))
                          : status.message;
}

std::string Number(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
}

constexpr double kRepaintSeconds = 0.5;
constexpr double kPlainLineSeconds = 30.0;  // at first

// "12 trials, best 0.4312 steps/s".
std::string Trials(int count, double best, std::string_view unit) {
  return fmt::format(
      "{} trials, best {}", count,
      std::isnan(best) ? "none" : fmt::format("{:.4g} {}", best, unit));
}

}  // namespace

std::string_view ToString(RunState state) {
  constexpr std::array<std::string_view, 8> kNames = {
      "missing", "running", "stopped", "done",
      "damaged", "pending", "failed",  "lost"};
  return kNames.at(static_cast<std::size_t>(state));
}

RunStatus ReadRunStatus(const Experiment& experiment, const RunSpec& run,
                        const trials::RecordList& list) {
  RunStatus status;
  status.run = run;
  const std::filesystem::path folder = run.Folder(experiment.folder);
  if (!common::EntryExists(folder / "run.json")) {
    return status;
  }
  try {
    ReadRecords(folder,
                trials::ProblemFolder(experiment.folder, run.problem->name),
                list, BoundsOf(experiment.manifest.budget), status);
  } catch (const common::InputError& e) {
    status.state = RunState::kDamaged;
    status.message = e.what();
  }
  status.fraction = Fraction(experiment.manifest.budget, status);
  return status;
}

std::vector<RunStatus> ReadStatus(const Experiment& experiment) {
  const trials::RecordList list(experiment.folder);
  return common::Map(experiment.runs, [&](const RunSpec& run) {
    return ReadRunStatus(experiment, run, list);
  });
}

double SecondsLeft(const std::vector<RunStatus>& runs, int workers) {
  const Totals all = TotalsOf(runs);
  double left_s = 0.0;
  for (const auto& [method, part] : TotalsByMethod(runs)) {
    const Totals& known = part.fraction > 0.0 ? part : all;
    const double left = part.runs - part.fraction;
    left_s += left > 0.0 ? left * known.thinking_s / known.fraction : 0.0;
  }
  return left_s / std::max(workers, 1);
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds)) {
    return "?";
  }
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole >= 3600) {
    return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  }
  if (whole >= 60) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} s", whole);
}

std::string FormatStatus(const Manifest& manifest,
                         const std::vector<RunStatus>& runs,
                         std::optional<double> left_s) {
  const std::map<const MethodSpec*, Totals> totals = TotalsByMethod(runs);
  std::size_t width = 6;
  for (const MethodSpec& method : manifest.methods) {
    width = std::max(width, method.name.size());
  }
  std::string text =
      fmt::format("{:{}}  {:>11}  {:>7}  {:>7}  {:>6}\n", "method", width,
                  "done", "running", "trials", "budget");
  for (const MethodSpec& method : manifest.methods) {
    const Totals& part = totals.at(&method);
    text += fmt::format("{:{}}  {:>5}/{:<5}  {:>7}  {:>7}  {:>5.0f}%{}\n",
                        method.name, width, part.done(), part.runs,
                        part.In(RunState::kRunning), part.trials,
                        100.0 * part.fraction / part.runs, Others(part));
  }
  const Totals all = TotalsOf(runs);
  const int running = all.In(RunState::kRunning);
  text += fmt::format("{}: {} of {} runs done, {} running, {} trials",
                      manifest.name, all.done(), all.runs, running, all.trials);
  const double left = left_s.value_or(SecondsLeft(runs, running));
  if (all.done() < all.runs && std::isfinite(left)) {
    text += fmt::format(", about {} left", FormatDuration(left));
  }
  return text + "\n";
}

std::string FormatRuns(const std::vector<RunStatus>& runs) {
  std::size_t width = 3;
  for (const RunStatus& status : runs) {
    width = std::max(width, status.run.Name().size());
  }
  // All problems have the same objective.
  std::string_view unit = trials::Valuation().unit();
  for (const RunStatus& status : runs) {
    unit = status.trials > 0 ? status.unit : unit;
  }
  std::string text =
      fmt::format("{:{}}  {:<8} {:>6}  {:>6}  {:>14}\n", "run", width, "state",
                  "trials", "budget", fmt::format("best ({})", unit));
  for (const RunStatus& status : runs) {
    text += fmt::format(
        "{:{}}  {:<8} {:>6}  {:>5.0f}%  {:>14}  {}\n", status.run.Name(), width,
        ToString(status.state), status.trials, 100.0 * status.fraction,
        Number(status.incumbent_value), common::Printable(Message(status)));
  }
  return text;
}

std::string StatusJson(const Manifest& manifest,
                       const std::vector<RunStatus>& runs) {
  common::Json json;
  json["experiment"] = manifest.name;
  json["runs_total"] = runs.size();
  json["runs_done"] = TotalsOf(runs).done();
  json["runs"] = common::Json::array();
  for (const RunStatus& status : runs) {
    json["runs"].push_back({{"problem", status.run.problem->name},
                            {"method", status.run.method->name},
                            {"repeat", status.run.repeat},
                            {"state", ToString(status.state)},
                            {"trials", status.trials},
                            {"elapsed_s", status.elapsed_s},
                            {"budget_fraction", status.fraction},
                            {"incumbent_steps_per_s",
                             common::ToJson(status.incumbent_steps_per_s)},
                            {"thinking_s", status.thinking_s},
                            {"remaining", common::ToJson(status.remaining)},
                            {"node", status.node},
                            {"time_left", status.time_left},
                            {"log", status.log},
                            {"message", status.message}});
  }
  return common::ToText(json, 2) + "\n";
}

Progress::Progress(const Experiment& experiment, bool terminal, std::FILE* out)
    : experiment_(experiment),
      terminal_(terminal),
      out_(out),
      runs_(ReadStatus(experiment)),
      next_update_s_(-std::numeric_limits<double>::infinity()) {}

void Progress::RunEnded(int run, const std::string& problem) {
  RunStatus& status = runs_[run];
  status = ReadRunStatus(experiment_, status.run);
  const std::string name = status.run.Name();
  if (!problem.empty()) {
    Clear();
    fmt::print(out_, "{}: failed: {}\n", name, problem);
  } else if (!terminal_ && Done() >= next_line_) {
    constexpr std::size_t kLines = 20;
    while (next_line_ <= Done()) {
      next_line_ += std::max<std::size_t>(1, runs_.size() / kLines);
    }
    PrintLine();
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
    for (const auto& [method, part] : TotalsByMethod(runs_)) {
      spent_before_[method] = part.fraction;
    }
    next_line_ += Done();
  }
  next_update_s_ =
      now_s + (terminal_ ? kRepaintSeconds
                         : std::max(kPlainLineSeconds, now_s - begin_s_));
  Refresh();
  if (terminal_) {
    Clear();
    const std::string text =
        FormatStatus(experiment_.manifest, runs_, SecondsLeft());
    fmt::print(out_, "{}", text);
    painted_lines_ = static_cast<int>(std::ranges::count(text, '\n'));
  } else if (!first) {
    PrintLine();
  }
  std::fflush(out_);
}

void Progress::PrintLine() {
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
             experiment_.manifest.problems.size() == 1
                 ? Trials(trials, best, unit)
                 : fmt::format("{} trials", trials),
             TimeLeft());
}

void Progress::Clear() {
  if (painted_lines_ > 0) {
    // To the start of the block, then erase from there on.
    common::WriteControl(out_, fmt::format("\x1b[{}F\x1b[J", painted_lines_));
    painted_lines_ = 0;
  }
}

// Finished runs do not change; only the others are read again.
void Progress::Refresh() {
  for (RunStatus& status : runs_) {
    if (status.state != RunState::kDone) {
      status = ReadRunStatus(experiment_, status.run);
    }
  }
}

double Progress::SecondsLeft() const {
  constexpr double kOverheadSeconds = 0.1;  // of a run on a virtual clock
  double left = 0.0;
  double spent = 0.0;
  for (const auto& [method, part] : TotalsByMethod(runs_)) {
    const double weight = part.thinking_s / part.fraction + kOverheadSeconds;
    left += weight * (part.runs - part.fraction);  // NaN without any progress
    spent += weight * (part.fraction - spent_before_.at(method));
  }
  return (now_s_ - begin_s_) * left / spent;
}

std::string Progress::RunsDone() const {
  return fmt::format("{} of {} runs done", Done(), runs_.size());
}

std::string Progress::TimeLeft() const {
  const double left_s = SecondsLeft();
  return Done() == runs_.size() || !std::isfinite(left_s)
             ? ""
             : fmt::format(", about {} left", FormatDuration(left_s));
}

std::size_t Progress::Done() const {
  return static_cast<std::size_t>(
      std::ranges::count(runs_, RunState::kDone, &RunStatus::state));
}

}  // namespace harness
