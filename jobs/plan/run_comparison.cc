#include "jobs/plan/run_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/json.h"
#include "common/pattern.h"
#include "common/quantiles.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "jobs/plan/completion.h"
#include "jobs/plan/forecast_text.h"
#include "trials/flop.h"
#include "trials/knobs.h"
#include "trials/programs/log_scanner.h"
#include "trials/programs/loss_watch.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using trials::ParallelConfig;

struct Run {
  std::vector<double> step_times_s;
  double peak_memory_bytes = 0.0;
  trials::PeakMemory peak_memory = trials::PeakMemory::kDevice;
  std::optional<Parts> parts;
  double traced_step_s = 0.0;
  std::string log;   // its text
  std::string note;  // of how its steps were counted
  std::string loss_note;
  std::string config_notes;  // on named values without effect
};

// The group of a collective: by the description of its process group, else by
// its kind and the number of its ranks.
Part GroupOf(std::string name, const common::Json& args,
             const ParallelConfig& config) {
  const std::string group =
      common::Lower(args.value("Process Group Description", ""));
  // "EXPERT_DATA_PARALLEL_GROUP" and "mesh_dp_shard_cp" reduce gradients.
  constexpr std::array<std::pair<std::string_view, Part>, 10> kGroups = {
      {{"data", kData},
       {"dp", kData},
       {"tensor", kTensor},
       {"tp", kTensor},
       {"context", kContext},
       {"cp", kContext},
       {"expert", kExperts},
       {"ep", kExperts},
       {"pipeline", kPipeline},
       {"pp", kPipeline}}};
  for (const auto& [word, part] : kGroups) {
    if (group.find(word) != std::string::npos) {
      return part;
    }
  }
  name = common::Lower(name);
  const int ranks = args.value("Group size", 0);
  if (name.find("sendrecv") != std::string::npos) {
    return config.pp > 1 ? kPipeline : config.cp > 1 ? kContext : kExperts;
  }
  if (name.find("alltoall") != std::string::npos) {
    return config.ep > 1 ? kExperts : kContext;
  }
  const bool only_tensor = config.dp * config.cp == 1;
  return config.tp > 1 && (only_tensor || ranks == config.tp) ? kTensor : kData;
}

// When kernels of the parts begin and end, and the profiled steps, in
// microseconds.
struct Timeline {
  std::vector<std::tuple<double, Part, int>> changes;  // ascending; +1 or -1
  double begin = common::kInfinity;
  double end = 0.0;
  std::set<std::string> steps;
};

// Errors: throws InputError for a trace without kernels.
Timeline ReadTimeline(const common::Json& trace, const std::string& file,
                      const ParallelConfig& config) {
  Timeline timeline;
  // Of each device, when its last kernel ends, and its kernels.
  std::map<std::string, std::pair<double, decltype(timeline.changes)>> devices;
  for (const common::Json& event : trace.at("traceEvents")) {
    const std::string kind = common::Lower(event.value("cat", ""));
    const std::string name = event.value("name", "");
    if (event.value("ph", "") != "X") {
      continue;
    }
    const auto from = event.at("ts").get<double>();
    const double to = from + event.at("dur").get<double>();
    if (kind == "user_annotation" && name.starts_with("ProfilerStep#")) {
      timeline.steps.insert(name);
      timeline.begin = std::min(timeline.begin, from);
      timeline.end = std::max(timeline.end, to);
    } else if (kind == "kernel" || kind == "gpu_memcpy" ||
               kind == "gpu_memset") {
      const common::Json args = event.value("args", common::Json::object());
      const bool collective =
          common::Lower(name).find("ccl") != std::string::npos;  // nccl, rccl
      const Part part = collective ? GroupOf(name, args, config) : kCompute;
      auto& [end, changes] =
          devices[common::ToText(event.value("pid", common::Json()))];
      end = std::max(end, to);
      changes.emplace_back(from, part, 1);
      changes.emplace_back(to, part, -1);
    }
  }
  if (!devices.empty()) {
    timeline.changes =
        std::ranges::max_element(devices, {}, [](const auto& one) {
          return one.second.first;
        })->second.second;
  }
  if (timeline.changes.empty()) {
    throw InputError(
        fmt::format("{}: the trace has no kernels of a GPU: profile with "
                    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                    file));
  }
  std::ranges::sort(timeline.changes);
  if (timeline.steps.empty()) {
    timeline.begin = std::get<double>(timeline.changes.front());
    timeline.end = std::get<double>(timeline.changes.back());
  }
  return timeline;
}

