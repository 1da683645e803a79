#include "jobs/plan/advice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "trials/constraints.h"
#include "trials/knobs.h"
#include "trials/objective.h"
#include "trials/programs/trial_rendering.h"
#include "trials/simulator/layer_operators.h"

namespace jobs {
namespace {

using common::kGiga;
using trials::Knob;
using trials::ParallelConfig;
using Settings = std::vector<std::pair<const Knob*, int>>;

int ValueOf(const Knob& knob, const ParallelConfig& config, const Job& job) {
  return trials::ValueOf(knob, config, job.workload.batch_size);
}

// "dp=8,zero_stage=1" of "dp=8 ZeRO-1", a name by LayoutName.
std::string AsSettings(std::string text) {
  const std::array<std::pair<std::string_view, std::string_view>, 4> names = {
      {{" full recomputation", ",grad_checkpoint=1"},
       {" selective recomputation", ",grad_checkpoint=2"},
       {"ZeRO-", "zero_stage="},
       {" ", ","}}};
  for (const auto& [name, setting] : names) {
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at)) {
      text.replace(at, name.size(), setting);
    }
  }
  return text;
}

bool HasAll(const Settings& settings, const ParallelConfig& config,
            const Job& job) {
  return std::ranges::all_of(settings, [&](const auto& setting) {
    return ValueOf(*setting.first, config, job) == setting.second;
  });
}

// Of configurations: the fastest that leaves the headroom free, else the one
// that needs least memory; nothing if the framework refuses all.
std::optional<Prediction> BestOf(const Forecaster& planner,
                                 const std::vector<ParallelConfig>& configs) {
  std::optional<Prediction> best;
  const auto rank = [&](const Prediction& one) {
    const double allowed = planner.AllowedBytes();
    return std::pair(std::max(one.peak_memory_bytes, allowed), one.step_time_s);
  };
  for (const ParallelConfig& config : configs) {
    try {
      const Prediction one = planner.Predict(config);
      best = !best || rank(one) < rank(*best) ? one : best;
    } catch (const trials::InvalidPlan&) {
      continue;
    }
  }
  return best;
}

bool Fits(const Forecaster& planner, const Prediction& one) {
  return one.peak_memory_bytes <= planner.AllowedBytes();
}

std::string MemoryReason(const Forecaster& planner, const Prediction& one) {
  const double allowed = planner.AllowedBytes();
  const double headroom = planner.options().headroom;
  return fmt::format(
      "it needs {:.1f} GB, and {:.1f} GB are allowed ({:.1f} GB, {:.0f}% of "
      "which stay free); the largest part is {}; it fits with probability "
      "{:.2f}, and would take {:.3g} s per step",
      one.peak_memory_bytes / kGiga, allowed / kGiga,
      allowed / (1.0 - headroom) / kGiga, 100.0 * headroom,
      LargestComponent(planner.Report(one.config).memory), one.fit_probability,
      one.step_time_s);
}

trials::ConstraintContext ContextOf(const Job& job) {
  return {.workload = job.workload,
          .gpus = job.cluster.gpus(),
          .ends_as_layers = job.framework.framework.pipeline.ends_as_layers,
          .whole_experts = job.framework.framework.experts.whole_experts};
}

// Why a configuration that is not in the space is excluded; "" if it only has
// values that a plan does not vary.
std::string ExcludedBy(const Job& job, const ParallelConfig& config,
                       std::span<const trials::Rule> rules) {
  const int gpus = job.cluster.gpus();
  const int batch = job.workload.batch_size;
  if (config.micro_batch_size > 0 && trials::GpusOf(config) == gpus &&
      batch % (std::int64_t{config.dp} * config.micro_batch_size) != 0) {
    return fmt::format(
        "dp * micro_batch_size must divide the batch size (batch_size = {}, "
        "dp = {}, micro_batch_size = {})",
        batch, config.dp, config.micro_batch_size);
  }
  const std::string problem = ConfigProblem(config, ContextOf(job));
  if (!problem.empty()) {
    return problem;
  }
  const auto context = trials::RuleContext(job.workload, gpus);
  const auto rule = std::ranges::find_if(
      rules, [&](const auto& each) { return each.Matches(config, context); });
  return rule == rules.end()
             ? ""
             : fmt::format("{} ({})", rule->reason(), rule->origin());
}

