// Strategies per second on the problems of Astra's Table 1.
//
//   astra_table1 EXPERIMENTS_FOLDER [THREADS]
//
// For each model and number of GPUs of that table: the strategies that its
// Table 3 spans (every tp, pp, dp; microbatches of 1 to 8 sequences; layers of
// a virtual stage; sequence parallelism; distributed optimizer; selective
// recomputation, or whole layers of every stage, 1 to all of them), how many
// fit, the seconds to list and to simulate them all, and strategies per CPU
// second, next to the values that Astra printed.
//
// Astra's batch is not printed (1024 sequences here), nor is the shape of its
// GLM-67B (here the shape of the 65B Llama with GLM's vocabulary), nor how many
// values of each parameter were listed: the counts differ from its own. It ran
// on A800 GPUs, eight to a host; A100 80 GB here.
// Source: Astra, Table 1, Table 3.

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/stopwatch.h"
#include "trials/cluster.h"
#include "trials/simulator/simulate_all.h"
#include "trials/workload.h"

namespace trials {
namespace {

// A row of Astra's Table 1: strategies, and seconds to simulate them.
struct Published {
  const char* model;
  int gpus;
  int strategies;
  double simulation_s;
};

constexpr std::array<Published, 28> kTable1 = {{
    {"llama-2-7b", 64, 23348, 49.7},    {"llama-2-7b", 256, 14372, 43.5},
    {"llama-2-7b", 1024, 8856, 41.8},   {"llama-2-7b", 4096, 4700, 33.0},
    {"llama-2-13b", 64, 23400, 58.1},   {"llama-2-13b", 256, 13552, 49.9},
    {"llama-2-13b", 1024, 8920, 51.0},  {"llama-2-13b", 4096, 4720, 44.1},
    {"llama-2-70b", 64, 53264, 68.8},   {"llama-2-70b", 256, 31440, 57.7},
    {"llama-2-70b", 1024, 20152, 57.4}, {"llama-2-70b", 4096, 10948, 63.2},
    {"llama-3-8b", 64, 23348, 48.3},    {"llama-3-8b", 256, 14372, 42.0},
    {"llama-3-8b", 1024, 8856, 40.9},   {"llama-3-8b", 4096, 4700, 32.7},
    {"llama-3-70b", 64, 53264, 66.8},   {"llama-3-70b", 256, 31440, 56.3},
    {"llama-3-70b", 1024, 20152, 55.5}, {"llama-3-70b", 4096, 10948, 62.4},
    {"glm-67b", 64, 20528, 19.3},       {"glm-67b", 256, 12132, 16.6},
    {"glm-67b", 1024, 7948, 16.9},      {"glm-67b", 4096, 4196, 21.3},
    {"glm-130b", 64, 33540, 22.4},      {"glm-130b", 256, 18776, 17.2},
    {"glm-130b", 1024, 11976, 16.7},    {"glm-130b", 4096, 6040, 19.2},
}};

constexpr int kBatch = 1024;

// A configuration, or the plan in which every stage recomputes some of its
// layers and the attention of the others.
struct Strategy {
  ParallelConfig config;
  int recomputed_layers = 0;  // > 0: of every stage

