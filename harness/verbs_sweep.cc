#include "harness/verbs_sweep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/backends.h"
#include "harness/clock.h"
#include "plots/line_chart.h"
#include "trials/measurement.h"
#include "trials/simulator/simulate_all.h"
#include "trials/text.h"

namespace harness {
namespace {

using trials::InputError;
using trials::ParallelConfig;

constexpr double kMicro = 1e-6;

// The folder of a figure: results/<verb>/<manifest>[/<problem>].
std::filesystem::path FolderOf(const VerbOptions& options,
                               std::string_view verb,
                               const ProblemSpec& problem) {
  return options.results / verb / options.manifest.stem() / problem.name;
}

void Draw(std::string_view verb,
          const std::filesystem::path& folder,
          const std::vector<plots::LineChart>& charts) {
  const std::string error = plots::WriteLineCharts(folder, charts);
  if (error.empty()) {
    fmt::print("figures in {}\n", folder.string());
  } else {
    fmt::print(stderr, "{}: {}: {}\n", verb, folder.string(), error);
  }
}

// --- scale -----------------------------------------------------------------

// What is found on one number of GPUs.
struct ScaleRow {
  int gpus = 0;
  int configs = 0;
  double best_s = 0.0;  // 0: nothing fits
  ParallelConfig best;
  double replica_s = 0.0;      // the fixed replica, copied
  double config_cost_s = 0.0;  // CPU time, in the course of the whole space
  double alone_cost_s = 0.0;   // by a simulator that knows nothing yet
};

trials::Cluster WithGpus(trials::Cluster cluster, int gpus) {
  if (gpus < 1 || gpus % cluster.gpus_per_node != 0) {
    throw InputError(
        fmt::format("--gpus {}: {} has {} GPUs to a host; ask for a multiple",
                    gpus,
                    cluster.name,
                    cluster.gpus_per_node));
  }
  cluster.nodes = gpus / cluster.gpus_per_node;
  if (cluster.nodes > 1 && cluster.inter.bandwidth_bytes_per_s <= 0.0) {
    throw InputError(fmt::format(
        "--gpus {}: {} has no network between hosts; give its file an [inter] "
        "table, or ask for at most {}",
        gpus,
        cluster.name,
        cluster.gpus_per_node));
  }
  return cluster;
}

void SimulateSpace(const SimulatorSetup& setup,
                   const trials::Cluster& cluster,
                   ScaleRow& row) {
  const auto space = trials::SearchSpace::Enumerate(
      setup.workload, cluster.gpus(), setup.space);
  const double begin_s = CpuSeconds();
  const auto reports = trials::SimulateAll(space.configs(), 1, [&] {
    return trials::Simulator(setup.workload, cluster);
  });
  row.configs = space.size();
  row.config_cost_s = (CpuSeconds() - begin_s) / row.configs;
  for (int i = 0; i < space.size(); ++i) {
    const trials::StepReport& report = reports[static_cast<std::size_t>(i)];
    if (report.fits && (row.best_s == 0.0 || report.step_time_s < row.best_s)) {
      row.best_s = report.step_time_s;
      row.best = space[i];
    }
  }
}

// Eight GPUs to a replica of the model, each with its own part of a batch that
// grows with them: only the number of identical ranks changes.
void SimulateReplica(const SimulatorSetup& setup,
                     const trials::Cluster& cluster,
                     ScaleRow& row) {
  ParallelConfig config{.tp = 4, .pp = 2, .zero_stage = 0, .microbatches = 8};
  config.dp = std::max(1, cluster.gpus() / (config.tp * config.pp));
  config.zero_stage = config.dp > 1 ? 1 : 0;
  trials::Workload workload = setup.workload;
  workload.batch_size = config.dp * config.microbatches;
  constexpr int kTimes = 50;
  const double begin_s = CpuSeconds();
  for (int i = 0; i < kTimes; ++i) {
    row.replica_s =
        trials::Simulator(workload, cluster).Simulate(config).step_time_s;
  }
  row.alone_cost_s = (CpuSeconds() - begin_s) / kTimes;
}

plots::LineChart ScaleChart(const SimulatorSetup& setup,
                            const std::vector<ScaleRow>& rows) {
  plots::ChartLine best{
      fmt::format("fastest, batch {}", setup.workload.batch_size), {}, {}, 0};
  plots::ChartLine replica{"tp 4, pp 2 copied, 8 x dp", {}, {}, 1};
  plots::ChartLine whole{"among its whole space", {}, {}, 0};
  plots::ChartLine alone{"alone", {}, {}, 1};
  const auto add = [](plots::ChartLine& line, int gpus, double y) {
    if (y > 0.0) {
      line.x.push_back(gpus);
      line.y.push_back(y);
    }
  };
  for (const ScaleRow& row : rows) {
    add(best, row.gpus, row.best_s);
    add(replica, row.gpus, row.replica_s);
    add(whole, row.gpus, row.config_cost_s / kMicro);
    add(alone, row.gpus, row.alone_cost_s / kMicro);
  }
  return {"scale",
          {{setup.workload.name,
            "GPUs",
            "step (s)",
            true,
            true,
            {std::move(best), std::move(replica)}},
           {"cost of simulating one configuration",
            "GPUs",
            "CPU time (us)",
            true,
            true,
            {std::move(whole), std::move(alone)}}}};
}

void ScaleProblem(const VerbOptions& options,
                  const ProblemSpec& problem,
                  const std::vector<int>& gpus) {
  const SimulatorSetup setup = ReadSimulatorSetup(problem);
  std::vector<trials::Cluster> clusters;
  for (const int count : gpus) {
    clusters.push_back(WithGpus(setup.cluster, count));
  }
  fmt::print("{} x {} tokens on {} like those of {}\n",
             setup.workload.batch_size,
             setup.workload.sequence_length,
             setup.cluster.gpu.name,
             setup.cluster.name);
  fmt::print("{:>6} {:>8} {:>9} {:>12} {:>11} {:>9} {:>9}  {}\n",
             "GPUs",
             "PCs",
             "best (s)",
             "tokens/s/GPU",
             "replica (s)",
             "us/PC",
             "us alone",
             "best PC");
  std::vector<ScaleRow> rows;
  for (const trials::Cluster& cluster : clusters) {
    const int count = cluster.gpus();
    ScaleRow& row = rows.emplace_back();
    row.gpus = count;
    SimulateReplica(setup, cluster, row);
    SimulateSpace(setup, cluster, row);
    const double tokens = static_cast<double>(setup.workload.batch_size) *
                          setup.workload.sequence_length;
    fmt::print(
        "{:>6} {:>8} {:>9.4g} {:>12.0f} {:>11.4g} {:>9.2f} {:>9.1f}  {}\n",
        row.gpus,
        row.configs,
        row.best_s,
        row.best_s > 0.0 ? tokens / (row.best_s * count) : 0.0,
        row.replica_s,
        row.config_cost_s / kMicro,
        row.alone_cost_s / kMicro,
        row.best_s > 0.0 ? ToString(row.best) : "nothing fits");
  }
  Draw("scale", FolderOf(options, "scale", problem), {ScaleChart(setup, rows)});
}

// --- noise -----------------------------------------------------------------

struct NoisyTrial {
  ParallelConfig config;
  std::vector<double> step_times_s;
};

// A configuration that fits, of a cell of sizes that is not yet drawn if there
// is one; -1 if the cell has none.
int DrawFitting(const Backend& backend,
                const std::vector<int>& cell,
                std::mt19937_64& random) {
  std::vector<int> fitting;
  for (const int i : cell) {
    if (backend.exact->ExactThroughput((*backend.space)[i]).value_or(0.0) >
        0.0) {
      fitting.push_back(i);
    }
  }
  return fitting.empty() ? -1 : fitting[random() % fitting.size()];
}

// Trials of configurations drawn among those that fit, of different sizes.
std::vector<NoisyTrial> RunTrials(const Backend& backend,
                                  const NoiseVerbOptions& noise) {
  std::mt19937_64 random(static_cast<std::uint64_t>(noise.seed));
  std::vector<std::vector<int>> cells = backend.space->cells();
  std::vector<NoisyTrial> drawn;
  while (!cells.empty() && std::ssize(drawn) < noise.trials) {
    const auto which =
        cells.begin() + static_cast<std::ptrdiff_t>(random() % cells.size());
    const int candidate = DrawFitting(backend, *which, random);
    cells.erase(which);
    if (candidate < 0) {
      continue;
    }
    NoisyTrial& trial = drawn.emplace_back();
    trials::TrialRequest request;
    request.config = trial.config = (*backend.space)[candidate];
    request.max_steps = noise.steps;
    request.seed = random();
    trial.step_times_s = backend.runner->Run(request).step_times_s;
  }
  if (drawn.empty()) {
    throw InputError("noise: no configuration of the problem fits");
  }
  return drawn;
}

double EstimatedStep(const std::vector<double>& step_times_s,
                     double outlier_iqr) {
  trials::ThroughputOptions options;
  options.outlier_iqr = outlier_iqr;
  return 1.0 / trials::EstimateThroughput(step_times_s, options).steps_per_s;
}

std::string ShortLabel(const ParallelConfig& config) {
  return fmt::format("dp {}, tp {}, pp {}", config.dp, config.tp, config.pp);
}

// Fig. 3: every step, and what the throughput is taken for.
plots::LineChart StepsChart(const std::vector<NoisyTrial>& drawn) {
  plots::ChartPanel panel{"", "training step", "time (s)", false, false, {}};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto& times = drawn[i].step_times_s;
    const int style = static_cast<int>(i);
    plots::ChartLine line{ShortLabel(drawn[i].config), {}, times, style};
    for (std::size_t step = 1; step <= times.size(); ++step) {
      line.x.push_back(static_cast<double>(step));
    }
    const double estimate_s =
        EstimatedStep(times, trials::ThroughputOptions{}.outlier_iqr);
    panel.lines.push_back(std::move(line));
    panel.lines.push_back({"",
                           {1.0, static_cast<double>(times.size())},
                           {estimate_s, estimate_s},
                           style,
                           true});
  }
  return {"noise-steps", {std::move(panel)}};
}

// Fig. 10: the mean against the threshold, relative to the one in use.
plots::LineChart ThresholdChart(const std::vector<NoisyTrial>& drawn) {
  plots::ChartPanel panel{"",
                          "threshold (inter-quartile ranges)",
                          "mean step time / that at 2",
                          false,
                          false,
                          {}};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    plots::ChartLine line{
        ShortLabel(drawn[i].config), {}, {}, static_cast<int>(i)};
    const double usual_s = EstimatedStep(
        drawn[i].step_times_s, trials::ThroughputOptions{}.outlier_iqr);
    for (int quarter = 2; quarter <= 24; ++quarter) {
      const double threshold = 0.25 * quarter;
      line.x.push_back(threshold);
      line.y.push_back(EstimatedStep(drawn[i].step_times_s, threshold) /
                       usual_s);
    }
    panel.lines.push_back(std::move(line));
  }
  return {"noise-threshold", {std::move(panel)}};
}