// Removes settings that have no effect with the others. Returns notes.
std::string DropWithoutEffect(const Forecaster& planner, Settings& settings) {
  const std::vector<ParallelConfig>& configs = planner.space().configs();
  std::string notes;
  const Settings all = settings;
  std::erase_if(settings, [&](const auto& setting) {
    const auto& [knob, value] = setting;
    Settings others = all;
    std::erase(others, setting);
    bool any = false;
    bool active = !knob->active.holds;
    for (const ParallelConfig& config : configs) {
      if (!active && HasAll(others, config, planner.job())) {
        any = true;
        active = knob->active.holds(config);
      }
    }
    const bool inert = any && !active;
    if (inert) {
      notes += fmt::format(
          "note: {}={} is ignored: it has an effect only if "
          "{}\n",
          knob->name, value, knob->active.text);
    }
    return inert;
  });
  return notes;
}

// The offered layout that differs in the fewest of the settings.
// Precondition: there is one.
const Prediction& Nearest(const Job& job, const Forecast& plan,
                          const Settings& settings) {
  const auto rank = [&](const Layout& layout) {
    return std::pair(std::ranges::count_if(
                         settings,
                         [&](const auto& setting) {
                           return ValueOf(*setting.first, layout.best.config,
                                          job) != setting.second;
                         }),
                     layout.best.step_time_s);
  };
  return std::ranges::min_element(plan.layouts, {}, rank)->best;
}

std::string NearestText(const Forecaster& planner, const Forecast& plan,
                        const Settings& settings) {
  if (plan.layouts.empty()) {
    return WorkingChanges(planner.job(), planner.options());
  }
  const Prediction& nearest = Nearest(planner.job(), plan, settings);
  return fmt::format("the nearest that is offered: {}, {:.3g} s per step: {}\n",
                     LayoutName(nearest.config), nearest.step_time_s,
                     ToString(nearest.config));
}

std::string ComparedText(const Forecaster& planner, const Forecast& plan,
                         const Prediction& one) {
  const auto shares = [&](const Prediction& of) {
    return ToString(SharesOf(planner.Report(of.config).time));
  };
  const Prediction& best = plan.layouts.front().best;
  if (one.step_time_s <= best.step_time_s) {
    return fmt::format("the fastest: {:.3g} s per step; {}\n", one.step_time_s,
                       shares(one));
  }
  return fmt::format(
      "{:.3g} s per step, {:.1f}% slower than {} ({:.3g} s); {}, against {}\n",
      one.step_time_s, 100.0 * (one.step_time_s / best.step_time_s - 1.0),
      LayoutName(best.config), best.step_time_s, shares(one), shares(best));
}

// A configuration with the settings. Where its sizes do not go with them, the
// others are 1, and dp follows; microbatches follow from a named size.
ParallelConfig WithSettings(ParallelConfig config, const Forecaster& planner,
                            const Settings& settings) {
  const int gpus = planner.job().cluster.gpus();
  const auto set = [&] {
    config.sp = 1;
    config.microbatches = 0;
    for (const auto& [knob, value] : settings) {
      knob->Set(config, value);
    }
    config.sp = config.sp == 1 ? config.tp : config.sp;  // as in every plan
  };
  const int microbatches = config.microbatches;
  set();
  if (trials::GpusOf(config) != gpus) {
    config.dp = config.tp = config.pp = config.cp = config.ep = 1;
    set();
    const int named = trials::GpusOf(config);
    config.dp *= config.dp == 1 && gpus % named == 0 ? gpus / named : 1;
  }
  if (config.microbatches == 0) {
    config.microbatches =
        config.micro_batch_size == 0
            ? microbatches
            : std::max(1, planner.job().workload.batch_size / config.dp /
                              config.micro_batch_size);
  }
  return trials::Canonical(config, planner.space().knobs());
}

// How many constraints and rules a configuration breaks.
std::ptrdiff_t BrokenBy(const Job& job, const ParallelConfig& config,
                        std::span<const trials::Rule> rules) {
  const trials::ConstraintContext context = ContextOf(job);
  const auto known = trials::RuleContext(job.workload, job.cluster.gpus());
  return std::ranges::count_if(
             trials::Constraints(),
             [&](const auto& each) { return each.broken(config, context); }) +
         std::ranges::count_if(rules, [&](const auto& rule) {
           return rule.Matches(config, known);
         });
}

