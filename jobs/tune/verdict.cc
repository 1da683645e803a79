#include "jobs/tune/verdict.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/units.h"
#include "harness/testbeds/program.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;

// "p = 0.012", "p < 0.001"
std::string PText(double p) {
  constexpr double kLeast = 0.001;
  return p < kLeast ? fmt::format("p < {}", kLeast)
                    : fmt::format("p = {:.2g}", p);
}

// The fastest and each of the others, in lines.
std::string RankingText(const std::vector<Finalist>& ranked) {
  std::string text;
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    const SpeedUp ahead =
        Compare(*MeanStepTime(ranked.front()), *MeanStepTime(ranked[i]));
    text +=
        fmt::format("{} is {} as fast as {}{} ({})\n", ranked.front().config,
                    ToString(ahead), ranked[i].config,
                    ahead.Differs() ? "" : ", which is not distinguishable",
                    PText(ahead.p));
  }
  return text;
}

// "; 1.96 times [1.19, 3.23] as fast as yours"
std::string FasterText(const SpeedUp& speed_up) {
  return speed_up.Differs()
             ? fmt::format("; {} as fast as yours", ToString(speed_up))
             : fmt::format("; not distinguishable from yours: {} as fast, {}",
                           ToString(speed_up), PText(speed_up.p));
}

std::string MemoryText(const Finalist& best, double capacity_bytes) {
  if (!best.peak_memory_bytes || !(capacity_bytes > 0.0)) {
    return "";
  }
  const double used = *best.peak_memory_bytes;
  const double left = capacity_bytes - used;
  return fmt::format("; peak memory {:.2f} GB, {:.2f} GB ({:.0f}%) left",
                     used / common::kGiga, left / common::kGiga,
                     100.0 * left / capacity_bytes);
}

// How a command line with placeholders for nodes is started; "" of another.
std::string NodesText(const std::string& command) {
  const auto names = [&command](const char* word) {
    return command.find(word) != std::string::npos;
  };
  return names("{master_addr}")
             ? fmt::format(
                   "Start it on every node, with the first node for "
                   "{{master_addr}}{}.\n\n",
                   names("{node_rank}")
                       ? " and the number of the node for {node_rank}"
                       : "")
             : "";
}

}  // namespace

std::string Verdict::config() const {
  return keeps_present ? kPresent : ranked.front().config;
}

StepTime Verdict::time() const {
  return keeps_present ? *present : *MeanStepTime(ranked.front());
}

std::optional<Verdict> Judge(const std::vector<Finalist>& finalists,
                             const std::string& present) {
  Verdict verdict;
  for (const Finalist& each : finalists) {
    const std::optional<StepTime> time = MeanStepTime(each);
    if (each.config == kPresent) {
      verdict.present = time;
    } else if (time) {
      verdict.ranked.push_back(each);
    }
  }
  if (verdict.ranked.empty()) {
    return std::nullopt;
  }
  std::ranges::stable_sort(verdict.ranked, {}, [](const Finalist& each) {
    return MeanStepTime(each)->mean_s;
  });
  const Finalist& best = verdict.ranked.front();
  if (verdict.present) {
    verdict.speed_up = Compare(*MeanStepTime(best), *verdict.present);
    verdict.keeps_present = !verdict.speed_up->Differs() ||
                            verdict.speed_up->factor.value < 1.0 ||
                            best.config == present;
  }
  return verdict;
}

BestJob BestOf(const TuneJob& job, const Verdict& verdict) {
  const harness::ProgramJob& program = *job.testbed().program;
  BestJob best;
  best.config = verdict.keeps_present
                    ? job.Present()
                    : trials::ParseParallelConfig(verdict.config(),
                                                  job.testbed().space->knobs());
  // A command line with placeholders is none that runs, unlike the user's own.
  if (verdict.keeps_present && program.RunsAsGiven()) {
    best.rendered.words = job.run().problem->backend.GetStrings("program");
  } else {
    best.rendered =
        program.Render(job.RequestOf(*best.config), job.folder() / "best");
  }
  const std::string words =
      fmt::format("{}", fmt::join(program.options().program, " "));
  if (words.find("{max_steps}") != std::string::npos) {
    best.note = fmt::format("It has the {} steps of a trial: write your own.\n",
                            job.manifest().budget.q_max);
  }
  return best;
}

common::Json ToJson(const Verdict& verdict, const BestJob& best,
                    const TuneJob& job) {
  const StepTime time = verdict.time();
  common::Json json = {{"config", verdict.config()},
                       {"step_time_s", time.mean_s},
                       {"standard_error_s", time.standard_error_s},
                       {"steps", time.steps},
                       {"tokens_per_s", job.tokens_per_step() / time.mean_s}};
  json.update(job.CostOf(time.mean_s));
  if (const auto& speed_up = verdict.speed_up) {
    json["speed_up"] = {{"config", verdict.ranked.front().config},
                        {"value", speed_up->factor.value},
                        {"low", speed_up->factor.low},
                        {"high", speed_up->factor.high},
                        {"p", speed_up->p}};
  }
  json["command"] = best.rendered.words;
  json["environment"] = best.rendered.environment;
  if (best.config) {
    json["parameters"] = trials::ParametersAsJson(
        job.testbed().space->knobs(), *best.config, job.batch_size());
  }
  return json;
}

std::string ToText(const Verdict& verdict, const BestJob& best,
                   const TuneJob& job) {
  const Finalist& fastest = verdict.ranked.front();
  const std::string command = trials::CommandLine(best.rendered);
  const auto& files = best.rendered.files;
  return fmt::format(
      "{}\n{}:\n\n  {}\n\n{}{}{}: {}{}{}\nAlso in {} and best.json{}\n",
      RankingText(verdict.ranked),
      verdict.keeps_present
          ? "Keep yours: no configuration is measurably faster"
          : "Use this command line",
      command, NodesText(command), best.note, fastest.config,
      job.SpeedText(MeanStepTime(fastest)->mean_s),
      verdict.speed_up ? FasterText(*verdict.speed_up) : "",
      MemoryText(fastest, job.testbed().machine.memory_bytes()),
      (job.folder() / "best.sh").string(),
      files.empty() ? "" : ", with " + files[0].path.string());
}

void WriteBest(const Verdict& verdict, const BestJob& best,
               const TuneJob& job) {
  for (const trials::RenderedFile& file : best.rendered.files) {
    common::ReplaceFile(file.path, file.content);
  }
  const fs::path script = job.folder() / "best.sh";
  common::ReplaceFile(
      script, fmt::format("#!/bin/sh\n# {}\n{}{} \"$@\"\n", verdict.config(),
                          best.note.empty() ? "" : "# " + best.note,
                          trials::CommandLine(best.rendered)));
  const auto mode = static_cast<unsigned>(fs::status(script).permissions());
  fs::permissions(script,  // who may read it may run it
                  static_cast<fs::perms>(mode | ((mode & 0444U) >> 2U)));
  common::ReplaceFile(job.folder() / "best.json",
                      common::SealedText(ToJson(verdict, best, job)));
}

}  // namespace jobs