// The parts of the mean step: each moment counts for the first part that runs.
void AddParts(Timeline timeline, Run& run) {
  constexpr double kMicro = 1e-6;
  constexpr double kLongestLaunchGap = 100.0;
  const auto [begin, end] = std::pair(timeline.begin, timeline.end);
  timeline.changes.emplace_back(end, kIdle, 0);
  Parts parts = {};
  std::array<int, kPartNames.size()> running = {};
  double now = begin;
  for (const auto& [time, part, change] : timeline.changes) {
    const double until = std::clamp(time, begin, end);
    const auto first =
        std::ranges::find_if(running, [](int kernels) { return kernels > 0; });
    const double length = until - now;
    std::size_t counted = length <= kLongestLaunchGap ? kGaps : kIdle;
    if (first != running.end()) {
      counted = static_cast<std::size_t>(first - running.begin());
    }
    parts[counted] += kMicro * length;
    now = until;
    running[part] += change;
  }
  const double count =
      std::max(1.0, static_cast<double>(timeline.steps.size()));
  for (double& seconds : parts) {
    seconds /= count;
  }
  run.parts = parts;
  run.traced_step_s = kMicro * (end - begin) / count;
}

// Errors: throws InputError for a text that is not a trace.
void ReadTrace(const std::string& text, const std::string& file,
               const ParallelConfig& config, Run& run) {
  try {
    AddParts(ReadTimeline(common::ParseJson(text, file), file, config), run);
  } catch (const common::Json::exception& e) {
    throw InputError(fmt::format("{}: not a trace of PyTorch's profiler: {}",
                                 file, e.what()));
  }
}

// Errors: throws InputError for a log that says that its job is another one.
void RefuseOtherJob(const trials::LogPatterns& patterns, const std::string& log,
                    const std::string& file, const Job& job) {
  struct Fact {
    const trials::LogPatterns::Expressions& said;
    const char* option;
    int value;
  };
  for (const auto& [said, option, value] :
       {Fact{patterns.batch_size, "--batch", job.workload.batch_size},
        Fact{patterns.sequence_length, "--seq", job.workload.sequence_length},
        Fact{patterns.gpus, "--gpus", job.cluster.gpus()}}) {
    std::string other;  // as the log has it; a batch may grow during a run
    for (const std::string_view line : common::Split(log, '\n')) {
      const std::vector<std::string_view> match = trials::Find(said, line);
      if (match.empty()) {
        continue;
      }
      if (match[1] == std::to_string(value)) {
        other.clear();
        break;
      }
      if (other.empty()) {
        other = match[0];
      }
    }
    if (!other.empty()) {
      throw InputError(
          fmt::format("--log {}: it is of another job than {} {}: '{}'", file,
                      option, value, common::Printable(common::Trim(other))));
    }
  }
}

// What the log says of its loss, if that is not usual.
std::string LossNote(const trials::LogPatterns& patterns,
                     const std::string& log, std::size_t steps) {
  trials::LossWatch watch(patterns);
  for (const std::string_view line : common::Split(log, '\n')) {
    watch.Read(line);
  }
  const std::string why =
      watch.not_finite().empty()
          ? watch.WhyNothingIsLearnt(steps)
          : fmt::format("the loss is not finite: '{}'", watch.not_finite());
  return why.empty() ? ""
                     : fmt::format(
                           "note: {}; such steps may take another "
                           "time than those of training\n",
                           why);
}