// Fig. 15: the estimate after so many steps.
plots::LineChart LengthChart(const std::vector<NoisyTrial>& drawn) {
  plots::LineChart chart{"noise-length", {}};
  for (const NoisyTrial& trial : drawn) {
    plots::ChartPanel panel{ShortLabel(trial.config),
                            "training step",
                            "time (s)",
                            false,
                            false,
                            {}};
    plots::ChartLine steps{"step", {}, {}, 0};
    plots::ChartLine estimate{"1 / throughput so far", {}, {}, 1, true};
    for (std::size_t step = 1; step < trial.step_times_s.size(); ++step) {
      // The first step would hide all others.
      steps.x.push_back(static_cast<double>(step + 1));
      steps.y.push_back(trial.step_times_s[step]);
      const std::vector<double> so_far(
          trial.step_times_s.begin(),
          trial.step_times_s.begin() + static_cast<std::ptrdiff_t>(step) + 1);
      estimate.x.push_back(static_cast<double>(step + 1));
      estimate.y.push_back(
          EstimatedStep(so_far, trials::ThroughputOptions{}.outlier_iqr));
    }
    panel.lines = {std::move(steps), std::move(estimate)};
    chart.panels.push_back(std::move(panel));
  }
  return chart;
}

}  // namespace

int Scale(const VerbOptions& options, const ScaleOptions& scale) {
  std::vector<int> gpus = scale.gpus;
  for (int count = 8; scale.gpus.empty() && count <= 16384; count *= 2) {
    gpus.push_back(count);
  }
  const Manifest manifest = ReadManifest(options.manifest, options.overrides);
  for (const ProblemSpec& problem : manifest.problems) {
    ScaleProblem(options, problem, gpus);
  }
  return 0;
}