// The best configuration with the settings, one that a plan does not vary, or
// the one that breaks the fewest constraints and rules, so that values that are
// not named are not what is refused; of these, the first or nearest.
ParallelConfig Outside(const Forecaster& planner, const Forecast& plan,
                       const Settings& settings,
                       std::span<const trials::Rule> rules) {
  const Job& job = planner.job();
  std::vector<ParallelConfig> others = planner.space().configs();
  if (!plan.layouts.empty()) {
    others.insert(others.begin(), Nearest(job, plan, settings).config);
  }
  std::set<ParallelConfig> seen;
  std::map<std::pair<bool, std::ptrdiff_t>, std::vector<ParallelConfig>> found;
  for (const ParallelConfig& other : others) {
    const ParallelConfig config = WithSettings(other, planner, settings);
    if (seen.insert(config).second) {
      found[{!HasAll(settings, config, job), BrokenBy(job, config, rules)}]
          .push_back(config);
    }
  }
  const auto& [rank, fewest] = *found.begin();
  const auto best = rank.second == 0 ? BestOf(planner, fewest) : std::nullopt;
  return best ? best->config : fewest.front();
}

// Of all values that are not named, the best.
std::string Explain(const Forecaster& planner, const Forecast& plan,
                    const std::string& text) {
  const Job& job = planner.job();
  const bool is_name = text.find(' ') != std::string::npos;
  Settings settings = trials::ParseSettings(AsSettings(text));
  const std::string notes = DropWithoutEffect(planner, settings);
  std::vector<ParallelConfig> found;
  for (const ParallelConfig& config : planner.space().configs()) {
    if (HasAll(settings, config, job) &&
        (!is_name || LayoutName(config) == text)) {
      found.push_back(config);
    }
  }
  std::optional<Prediction> one = BestOf(planner, found);
  const std::vector<trials::Rule> rules = JobRules(job);
  const ParallelConfig config =
      one ? one->config : Outside(planner, plan, settings, rules);
  const std::string answer = ToString(config) + "\n" + notes;
  if (!one) {
    const std::string excluded = ExcludedBy(job, config, rules);
    if (!excluded.empty()) {
      return answer + fmt::format("not offered: {}\n", excluded) +
             NearestText(planner, plan, settings);
    }
    one = planner.Predict(config);
  }
  return answer +
         (Fits(planner, *one)
              ? ComparedText(planner, plan, *one)
              : fmt::format("not offered: {}\n", MemoryReason(planner, *one)) +
                    NearestText(planner, plan, settings));
}

}  // namespace

std::string Why(const Forecaster& planner, const Forecast& plan,
                const std::string& config) {
  try {  // a line as printed has the shares of the step after the layout
    return Explain(planner, plan, config.substr(0, config.find(": ")));
  } catch (const trials::InvalidPlan& e) {
    return fmt::format("{}\nnot offered: {}\n", config, e.reason());
  } catch (const std::invalid_argument& e) {
    throw common::InputError(fmt::format("--why {}: {}", config, e.what()));
  }
}

