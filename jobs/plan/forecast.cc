#include "jobs/plan/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/parallel.h"
#include "common/ranges.h"
#include "common/units.h"
#include "trials/flop.h"
#include "trials/model.h"
#include "trials/predictions.h"
#include "trials/simulator/error_band.h"

namespace jobs {
namespace {

using trials::ParallelConfig;

using common::kGiga;

// Configurations that a thread takes at once: neighbors share memoized costs.
constexpr int kConfigs = 256;

// What configurations of a layout have in common.
auto LayoutKey(const ParallelConfig& c) {
  return std::tuple(c.dp, c.tp, c.pp, c.cp, c.ep, c.zero_stage,
                    c.grad_checkpoint, c.dp_replicate, c.etp, c.torch_compile);
}

// What layouts of a kind have in common.
auto KindKey(const ParallelConfig& c) {
  return std::tuple(c.dp > 1, c.tp > 1, c.pp > 1, c.cp > 1, c.ep > 1,
                    c.zero_stage, c.grad_checkpoint, c.dp_replicate > 1, c.etp,
                    c.torch_compile);
}

std::vector<Excluded> ByRule(const trials::SearchSpace& space) {
  std::vector<Excluded> excluded;
  bool first = true;
  for (const trials::SearchSpace::Dropped& dropped : space.dropped()) {
    // The first constraint removes what other numbers of GPUs have, and those
    // of sp and of JobSpace remove what differs from tp.
    const bool of_grids = std::exchange(first, false) ||
                          dropped.origin == JobRuleOrigin() ||
                          dropped.rule.starts_with("sp > 1");
    if (!of_grids && dropped.count > 0) {
      const bool built_in = dropped.origin == "built in";
      excluded.push_back(
          {built_in ? dropped.reason
                    : fmt::format("{} ({})", dropped.reason, dropped.origin),
           dropped.count});
    }
  }
  return excluded;
}

// The scatter of peaks: that of the framework, wider for a guess, or of the
// calibration's trials.
double MemoryLogStddev(const Job& job, const Calibration& calibration) {
  if (calibration.memory_log_stddev > 0.0) {
    return calibration.memory_log_stddev;
  }
  const double validated = job.framework.framework.allocator.memory_log_stddev;
  const std::vector<trials::Guess> guesses = GuessesOf(job);
  if (guesses.empty()) {
    return validated;
  }
  const trials::ErrorBands bands =
      trials::ReadErrorBands(trials::ErrorBandsPath());
  return std::hypot(validated, std::sqrt(trials::VarianceOf(
                                   guesses, bands.guess_peak_memory)));
}

using NamedShare = std::pair<const char*, double trials::TimeBreakdown::*>;
constexpr std::array<NamedShare, 12> kShares = {{
    {"compute", &trials::TimeBreakdown::forward_s},
    {"compute", &trials::TimeBreakdown::backward_s},
    {"compute", &trials::TimeBreakdown::head_s},
    {"optimizer", &trials::TimeBreakdown::optimizer_s},
    {"recomputation", &trials::TimeBreakdown::recompute_s},
    {"bubble", &trials::TimeBreakdown::bubble_s},
    {"links (tensor)", &trials::TimeBreakdown::tensor_s},
    {"links (context)", &trials::TimeBreakdown::context_s},
    {"links (experts)", &trials::TimeBreakdown::expert_s},
    {"links (data)", &trials::TimeBreakdown::data_s},
    {"links (pipeline)", &trials::TimeBreakdown::pipeline_s},
    {"launches", &trials::TimeBreakdown::overhead_s},
}};

}  // namespace

Forecaster::Forecaster(Job job, const ForecastOptions& options,
                       std::shared_ptr<trials::PlacedGrids> grids)
    : job_(std::move(job)),
      options_(options),
      memory_log_stddev_(MemoryLogStddev(job_, options.calibration)),
      space_(JobSpace(job_)),
      grids_(std::move(grids)),
      simulators_(common::Cores(),
                  trials::Simulator(job_.workload, job_.cluster,
                                    {job_.framework.framework, grids_})),
      times_(options.calibration, space_.configs()) {}

Forecaster::Forecaster(const Forecaster& other, trials::Cluster cluster)
    : job_(other.job_),
      options_(other.options_),
      memory_log_stddev_(other.memory_log_stddev_),
      space_(other.space_),
      grids_(std::make_shared<trials::PlacedGrids>()),
      simulators_(common::Cores(),
                  trials::Simulator(job_.workload, cluster,
                                    {job_.framework.framework, grids_})),
      times_(other.times_) {
  job_.cluster = std::move(cluster);
}

double Forecaster::CapacityBytes() const {
  return job_.framework.framework.allocator.usable_memory *
         job_.cluster.gpu.memory_bytes;
}

harness::CalibratedTimes::Time Forecaster::TimeOf(
    const ParallelConfig& config, const trials::StepReport& report) const {
  return times_.Of(config,
                   harness::StepPartsOf(report.time, config, job_.cluster));
}

Prediction Forecaster::Predict(const ParallelConfig& config) const {
  return PredictWith(simulators_.front(), config);
}

Prediction Forecaster::PredictWith(const trials::Simulator& simulator,
                                   const ParallelConfig& config) const {
  const trials::StepReport report = simulator.Simulate(config);
  const Calibration& calibration = options_.calibration;
  const double peak = calibration.memory * report.peak_memory_bytes;
  const double step_time_s = calibration.step_times == 0
                                 ? report.step_time_s
                                 : TimeOf(config, report).step_time_s;
  return {
      config,
      step_time_s,
      trials::TokensPerSecondPerGpu(job_.workload, job_.cluster, step_time_s),
      trials::ModelFlopUtilization(job_.workload, job_.cluster, step_time_s),
      peak,
      trials::FitProbability(peak, report.capacity_bytes, memory_log_stddev_)};
}

template <typename Work>
void Forecaster::ForAll(std::size_t count, int block, const Work& work) const {
  common::ParallelFor(
      static_cast<int>(count), static_cast<int>(simulators_.size()),
      [&](int worker, int i) { work(simulators_[worker], i); }, block);
}

Forecaster::Peak Forecaster::PeakOf(const trials::Simulator& simulator,
                                    const ParallelConfig& config) const {
  const double scale = options_.calibration.memory;
  const double least = scale * simulator.LeastMemory(config);
  return least > CapacityBytes()
             ? Peak{.bytes = least, .bound = true}
             : Peak{.bytes =
                        scale * simulator.PeakMemory(config).peak_memory_bytes};
}

void Forecaster::SetPeaks(const trials::Simulator& simulator,
                          const Configs& configs,
                          std::span<const std::size_t> places,
                          std::vector<Peak>& peaks) const {
  std::optional<Peak> too_large;
  for (const std::size_t i : places) {
    if (too_large && configs[i].microbatches > 1) {
      peaks[i] = *too_large;
      continue;
    }
    peaks[i] = PeakOf(simulator, configs[i]);
    if (peaks[i].bytes > CapacityBytes()) {
      too_large = {.bytes = peaks[i].bytes, .bound = true};
    }
  }
}

std::vector<Forecaster::Peak> Forecaster::PeaksOf(
    const Configs& configs) const {
  // Configurations of equal sizes follow one another.
  const auto sizes = [&](std::size_t i) {
    return std::tuple(configs[i].dp, configs[i].tp, configs[i].pp);
  };
  Places begins;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (i == 0 || sizes(i) != sizes(i - 1)) {
      begins.push_back(i);
    }
  }
  begins.push_back(configs.size());
  const auto same = [&](std::size_t i) {
    ParallelConfig config = configs[i];
    config.microbatches = config.micro_batch_size = 0;
    return config;
  };
  std::vector<Peak> peaks(configs.size());
  ForAll(begins.size() - 1, 1, [&](const trials::Simulator& simulator, int b) {
    std::vector<std::tuple<ParallelConfig, int, std::size_t>> order;
    for (std::size_t i = begins[b]; i < begins[b + 1]; ++i) {
      try {
        simulator.CheckConfig(configs[i]);
        (void)simulator.LeastMemory(configs[i]);  // as many stages
        order.emplace_back(same(i), -configs[i].microbatches, i);
      } catch (const trials::InvalidPlan&) {
        peaks[i].refused = true;
      }
    }
    std::ranges::sort(order);
    Places places;
    for (std::size_t at = 0; at < order.size(); ++at) {
      places.push_back(std::get<2>(order[at]));
      if (at + 1 == order.size() ||
          std::get<0>(order[at]) != std::get<0>(order[at + 1])) {
        SetPeaks(simulator, configs, places, peaks);
        places.clear();
      }
    }
  });
  return peaks;
}