int Noise(const VerbOptions& options, const NoiseVerbOptions& noise) {
  const Manifest manifest = ReadManifest(options.manifest, options.overrides);
  for (const ProblemSpec& problem : manifest.problems) {
    const Backend backend = MakeBackend(problem);
    const std::vector<NoisyTrial> drawn = RunTrials(backend, noise);
    fmt::print("{}: {} trials of {} steps\n{:>10} {:>10} {:>10} {:>12}  {}\n",
               backend.description,
               drawn.size(),
               noise.steps,
               "first (s)",
               "median (s)",
               "estimate",
               "after 5 (%)",
               "PC");
    for (const NoisyTrial& trial : drawn) {
      std::vector<double> sorted = trial.step_times_s;
      std::sort(sorted.begin(), sorted.end());
      const double iqr = trials::ThroughputOptions{}.outlier_iqr;
      const double all_s = EstimatedStep(trial.step_times_s, iqr);
      const std::vector<double> five(
          trial.step_times_s.begin(),
          trial.step_times_s.begin() +
              std::min<std::ptrdiff_t>(5, std::ssize(trial.step_times_s)));
      fmt::print("{:>10.4g} {:>10.4g} {:>10.4g} {:>+12.2f}  {}\n",
                 trial.step_times_s.front(),
                 sorted[sorted.size() / 2],
                 all_s,
                 100.0 * (EstimatedStep(five, iqr) / all_s - 1.0),
                 ToString(trial.config));
    }
    Draw("noise",
         FolderOf(options, "noise", problem),
         {StepsChart(drawn), ThresholdChart(drawn), LengthChart(drawn)});
  }
  return 0;
}

}  // namespace harness
