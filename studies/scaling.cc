#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/ranges.h"
#include "harness/testbeds/simulated.h"
#include "studies/verbs.h"
#include "trials/simulator/simulate_all.h"

namespace studies {
namespace {

using common::InputError;
using trials::ParallelConfig;

constexpr double kMicro = 1e-6;

// The results for one number of GPUs.
struct ScaleRow {
  int gpus = 0;
  int configs = 0;
  double best_s = 0.0;  // 0: nothing fits
  ParallelConfig best;
  double replica_s = 0.0;      // the fixed replica, copied
  double config_cost_s = 0.0;  // CPU time, in the course of the whole space
  double alone_cost_s = 0.0;   // by a simulator with an empty memo
};

trials::Cluster ScaledCluster(trials::Cluster cluster, int gpus) {
  if (gpus < 1 || gpus % cluster.gpus_per_node != 0) {
    throw InputError(
        fmt::format("--gpus {}: {} has {} GPUs per host; use a multiple", gpus,
                    cluster.name, cluster.gpus_per_node));
  }
  cluster.nodes = gpus / cluster.gpus_per_node;
  if (cluster.nodes > 1 && cluster.inter.bandwidth_bytes_per_s <= 0.0) {
    throw InputError(fmt::format(
        "--gpus {}: {} has no network between hosts; give its file an [inter] "
        "table, or use at most {}",
        gpus, cluster.name, cluster.gpus_per_node));
  }
  return cluster;
}

void SimulateSpace(const harness::SimulatorSetup& setup,
                   const trials::Cluster& cluster, ScaleRow& row) {
  trials::SearchSpaceOptions options = setup.space;
  options.gpus.clear();  // of this size alone
  const auto space =
      trials::SearchSpace::Enumerate(setup.workload, cluster.gpus(), options);
  const double begin_s = common::CpuSeconds();
  const auto reports = trials::SimulateAll(space.configs(), 1, [&] {
    return trials::Simulator(setup.workload, cluster, {*setup.framework});
  });
  row.configs = space.size();
  row.config_cost_s = (common::CpuSeconds() - begin_s) / row.configs;
  for (int i = 0; i < space.size(); ++i) {
    const trials::StepReport& report = reports[i];
    if (report.fits && (row.best_s == 0.0 || report.step_time_s < row.best_s)) {
      row.best_s = report.step_time_s;
      row.best = space[i];
    }
  }
}

// Eight GPUs to a replica of the model, each with its own part of a batch that
// grows with them: only the number of identical ranks changes.
void SimulateReplica(const harness::SimulatorSetup& setup,
                     const trials::Cluster& cluster, ScaleRow& row) {
  ParallelConfig config{.tp = 4, .pp = 2, .zero_stage = 0, .microbatches = 8};
  config.dp = std::max(1, cluster.gpus() / (config.tp * config.pp));
  config.zero_stage = config.dp > 1 ? 1 : 0;
  trials::Workload workload = setup.workload;
  workload.batch_size = config.dp * config.microbatches;
  constexpr int kTimes = 50;
  const double begin_s = common::CpuSeconds();
  for (int i = 0; i < kTimes; ++i) {
    row.replica_s = trials::Simulator(workload, cluster, {*setup.framework})
                        .Simulate(config)
                        .step_time_s;
  }
  row.alone_cost_s = (common::CpuSeconds() - begin_s) / kTimes;
}

plots::Figure ScaleFigure(const harness::SimulatorSetup& setup,
                          const std::vector<ScaleRow>& rows) {
  int style = 0;
  const auto line = [&](const std::string& label, double ScaleRow::*value,
                        double unit) {
    std::vector<double> gpus;
    std::vector<double> y;
    for (const ScaleRow& row : rows) {
      gpus.push_back(row.gpus);
      // 0: nothing to draw.
      y.push_back(row.*value > 0.0 ? row.*value / unit
                                   : std::numeric_limits<double>::quiet_NaN());
    }
    return Line(label, plots::ThinStyle(style++), gpus, y);
  };
  const auto panel = [](const std::string& name, const std::string& y_label,
                        std::vector<plots::Series> series) {
    plots::Panel drawn = PanelOver("gpus", "GPUs", y_label, std::move(series));
    drawn.name = name;
    drawn.log_x = drawn.log_y = true;
    return drawn;
  };
  // In the order of their styles.
  const std::vector<plots::Series> lines = {
      line(fmt::format("fastest, batch {}", setup.workload.batch_size),
           &ScaleRow::best_s, 1.0),
      line("tp 4, pp 2 copied, 8 x dp", &ScaleRow::replica_s, 1.0),
      line("simulated with its whole space", &ScaleRow::config_cost_s, kMicro),
      line("simulated alone", &ScaleRow::alone_cost_s, kMicro)};
  return {.name = "scale",
          .title = setup.workload.name,
          .panels = {panel("step", "step (s)", {lines[0], lines[1]}),
                     panel("cost", "CPU time per configuration (us)",
                           {lines[2], lines[3]})}};
}

Output OutputOf(const harness::ProblemSpec& problem,
                const std::vector<int>& gpus) {
  const harness::SimulatorSetup setup = harness::ReadSimulatorSetup(problem);
  if (setup.mixed()) {
    problem.cluster.Fail("file",
                         fmt::format("this study scales a cluster of one GPU "
                                     "type: choose one, group = \"{}\"",
                                     setup.cluster().name));
  }
  const auto clusters = common::Map(
      gpus, [&](int count) { return ScaledCluster(setup.cluster(), count); });
  const double tokens = static_cast<double>(setup.workload.batch_size) *
                        setup.workload.sequence_length;
  Output output{.name = "scale",
                .conclusion = fmt::format(
                    "{} x {} tokens on {} like those of {}.",
                    setup.workload.batch_size, setup.workload.sequence_length,
                    setup.cluster().gpu.name, setup.cluster().name)};
  std::vector<ScaleRow> rows;
  for (const trials::Cluster& cluster : clusters) {
    ScaleRow& row = rows.emplace_back();
    row.gpus = cluster.gpus();
    SimulateReplica(setup, cluster, row);
    SimulateSpace(setup, cluster, row);
    const bool fits = row.best_s > 0.0;
    output.table.Add(
        {{"GPUs", row.gpus},
         {"PCs", row.configs},
         {"best (s)", plots::Rounded(row.best_s, 4)},
         {"tokens/s/GPU",
          plots::Fixed(fits ? tokens / (row.best_s * row.gpus) : 0.0, 0)},
         {"replica (s)", plots::Rounded(row.replica_s, 4)},
         {"us/PC", plots::Fixed(row.config_cost_s, 2, 1.0 / kMicro)},
         {"us alone", plots::Fixed(row.alone_cost_s, 1, 1.0 / kMicro)},
         {"best PC", fits ? ToString(row.best) : "nothing fits"}});
  }
  output.figures = {ScaleFigure(setup, rows)};
  return output;
}

}  // namespace

int Scale(const StudyOptions& options, const ScaleOptions& scale,
          const Sink& sink) {
  std::vector<int> gpus = scale.gpus;
  for (int count = 8; scale.gpus.empty() && count <= 16384; count *= 2) {
    gpus.push_back(count);
  }
  return WriteEach(
      options, "scale",
      [&](const auto& problem) { return OutputOf(problem, gpus); }, sink);
}

}  // namespace studies