  [[nodiscard]] bool partly() const { return recomputed_layers > 0; }
};

// The strategies of given sizes and microbatches.
void AddStrategies(const Model& model, const ParallelConfig& sizes,
                   std::vector<Strategy>& strategies) {
  const int layers = model.layers / sizes.pp;
  for (int chunks = 1; chunks <= (sizes.pp > 1 ? layers : 1); ++chunks) {
    if (layers % chunks != 0 ||
        (chunks > 1 && sizes.microbatches % sizes.pp != 0)) {
      continue;
    }
    for (int sp = 0; sp <= (sizes.tp > 1 ? 1 : 0); ++sp) {
      for (int zero = 0; zero <= (sizes.dp > 1 ? 1 : 0); ++zero) {
        ParallelConfig config = sizes;
        config.model_chunks = chunks;
        config.overlap_p2p = chunks > 1;
        config.sp = sp != 0 ? sizes.tp : 1;
        config.zero_stage = zero;
        config.overlap_zero_allgather = zero > 0;
        config.grad_checkpoint = kRecomputeFull;
        strategies.push_back({config, 0});
        config.grad_checkpoint = kRecomputeSelective;
        for (int recomputed = 0; recomputed < layers; ++recomputed) {
          strategies.push_back({config, recomputed});
        }
      }
    }
  }
}

std::vector<Strategy> ListStrategies(const Model& model, int gpus) {
  std::vector<Strategy> strategies;
  for (int tp = 1; tp <= gpus; ++tp) {
    if (gpus % tp != 0 || model.attention_heads % tp != 0 ||
        model.kv_heads % tp != 0) {
      continue;
    }
    for (int pp = 1; pp <= gpus / tp; ++pp) {
      if (gpus / tp % pp != 0 || model.layers % pp != 0) {
        continue;
      }
      ParallelConfig config;
      config.tp = tp;
      config.pp = pp;
      config.dp = gpus / (tp * pp);
      for (int sequences = 1; sequences <= 8; sequences *= 2) {
        if (kBatch % (config.dp * sequences) != 0) {
          continue;
        }
        config.microbatches = kBatch / (config.dp * sequences);
        if (config.microbatches >= pp) {
          AddStrategies(model, config, strategies);
        }
      }
    }
  }
  return strategies;
}

StepReport SimulateStrategy(const Simulator& simulator,
                            const Strategy& strategy, int layers) {
  if (!strategy.partly()) {
    return simulator.Simulate(strategy.config);
  }
  Plan plan = UniformPlan(strategy.config, layers);
  for (PlanStage& stage : plan.stages) {
    stage.recomputed_layers = strategy.recomputed_layers;
  }
  return simulator.Simulate(plan);
}

void RunRow(const Published& row, const std::filesystem::path& experiments,
            int threads) {
  Workload workload;
  workload.model =
      ReadModel(experiments / "workloads" / (std::string(row.model) + ".json"));
  workload.batch_size = kBatch;
  workload.sequence_length = 2048;
  Cluster cluster =
      ReadCluster(experiments / "clusters" / "a100-80gb-vtrain.toml");
  cluster.nodes = row.gpus / cluster.gpus_per_node;
  Simulator::Options options;
  options.framework.fused_operators = true;
  options.framework.fp32_gradients = true;

  const benchmarks::Stopwatch watch;
  const std::vector<Strategy> strategies =
      ListStrategies(workload.model, row.gpus);
  const double listing_s = watch.wall_s();
  std::vector<StepReport> reports(strategies.size());
  ForAll(
      static_cast<int>(strategies.size()), threads,
      [&] { return Simulator(workload, cluster, options); },
      [&](const Simulator& simulator, int i) {
        const auto at = static_cast<std::size_t>(i);
        reports[at] =
            SimulateStrategy(simulator, strategies[at], workload.model.layers);
      });
  const double cpu_s = watch.cpu_s();
  const double simulation_s = watch.wall_s() - listing_s;
  std::size_t best = reports.size();
  int fit = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].fits) {
      ++fit;
      best = best == reports.size() ||
                     reports[i].step_time_s < reports[best].step_time_s
                 ? i
                 : best;
    }
  }
  fmt::print(
      "{:<12} {:>5} {:>10} {:>8} {:>7.3f} {:>8.2f} {:>7.2f} {:>10.0f}"
      "   {:>6} {:>6.1f} {:>5.0f}   {}\n",
      row.model, row.gpus, strategies.size(), fit, listing_s, simulation_s,
      cpu_s, static_cast<double>(strategies.size()) / cpu_s, row.strategies,
      row.simulation_s, row.strategies / row.simulation_s,
      best < reports.size() ? ToString(strategies[best].config)
                            : "nothing fits");
}

int Main(const std::filesystem::path& experiments, int threads) {
  fmt::print(
      "{:<12} {:>5} {:>10} {:>8} {:>7} {:>8} {:>7} {:>10}   {:>20}   {}\n",
      "model", "GPUs", "strategies", "fit", "list s", "simul. s", "CPU s",
      "/CPU s", "Astra:  n, s, n/s", "the fastest that fits");
  for (const Published& row : kTable1) {
    RunRow(row, experiments, threads);
  }
  fmt::print(
      "\nper CPU second, measured on a machine like the one this was written "
      "on: Astra 460 to 710, Calculon 72 to 254, Aceso 52 to 125\n");
  return 0;
}

}  // namespace
}  // namespace trials

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: astra_table1 EXPERIMENTS_FOLDER [THREADS]\n");
    return 2;
  }
  try {
    const int threads =
        argc > 2 ? std::atoi(argv[2])
                 : static_cast<int>(std::thread::hardware_concurrency());
    return trials::Main(argv[1], threads);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
