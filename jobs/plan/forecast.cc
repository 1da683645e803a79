#include "jobs/plan/forecast.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/parallel.h"
#include "common/ranges.h"
#include "common/units.h"
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

// The throughput of one GPU at this step time.
double TokensPerSecondPerGpu(const trials::Workload& workload,
                             const trials::Cluster& cluster,
                             double step_time_s) {
  return static_cast<double>(workload.batch_size) * workload.sequence_length /
         (step_time_s * cluster.gpus());
}

// The scatter of peaks: that of the framework, or of the calibration's trials;
// as much wider as the band where parts of the job were compared with nothing.
double MemoryLogStddev(const Job& job, const Calibration& calibration) {
  constexpr double kNineOfTen = 1.645;  // standard deviations
  if (calibration.memory_log_stddev > 0.0) {
    return calibration.memory_log_stddev;
  }
  const double wider =
      NotValidated(job.workload).empty()
          ? 0.0
          : std::log(trials::ErrorBands::kNotValidated) / kNineOfTen;
  return job.framework.framework.allocator.memory_log_stddev + wider;
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

// Parameters that a token uses and backward computes no gradient of.
double FrozenParameters(const trials::Workload& workload) {
  using trials::Trained;
  using trials::Weights;
  const trials::Training& training = workload.training;
  const trials::Model& model = workload.model;
  const auto count = [](const trials::Model& of) {
    return static_cast<double>(ActiveParameterCount(of));
  };
  trials::Model without = model;  // feed-forward layers
  without.ffn_size = without.shared_ffn_size = without.dense_ffn_size = 0;
  without.experts = without.experts_per_token = without.dense_layers = 0;
  const double ffn = count(model) - count(without);
  const double head = static_cast<double>(model.vocab_size) * model.hidden_size;
  const double ends = static_cast<double>(EmbeddingParameters(model));
  const double attention =
      count(model) - ffn - ends - (model.tied_embeddings ? 0.0 : head);
  const auto frozen = [&](Weights weights, double parameters) {
    return training.Of(weights) == Trained::kWeights ? 0.0 : parameters;
  };
  return frozen(Weights::kFeedForward, ffn) +
         frozen(Weights::kAttention, attention) +
         frozen(Weights::kEmbeddings, head);
}

}  // namespace

double FlopPerToken(const trials::Workload& workload) {
  const trials::Model& model = workload.model;
  double used = static_cast<double>(ActiveParameterCount(model));
  if (!model.tied_embeddings) {  // a tied table is also the vocabulary head
    used -= static_cast<double>(EmbeddingParameters(model));
  }
  const int packed = workload.training.packed_tokens;
  const double tokens = packed > 0 ? std::min(packed, workload.sequence_length)
                                   : workload.sequence_length;
  double flop = 0.0;  // of towers, whose tokens are others
  for (const trials::Model& tower : model.towers) {
    const auto own = static_cast<double>(ParameterCount(tower));
    const double seen = tower.tokens > 0 ? tower.tokens : tokens;
    used -= own;
    flop += (6.0 * own + 12.0 * AttentionWidth(tower) * seen) * seen / tokens;
  }
  const double window = std::min<double>(tokens, model.window);
  const double seen =
      tokens + model.windowed_share * (window - tokens);  // mean over blocks
  return flop + 6.0 * used - 2.0 * FrozenParameters(workload) +
         12.0 * (AttentionWidth(model) * seen + StateElements(model));
}

double ModelFlopUtilization(const trials::Workload& workload,
                            const trials::Cluster& cluster,
                            double step_time_s) {
  const trials::Gpu& gpu = cluster.gpu;
  const double peak = workload.precision == trials::Precision::kFp32
                          ? gpu.single_flop_per_s
                      : workload.precision == trials::Precision::kFp8 &&
                              gpu.fp8_flop_per_s > 0.0
                          ? gpu.fp8_flop_per_s
                          : gpu.half_flop_per_s;
  return FlopPerToken(workload) *
         TokensPerSecondPerGpu(workload, cluster, step_time_s) / peak;
}