namespace {

// Doubles the GPUs as often as `times` says, at first those of a small node,
// and returns the option; "" if the machine cannot have them.
std::string Grow(int times, Job& job) {
  constexpr int kUsualNode = 8;
  constexpr int kMostDoublings = 7;
  MachineSize size{job.cluster.nodes, job.cluster.gpus_per_node};
  for (int i = 0; i < times; ++i) {
    const bool in_node =
        size.nodes == 1 && 2 * size.gpus_per_node <= kUsualNode;
    (in_node ? size.gpus_per_node : size.nodes) *= 2;
  }
  if (times > kMostDoublings) {
    return "";
  }
  try {
    job.cluster = WithSize(job.cluster, size);
  } catch (const common::InputError&) {
    return "";
  }
  return fmt::format("--gpus {}x{}", size.nodes, size.gpus_per_node);
}

// The i-th change of a kind, the smallest first: applies it and returns its
// option; "" if there is none.
using Change = std::string (*)(int i, Job& job, ForecastOptions& options);
constexpr std::array<Change, 5> kChanges = {
    [](int i, Job& /*job*/, ForecastOptions& options) -> std::string {
      const double percent = i == 0 ? 5.0 : 0.0;
      if (i > 1 || percent >= 100.0 * options.headroom) {
        return "";
      }
      options.headroom = percent / 100.0;
      return fmt::format("--headroom {}", percent);
    },
    [](int i, Job& job, ForecastOptions& /*options*/) -> std::string {
      if (i > 0) {
        return "";
      }
      const int gpus = job.cluster.gpus();
      int& batch = job.workload.batch_size;
      batch = (batch / gpus + 1) * gpus;
      return fmt::format("--batch {}", batch);
    },
    [](int i, Job& job, ForecastOptions& /*options*/) -> std::string {
      return Grow(i + 1, job);
    },
    [](int i, Job& job, ForecastOptions& /*options*/) -> std::string {
      constexpr std::array kNames = {"torchtitan", "megatron-lm"};
      if (i == std::ssize(kNames)) {
        return "";
      }
      job.framework = FindFramework(kNames.at(i));
      return fmt::format("--framework {}", kNames.at(i));
    },
    [](int i, Job& job, ForecastOptions& /*options*/) -> std::string {
      constexpr int kShortest = 256;
      int& tokens = job.workload.sequence_length;
      tokens >>= i + 1;
      return tokens < kShortest || job.workload.model.patch_size > 0
                 ? ""
                 : fmt::format("--seq {}", tokens);
    }};

// "--seq 4096 (dp=16 ZeRO-3, 4.1 s per step)" where the changed request gives a
// layout, else "".
std::string IfWorking(const std::string& changes, const Job& job,
                      const ForecastOptions& options) {
  try {
    const Forecast plan = Forecaster(job, options).MakeForecast();
    if (!plan.layouts.empty()) {
      const Prediction& best = plan.layouts.front().best;
      return fmt::format("{} ({}, {:.3g} s per step)", changes,
                         LayoutName(best.config), best.step_time_s);
    }
  } catch (const common::InputError&) {
    return "";  // no configuration is valid
  }
  return "";
}

// The first that works of changing framework, batch and number of GPUs at once.
std::string SeveralChanges(const Job& job, const ForecastOptions& options) {
  for (const bool own : {true, false}) {
    for (int times = 0;; ++times) {
      Job changed = job;
      const std::string size = Grow(times, changed);
      if (size.empty()) {
        break;
      }
      if (!own) {
        changed.framework = FindFramework("torchtitan");
      }
      const int gpus = changed.cluster.gpus();
      int& batch = changed.workload.batch_size;
      batch = (batch + gpus - 1) / gpus * gpus;
      const std::string working = IfWorking(
          fmt::format("{}{} --batch {}", own ? "" : "--framework torchtitan ",
                      size, batch),
          changed, options);
      if (!working.empty()) {
        return working;
      }
    }
  }
  return "";
}

}  // namespace

std::string WorkingChanges(const Job& job, const ForecastOptions& options) {
  std::vector<std::string> working;
  for (const Change change : kChanges) {
    for (int i = 0;; ++i) {
      Job changed = job;
      ForecastOptions changed_options = options;
      const std::string option = change(i, changed, changed_options);
      if (option.empty()) {
        break;
      }
      const std::string text = IfWorking(option, changed, changed_options);
      if (!text.empty()) {
        working.push_back(text);
        break;
      }
    }
  }
  if (working.empty()) {
    working.push_back(SeveralChanges(job, options));
  }
  return working.front().empty()
             ? "more GPUs of this kind do not help: give GPUs with more memory "
               "(--gpu), or a smaller model\n"
             : fmt::format("what makes one possible: {}\n",
                           fmt::join(working, "; or "));
}

std::string MemoryText(const Forecaster& planner, const Prediction& one) {
  const trials::StepReport report = planner.Report(one.config);
  const double scale = one.peak_memory_bytes / report.memory.Total();
  const auto bytes = [&](trials::PeakMemory counted) {
    return scale * report.memory.Bytes(counted) / kGiga;
  };
  return fmt::format(
      "its memory: {:.1f} GB allocated, {:.1f} GB reserved by the allocator, "
      "{:.1f} GB on the device with CUDA and NCCL; the last must fit into "
      "{:.1f} GB, and mostly {} decide it\n",
      bytes(trials::PeakMemory::kAllocated),
      bytes(trials::PeakMemory::kReserved), bytes(trials::PeakMemory::kDevice),
      planner.AllowedBytes() / (1.0 - planner.options().headroom) / kGiga,
      LargestComponent(report.memory));
}