// Errors: throws InputError for a log whose numbers are not settled.
void ReadLog(const std::string& text, const std::string& file, const Job& job,
             const trials::LogPatterns& patterns, const ParallelConfig& config,
             Run& run) {
  try {
    const trials::LogSteps steps =
        trials::ReadLog(patterns,
                        {static_cast<double>(job.workload.batch_size),
                         static_cast<double>(job.workload.sequence_length),
                         static_cast<double>(job.cluster.gpus()),
                         static_cast<double>(config.microbatches)},
                        text);
    const auto& times = steps.step_times_s;
    run.step_times_s.insert(run.step_times_s.end(),
                            times.begin() + (times.size() > 1 ? 1 : 0),
                            times.end());
    if (steps.peak.bytes > run.peak_memory_bytes) {
      run.peak_memory_bytes = steps.peak.bytes;
      run.peak_memory = steps.peak.is_allocated ? trials::PeakMemory::kAllocated
                                                : trials::PeakMemory::kDevice;
    }
    run.note += steps.note.empty() ? "" : fmt::format(" ({})", steps.note);
    run.loss_note += LossNote(patterns, text, times.size());
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("--log {}: {}", file, e.what()));
  }
}

// Those of --step-time, or of the framework's adapter.
trials::LogPatterns PatternsOf(const Job& job, const std::string& step_time) {
  if (!step_time.empty()) {
    return trials::ReadLogPatterns(common::TomlTable::ParseString(
        "step_time_s = " + common::ToText(common::Json(step_time)),
        "--step-time"));
  }
  return job.framework.adapter ? job.framework.adapter->log()
                               : trials::LogPatterns();
}

// An argument as Megatron-LM lists it in its log:
// "  tensor_model_parallel_size ...................... 2".
const common::Pattern& Argument() {
  static const common::Pattern argument(R"(([a-z0-9_]+) \.{3,} (\S+)\s*$)");
  return argument;
}

// What follows the last list of arguments, with that, of a log to which several
// runs have written.
std::string LastRun(const std::string& log) {
  // Lines between the lists of two runs; ranks print theirs at once.
  constexpr int kApart = 3;
  std::string_view first;
  std::size_t begin = 0;
  int others = 0;
  for (const std::string_view line : common::Split(log, '\n')) {
    const std::vector<std::string_view> match = Argument().Find(line);
    if (match.empty()) {
      ++others;
      continue;
    }
    first = first.empty() ? match[1] : first;
    if (others >= kApart && match[1] == first) {
      begin = static_cast<std::size_t>(line.data() - log.data());
    }
    others = 0;
  }
  return log.substr(begin);
}

// The command line whose arguments a log lists.
std::vector<std::string> LoggedWords(const std::string& log) {
  std::vector<std::string> words;
  for (const std::string_view line : common::Split(log, '\n')) {
    const std::vector<std::string_view> match = Argument().Find(line);
    if (!match.empty() && match[2] != "False" && match[2] != "None") {
      words.push_back(fmt::format("--{}", match[1]));
      std::ranges::replace(words.back(), '_', '-');
      if (match[2] != "True") {
        words.emplace_back(match[2]);
      }
    }
  }
  return words;
}

// That of the arguments in a log; nothing without them.
std::optional<ParallelConfig> LoggedConfig(const Job& job,
                                           const std::string& log) {
  const std::vector<std::string> words = LoggedWords(log);
  if (words.empty() || !job.framework.adapter) {
    return std::nullopt;
  }
  return job.framework.adapter->Present({words, "", job.workload, job.cluster})
      .config;
}

// Errors: throws std::invalid_argument for a value that the log contradicts.
void RefuseOtherValues(const Job& job, const std::string& text,
                       const ParallelConfig& config, const std::string& log) {
  std::optional<ParallelConfig> logged;
  try {
    logged = LoggedConfig(job, log);
  } catch (const InputError&) {  // arguments that --config stands for
  }
  for (const auto& [knob, value] : trials::ParseSettings(text)) {
    const int listed = logged ? knob->Get(*logged) : 0;
    if (logged && knob->structural && listed != knob->Get(config)) {
      throw std::invalid_argument(
          fmt::format("the log lists {}={}", knob->name, knob->Text(listed)));
    }
  }
}

Completed ConfigOf(const Forecaster& forecaster, const Forecast& forecast,
                   const std::string& text, const std::string& log) {
  const Job& job = forecaster.job();
  if (text.empty()) {
    if (const auto logged = LoggedConfig(job, log)) {
      return {.config = *logged};
    }
    throw InputError(
        "--log needs the configuration of the run: --config dp=8,tp=2,"
        "micro_batch_size=1,...");
  }
  try {
    const bool has_microbatch = std::ranges::any_of(
        trials::ParseSettings(text), [](const auto& setting) {
          return setting.first->name.starts_with("micro");
        });
    if (!has_microbatch) {
      throw std::invalid_argument("name micro_batch_size or microbatches, too");
    }
    Completed completed = CompleteSettings(forecaster, forecast, text);
    RefuseOtherValues(job, text, completed.config, log);
    return completed;
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("--config {}: {}", text, e.what()));
  }
}

