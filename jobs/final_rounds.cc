#include "jobs/final_rounds.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "common/files.h"
#include "common/json.h"
#include "harness/search.h"
#include "harness/testbeds/program.h"
#include "jobs/tune_runner.h"

namespace jobs {

// For finals.json.
void VisitFields(common::FieldsOf<Finalist> auto& finalist, const auto& visit) {
  visit("config", finalist.config);
  visit("rounds", finalist.rounds);
  visit("peak_memory_bytes", finalist.peak_memory_bytes);
}

namespace {

using trials::Outcome;

constexpr std::size_t kRounds = 3;

// The best completed trials, best first, and the job as it is.
std::vector<Finalist> Choose(const TuneJob& job, int count) {
  std::vector<trials::Trial> trials = job.Recorded();
  std::erase_if(trials, [&](const trials::Trial& trial) {
    return trial.measurement.outcome != Outcome::kCompleted ||
           !trial.HasThroughput() ||
           !harness::FindCandidate(trial, *job.testbed().space);
  });
  std::stable_sort(trials.begin(), trials.end(),
                   [](const auto& a, const auto& b) {
                     return a.throughput.steps_per_s > b.throughput.steps_per_s;
                   });
  const bool yours =
      job.testbed().program->RunsAsGiven() || job.Present().has_value();
  if (const auto present = job.Present(); present && trials.size() > 1) {
    std::erase_if(trials, [&](const trials::Trial& trial) {
      return trial.config == *present;  // it is measured as "yours"
    });
  }
  trials.resize(
      std::min(trials.size(), static_cast<std::size_t>(std::max(1, count))));
  std::vector<Finalist> finalists;
  for (const trials::Trial& trial : trials) {
    finalists.push_back({job.Text(trial.config), {}, std::nullopt});
  }
  if (yours) {
    finalists.push_back({kYours, {}, std::nullopt});
  }
  return finalists;
}

// What the file has of these finalists.
void Load(const std::filesystem::path& file, std::vector<Finalist>& finalists) {
  const std::optional<std::string> text = common::ReadFileIfExists(file);
  if (!text) {
    return;
  }
  for (const common::Json& json : common::ParseJson(*text, file.string())) {
    const auto known = common::JsonAs<Finalist>(json, file.string());
    for (Finalist& finalist : finalists) {
      if (finalist.config == known.config) {
        finalist = known;
      }
    }
  }
}

void Save(const std::filesystem::path& file,
          const std::vector<Finalist>& finalists) {
  common::Json json = common::Json::array();
  for (const Finalist& each : finalists) {
    json.push_back(common::ToJson(each));
  }
  common::ReplaceFile(file, common::ToText(json, 2) + "\n");
}

// Adds a round. Returns false if a stop signal interrupts it.
bool MeasureOnce(TuneJob& job, Finalist& finalist) {
  try {
    const trials::Measurement measured =
        job.Measure(finalist.config == kYours
                        ? std::nullopt
                        : std::optional(trials::ParseParallelConfig(
                              finalist.config, job.testbed().space->knobs())),
                    job.manifest().budget.q_max);
    fmt::print("  {}: {}\n", finalist.config,
               Describe(measured, job.tokens_per_step()));
    std::vector<double> steps = measured.step_times_s;
    if (!steps.empty()) {
      steps.erase(steps.begin());  // warm-up
    }
    finalist.rounds.push_back(measured.outcome == Outcome::kCompleted
                                  ? steps
                                  : std::vector<double>());
    if (measured.peak_memory_bytes) {
      finalist.peak_memory_bytes =
          std::max(finalist.peak_memory_bytes.value_or(0.0),
                   *measured.peak_memory_bytes);
    }
    return true;
  } catch (const trials::TrialInterrupted&) {
    return false;
  }
}

}  // namespace

std::vector<Finalist> MeasureFinalists(TuneJob& job, int count) {
  std::vector<Finalist> finalists = Choose(job, count);
  const std::filesystem::path file = job.folder() / "finals.json";
  Load(file, finalists);
  fmt::print("measuring the best {} and yours again, at most {} rounds:\n",
             finalists.size() - 1, kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (Finalist& finalist : finalists) {
      if (finalist.rounds.size() > round ||
          !Contends(finalist, finalists, round)) {
        continue;
      }
      if (!MeasureOnce(job, finalist)) {
        return finalists;  // interrupted
      }
      Save(file, finalists);
    }
  }
  return finalists;
}

}  // namespace jobs