namespace {

// The parameters of which a step is tried; the others follow the best.
constexpr std::array kSteps = {"tp",
                               "pp",
                               "cp",
                               "ep",
                               "zero_stage",
                               "grad_checkpoint",
                               "micro_batch_size"};

// The best configurations that differ from `best` in a step of one parameter.
struct Neighbor {
  std::string step;     // "tp=4"
  bool shards = false;  // more: a larger size or ZeRO stage
  Prediction one;
};

int StepValue(std::size_t i, const ParallelConfig& config, const Job& job) {
  return ValueOf(trials::BuiltInKnobs().Require(kSteps[i]), config, job);
}

// The configurations that differ from `best` in one parameter, by its place in
// kSteps and its value.
std::map<std::pair<std::size_t, int>, std::vector<ParallelConfig>> OneApart(
    const Forecaster& planner, const ParallelConfig& best) {
  const Job& job = planner.job();
  std::map<std::pair<std::size_t, int>, std::vector<ParallelConfig>> others;
  for (const ParallelConfig& config : planner.space().configs()) {
    std::vector<std::size_t> different;
    for (std::size_t i = 0; i < kSteps.size(); ++i) {
      if (StepValue(i, config, job) != StepValue(i, best, job)) {
        different.push_back(i);
      }
    }
    if (different.size() == 1) {
      const std::size_t i = different.front();
      others[{i, StepValue(i, config, job)}].push_back(config);
    }
  }
  return others;
}

std::vector<Neighbor> NeighborsOf(const Forecaster& planner,
                                  const ParallelConfig& best) {
  const auto others = OneApart(planner, best);
  std::vector<Neighbor> neighbors;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const int own = StepValue(i, best, planner.job());
    const auto above = others.upper_bound({i, own});
    for (const bool up : {false, true}) {
      if (up ? above == others.end() : above == others.begin()) {
        continue;
      }
      const auto& [key, configs] = up ? *above : *std::prev(above);
      const auto one = key.first == i ? BestOf(planner, configs) : std::nullopt;
      if (one) {
        neighbors.push_back(
            {fmt::format("{}={}", kSteps[i], key.second), up && i < 5, *one});
      }
    }
  }
  return neighbors;
}

std::string NeighborText(const Forecaster& planner, const Prediction& best) {
  const Neighbor* worst = nullptr;
  std::vector<std::string> too_large;
  std::vector<std::string> costly;
  const std::vector<Neighbor> neighbors = NeighborsOf(planner, best.config);
  for (const Neighbor& each : neighbors) {
    const double more = each.one.peak_memory_bytes - best.peak_memory_bytes;
    if (each.shards && more > 0.01 * best.peak_memory_bytes) {
      costly.push_back(fmt::format("{} by {:.1f} GB", each.step, more / kGiga));
    }
    if (!Fits(planner, each.one)) {
      too_large.push_back(each.step);
    } else if (worst == nullptr ||
               each.one.step_time_s > worst->one.step_time_s) {
      worst = &each;
    }
  }
  std::string text;
  if (worst != nullptr) {
    text = fmt::format(
        "one step away in any parameter: at worst {:.0f}% slower ({})",
        100.0 * (worst->one.step_time_s / best.step_time_s - 1.0), worst->step);
  }
  if (!too_large.empty()) {
    text += fmt::format("{}too large for the memory: {}",
                        text.empty() ? "one step away, " : "; ",
                        fmt::join(too_large, ", "));
  }
  text += text.empty() ? "" : "\n";
  return costly.empty() ? text
                        : text + fmt::format(
                                     "note: more sharding needs more "
                                     "memory here: {}\n",
                                     fmt::join(costly, ", "));
}

// A quantity that a plan assumes, and how its value is written.
struct Unknown {
  const char* name;
  bool matters;
  double& (*of)(Job& job);
  double unit;
  const char* format;
};

