#include "jobs/plan/why.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"
#include "jobs/plan/remedies.h"
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

// How many of the settings a configuration does not have.
std::ptrdiff_t Missing(const Settings& settings, const ParallelConfig& config,
                       const Job& job) {
  return std::ranges::count_if(settings, [&](const auto& setting) {
    return trials::ValueOf(*setting.first, config, job.workload.batch_size) !=
           setting.second;
  });
}

std::string MemoryReason(const Forecaster& forecaster, const Prediction& one) {
  const double allowed = forecaster.AllowedBytes();
  const double headroom = forecaster.options().headroom;
  return fmt::format(
      "it needs {:.1f} GB, and {:.1f} GB are allowed ({:.1f} GB, {:.0f}% of "
      "which stay free); the largest part is {}; it fits with probability "
      "{:.2f}, and would take {:.3g} s per step",
      one.peak_memory_bytes / kGiga, allowed / kGiga,
      allowed / (1.0 - headroom) / kGiga, 100.0 * headroom,
      LargestComponent(forecaster.Report(one.config).memory),
      one.fit_probability, one.step_time_s);
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

// The offered layout that differs in the fewest of the settings.
// Precondition: there is one.
const Prediction& Nearest(const Job& job, const Forecast& forecast,
                          const Settings& settings) {
  const auto rank = [&](const Layout& layout) {
    return std::pair(Missing(settings, layout.best.config, job),
                     layout.best.step_time_s);
  };
  return std::ranges::min_element(forecast.layouts, {}, rank)->best;
}

std::string NearestText(const Forecaster& forecaster, const Forecast& forecast,
                        const Settings& settings) {
  if (forecast.layouts.empty()) {
    return RemediesText(forecaster.job(), forecaster.options());
  }
  const Prediction& nearest = Nearest(forecaster.job(), forecast, settings);
  return fmt::format("the nearest that is offered: {}, {:.3g} s per step: {}\n",
                     LayoutName(nearest.config), nearest.step_time_s,
                     ToString(nearest.config));
}

std::string ComparedText(const Forecaster& forecaster, const Forecast& forecast,
                         const Prediction& one) {
  const auto shares = [&](const Prediction& of) {
    return ToString(SharesOf(forecaster.Report(of.config).time));
  };
  const Prediction& best = forecast.layouts.front().best;
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
ParallelConfig WithSettings(ParallelConfig config, const Forecaster& forecaster,
                            const Settings& settings) {
  const int gpus = forecaster.job().cluster.gpus();
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
            : std::max(1, forecaster.job().workload.batch_size / config.dp /
                              config.micro_batch_size);
  }
  return trials::Canonical(config, forecaster.space().knobs());
}

// The best configuration with the settings, one that a plan does not vary, or
// the one that breaks the fewest constraints and rules, so that values that are
// not named are not what is refused; of these, the first or nearest.
ParallelConfig Outside(const Forecaster& forecaster, const Forecast& forecast,
                       const Settings& settings,
                       const std::vector<trials::Rule>& rules) {
  const Job& job = forecaster.job();
  std::vector<ParallelConfig> others = forecaster.space().configs();
  if (!forecast.layouts.empty()) {
    others.insert(others.begin(), Nearest(job, forecast, settings).config);
  }
  std::set<ParallelConfig> seen;
  std::map<std::pair<bool, std::size_t>, std::vector<ParallelConfig>> found;
  for (const ParallelConfig& other : others) {
    const ParallelConfig config = WithSettings(other, forecaster, settings);
    if (seen.insert(config).second) {
      found[{Missing(settings, config, job) > 0,
             Violations(job, config, rules).size()}]
          .push_back(config);
    }
  }
  const auto& [rank, fewest] = *found.begin();
  const auto best = rank.second == 0 ? forecaster.BestOf(fewest) : std::nullopt;
  return best ? best->config : fewest.front();
}

// The answer about the configuration whose unnamed values are the best.
std::string Explain(const Forecaster& forecaster, const Forecast& forecast,
                    const std::string& text) {
  const Job& job = forecaster.job();
  const bool is_name = text.find(' ') != std::string::npos;
  Settings settings = trials::ParseSettings(AsSettings(text));
  const std::string notes = DropWithoutEffect(forecaster, settings);
  std::vector<ParallelConfig> found;
  for (const ParallelConfig& config : forecaster.space().configs()) {
    if (Missing(settings, config, job) == 0 &&
        (!is_name || LayoutName(config) == text)) {
      found.push_back(config);
    }
  }
  std::optional<Prediction> one = forecaster.BestOf(found);
  const std::vector<trials::Rule> rules = JobRules(job);
  const ParallelConfig config =
      one ? one->config : Outside(forecaster, forecast, settings, rules);
  const std::string answer = ToString(config) + "\n" + notes;
  if (!one) {
    const auto violations = Violations(job, config, rules);
    if (!violations.empty()) {
      return answer + fmt::format("not offered: {}\n", violations.front()) +
             NearestText(forecaster, forecast, settings);
    }
    one = forecaster.Predict(config);
  }
  return answer + (forecaster.Fits(*one)
                       ? ComparedText(forecaster, forecast, *one)
                       : fmt::format("not offered: {}\n",
                                     MemoryReason(forecaster, *one)) +
                             NearestText(forecaster, forecast, settings));
}

}  // namespace

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

std::string Why(const Forecaster& forecaster, const Forecast& forecast,
                const std::string& config) {
  try {  // a line as printed has the shares of the step after the layout
    return Explain(forecaster, forecast, config.substr(0, config.find(": ")));
  } catch (const trials::InvalidPlan& e) {
    return fmt::format("{}\nnot offered: {}\n", config, e.reason());
  } catch (const std::invalid_argument& e) {
    throw common::InputError(fmt::format("--why {}: {}", config, e.what()));
  }
}

}  // namespace jobs