Forecaster::Places Forecaster::Fitting(const std::vector<Peak>& peaks) const {
  Places fitting;
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    if (!peaks[i].refused && peaks[i].bytes <= AllowedBytes()) {
      fitting.push_back(i);
    }
  }
  return fitting;
}

Forecaster::Bounds Forecaster::BoundsOf(const Configs& configs,
                                        const Places& places) const {
  Bounds bounds(places.size());
  ForAll(places.size(), kConfigs,
         [&](const trials::Simulator& simulator, int i) {
           bounds[i] = {options_.calibration.step_times == 0
                            ? simulator.LeastStepTime(configs[places[i]])
                            : 0.0,
                        places[i]};
         });
  return bounds;
}

Prediction Forecaster::Fastest(const trials::Simulator& simulator,
                               const Configs& configs, Bounds& bounds) const {
  std::ranges::sort(bounds);
  std::optional<std::pair<double, std::size_t>> least;
  Prediction fastest;
  for (const auto& [bound_s, i] : bounds) {
    if (least && bound_s > least->first) {
      break;  // so are the others
    }
    const Prediction one = PredictWith(simulator, configs[i]);
    if (const std::pair key(one.step_time_s, i); !least || key < *least) {
      least = key;
      fastest = one;
    }
  }
  return fastest;
}

