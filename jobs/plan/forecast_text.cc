#include "jobs/plan/forecast_text.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "harness/testbeds/simulated.h"
#include "jobs/plan/launch.h"
#include "jobs/plan/remedies.h"
#include "jobs/plan/robustness.h"
#include "plots/table.h"
#include "trials/flop.h"
#include "trials/knobs.h"
#include "trials/model.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/layer_operators.h"
#include "trials/simulator/simulator.h"

namespace jobs {
namespace {

using common::kGiga;

std::string LinksText(const trials::Cluster& cluster) {
  std::string text = fmt::format("{} {:.3g} GB/s", cluster.intra.name,
                                 cluster.intra.bandwidth_bytes_per_s / kGiga);
  if (cluster.nodes > 1) {
    text += fmt::format(", {} {} x {:.3g} GB/s", cluster.inter.name,
                        cluster.nics_per_node,
                        cluster.inter.bandwidth_bytes_per_s / kGiga);
  }
  return text;
}

int MicroBatch(const Job& job, const trials::ParallelConfig& config) {
  return job.workload.batch_size / (config.dp * config.microbatches);
}

const std::string& PrecisionName(const trials::Workload& workload) {
  return kPrecisions.at(static_cast<std::size_t>(workload.precision));
}

std::string Percent(double share) {
  return fmt::format("{:.0f}%", 100.0 * share);
}

// The first layouts.
std::span<const Layout> Shown(const std::vector<Layout>& layouts, int most) {
  const auto count = static_cast<std::size_t>(std::max(0, most));
  return std::span(layouts).first(std::min(layouts.size(), count));
}

std::string ExcludedText(const Forecast& forecast) {
  constexpr std::size_t kMost = 8;
  std::string text = "not offered:\n";
  std::int64_t others = 0;
  for (std::size_t i = 0; i < forecast.excluded.size(); ++i) {
    const auto& [reason, count] = forecast.excluded[i];
    if (i < kMost) {
      text += fmt::format("{:>10}  {}\n", count, reason);
    } else {
      others += count;
    }
  }
  if (others > 0) {
    text += fmt::format("{:>10}  other rules\n", others);
  }
  return text;
}

std::string NothingFits(const Forecaster& forecaster,
                        const Forecast& forecast) {
  const std::string remedies =
      RemediesText(forecaster.job(), forecaster.options());
  if (!forecast.smallest) {
    return "no configuration is valid\n" + remedies;
  }
  const trials::StepReport report =
      forecaster.Report(forecast.smallest->config);
  return fmt::format(
             "no configuration leaves {:.0f}% of {:.1f} GB free; the smallest "
             "needs {:.1f} GB: {} (most of it: {})\n",
             100.0 * forecaster.options().headroom,
             forecast.capacity_bytes / kGiga,
             forecast.smallest->peak_memory_bytes / kGiga,
             ToString(forecast.smallest->config),
             LargestComponent(report.memory)) +
         remedies;
}

// What is assumed about experts.
std::string ExpertsText(const Job& job) {
  const auto& experts = job.framework.framework.experts;
  if (job.workload.model.experts == 0) {
    return "";
  }
  return fmt::format(
      "assumed: the busiest rank computes {:.3g} times the mean tokens of its "
      "experts; {:.0f}% of their messages can overlap with computation; a "
      "token crosses the network once for each {} (--constant "
      "expert_imbalance=..., expert_overlap=..., token_once_per_host=...)\n",
      experts.expert_imbalance, 100.0 * std::min(1.0, experts.expert_overlap),
      experts.token_once_per_host ? "host" : "expert");
}

// Which release was assumed, and what the others of the framework would change
// in the step of a configuration.
std::string ReleaseText(const Job& job, const trials::ParallelConfig& config,
                        double step_time_s) {
  const FrameworkChoice& choice = job.framework;
  std::string text;
  for (const std::string& name : trials::OtherReleases(choice.name)) {
    trials::Framework other = trials::FindFramework(name);
    ChangeConstants(job.constants, other);
    const double other_s =
        trials::Simulator(job.workload, job.cluster, {other, nullptr})
            .Simulate(config)
            .step_time_s;
    text += fmt::format(
        "{} {}{} {:+.0f}%", text.empty() ? ":" : ",", name,
        other.release.empty() ? "" : fmt::format(" ({})", other.release),
        100.0 * (other_s / step_time_s - 1.0));
  }
  return text.empty() ? ""
                      : fmt::format(
                            "assumed: {}{}; step time with other "
                            "releases{} (--framework NAME)\n",
                            choice.name,
                            choice.framework.release.empty()
                                ? ""
                                : ", " + choice.framework.release,
                            text);
}

}  // namespace

std::string BandText(const Forecaster& forecaster, const Prediction& best) {
  const Job& job = forecaster.job();
  const trials::StepReport report = forecaster.Report(best.config);
  if (forecaster.options().calibration.step_times > 0) {
    const double factor = forecaster.TimeOf(best.config, report).band;
    return fmt::format(
        "step time {:.3g} s: {:.3g} to {:.3g} s with a probability of 90%, by "
        "the calibration\n",
        best.step_time_s, best.step_time_s / factor, best.step_time_s * factor);
  }
  const trials::Framework& framework = job.framework.framework;
  const std::vector<trials::Guess> guesses = GuessesOf(job);
  return harness::ErrorBandsOf(framework, guesses, report) +
         harness::GuessText(guesses) +
         harness::ValidationOf(job.framework.name, framework.compared_with) +
         "\n" + harness::ValidationOf(job.cluster.gpu) +
         harness::JobStatesOf(job.cluster) +
         ReleaseText(job, best.config, report.step_time_s);
}

std::string MemoryText(const Forecaster& forecaster, const Prediction& one) {
  const Job& job = forecaster.job();
  const trials::StepReport report = forecaster.Report(one.config);
  const double scale = one.peak_memory_bytes / report.memory.Total();
  constexpr double kShown = 0.05 * kGiga;
  const auto bytes = [&](trials::PeakMemory counted) {
    return scale * report.memory.Bytes(counted) / kGiga;
  };
  const std::string host =
      report.host_bytes > 0.0
          ? fmt::format(
                "on the host: {:.0f} GB of each node for what is "
                "offloaded\n",
                report.host_bytes / job.cluster.nodes / kGiga)
          : "";
  trials::Components parts = ComponentsOf(report.memory);
  std::ranges::stable_sort(parts, std::greater(),
                           &trials::Components::value_type::second);
  std::vector<std::string> texts;
  for (const auto& [name, part] : parts) {
    if (scale * part >= kShown) {
      texts.push_back(fmt::format("{} {:.1f}", name, scale * part / kGiga));
    }
  }
  return host +
         fmt::format(
             "its memory: {:.1f} GB allocated, {:.1f} GB reserved by the "
             "allocator, {:.1f} GB on the device with CUDA and NCCL, which "
             "must fit into {:.1f} GB: {}\n",
             bytes(trials::PeakMemory::kAllocated),
             bytes(trials::PeakMemory::kReserved),
             bytes(trials::PeakMemory::kDevice),
             forecaster.CapacityBytes() / kGiga, fmt::join(texts, ", "));
}

namespace {

std::string CountText(std::int64_t parameters) {
  constexpr double kTrillion = 1e12;
  const auto count = static_cast<double>(parameters);
  return count < 0.9995 * kTrillion
             ? fmt::format("{:.3g} billion", count / kGiga)
             : fmt::format("{:.3g} trillion", count / kTrillion);
}

}  // namespace

std::string JobText(const Job& job) {
  const trials::Workload& workload = job.workload;
  const trials::Cluster& cluster = job.cluster;
  return harness::GuessText(GuessesOf(job)) +
         fmt::format(
             "{}: {} parameters, batch {} x {} tokens, {}\n{}, {}; {}\n",
             workload.name, CountText(ParameterCount(workload.model)),
             workload.batch_size, workload.sequence_length,
             PrecisionName(workload),
             ToString(MachineSize{cluster.nodes, cluster.gpus_per_node}),
             cluster.gpu.name, LinksText(cluster));
}

namespace {

// "step_time_s": [low, high], where the measurement is expected with 90%.
common::Json BandsJson(const Forecaster& forecaster, const Prediction& best) {
  common::Json bands;
  const auto add = [&bands](const char* name, double value, double low,
                            double high) {
    bands[name] = {low * value, high * value};
  };
  if (forecaster.options().calibration.step_times > 0) {
    const double factor =
        forecaster.TimeOf(best.config, forecaster.Report(best.config)).band;
    add("step_time_s", best.step_time_s, 1.0 / factor, factor);
    return bands;
  }
  using trials::ErrorBands;
  const ErrorBands all =
      trials::Widened(trials::ReadErrorBands(trials::ErrorBandsPath()),
                      GuessesOf(forecaster.job()));
  const std::string& kind = forecaster.job().framework.framework.kind;
  const auto time = ErrorBands::Of(all.step_time, kind).second;
  const auto memory = ErrorBands::Of(all.peak_memory, kind).second;
  add("step_time_s", best.step_time_s, time.low, time.high);
  add("peak_memory_bytes", best.peak_memory_bytes, memory.low, memory.high);
  return bands;
}

std::string TableText(const Forecaster& forecaster, const Forecast& forecast,
                      const TextStyle& style) {
  constexpr const char* kColumns =
      "  {:>9} {:>4} {:>6} {:>6} {:>4} {:>4} {:>8}  ";
  std::string text =
      fmt::format(kColumns, "tok/s/GPU", "MFU", "s/step", "GB", "free", "fits",
                  "mb x size") +
      (style.details ? "layout: share of the step\n" : "layout\n");
  const std::vector<Layout> kinds = FastestOfKinds(forecast);
  for (const auto& [one, configurations] : Shown(kinds, style.most)) {
    const std::string numbers = fmt::format(
        kColumns, fmt::format("{:.0f}", one.tokens_per_s_per_gpu),
        Percent(one.mfu), fmt::format("{:.3g}", one.step_time_s),
        fmt::format("{:.1f}", one.peak_memory_bytes / kGiga),
        Percent(1.0 - one.peak_memory_bytes / forecast.capacity_bytes),
        Percent(one.fit_probability),
        fmt::format("{} x {}", one.config.microbatches,
                    MicroBatch(forecaster.job(), one.config)));
    const std::string shares =
        style.details
            ? ": " + ToString(SharesOf(forecaster.Report(one.config).busiest))
            : "";
    text += plots::WrapLines(numbers + LayoutName(one.config) + shares,
                             style.columns, numbers.size()) +
            "\n";
  }
  return text;
}

// What is known of the fastest configuration besides.
std::string DetailsText(const Forecaster& forecaster, const Forecast& forecast,
                        const Prediction& best) {
  return BandText(forecaster, best) + MemoryText(forecaster, best) +
         RobustnessText(forecaster, forecast) + ExpertsText(forecaster.job()) +
         ExcludedText(forecast);
}

}  // namespace

std::pair<double, double> StepBand(const Forecaster& forecaster,
                                   const Prediction& one) {
  const common::Json band = BandsJson(forecaster, one)["step_time_s"];
  return {band[0].get<double>() / one.step_time_s,
          band[1].get<double>() / one.step_time_s};
}

std::string SummaryText(const Forecaster& forecaster, const Forecast& forecast,
                        const Prediction& best) {
  const common::Json bands = BandsJson(forecaster, best);
  const auto band = [&bands](const char* name, double unit,
                             const char* more) -> std::string {
    return bands.contains(name)
               ? fmt::format(" ({:.3g} to {:.3g}{})",
                             bands[name][0].get<double>() / unit,
                             bands[name][1].get<double>() / unit, more)
               : "";
  };
  const Job& job = forecaster.job();
  const auto unknown =
      common::Map(GuessesOf(job), [&job](const trials::Guess& guess) {
        return guess.kind == "framework" ? job.framework.name : guess.what;
      });
  return fmt::format(
      "  {:.3g} s per step{}; {:.1f} of {:.1f} GB{}; {}\n", best.step_time_s,
      band("step_time_s", 1.0, " in nine of ten cases"),
      best.peak_memory_bytes / kGiga, forecast.capacity_bytes / kGiga,
      band("peak_memory_bytes", kGiga, ""),
      unknown.empty()
          ? "framework and GPU validated"
          : fmt::format("not validated: {}", fmt::join(unknown, ", ")));
}

// What a reader of high utilizations needs to know.
std::string MaskText(const trials::Workload& workload) {
  const double hidden =
      1.0 - LeastFlopPerToken(workload) / FlopPerToken(workload);
  return hidden < 0.1 ? ""
                      : fmt::format(
                            "MFU counts attention whole, as usual: {:.0f}% of "
                            "that work is what the causal mask hides\n",
                            100.0 * hidden);
}

std::string ForecastText(const Forecaster& forecaster, const Forecast& forecast,
                         const TextStyle& style) {
  const auto wrapped = [&style](const std::string& text) {
    return plots::WrapLines(text, style.columns);
  };
  const Job& job = forecaster.job();
  std::string text = fmt::format(
      "{}: {} layouts of {} configurations leave {:.0f}% of {:.1f} GB free{}\n",
      FrameworkLabel(job.framework), forecast.fitting_layouts,
      forecast.candidates, 100.0 * forecaster.options().headroom,
      forecast.capacity_bytes / kGiga,
      forecast.layouts.empty() ? "" : "; the fastest of each kind:");
  const std::string training = ToString(job.workload.training);
  text += training.empty() ? "" : fmt::format("training: {}\n", training);
  for (const std::string& note : job.notes) {
    text += fmt::format("note: {}\n", note);
  }
  if (forecast.layouts.empty()) {
    return wrapped(text + ExpertsText(job) + NothingFits(forecaster, forecast) +
                   ExcludedText(forecast));
  }
  const Prediction& best = forecast.layouts.front().best;
  return wrapped(text) + TableText(forecaster, forecast, style) +
         wrapped(MaskText(job.workload) +
                 fmt::format("fastest: {}\n", ToString(best.config)) +
                 SummaryText(forecaster, forecast, best) +
                 BatchText(forecaster, forecast)) +
         LaunchText(job, best.config, style.columns) +
         wrapped(style.details ? DetailsText(forecaster, forecast, best)
                               : harness::JobStatesOf(job.cluster));
}

namespace {

common::Json Lines(const std::string& text) {
  common::Json lines = common::Json::array();
  for (const std::string_view line : common::Split(text, '\n')) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace

common::Json ForecastJson(const Forecaster& forecaster,
                          const Forecast& forecast, int most) {
  const Job& job = forecaster.job();
  const auto& adapter = job.framework.adapter;
  const trials::Cluster& cluster = job.cluster;
  common::Json json = {
      {"framework", job.framework.name},
      {"adapter", adapter ? adapter->name() : ""},
      {"model", job.workload.name},
      {"parameters", ParameterCount(job.workload.model)},
      {"batch_size", job.workload.batch_size},
      {"sequence_length", job.workload.sequence_length},
      {"precision", PrecisionName(job.workload)},
      {"note", job.workload.model.note},
      {"training", ToString(job.workload.training)},
      {"not_validated", NotValidated(job.workload)},
      {"guess", common::Map(GuessesOf(job), &trials::Guess::what)},
      {"nodes", cluster.nodes},
      {"gpus_per_node", cluster.gpus_per_node},
      {"gpu", cluster.gpu.name},
      {"links", LinksText(cluster)},
      {"candidates", forecast.candidates},
      {"capacity_bytes", forecast.capacity_bytes},
      {"headroom", forecaster.options().headroom},
      {"layouts", common::Json::array()},
      {"excluded", common::Json::array()}};
  for (const Layout& layout : Shown(forecast.layouts, most)) {
    const trials::ParallelConfig& config = layout.best.config;
    common::Json row = {{"layout", LayoutName(config)},
                        {"config", ToString(config)},
                        {"micro_batch_size", MicroBatch(job, config)},
                        {"microbatches", config.microbatches},
                        {"configurations", layout.configurations}};
    row.update(LaunchJson(job, config));
    row.update(common::ToJson(layout.best));
    for (const auto& [name, share] :
         SharesOf(forecaster.Report(config).busiest)) {
      row["shares"][name] = share;
    }
    json["layouts"].push_back(row);
  }
  if (!forecast.layouts.empty()) {
    json["bands"] = BandsJson(forecaster, forecast.layouts.front().best);
  }
  json["advice"] =
      Lines(forecast.layouts.empty() ? NothingFits(forecaster, forecast)
                                     : RobustnessText(forecaster, forecast) +
                                           BatchText(forecaster, forecast));
  for (const Excluded& excluded : forecast.excluded) {
    json["excluded"].push_back(
        {{"reason", excluded.reason}, {"count", excluded.count}});
  }
  return json;
}

std::string ForecastCsvHeader() {
  const Prediction none;
  std::string text = fmt::format("framework,layout,configurations,{}",
                                 trials::BuiltInKnobs().Columns());
  VisitFields(none, [&text](const char* name, double /*value*/) {
    text += fmt::format(",{}", name);
  });
  return text + "\n";
}

std::string ForecastCsv(const Forecaster& forecaster, const Forecast& forecast,
                        int most) {
  std::string text;
  for (const Layout& layout : Shown(forecast.layouts, most)) {
    Prediction one = layout.best;
    one.config.micro_batch_size = MicroBatch(forecaster.job(), one.config);
    text += fmt::format("{},{},{},{}", forecaster.job().framework.name,
                        LayoutName(one.config), layout.configurations,
                        trials::BuiltInKnobs().Cells(one.config));
    VisitFields(one, [&text](const char* /*name*/, double value) {
      text += fmt::format(",{:.6g}", value);
    });
    text += "\n";
  }
  return text;
}

std::string ToString(const Calibration& calibration) {
  using harness::StepPart;
  const auto& factors = calibration.factors;
  std::string text = calibration.note;
  if (calibration.step_times > 0) {
    text += fmt::format(
        "calibrated on {} measured step times: computation x {:.3f}, launches "
        "x {:.3f}, communication in nodes x {:.3f}, between nodes x {:.3f}, "
        "messages x {:.3f}, remaining scatter {:.1f}%\n",
        calibration.step_times, factors[StepPart::kComputation],
        factors[StepPart::kLaunches], factors[StepPart::kInHosts],
        factors[StepPart::kNetwork], factors[StepPart::kMessages],
        100.0 * calibration.noise);
    constexpr double kUnexplained = 1.1;
    const double rest =
        calibration.Slowdown() / factors[StepPart::kComputation];
    if (rest > kUnexplained || rest < 1.0 / kUnexplained) {
      text += fmt::format(
          "note: the measured steps took {:.2f} times as long as this "
          "predicts: too few to tell whether these runs or all layouts do; "
          "measure another layout\n",
          rest);
    }
  }
  if (calibration.memory_log_stddev > 0.0) {
    text += fmt::format(
        "memory x {:.3f}, within {:.1f}%, by peaks, rows that ran and {} row{} "
        "out of memory\n",
        calibration.memory, 100.0 * calibration.memory_log_stddev,
        calibration.bounds, calibration.bounds == 1 ? "" : "s");
  }
  return text;
}

namespace {

double TokensPerSecond(const ScalePoint& point) {
  return point.size.gpus() * point.best->tokens_per_s_per_gpu;
}

// The hours of a billion tokens.
double HoursOf(const ScalePoint& point) {
  return kGiga / TokensPerSecond(point) / common::kSecondsPerHour;
}

double CostOf(const ScalePoint& point, const trials::Valuation& valuation) {
  return valuation.CostOf(kGiga / TokensPerSecond(point), point.size.gpus());
}

}  // namespace

std::string CostText(const ScalePoint& point,
                     const trials::Valuation& valuation) {
  const common::Json cost = CostJson(point, valuation);
  return cost.empty()
             ? ""
             : fmt::format(
                   "cost: {:.4g} per step, {:.2f} per billion tokens, at "
                   "{:.4g} per GPU hour\n",
                   cost["price_per_step"].get<double>(),
                   cost["price_per_billion_tokens"].get<double>(),
                   valuation.price_per_gpu_hour);
}

common::Json CostJson(const ScalePoint& point,
                      const trials::Valuation& valuation) {
  common::Json json = common::Json::object();
  if (point.best && valuation.CostOf(1.0, 1) > 0.0) {
    json["price_per_step"] =
        valuation.CostOf(point.best->step_time_s, point.size.gpus());
    json["price_per_billion_tokens"] = CostOf(point, valuation);
  }
  return json;
}

std::string ScaleText(const std::vector<ScalePoint>& points,
                      const trials::Valuation& valuation) {
  const bool priced = valuation.CostOf(1.0, 1) > 0.0;
  std::string text =
      fmt::format("  {:>6} {:>10} {:>9} {:>6} {:>5} {:>9}", "GPUs", "tok/s",
                  "tok/s/GPU", "effic.", "MFU", "h/B tok");
  text += priced ? fmt::format(" {:>9}", "cost/B") : "";
  text += "  layout\n";
  for (const ScalePoint& point : points) {
    const int gpus = point.size.gpus();
    if (!point.best) {
      text += fmt::format("  {:>6} {}\n", gpus, point.problem);
      continue;
    }
    text += fmt::format(
        "  {:>6} {:>10.0f} {:>9.0f} {:>5.0f}% {:>4.1f}% {:>9.3g}", gpus,
        TokensPerSecond(point), point.best->tokens_per_s_per_gpu,
        100.0 * point.efficiency, 100.0 * point.best->mfu, HoursOf(point));
    if (priced) {
      text += fmt::format(" {:>9.2f}", CostOf(point, valuation));
    }
    text += fmt::format("  {}\n", LayoutName(point.best->config));
  }
  return text;
}

common::Json ScaleJson(const std::vector<ScalePoint>& points,
                       const trials::Valuation& valuation) {
  common::Json json = common::Json::array();
  for (const ScalePoint& point : points) {
    common::Json row = {{"gpus", point.size.gpus()},
                        {"nodes", point.size.nodes},
                        {"guess", point.guesses}};
    if (point.best) {
      row["config"] = ToString(point.best->config);
      row["step_time_s"] = point.best->step_time_s;
      row["tokens_per_s"] = TokensPerSecond(point);
      row["efficiency"] = point.efficiency;
      row["mfu"] = point.best->mfu;
      row["hours_per_billion_tokens"] = HoursOf(point);
      row.update(CostJson(point, valuation));
    } else {
      row["problem"] = point.problem;
    }
    json.push_back(row);
  }
  return json;
}

}  // namespace jobs
