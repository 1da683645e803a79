#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "methods/planners/aceso/baselines.h"
#include "methods/planners/aceso/search.h"
#include "methods/planners/alpa/alpa.h"
#include "studies/planners/planners.h"

namespace studies {
namespace {

using methods::AcesoOptions;
using methods::AcesoResult;
using methods::OperatorModel;

constexpr int kBatch = 1024;

// The published problems. `published_s`: the estimate for the plan that the
// published program finds; `ran_s`: by a run of it, 200 s on one machine.
struct Problem {
  const char* name;
  const char* label;
  int layers;
  int gpus;
  const char* published_s;
  const char* ran_s;
  int cut_every;  // of the dynamic programming, for its time
};
constexpr std::array kProblems = {
    Problem{"gpt_1_3B", "GPT-1.3B", 24, 4, "101.18", "101.18", 2},
    Problem{"gpt_1_3B", "GPT-1.3B", 24, 8, "", "50.92", 3},
    Problem{"gpt_2_6B", "GPT-2.6B", 32, 8, "87.36", "", 4},
    Problem{"gpt_6_7B", "GPT-6.7B", 32, 16, "87.32", "87.56", 13},
    Problem{"gpt_13B", "GPT-13B", 40, 32, "84.61", "86.23", 13},
};

using plots::Figures;

std::string Label(const Problem& problem) {
  return fmt::format("{}, {} GPUs", problem.label, problem.gpus);
}

plots::Cell Decimals(double value, int decimals = 2) {
  return Figures(fmt::format("{:.{}f}", value, decimals));
}

plots::Cell SecondsText(const std::optional<methods::CostedPlan>& plan) {
  return plan ? Decimals(plan->cost.iteration_ms * 1e-3) : Figures("none");
}

plots::Cell BestText(const AcesoResult& result) {
  return result.best.empty() ? Figures("none")
                             : SecondsText(result.best.front());
}

// A search and the CPU seconds that it took.
struct Timed {
  AcesoResult result;
  double cpu_s = 0.0;
};
Timed Search(const OperatorModel& model, const AcesoOptions& options) {
  const double start = common::CpuSeconds();
  Timed timed{SearchAceso(model, options)};
  timed.cpu_s = common::CpuSeconds() - start;
  return timed;
}

}  // namespace

OperatorModel PublishedModel(const std::filesystem::path& folder,
                             const std::string& name, int layers, int gpus) {
  return {
      methods::OperatorTable::Read(folder / "aceso_v100_op_profiles.csv", name),
      methods::LinkTable::Read(folder / "aceso_v100_collectives.csv", name),
      {.layers = layers,
       .batch = kBatch,
       .gpus = gpus,
       .gpus_per_node = std::min(gpus, 8),
       .memory_limit_mb = 28'000.0}};
}

Output AcesoSearches(const std::filesystem::path& folder) {
  Output output{.name = "aceso_searches"};
  for (const Problem& problem : kProblems) {
    const OperatorModel model =
        PublishedModel(folder, problem.name, problem.layers, problem.gpus);
    const Timed timed = Search(model, {.budget = 1000});
    const auto grid = methods::MegatronGrid(model);
    const auto program =
        methods::DynamicProgramming(model, {.cut_every = problem.cut_every});
    const double start = common::CpuSeconds();
    const auto alpa = methods::AlpaPlan(model);
    const double alpa_s = common::CpuSeconds() - start;
    const std::int64_t explored = timed.result.explored();
    output.table.Add(
        {{"problem", Label(problem)},
         {"published estimate (s)", Figures(problem.published_s)},
         {"its program, 200 s (s)", Figures(problem.ran_s)},
         {"ours (s)", BestText(timed.result)},
         {"plans explored", explored},
         {"CPU seconds", Decimals(timed.cpu_s)},
         {"plans per CPU second",
          Decimals(static_cast<double>(explored) / timed.cpu_s, 0)},
         {"Megatron grid (s)", SecondsText(grid.best)},
         {"dynamic programming (s)", SecondsText(program.best)},
         {"stages it explored", program.explored},
         {"Alpa's two levels (s)", SecondsText(alpa.best)},
         {"CPU seconds of it", Decimals(alpa_s)}});
  }
  output.conclusion =
      "Estimated time per iteration of 1,024 sequences, at most 28,000 MB. "
      "Ours "
      "explores 1,000 plans per number of stages.";
  return output;
}

Output AcesoLayers(const std::filesystem::path& folder) {
  Output output{.name = "aceso_layers"};
  for (int layers = 8; layers <= 1024; layers *= 2) {
    const OperatorModel model =
        PublishedModel(folder, "gpt_scale-layer", layers, 8);
    const Timed timed = Search(model, {.budget = 300});
    const double seconds =
        timed.result.best.empty()
            ? 0.0
            : timed.result.best.front().cost.iteration_ms * 1e-3;
    output.table.Add(
        {{"layers", layers},
         {"operators", model.operators()},
         {"estimate (s)", BestText(timed.result)},
         {"sequences per s",
          seconds > 0.0 ? Decimals(kBatch / seconds) : Figures("")},
         {"plans explored", timed.result.explored()},
         {"CPU seconds", Decimals(timed.cpu_s)}});
  }
  output.conclusion =
      "Eight V100, 1,024 sequences per iteration; 300 plans per number of "
      "stages.";
  return output;
}

namespace {

void AddHopShares(const AcesoResult& result, plots::Row& row) {
  double first = 0.0;
  double several = 0.0;
  double count = 0.0;
  for (const methods::AcesoTrace& trace : result.traces) {
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

}  // namespace

Output AcesoHeuristics(const std::filesystem::path& folder) {
  Output output{.name = "aceso_heuristics"};
  struct Variant {
    const char* label;
    bool random;
    int hops;
  };
  constexpr std::array kVariants = {
      Variant{"Heuristic 2", false, 7}, Variant{"Heuristic 2", false, 1},
      Variant{"Heuristic 2", false, 11}, Variant{"random", true, 7}};
  for (const Problem& problem : kProblems) {
    const OperatorModel model =
        PublishedModel(folder, problem.name, problem.layers, problem.gpus);
    for (const Variant& variant : kVariants) {
      plots::Row row = {{"problem", Label(problem)},
                        {"primitives", variant.label},
                        {"most hops", variant.hops}};
      AcesoResult result;
      for (const auto& [name, budget] : {std::pair("after 100 plans (s)", 100),
                                         {"after 300", 300},
                                         {"after 1,000", 1000}}) {
        result = methods::SearchAceso(model, {.most_hops = variant.hops,
                                              .budget = budget,
                                              .random_order = variant.random});
        row.emplace_back(name, BestText(result));
      }
      AddHopShares(result, row);
      output.table.Add(std::move(row));
    }
  }
  output.conclusion =
      "Plans per number of stages. Improving iterations only; one seed of the "
      "random order.";
  return output;
}

}  // namespace studies