std::optional<Prediction> Forecaster::Smallest(
    const Configs& configs, const std::vector<Peak>& peaks) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (!peaks[i].refused) {
      order.push_back(i);
    }
  }
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return peaks[i].bytes; });
  double least = std::numeric_limits<double>::infinity();
  Places smallest;
  for (const std::size_t i : order) {
    if (peaks[i].bytes > least) {
      break;  // a bound is at most the peak
    }
    const double bytes =
        peaks[i].bound
            ? options_.calibration.memory *
                  simulators_.front().PeakMemory(configs[i]).peak_memory_bytes
            : peaks[i].bytes;
    if (bytes < least) {
      least = bytes;
      smallest.clear();
    }
    if (bytes == least) {
      smallest.push_back(i);
    }
  }
  if (smallest.empty()) {
    return std::nullopt;
  }
  Bounds bounds = BoundsOf(configs, smallest);
  return Fastest(simulators_.front(), configs, bounds);
}

std::optional<Prediction> Forecaster::FastestWithin(double step_time_s) const {
  const Configs& configs = space_.configs();
  Bounds bounds = BoundsOf(configs, Fitting(PeaksOf(configs)));
  std::erase_if(bounds,
                [&](const auto& each) { return each.first > step_time_s; });
  if (bounds.empty()) {
    return std::nullopt;
  }
  const Prediction fastest = Fastest(simulators_.front(), configs, bounds);
  return fastest.step_time_s <= step_time_s ? std::optional(fastest)
                                            : std::nullopt;
}

std::optional<Prediction> Forecaster::BestOf(const Configs& configs) const {
  const std::vector<Peak> peaks = PeaksOf(configs);
  Bounds bounds = BoundsOf(configs, Fitting(peaks));
  return bounds.empty()
             ? Smallest(configs, peaks)
             : std::optional(Fastest(simulators_.front(), configs, bounds));
}

void Forecaster::AddLayouts(const Places& fitting, std::size_t most,
                            Forecast& forecast) const {
  const Configs& configs = space_.configs();
  std::map<decltype(LayoutKey(ParallelConfig{})), Bounds> by_key;
  for (const auto& bound : BoundsOf(configs, fitting)) {
    by_key[LayoutKey(configs[bound.second])].push_back(bound);
  }
  // The members of a layout, after the least of their bounds.
  std::vector<std::pair<double, Bounds*>> order;
  for (auto& [key, bounds] : by_key) {
    order.emplace_back(std::ranges::min(bounds).first, &bounds);
    forecast.layouts.push_back(
        {.configurations = static_cast<int>(bounds.size())});
  }
  forecast.fitting_layouts = static_cast<int>(order.size());
  auto places = common::Indices<std::size_t>(order.size());
  std::ranges::stable_sort(places, {},
                           [&](std::size_t i) { return order[i].first; });
  std::mutex mutex;
  std::multiset<double> least_s;  // of all, `most` of them
  std::map<decltype(KindKey(ParallelConfig{})), double> kinds_s;
  std::vector<bool> evaluated(order.size(), false);
  ForAll(order.size(), 1, [&](const trials::Simulator& simulator, int at) {
    const auto& [bound_s, bounds] = order[places[at]];
    const auto kind = KindKey(configs[bounds->front().second]);
    {
      const std::lock_guard lock(mutex);
      const auto of_kind = kinds_s.find(kind);
      if (of_kind != kinds_s.end() && bound_s > of_kind->second &&
          least_s.size() >= most && bound_s > *least_s.rbegin()) {
        return;
      }
    }
    const Prediction best = Fastest(simulator, configs, *bounds);
    const std::lock_guard lock(mutex);
    forecast.layouts[places[at]].best = best;
    evaluated[places[at]] = true;
    double& of_kind = kinds_s.emplace(kind, best.step_time_s).first->second;
    of_kind = std::min(of_kind, best.step_time_s);
    least_s.insert(best.step_time_s);
    if (least_s.size() > most) {
      least_s.erase(std::prev(least_s.end()));
    }
  });
  std::size_t i = 0;
  std::erase_if(forecast.layouts,
                [&](const Layout&) { return !evaluated[i++]; });
  std::ranges::stable_sort(forecast.layouts, {}, [](const Layout& layout) {
    return layout.best.step_time_s;
  });
  std::set<decltype(KindKey(ParallelConfig{}))> seen;
  i = 0;
  std::erase_if(forecast.layouts, [&](const Layout& layout) {
    const bool first = seen.insert(KindKey(layout.best.config)).second;
    return i++ >= most && !first;
  });
}