// Why the framework would not run a configuration.
std::string RulesText(const Job& job, const ParallelConfig& config) {
  std::vector<trials::Rule> rules = JobRules(job);
  std::erase_if(rules, [](const trials::Rule& rule) {
    return rule.origin() == JobRuleOrigin();  // but a run may be without
  });
  const std::vector<std::string> broken = Violations(job, config, rules);
  return broken.empty()
             ? ""
             : fmt::format(
                   "note: {} has no such layout: {}; is the run one of "
                   "another framework or configuration?\n",
                   job.framework.name, broken.front());
}

// What was assumed of a run beyond `text`: as in the fastest that fits.
std::string UnnamedText(const std::string& text, const ParallelConfig& config) {
  if (text.empty()) {
    return "";
  }
  std::set<std::string_view> named = {"dp", "tp", "pp", "microbatches"};
  for (const auto& [knob, value] : trials::ParseSettings(text)) {
    named.insert(knob->name);
  }
  std::string others =
      named.contains("grad_checkpoint") || config.grad_checkpoint != 0
          ? ""
          : "no recomputation";
  const std::string all = ToString(config);
  for (const std::string_view setting : common::Split(all, ',')) {
    if (!named.contains(setting.substr(0, setting.find('=')))) {
      others += fmt::format("{}{}", others.empty() ? "" : ",", setting);
    }
  }
  return others.empty() ? ""
                        : fmt::format(
                              "assumed, as --config does not name it: {}; name "
                              "what your run does otherwise\n",
                              others);
}

// Where the run is slower than the forecast, largest first, and all parts.
std::string PartsText(const Parts& run, const Parts& forecast,
                      double forecast_s) {
  std::vector<std::pair<double, std::string_view>> more;
  std::string table = fmt::format("  {:<40}{:>10}{:>10}\n", "part of a step",
                                  "run", "forecast");
  for (std::size_t i = 0; i < run.size(); ++i) {
    const double share = (run[i] - forecast[i]) / forecast_s;
    if (share >= 0.01) {
      more.emplace_back(share, kPartNames[i]);
    }
    if (run[i] > 0.0 || forecast[i] > 0.0) {
      table += fmt::format("  {:<40}{:>8.4g} s{:>8.4g} s\n", kPartNames[i],
                           run[i], forecast[i]);
    }
  }
  std::ranges::sort(more, std::greater());
  std::string text;
  for (const auto& [share, name] : more) {
    text += fmt::format("{} {} {:.0f}%", text.empty() ? ":" : ",", name,
                        100.0 * share);
  }
  return text + "\n" + table;
}

// The run that the files tell of, and its configuration.
std::pair<Run, ParallelConfig> ReadRun(const Forecaster& forecaster,
                                       const Forecast& forecast,
                                       const std::vector<fs::path>& files,
                                       const std::string& config_text,
                                       const std::string& step_time) {
  const Job& job = forecaster.job();
  const trials::LogPatterns patterns = PatternsOf(job, step_time);
  Run run;
  std::vector<std::pair<std::string, std::string>> logs;
  std::vector<std::pair<std::string, std::string>> traces;
  for (const fs::path& file : files) {
    const std::string text = common::ReadFile(file);
    if (common::Trim(text.substr(0, 100)).starts_with('{') &&
        text.find("\"traceEvents\"") != std::string::npos) {
      traces.emplace_back(file.string(), text);
    } else {
      logs.emplace_back(file.string(), LastRun(text));
      RefuseOtherJob(patterns, logs.back().second, file.string(), job);
      run.log += logs.back().second;
    }
  }
  const Completed completed =
      ConfigOf(forecaster, forecast, config_text, run.log);
  const ParallelConfig& config = completed.config;
  run.config_notes = completed.notes;
  for (const auto& [file, text] : logs) {
    ReadLog(text, file, job, patterns, config, run);
  }
  for (const auto& [file, text] : traces) {
    ReadTrace(text, "--log " + file, config, run);
  }
  if (run.step_times_s.empty() && !run.parts) {
    throw InputError(fmt::format(
        "--log {}: no step time found for {}; give --step-time REGEX, or a "
        "trace of PyTorch's profiler; {}",
        files.front().string(), FrameworkLabel(job.framework),
        trials::WhatWasTried(patterns, run.log)));
  }
  return {run, config};
}