std::vector<Unknown> UnknownsOf(const Job& job) {
  return {{"a network card", job.cluster.nodes > 1,
           [](Job& of) -> double& {
             return of.cluster.inter.bandwidth_bytes_per_s;
           },
           kGiga, "{:.3g} GB/s"},
          {"the link in a node", job.cluster.gpus_per_node > 1,
           [](Job& of) -> double& {
             return of.cluster.intra.bandwidth_bytes_per_s;
           },
           kGiga, "{:.3g} GB/s"},
          {"matrix products", true,
           [](Job& of) -> double& { return of.cluster.gpu.power_fraction; },
           job.cluster.gpu.power_fraction, "{:.2f} of the assumed rate"},
          {"the busiest expert rank", job.workload.model.experts > 0,
           [](Job& of) -> double& {
             return of.framework.framework.experts.expert_imbalance;
           },
           1.0, "{:.2f} times the mean"}};
}

// The layouts that may become the fastest, the fastest first, each with what a
// calibration makes of its simulated time.
using Contenders = std::vector<std::pair<const Prediction*, double>>;

Contenders ContendersOf(const Forecaster& planner, const Forecast& plan) {
  constexpr double kNear = 1.5;
  constexpr std::size_t kMost = 40;
  const double best_s = plan.layouts.front().best.step_time_s;
  Contenders contenders;
  for (const auto& [one, configurations] : plan.layouts) {
    if (one.step_time_s <= kNear * best_s && contenders.size() < kMost) {
      contenders.emplace_back(
          &one, one.step_time_s / planner.Report(one.config).step_time_s);
    }
  }
  return contenders;
}

// The fastest for a changed job; nothing if the first one stays within 1% of
// it.
const Prediction* Winner(const Contenders& contenders, const Job& job) {
  constexpr double kClear = 1.01;
  const trials::Simulator simulator(job.workload, job.cluster,
                                    {job.framework.framework});
  const auto times_s = common::Map(contenders, [&](const auto& each) {
    return each.second * simulator.Simulate(each.first->config).step_time_s;
  });
  const auto least = std::ranges::min_element(times_s);
  return times_s.front() > kClear * *least
             ? contenders[least - times_s.begin()].first
             : nullptr;
}

std::string UnknownsText(const Forecaster& planner, const Forecast& plan) {
  const Contenders contenders = ContendersOf(planner, plan);
  std::vector<std::string> changes;
  for (const Unknown& unknown : UnknownsOf(planner.job())) {
    for (const double ratio : {0.9, 1.1}) {
      constexpr double kFurthest = 4.0;
      for (double factor = ratio;
           unknown.matters && factor > 1.0 / kFurthest && factor < kFurthest;
           factor *= ratio) {
        Job job = planner.job();
        unknown.of(job) *= factor;
        if (const Prediction* winner = Winner(contenders, job)) {
          changes.push_back(fmt::format(
              "{} {} {}: {}", unknown.name, ratio < 1.0 ? "below" : "above",
              fmt::format(fmt::runtime(unknown.format),
                          unknown.of(job) / std::sqrt(ratio) / unknown.unit),
              LayoutName(winner->config)));
          break;
        }
      }
    }
  }
  return changes.empty()
             ? "the choice stays if bandwidths or the rate of matrix products "
               "are up to 4 times lower or higher\n"
             : fmt::format("another layout is faster with {}\n",
                           fmt::join(changes, "; "));
}

// What training with a configuration changes in addition to its speed.
std::string ChangesText(const Job& job, const ParallelConfig& config) {
  std::vector<std::string> changes;
  const trials::Workload& workload = job.workload;
  const trials::Framework framework =
      ForPrecision(job.framework.framework, workload.precision);
  if (workload.precision == trials::Precision::kFp8) {
    changes.emplace_back("matrix products in 8 bits");
  }
  if (workload.precision != trials::Precision::kFp32 &&
      config.microbatches > 1 && !framework.gradients.fp32_gradients &&
      !(framework.sharding.fsdp && !framework.sharding.no_sync)) {
    changes.emplace_back("gradients of microbatches summed in 16 bits");
  }
  if (HasDropout(workload.model) && job.cluster.gpus() > 1) {
    changes.emplace_back("the random numbers of dropout");
  }
  return fmt::format(
      "besides speed it changes: {}the order of sums; the batch stays {} "
      "sequences\n",
      changes.empty() ? "only " : fmt::format("{}, ", fmt::join(changes, ", ")),
      workload.batch_size);
}

}  // namespace

std::string AdviceText(const Forecaster& planner, const Forecast& plan) {
  const Prediction& best = plan.layouts.front().best;
  return NeighborText(planner, best) + UnknownsText(planner, plan) +
         ChangesText(planner.job(), best.config);
}

}  // namespace jobs