Forecast Forecaster::MakeForecast(std::size_t most) const {
  const std::vector<Peak> peaks = PeaksOf(space_.configs());
  Forecast forecast;
  forecast.excluded = ByRule(space_);
  forecast.capacity_bytes = CapacityBytes();
  std::int64_t out_of_memory = 0;
  std::int64_t tight = 0;
  std::int64_t refused = 0;
  for (const Peak& peak : peaks) {
    refused += peak.refused ? 1 : 0;
    out_of_memory += peak.bytes > CapacityBytes() ? 1 : 0;
    tight +=
        peak.bytes > AllowedBytes() && peak.bytes <= CapacityBytes() ? 1 : 0;
  }
  forecast.candidates = space_.size() - static_cast<int>(refused);
  forecast.smallest = Smallest(space_.configs(), peaks);
  AddLayouts(Fitting(peaks), most, forecast);
  forecast.excluded.push_back(
      {fmt::format("out of memory (more than {:.1f} GB)",
                   forecast.capacity_bytes / kGiga),
       out_of_memory});
  forecast.excluded.push_back(
      {fmt::format("less than {:.0f}% of the memory free",
                   100.0 * options_.headroom),
       tight});
  forecast.excluded.push_back({"the framework refuses it", refused});
  std::erase_if(forecast.excluded,
                [](const Excluded& e) { return e.count == 0; });
  std::ranges::stable_sort(forecast.excluded, std::greater(), &Excluded::count);
  return forecast;
}

std::vector<Layout> FastestOfKinds(const Forecast& forecast) {
  std::vector<Layout> fastest;
  std::set<decltype(KindKey(ParallelConfig{}))> seen;
  for (const Layout& layout : forecast.layouts) {
    if (seen.insert(KindKey(layout.best.config)).second) {
      fastest.push_back(layout);
    }
  }
  return fastest;
}

std::string LayoutName(const ParallelConfig& config) {
  std::vector<std::string> sizes;
  for (const auto& [name, size] : {std::pair("dp", config.dp),
                                   {"tp", config.tp},
                                   {"pp", config.pp},
                                   {"cp", config.cp},
                                   {"ep", config.ep},
                                   {"dp_replicate", config.dp_replicate}}) {
    if (size > 1) {
      sizes.push_back(fmt::format("{}={}", name, size));
    }
  }
  if (config.etp > 0) {
    sizes.push_back(fmt::format("etp={}", config.etp));
  }
  std::string name =
      sizes.empty() ? "dp=1" : fmt::format("{}", fmt::join(sizes, " "));
  if (config.zero_stage > 0) {
    name += fmt::format(" ZeRO-{}", config.zero_stage);
  }
  if (config.grad_checkpoint != trials::kRecomputeNothing) {
    name += config.grad_checkpoint == trials::kRecomputeFull
                ? " full recomputation"
                : " selective recomputation";
  }
  if (config.torch_compile != trials::kCompileAsUsual) {
    name += config.torch_compile == trials::kEager ? " eager" : " compiled";
  }
  return name;
}

Shares SharesOf(const trials::TimeBreakdown& time) {
  Shares shares;
  for (const auto& [name, value] : kShares) {
    if (shares.empty() || shares.back().first != name) {
      shares.emplace_back(name, 0.0);
    }
    shares.back().second += time.*value / time.Total();
  }
  std::ranges::stable_sort(shares, std::greater(), &Shares::value_type::second);
  return shares;
}

std::string ToString(const Shares& shares) {
  constexpr double kWorthNaming = 0.03;
  constexpr int kMost = 3;
  std::string text;
  int named = 0;
  for (const auto& [name, share] : shares) {
    if (share >= kWorthNaming && named++ < kMost) {
      text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name,
                          100.0 * share);
    }
  }
  return text;
}

}  // namespace jobs