Forecaster::Forecaster(Job job, const ForecastOptions& options)
    : job_(std::move(job)),
      options_(options),
      memory_log_stddev_(MemoryLogStddev(job_, options.calibration)),
      space_(JobSpace(job_)),
      simulators_(common::Cores(),
                  trials::Simulator(job_.workload, job_.cluster,
                                    {job_.framework.framework})),
      times_(options.calibration, space_.configs()) {}

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
      TokensPerSecondPerGpu(job_.workload, job_.cluster, step_time_s),
      ModelFlopUtilization(job_.workload, job_.cluster, step_time_s),
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
                                    const ParallelConfig& config,
                                    double within_s) const {
  const double scale = options_.calibration.memory;
  try {
    simulator.CheckConfig(config);
    const double least = scale * simulator.LeastMemory(config);
    if (least > CapacityBytes()) {
      return {.bytes = least, .bound = true};
    }
    if (within_s < kAnyTime && LeastTime(simulator, config) > within_s) {
      return {.refused = true};
    }
    return {.bytes = scale * simulator.PeakMemory(config).peak_memory_bytes};
  } catch (const trials::InvalidPlan&) {
    return {.refused = true};
  }
}

bool Forecaster::AnyFits() const {
  std::atomic<bool> fits = false;
  ForAll(space_.configs().size(), kConfigs,
         [&](const trials::Simulator& simulator, int i) {
           if (!fits) {
             const Peak peak = PeakOf(simulator, space_[i], kAnyTime);
             fits = fits || (!peak.refused && peak.bytes <= AllowedBytes());
           }
         });
  return fits;
}

std::vector<Forecaster::Peak> Forecaster::PeaksOf(const Configs& configs,
                                                  double within_s) const {
  std::vector<Peak> peaks(configs.size());
  ForAll(configs.size(), kConfigs,
         [&](const trials::Simulator& simulator, int i) {
           peaks[i] = PeakOf(simulator, configs[i], within_s);
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

double Forecaster::LeastTime(const trials::Simulator& simulator,
                             const ParallelConfig& config) const {
  return options_.calibration.step_times == 0 ? simulator.LeastStepTime(config)
                                              : 0.0;
}

Prediction Forecaster::Fastest(const trials::Simulator& simulator,
                               const Configs& configs,
                               const Places& places) const {
  std::vector<std::pair<double, std::size_t>> bounds;
  for (const std::size_t i : places) {
    bounds.emplace_back(LeastTime(simulator, configs[i]), i);
  }
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
  return smallest.empty()
             ? std::nullopt
             : std::optional(Fastest(simulators_.front(), configs, smallest));
}

std::optional<Prediction> Forecaster::FastestWithin(double step_time_s) const {
  const std::vector<Peak> peaks = PeaksOf(space_.configs(), step_time_s);
  const Places fitting = Fitting(peaks);
  if (fitting.empty()) {
    return std::nullopt;
  }
  const Prediction fastest =
      Fastest(simulators_.front(), space_.configs(), fitting);
  return fastest.step_time_s <= step_time_s ? std::optional(fastest)
                                            : std::nullopt;
}

std::optional<Prediction> Forecaster::BestOf(const Configs& configs) const {
  const std::vector<Peak> peaks = PeaksOf(configs);
  const Places fitting = Fitting(peaks);
  return fitting.empty()
             ? Smallest(configs, peaks)
             : std::optional(Fastest(simulators_.front(), configs, fitting));
}

Forecast Forecaster::MakeForecast() const {
  using Key = decltype(LayoutKey(ParallelConfig{}));
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
  std::map<Key, Places> layouts;
  for (const std::size_t i : Fitting(peaks)) {
    layouts[LayoutKey(space_[static_cast<int>(i)])].push_back(i);
  }
  for (const auto& [key, places] : layouts) {
    forecast.layouts.push_back(
        {.configurations = static_cast<int>(places.size())});
  }
  const std::vector<Places> members =
      common::Map(layouts, [](const auto& layout) { return layout.second; });
  constexpr int kLayouts = 8;  // neighbors share memoized costs
  ForAll(members.size(), kLayouts,
         [&](const trials::Simulator& simulator, int i) {
           forecast.layouts[i].best =
               Fastest(simulator, space_.configs(), members[i]);
         });
  std::ranges::stable_sort(forecast.layouts, {}, [](const Layout& layout) {
    return layout.best.step_time_s;
  });
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