// Errors: throws InputError for a step that is too short for its work, and for
// more memory than a GPU has.
void RefuseImpossible(const Job& job, double step_s, double peak_bytes,
                      const fs::path& file) {
  if (const double mfu =
          trials::LeastFlopUtilization(job.workload, job.cluster, step_s);
      mfu > 1.0) {
    throw InputError(fmt::format(
        "--log {}: {:.4g} s per step would be {:.0f}% of the peak rate of {} "
        "{}: lines of microbatches or of several ranks, another unit, or "
        "another --batch, --seq, --model or --precision than that of the run",
        file.string(), step_s, 100.0 * mfu, job.cluster.gpus(),
        job.cluster.gpu.name));
  }
  if (const double most =
          trials::LimitsOf(job.workload, job.cluster).most_memory_bytes;
      peak_bytes > most) {
    throw InputError(fmt::format(
        "--log {}: a peak of {:.1f} GB is more than {} has: that of several "
        "GPUs, another unit, or another --gpu than that of the run",
        file.string(), peak_bytes / common::kGiga, job.cluster.gpu.name));
  }
}

// Errors: throws InputError for a configuration that the job cannot have.
Prediction ExpectedOf(const Forecaster& forecaster,
                      const ParallelConfig& config) {
  try {
    return forecaster.Predict(config);
  } catch (const trials::InvalidPlan& e) {
    const trials::Cluster& cluster = forecaster.job().cluster;
    throw InputError(fmt::format(
        "--config {}: {}; was the run on {}?", ToString(config), e.reason(),
        ToString(MachineSize{cluster.nodes, cluster.gpus_per_node})));
  }
}

// How many times one is the other, at least 1.
double Apart(double a, double b) { return std::max(a / b, b / a); }

// What a run with this configuration may do otherwise so that its peak is near
// that of the log.
std::vector<std::string> WhatExplains(const Forecaster& forecaster,
                                      const ParallelConfig& config,
                                      const Run& run) {
  constexpr double kNear = 1.1;
  const Job& job = forecaster.job();
  std::vector<std::string> near;
  const auto change_to = [&](const std::string& what,
                             const trials::Framework& framework,
                             const ParallelConfig& other) {
    try {
      const double bytes =
          forecaster.options().calibration.memory *
          trials::Simulator(job.workload, job.cluster, {framework, nullptr})
              .Simulate(other)
              .memory.Bytes(run.peak_memory);
      if (Apart(bytes, run.peak_memory_bytes) < kNear) {
        near.push_back(
            fmt::format("{} ({:.1f} GB)", what, bytes / common::kGiga));
      }
    } catch (const trials::InvalidPlan&) {
      return;  // not what the run does
    }
  };
  trials::Framework other = job.framework.framework;
  const std::string attention = ChangeAttention(other);
  change_to(attention, other, config);
  constexpr std::array kRecomputations = {
      "no recomputation", "full recomputation", "selective recomputation"};
  for (int i = 0; i < std::ssize(kRecomputations); ++i) {
    ParallelConfig changed = config;
    if (std::exchange(changed.grad_checkpoint, i) != i) {
      change_to(kRecomputations[i], job.framework.framework, changed);
    }
  }
  for (int stage = 0; stage <= 3; ++stage) {
    ParallelConfig changed = config;
    if (std::exchange(changed.zero_stage, stage) != stage) {
      change_to(fmt::format("ZeRO stage {}", stage), job.framework.framework,
                changed);
    }
  }
  return near;
}

