#include "trials/tables/replay_runner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace trials {
namespace {

std::optional<double> ThroughputOf(const ReplayRow* row) {
  if (row == nullptr) {
    return std::nullopt;
  }
  return row->out_of_memory ? 0.0 : 1.0 / row->step_time_s;
}

}  // namespace

ReplayRunner::ReplayRunner(ReplayTable table, const Options& options)
    : table_(std::move(table)), space_(table_.configs()), options_(options) {
  if (!(options_.setup_s >= 0.0) || !(options_.failure_s >= 0.0)) {
    throw common::InputError(fmt::format(
        "replay: setup_s = {} and failure_s = {} must be at least 0",
        options_.setup_s, options_.failure_s));
  }
}

Measurement ReplayRunner::Run(const TrialRequest& request) {
  if (table_.plans().empty()) {
    request.candidate.RejectPlan("a table without plans");
  }
  Measurement measurement{.setup_s = options_.setup_s,
                          .duration_s = options_.setup_s};
  const ReplayRow* row = Find(request.candidate);
  if (row == nullptr) {
    measurement.outcome = Outcome::kFailed;
    measurement.duration_s += options_.failure_s;
    measurement.message =
        fmt::format("{} is not in the table's scenario {}",
                    request.candidate.Label(), table_.scenario());
    return measurement;
  }
  if (row->out_of_memory) {
    measurement.outcome = Outcome::kOutOfMemory;
    measurement.duration_s += options_.failure_s;
    measurement.message = "out of memory in the table";
    return measurement;
  }
  measurement.peak_memory_bytes = row->peak_memory_bytes;
  measurement.outcome = Outcome::kCompleted;
  for (int step = 1; step <= request.max_steps; ++step) {
    measurement.step_times_s.push_back(row->step_time_s);
    measurement.duration_s += row->step_time_s;
    const bool go_on = !request.on_step || request.on_step(row->step_time_s);
    if (!go_on && step < request.max_steps) {
      measurement.outcome = Outcome::kTerminatedEarly;
      break;
    }
  }
  return measurement;
}

std::optional<double> ReplayRunner::ExactThroughput(
    const Candidate& candidate) const {
  return ThroughputOf(Find(candidate));
}

const ReplayRow* ReplayRunner::Find(const ParallelConfig& config) const {
  const std::optional<int> index = space_.Find(config);
  return index ? &table_.rows()[*index] : nullptr;
}

const ReplayRow* ReplayRunner::Find(const Plan& plan) const {
  const auto row = std::ranges::find(
      table_.plans(), ToString(plan),
      [](const ReplayRow& each) { return each.candidate.Label(); });
  return row == table_.plans().end() ? nullptr : &*row;
}

const ReplayRow* ReplayRunner::Find(const Candidate& candidate) const {
  return candidate.Visit([this](const auto& what) { return Find(what); });
}

}  // namespace trials
