#include "jobs/plan/completion.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "common/ranges.h"
#include "trials/constraints.h"
#include "trials/objective.h"
#include "trials/programs/trial_rendering.h"

namespace jobs {
namespace {

using trials::Knob;
using trials::ParallelConfig;

// "dp=8,zero_stage=1" of "dp=8 ZeRO-1", a name by LayoutName.
std::string AsSettings(std::string text) {
  const std::array<std::pair<std::string_view, std::string_view>, 6> names = {
      {{" full recomputation", ",grad_checkpoint=1"},
       {" selective recomputation", ",grad_checkpoint=2"},
       {" eager", ",torch_compile=1"},
       {" compiled", ",torch_compile=2"},
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

// How many of the settings a configuration does not have. `unplanned`: those
// that no plan has, such as communication that does not overlap; they are also
// missing where the parameter has no effect.
std::ptrdiff_t Missing(const Settings& settings, const ParallelConfig& config,
                       const Job& job, const Settings& unplanned = {}) {
  return std::ranges::count_if(settings, [&](const auto& setting) {
    const auto& [knob, value] = setting;
    return trials::ValueOf(*knob, config, job.workload.batch_size) != value ||
           (common::Contains(unplanned, setting) &&
            !knob->active.holds(config));
  });
}

// The settings that no configuration has where they have an effect.
Settings UnplannedOf(const Settings& settings, const Forecaster& forecaster) {
  Settings unplanned;
  for (const auto& setting : settings) {
    const Knob& knob = *setting.first;
    if (knob.active.holds && !knob.structural &&
        std::ranges::none_of(forecaster.space().configs(),
                             [&](const ParallelConfig& config) {
                               return knob.active.holds(config) &&
                                      knob.Get(config) == setting.second;
                             })) {
      unplanned.push_back(setting);
    }
  }
  return unplanned;
}

// Removes settings that have no effect with the others. Returns notes.
std::string DropWithoutEffect(const Forecaster& forecaster,
                              Settings& settings) {
  const std::vector<ParallelConfig>& configs = forecaster.space().configs();
  std::string notes;
  const Settings all = settings;
  std::erase_if(settings, [&](const auto& setting) {
    const auto& [knob, value] = setting;
    Settings others = all;
    std::erase(others, setting);
    bool any = false;
    bool active = !knob->active.holds;
    for (const ParallelConfig& config : configs) {
      if (!active && Missing(others, config, forecaster.job()) == 0) {
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

// A configuration with the settings. Where its sizes do not go with them, the
// others are 1, and dp follows; microbatches follow from a named size.
ParallelConfig WithSettings(ParallelConfig config, const Forecaster& forecaster,
                            const Settings& settings) {
  const int gpus = forecaster.job().cluster.gpus();
  const auto set = [&] {
    config.sp = 0;
    config.microbatches = 0;
    for (const auto& [knob, value] : settings) {
      knob->Set(config, value);
    }
    config.sp = config.sp == 0 ? config.tp : config.sp;  // as in every plan
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
            : std::max(1, forecaster.job().workload.batch_size / config.dp /
                              config.micro_batch_size);
  }
  return trials::Canonical(config, forecaster.space().knobs());
}

// The best configuration with the settings, one that a plan does not vary, or
// the one that breaks the fewest constraints and rules, so that values that are
// not named are not what is refused; of these, the first or nearest.
ParallelConfig Outside(const Forecaster& forecaster, const Forecast& forecast,
                       const Settings& settings, const Settings& unplanned,
                       const std::vector<trials::Rule>& rules) {
  const Job& job = forecaster.job();
  std::vector<ParallelConfig> others = forecaster.space().configs();
  if (!forecast.layouts.empty()) {
    others.insert(others.begin(),
                  NearestLayout(job, forecast, settings).config);
  }
  std::set<ParallelConfig> seen;
  std::map<std::pair<bool, std::size_t>, std::vector<ParallelConfig>> found;
  for (const ParallelConfig& other : others) {
    const ParallelConfig config = WithSettings(other, forecaster, settings);
    if (seen.insert(config).second) {
      found[{Missing(settings, config, job, unplanned) > 0,
             Violations(job, config, rules).size()}]
          .push_back(config);
    }
  }
  const auto& [rank, fewest] = *found.begin();
  const auto best = rank.second == 0 ? forecaster.BestOf(fewest) : std::nullopt;
  return best ? best->config : fewest.front();
}

}  // namespace

Completed CompleteSettings(const Forecaster& forecaster,
                           const Forecast& forecast, const std::string& text) {
  const Job& job = forecaster.job();
  const bool is_name = text.find(' ') != std::string::npos;
  Completed completed{.settings = trials::ParseSettings(AsSettings(text))};
  completed.notes = DropWithoutEffect(forecaster, completed.settings);
  const Settings unplanned = UnplannedOf(completed.settings, forecaster);
  std::vector<ParallelConfig> found;
  for (const ParallelConfig& config : forecaster.space().configs()) {
    if (Missing(completed.settings, config, job, unplanned) == 0 &&
        (!is_name || LayoutName(config) == text)) {
      found.push_back(config);
    }
  }
  const std::optional<Prediction> best = forecaster.BestOf(found);
  completed.is_candidate = best.has_value();
  completed.config = best ? best->config
                          : Outside(forecaster, forecast, completed.settings,
                                    unplanned, JobRules(job));
  return completed;
}

const Prediction& NearestLayout(const Job& job, const Forecast& forecast,
                                const Settings& settings) {
  const auto rank = [&](const Layout& layout) {
    return std::pair(Missing(settings, layout.best.config, job),
                     layout.best.step_time_s);
  };
  return std::ranges::min_element(forecast.layouts, {}, rank)->best;
}

std::vector<std::string> Violations(const Job& job,
                                    const ParallelConfig& config,
                                    const std::vector<trials::Rule>& rules) {
  const int gpus = job.cluster.gpus();
  const int batch = job.workload.batch_size;
  std::vector<std::string> violations;
  if (config.micro_batch_size > 0 && trials::GpusOf(config) == gpus &&
      batch % (std::int64_t{config.dp} * config.micro_batch_size) != 0) {
    violations.push_back(fmt::format(
        "dp * micro_batch_size must divide the batch size (batch_size = {}, "
        "dp = {}, micro_batch_size = {})",
        batch, config.dp, config.micro_batch_size));
  }
  const trials::Framework& framework = job.framework.framework;
  const trials::ConstraintContext context{
      .workload = job.workload,
      .gpus = gpus,
      .replicated_kv_heads = framework.kernels.shares_kv_heads,
      .ends_as_layers = framework.pipeline.ends_as_layers,
      .whole_experts = framework.experts.whole_experts};
  for (const trials::Constraint& constraint : trials::Constraints()) {
    if (constraint.broken(config, context)) {
      violations.push_back(Sentence(constraint, config, context));
    }
  }
  const auto known = trials::RuleContext(job.workload, gpus);
  for (const trials::Rule& rule : rules) {
    if (rule.Matches(config, known)) {
      violations.push_back(
          fmt::format("{} ({})", rule.reason(), rule.origin()));
    }
  }
  return violations;
}

}  // namespace jobs
