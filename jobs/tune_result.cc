#include "jobs/tune_result.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/json.h"
#include "harness/testbeds/program.h"
#include "trials/programs/trial_rendering.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;

// The files with which the user starts the job.
void WriteBest(const fs::path& folder, const trials::RenderedJob& rendered,
               const std::string& config, const common::Json& result) {
  for (const trials::RenderedFile& file : rendered.files) {
    common::ReplaceFile(file.path, file.content);
  }
  const std::string script = fmt::format("#!/bin/sh\n# {}\n{} \"$@\"\n", config,
                                         trials::CommandLine(rendered));
  common::ReplaceFile(folder / "best.sh", script);
  ::chmod((folder / "best.sh").c_str(), 0755);
  common::ReplaceFile(folder / "best.json", common::ToText(result, 2) + "\n");
}

void PrintComparison(const std::vector<Finalist>& finalists) {
  const StepTime best = MeanStepTime(finalists.front());
  for (std::size_t i = 1; i < finalists.size(); ++i) {
    const SpeedUp ahead = Compare(best, MeanStepTime(finalists[i]));
    fmt::print("{} is {} as fast as {}{} (p = {:.2g})\n",
               finalists.front().config, ToString(ahead), finalists[i].config,
               ahead.Differs() ? "" : ", which is not distinguishable",
               ahead.p);
  }
}

// "; 1.96 times [1.19, 3.23] as fast as yours"
std::string FasterText(const SpeedUp& speed_up) {
  return speed_up.Differs()
             ? fmt::format("; {} as fast as yours", ToString(speed_up))
             : fmt::format(
                   "; not distinguishable from yours: {} as fast, p = {:.2f}",
                   ToString(speed_up), speed_up.p);
}

std::string MemoryText(const Finalist& best, double capacity_bytes) {
  if (!best.peak_memory_bytes || !(capacity_bytes > 0.0)) {
    return "";
  }
  const double used = *best.peak_memory_bytes;
  const double left = capacity_bytes - used;
  return fmt::format("; peak memory {:.2f} GB, {:.2f} GB ({:.0f}%) left",
                     used / 1e9, left / 1e9, 100.0 * left / capacity_bytes);
}

// Trials had values for them, and the user's job has its own.
void PrintOpenPlaceholders(const trials::RenderedJob& rendered) {
  for (const char* name : {"{max_steps}", "{seed}"}) {
    const bool open = std::any_of(
        rendered.words.begin(), rendered.words.end(),
        [&](const auto& word) { return word.find(name) != std::string::npos; });
    if (open) {
      fmt::print("Replace {} by the value that you train with.\n\n", name);
    }
  }
}

// Moves the job as it is out of the finalists; nothing if it did not run.
std::optional<Finalist> TakeYours(std::vector<Finalist>& finalists) {
  const auto yours = std::find_if(
      finalists.begin(), finalists.end(),
      [](const Finalist& finalist) { return finalist.config == kYours; });
  if (yours == finalists.end()) {
    return std::nullopt;
  }
  const Finalist taken = *yours;
  finalists.erase(yours);
  return HasSteps(taken) ? std::optional(taken) : std::nullopt;
}

}  // namespace

int Conclude(TuneJob& job, std::vector<Finalist> finalists) {
  const std::optional<Finalist> yours = TakeYours(finalists);
  std::erase_if(finalists,
                [](const Finalist& each) { return !HasSteps(each); });
  if (finalists.empty()) {
    fmt::print("None of the best configurations ran again.\n");
    return 1;
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) {
                     return MeanStepTime(a).mean_s < MeanStepTime(b).mean_s;
                   });
  const Finalist& best = finalists.front();
  const StepTime time = MeanStepTime(best);
  const double tokens_per_s = job.tokens_per_step() / time.mean_s;
  PrintComparison(finalists);
  common::Json result = {{"config", best.config},
                         {"step_time_s", time.mean_s},
                         {"standard_error_s", time.standard_error_s},
                         {"steps", time.steps},
                         {"tokens_per_s", tokens_per_s}};
  std::string faster;
  if (yours) {
    const SpeedUp speed_up = Compare(time, MeanStepTime(*yours));
    faster = FasterText(speed_up);
    result["speed_up"] = {{"value", speed_up.factor.value},
                          {"low", speed_up.factor.low},
                          {"high", speed_up.factor.high},
                          {"p", speed_up.p}};
  }
  const harness::Testbed& testbed = job.testbed();
  const trials::ParallelConfig config =
      trials::ParseParallelConfig(best.config, testbed.space->knobs());
  const trials::RenderedJob rendered =
      testbed.program->Render(config, job.folder() / "best");
  result["command"] = rendered.words;
  result["environment"] = rendered.environment;
  result["parameters"] = trials::ParametersAsJson(testbed.space->knobs(),
                                                  config, job.batch_size());
  WriteBest(job.folder(), rendered, best.config, result);
  fmt::print("\nUse this command line:\n\n  {}\n\n",
             trials::CommandLine(rendered));
  PrintOpenPlaceholders(rendered);
  fmt::print("{}: {:.4g} s a step, {:.4g} tokens/s{}{}\n", best.config,
             time.mean_s, tokens_per_s, faster,
             MemoryText(best, testbed.machine.memory_bytes()));
  fmt::print(
      "Also in {} and best.json{}\n", (job.folder() / "best.sh").string(),
      rendered.files.empty() ? ""
                             : ", with " + rendered.files[0].path.string());
  return 0;
}

}  // namespace jobs
