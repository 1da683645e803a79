#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/units.h"
#include "planners/aceso/baselines.h"
#include "planners/aceso/search.h"
#include "planners/alpa/alpa.h"
#include "studies/planners/planners.h"

namespace studies {
namespace {

using planners::AcesoOptions;
using planners::AcesoResult;
using planners::AcesoStart;
using planners::OperatorModel;
using plots::Figures;

constexpr int kBatch = 1024;
constexpr int kBudget = 1000;  // plans per number of stages

// The problems of the paper, V100-32GB with 8 GPUs per host. T5-22B has the
// operators of T5-11B, as in the published program.
struct Problem {
  const char* name;  // in the profiles
  const char* label;
  int layers;
  int gpus;
  int cut_every;  // of the dynamic programming, for its time; 0: left out
};
constexpr std::array kProblems = {
    Problem{"gpt_350M", "GPT-3 0.35B", 24, 1, 0},
    Problem{"gpt_1_3B", "GPT-3 1.3B", 24, 4, 2},
    Problem{"gpt_2_6B", "GPT-3 2.6B", 32, 8, 4},
    Problem{"gpt_6_7B", "GPT-3 6.7B", 32, 16, 13},
    Problem{"gpt_13B", "GPT-3 13B", 40, 32, 13},
    Problem{"resnet_500M", "Wide-ResNet 0.5B", 1, 1, 0},
    Problem{"resnet_2B", "Wide-ResNet 2B", 1, 4, 0},
    Problem{"resnet_4B", "Wide-ResNet 4B", 1, 8, 0},
    Problem{"resnet_6_8B", "Wide-ResNet 6.8B", 1, 16, 0},
    Problem{"resnet_13B", "Wide-ResNet 13B", 1, 32, 0},
    Problem{"t5_770M", "T5 0.77B", 24, 1, 0},
    Problem{"t5_3B", "T5 3B", 24, 4, 0},
    Problem{"t5_6B", "T5 6B", 24, 8, 0},
    Problem{"t5_11B", "T5 11B", 24, 16, 0},
    Problem{"t5_11B", "T5 22B", 48, 32, 0},
};

// Wide-ResNet trains in 32 bits on 1,536 images, the others in 16 bits.
OperatorModel ModelOf(const std::filesystem::path& folder, const char* name,
                      int layers, int gpus) {
  planners::OperatorJob job{.layers = layers,
                            .batch = kBatch,
                            .gpus = gpus,
                            .gpus_per_node = std::min(gpus, 8),
                            .memory_limit_mb = 28'000.0};
  if (layers == 1) {
    job.batch = 1536;
    job.copies = {.master = 0.0, .optimizer = 2.0};
  }
  return {
      planners::OperatorTable::Read(folder / "aceso_v100_op_profiles.csv",
                                    name),
      planners::LinkTable::Read(folder / "aceso_v100_collectives.csv", name),
      job};
}

OperatorModel ModelOf(const std::filesystem::path& folder,
                      const Problem& problem) {
  return ModelOf(folder, problem.name, problem.layers, problem.gpus);
}

// Infinite where no plan fits.
double SecondsOf(const std::optional<planners::CostedPlan>& plan) {
  return plan ? plan->cost.iteration_ms * 1e-3 : common::kInfinity;
}
double SecondsOf(const AcesoResult& result) {
  return result.best.empty() ? common::kInfinity
                             : result.best.front().cost.iteration_ms * 1e-3;
}

// The best plan that a search had when each of its parts had explored so many.
double SecondsAfter(const AcesoResult& result, int explored) {
  double best_ms = common::kInfinity;
  for (const planners::AcesoTrace& trace : result.traces) {
    for (const planners::AcesoProgress& each : trace.progress) {
      if (each.explored <= explored) {
        best_ms = std::min(best_ms, each.iteration_ms);
      }
    }
  }
  return best_ms * 1e-3;
}

// How many times as fast as the baseline; "none" where a plan is missing.
plots::Cell SpeedUp(double baseline_s, double seconds) {
  return Decimals(std::isfinite(seconds) ? baseline_s / seconds
                                         : common::kInfinity);
}

// The CPU seconds of a call, and what it returns.
template <typename Call>
auto Timed(const Call& call) {
  const double start = common::CpuSeconds();
  auto result = call();
  return std::pair(std::move(result), common::CpuSeconds() - start);
}

// Estimates, ours and published, of 15 models next to those of the baselines,
// and the cost of the searches: Exps. 1, 2, 4.
std::vector<Output> AcesoSearches(const std::filesystem::path& folder) {
  const Published published("aceso");
  Output throughput{.name = "aceso_throughput"};
  Output cost{.name = "aceso_search_cost"};
  for (const Problem& problem : kProblems) {
    const OperatorModel model = ModelOf(folder, problem);
    const auto [aceso, cpu_s] =
        Timed([&] { return SearchAceso(model, {.budget = kBudget}); });
    const auto [alpa, alpa_s] =
        Timed([&] { return planners::AlpaPlan(model); });
    const double seconds = SecondsOf(aceso);
    const double grid_s = SecondsOf(planners::MegatronGrid(model).best);
    const auto text = [&](const char* place, const char* series) {
      return Figures(published.Text(place, series, problem.label));
    };
    throughput.table.Add(
        {{"model", problem.label},
         {"GPUs", problem.gpus},
         {"published estimate (s)", text("Fig. 15", "predicted")},
         {"ours (s)", Decimals(seconds)},
         {"Megatron grid (s)", Decimals(grid_s)},
         {"Alpa's two levels (s)", Decimals(SecondsOf(alpa.best))},
         {"Aceso / Megatron-LM, published", text("Fig. 7", "Aceso")},
         {"here", SpeedUp(grid_s, seconds)},
         {"Alpa / Megatron-LM, published", text("Fig. 7", "Alpa")},
         {"here", SpeedUp(grid_s, SecondsOf(alpa.best))}});
    plots::Row row = {{"model", problem.label},
                      {"search (s), published", text("Fig. 8", "Aceso")},
                      {"CPU seconds here", Decimals(cpu_s)},
                      {"plans explored", aceso.explored()},
                      {"Alpa's search (s), published", text("Fig. 8", "Alpa")},
                      {"CPU seconds of its two levels", Decimals(alpa_s)}};
    std::optional<planners::BaselineResult> program;
    if (problem.cut_every > 0) {
      program =
          planners::DynamicProgramming(model, {.cut_every = problem.cut_every});
    }
    row.emplace_back(
        "dynamic programming (s)",
        program ? Decimals(SecondsOf(program->best)) : Figures(""));
    row.emplace_back("its stages",
                     program ? plots::Cell(program->explored) : Figures(""));
    row.emplace_back("its plans, published",
                     text("Fig. 10", "dynamic programming, explored"));
    cost.table.Add(std::move(row));
  }
  throughput.conclusion = fmt::format(
      "Estimated time per iteration on V100, at most 28,000 MB, and throughput "
      "relative to the fastest plan of Megatron-LM. The published throughputs "
      "were measured; on one GPU, all systems ran Alpa's plan. Ours explores "
      "{} plans per number of stages.",
      kBudget);
  cost.conclusion =
      "The published searches ran on all CPU cores, ours on one; profiling is "
      "not included, but for Alpa's.";
  return {std::move(throughput), std::move(cost)};
}

// 8 to 1,024 layers on 8 GPUs: Exp. 3.
Output AcesoLayers(const std::filesystem::path& folder) {
  const Published published("aceso");
  Output output{.name = "aceso_layers"};
  for (int layers = 8; layers <= 1024; layers *= 2) {
    const OperatorModel model = ModelOf(folder, "gpt_scale-layer", layers, 8);
    const auto [aceso, cpu_s] =
        Timed([&] { return SearchAceso(model, {.budget = 300}); });
    const double grid_s = SecondsOf(planners::MegatronGrid(model).best);
    const auto text = [&](const char* series) {
      return Figures(
          published.Text("Fig. 9", series, fmt::format("{} layers", layers)));
    };
    output.table.Add({{"layers", layers},
                      {"operators", model.operators()},
                      {"Aceso (sequences/s), published", text("Aceso")},
                      {"here", Decimals(kBatch / SecondsOf(aceso))},
                      {"Megatron-LM, published", text("Megatron-LM")},
                      {"here", Decimals(kBatch / grid_s)},
                      {"Alpa, published", text("Alpa")},
                      {"search (s), published", text("Aceso, search")},
                      {"CPU seconds here", Decimals(cpu_s)},
                      {"plans explored", aceso.explored()}});
  }
  output.conclusion =
      "Eight V100, 1,024 sequences per iteration; 300 plans per number of "
      "stages. Published throughputs were measured, ours are estimates.";
  return output;
}

void AddHopShares(const AcesoResult& result, plots::Row& row) {
  double first = 0.0;
  double several = 0.0;
  double count = 0.0;
  for (const planners::AcesoTrace& trace : result.traces) {
    for (std::size_t i = 0; i < trace.hops.size(); ++i) {
      count += 1.0;
      first += trace.bottlenecks[i] == 1 ? 1.0 : 0.0;
      several += trace.hops[i] > 1 ? 1.0 : 0.0;
    }
  }
  row.emplace_back("first bottleneck improves (%)",
                   Decimals(100.0 * first / count, 0));
  row.emplace_back("more than one hop (%)",
                   Decimals(100.0 * several / count, 0));
}

using SearchVariant = std::pair<const char*, AcesoOptions>;

// The lines of an experiment of these: the plan against the plans explored.
struct Convergence {
  const char* name;
  const char* title;
  std::vector<std::size_t> variants;
};

// A panel of each experiment for a problem.
void AddCurves(const std::string& problem,
               const std::vector<SearchVariant>& variants,
               const std::vector<AcesoResult>& results,
               std::vector<plots::Figure>& figures) {
  static const std::vector<Convergence> experiments = {
      {"aceso-exp5", "Exp. 5: Heuristic 2 and random primitives", {0, 3, 4, 5}},
      {"aceso-exp6", "Exp. 6: hops", {0, 1, 2}},
      {"aceso-exp7", "Exp. 7: initial plans", {0, 6, 7}}};
  constexpr double kStep = 1.1;
  std::vector<double> explored = {1.0};
  while (kStep * explored.back() <= kBudget) {
    explored.push_back(kStep * explored.back());
  }
  figures.resize(experiments.size());
  for (std::size_t e = 0; e < figures.size(); ++e) {
    std::vector<plots::Series> lines;
    for (const std::size_t v : experiments[e].variants) {
      lines.push_back(Line(
          variants[v].first,
          plots::StyleOf(static_cast<int>(lines.size()) - 1, lines.empty()),
          explored, common::Map(explored, [&](double plans) {
            const double s = SecondsAfter(results[v], static_cast<int>(plans));
            return std::isfinite(s) ? s : std::nan("");
          })));
      lines.back().mark = plots::Mark::kStairs;
    }
    plots::Figure& figure = figures[e];
    figure.name = experiments[e].name;
    figure.title = experiments[e].title;
    figure.caption =
        "Estimated time of an iteration of the best plan. Published profiles; "
        "plans explored per number of stages.";
    figure.columns = 2;
    plots::Panel panel = PanelOver("explored", "plans explored",
                                   "iteration (s)", std::move(lines));
    panel.name = std::to_string(figure.panels.size() + 1);
    panel.title = problem;
    panel.log_x = true;
    figure.panels.push_back(std::move(panel));
  }
}

// Hops and bottlenecks of improving iterations, limits of hops, random
// primitives, other starts: Exps. 5 to 7.
Output AcesoHeuristics(const std::filesystem::path& folder) {
  const Published published("aceso");
  Output output{.name = "aceso_heuristics"};
  std::vector<SearchVariant> variants = {
      {"Aceso", {}},
      {"at most 1 hop", {.most_hops = 1}},
      {"at most 11 hops", {.most_hops = 11}},
      {"random primitives, seed 1", {.random_order = true, .seed = 1}},
      {"random primitives, seed 2", {.random_order = true, .seed = 2}},
      {"random primitives, seed 3", {.random_order = true, .seed = 3}},
      {"from unequal operators", {.start = AcesoStart::kUnevenOperators}},
      {"from unequal GPUs", {.start = AcesoStart::kUnevenGpus}}};
  for (const Problem& problem : kProblems) {
    if (problem.cut_every == 0) {
      continue;  // the paper's curves are of GPT-3 and Wide-ResNet
    }
    const OperatorModel model = ModelOf(folder, problem);
    const std::string name =
        fmt::format("{}, {} GPUs", problem.label, problem.gpus);
    std::vector<AcesoResult> results;
    for (auto& [label, options] : variants) {
      options.budget = kBudget;
      const AcesoResult& result =
          results.emplace_back(SearchAceso(model, options));
      plots::Row row = {{"problem", name}, {"search", label}};
      for (const int explored : {0, 100, 300, kBudget}) {
        row.emplace_back(fmt::format("after {} (s)", explored),
                         Decimals(SecondsAfter(result, explored)));
      }
      AddHopShares(result, row);
      output.table.Add(std::move(row));
    }
    AddCurves(name, variants, results, output.figures);
  }
  output.conclusion = fmt::format(
      "After so many plans per number of stages. Improving iterations only; "
      "the paper has {}% and {}% of 819 iterations.",
      published.Text("Fig. 11", "first bottleneck improves", "all"),
      published.Text("Fig. 11", "more than one hop", "all"));
  return output;
}

// Published predictions and measurements: Exps. 8, 9.
Output AcesoAccuracy() {
  const Published published("aceso");
  Output output{.name = "aceso_accuracy"};
  std::string errors;
  for (const char* family : {"GPT-3", "Wide-ResNet"}) {
    std::array<double, 2> sums = {};
    double count = 0.0;
    for (const Problem& problem : kProblems) {
      const double actual_s =
          published.Value("Fig. 15", "actual", problem.label);
      if (!std::string_view(problem.label).starts_with(family) ||
          std::isnan(actual_s)) {
        continue;
      }
      const double s = published.Value("Fig. 15", "predicted", problem.label);
      const double actual_mb =
          published.Value("Fig. 16", "actual", problem.label);
      const double mb =
          published.Value("Fig. 16", "predicted without reserved",
                          problem.label) +
          published.Value("Fig. 16", "predicted reserved", problem.label);
      const std::array<double, 2> error = {100.0 * (s / actual_s - 1.0),
                                           100.0 * (mb / actual_mb - 1.0)};
      output.table.Add({{"model", problem.label},
                        {"time (s), measured", Decimals(actual_s)},
                        {"predicted", Decimals(s)},
                        {"error (%)", Decimals(error[0], 1)},
                        {"memory (MB), measured", Decimals(actual_mb, 0)},
                        {"predicted", Decimals(mb, 0)},
                        {"error (%)", Decimals(error[1], 1)}});
      sums[0] += std::abs(error[0]);
      sums[1] += std::abs(error[1]);
      count += 1.0;
    }
    errors += fmt::format(
        " {}: {:.2f}% of the time and {:.2f}% of the memory (paper: {}, {}).",
        family, sums[0] / count, sums[1] / count,
        published.Text("Fig. 15", "mean error", family),
        published.Text("Fig. 16", "mean error", family));
  }
  output.conclusion =
      "Published measurements and predictions of Aceso's program for its own "
      "plans. Mean errors," +
      errors;
  return output;
}

// log10 of the number of plans of so many operators on so many GPUs, a power
// of two. An operator has a tp and a dp, which fill its stage, a power of two
// of GPUs, and `own` further choices.
double LogPlans(int operators, int gpus, bool stages, int own) {
  const int sizes = static_cast<int>(std::log2(gpus)) + 1;
  if (!stages) {
    return operators * std::log10(1.0 * sizes * own);
  }
  // Plans of the operators so far: plans[g] on g GPUs, and open[g][k], those of
  // them whose last stage has 2^k GPUs. At most 10^4932.
  std::vector<long double> plans(gpus + 1, 0.0L);
  plans[0] = 1.0L;
  std::vector<std::vector<long double>> open(
      gpus + 1, std::vector<long double>(sizes, 0.0L));
  for (int op = 0; op < operators; ++op) {
    std::vector<long double> next(gpus + 1, 0.0L);
    for (int g = 1; g <= gpus; ++g) {
      for (int k = 0; k < sizes; ++k) {
        const long double begun = (1 << k) <= g ? plans[g - (1 << k)] : 0.0L;
        open[g][k] = (open[g][k] + begun) * ((k + 1) * own);
        next[g] += open[g][k];
      }
    }
    plans = std::move(next);
  }
  return static_cast<double>(std::log10(plans[gpus]));
}

// The size of the search space: Fig. 1.
Output AcesoSpace() {
  constexpr int kGpus = 16;
  constexpr int kOperators = 13;  // of a layer
  Output output{.name = "aceso_space"};
  for (int layers = 1; layers <= 64; layers *= 2) {
    const int operators = kOperators * layers + 3;
    output.table.Add(
        {{"layers", layers},
         {"dp and tp", Decimals(LogPlans(operators, kGpus, false, 1), 1)},
         {"and pipeline", Decimals(LogPlans(operators, kGpus, true, 1), 1)},
         {"and recomputation",
          Decimals(LogPlans(operators, kGpus, true, 2), 1)}});
  }
  output.conclusion =
      "The logarithm (base 10) of the number of plans of a GPT on 16 GPUs for "
      "one microbatch size, by mechanisms. Stages have powers of two of GPUs. "
      "The paper draws Fig. 1 and does not print its numbers.";
  return output;
}

}  // namespace

std::vector<Output> AcesoOutputs(const std::filesystem::path& folder) {
  std::vector<Output> outputs = AcesoSearches(folder);
  outputs.insert(outputs.end(), {AcesoLayers(folder), AcesoHeuristics(folder),
                                 AcesoAccuracy(), AcesoSpace()});
  return outputs;
}

}  // namespace studies