// The peak of the log and, where it is far from its forecast, what may explain
// it.
std::string PeakText(const Forecaster& forecaster, const ParallelConfig& config,
                     const Run& run) {
  constexpr double kFar = 1.25;
  const std::string text = fmt::format(
      "peak memory: {:.1f} GB {}in the log",
      run.peak_memory_bytes / common::kGiga,
      run.peak_memory == trials::PeakMemory::kAllocated ? "allocated " : "");
  const double expected =
      forecaster.options().calibration.memory *
      forecaster.Report(config).memory.Bytes(run.peak_memory);
  if (Apart(expected, run.peak_memory_bytes) < kFar) {
    return text + "\n";
  }
  const std::vector<std::string> near = WhatExplains(forecaster, config, run);
  return fmt::format(
      "{}, {:.2g} times its forecast of {:.1f} GB; {}\n", text,
      run.peak_memory_bytes / expected, expected / common::kGiga,
      near.empty()
          ? "neither another attention, recomputation nor ZeRO stage "
            "explains it"
          : fmt::format("does the run have {}?", fmt::join(near, " or ")));
}

}  // namespace

Parts PartsOf(const trials::TimeBreakdown& time) {
  return {time.forward_s + time.backward_s + time.recompute_s + time.head_s +
              time.optimizer_s,
          time.tensor_s,
          time.context_s,
          time.expert_s,
          time.data_s,
          time.pipeline_s + time.bubble_s,
          time.overhead_s,
          0.0};
}

Parts ReadProfile(const fs::path& trace, const ParallelConfig& config) {
  Run run;
  ReadTrace(common::ReadFile(trace), trace.string(), config, run);
  return *run.parts;
}

std::pair<Prediction, std::string> PredictionOf(const Forecaster& forecaster,
                                                const Forecast& forecast,
                                                const std::string& config) {
  const Completed completed = ConfigOf(forecaster, forecast, config, "");
  return {ExpectedOf(forecaster, completed.config),
          completed.notes + RulesText(forecaster.job(), completed.config)};
}

std::string CompareRun(const Forecaster& forecaster, const Forecast& forecast,
                       const std::vector<fs::path>& files,
                       const std::string& config_text,
                       const std::string& step_time) {
  const auto [run, config] =
      ReadRun(forecaster, forecast, files, config_text, step_time);
  const Prediction expected = ExpectedOf(forecaster, config);
  const double step_s = run.step_times_s.empty()
                            ? run.traced_step_s
                            : common::Median(run.step_times_s);
  const Job& job = forecaster.job();
  RefuseImpossible(job, step_s, run.peak_memory_bytes, files.front());
  const double slower = step_s / expected.step_time_s - 1.0;
  if (constexpr double kNoRun = 500.0; slower > kNoRun) {
    throw InputError(fmt::format(
        "--log {}: {:.4g} s per step would be {:.0f} times the forecast of "
        "{:.4g} s: the pattern finds another unit (ms), a rate, the time of "
        "many steps, or that since the beginning",
        files.front().string(), step_s, slower + 1.0, expected.step_time_s));
  }
  std::string text = fmt::format(
      "{}\nyour run takes {:.4g} s per step{}, {:.0f}% {}", ToString(config),
      step_s, run.note, 100.0 * std::abs(slower),
      slower >= 0.0 ? "slower than it should be" : "faster than its forecast");
  const trials::StepReport report = forecaster.Report(config);
  if (run.parts) {
    Parts parts = PartsOf(report.time);
    for (double& seconds : parts) {
      seconds *= expected.step_time_s / report.time.Total();
    }
    text += PartsText(*run.parts, parts, expected.step_time_s);
  } else {
    text += fmt::format(
        "\nforecast of a step: {}; which part is slower, a trace of PyTorch's "
        "profiler says: --log {},trace.json\n",
        ToString(SharesOf(report.busiest)), files.front().string());
  }
  text += run.loss_note;
  if (run.peak_memory_bytes > 0.0) {
    text += PeakText(forecaster, expected.config, run);
  }
  if (expected.peak_memory_bytes > forecaster.CapacityBytes()) {
    text += fmt::format(
        "note: by its forecast this configuration needs more than the GPU has: "
        "{:.1f} of {:.1f} GB; name every value that differs with --config\n",
        expected.peak_memory_bytes / common::kGiga,
        forecaster.CapacityBytes() / common::kGiga);
  }
  return text + run.config_notes + RulesText(job, config) +
         UnnamedText(config_text, config) + MemoryText(forecaster, expected) +
         BandText(forecaster, expected);
}

}  // namespace jobs
