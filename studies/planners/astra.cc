#include "planners/astra/astra.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "harness/spec.h"
#include "planners/astra/learned_efficiency.h"
#include "studies/planners/planners.h"
#include "trials/objective.h"

namespace studies {
namespace {

using planners::MeasuredProduct;
using planners::ProductEfficiency;

constexpr std::size_t kFolds = 10;

// Relative errors, in percent.
std::vector<double> ErrorsOf(const ProductEfficiency& efficiency,
                             const std::vector<MeasuredProduct>& measured) {
  return common::Map(measured, [&](const MeasuredProduct& each) {
    return 100.0 * std::abs(efficiency(each.product) / each.efficiency - 1.0);
  });
}

// The factor with which the logarithmic errors have a mean of 0.
double BestOf(const std::vector<MeasuredProduct>& measured,
              const ProductEfficiency& shape) {
  double sum = 0.0;
  for (const MeasuredProduct& each : measured) {
    sum += std::log(each.efficiency / shape(each.product));
  }
  return std::exp(sum / static_cast<double>(measured.size()));
}

plots::Cell ErrorText(std::vector<double> errors) {
  std::ranges::sort(errors);
  return plots::Figures(
      fmt::format("{:.1f} / {:.1f} / {:.1f}", errors[errors.size() / 2],
                  common::Mean(errors), errors[errors.size() * 9 / 10]));
}

// The errors of three models on products that they have not seen.
struct Errors {
  std::vector<double> constant;
  std::vector<double> analytic;
  std::vector<double> learned;
};
Errors CrossValidate(const std::vector<MeasuredProduct>& measured) {
  Errors errors;
  const auto add = [](std::vector<double>& all, std::vector<double> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<MeasuredProduct> train;
    std::vector<MeasuredProduct> test;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      (i % kFolds == fold ? test : train).push_back(measured[i]);
    }
    const double mean =
        BestOf(train, [](const planners::MatrixProduct&) { return 1.0; });
    add(errors.constant,
        ErrorsOf([mean](const planners::MatrixProduct&) { return mean; },
                 test));
    const double best = BestOf(train, planners::AnalyticEfficiency(1.0));
    add(errors.analytic, ErrorsOf(planners::AnalyticEfficiency(best), test));
    add(errors.learned, ErrorsOf(planners::LearnEfficiency(train), test));
  }
  return errors;
}

// The error of efficiencies of matrix products, in ten-fold cross-validation.
Output AstraEfficiency(const std::filesystem::path& folder) {
  Output output{.name = "astra_efficiency"};
  for (const char* gpu : {"A100-PCIe-80GB", "B200-SXM"}) {
    const std::vector<MeasuredProduct> measured =
        planners::ReadMeasuredProducts(folder / "simumax_operators.csv", gpu);
    const Errors errors = CrossValidate(measured);
    output.table.Add({{"GPU", gpu},
                      {"products", measured.size()},
                      {"constant", ErrorText(errors.constant)},
                      {"analytic, best fitted", ErrorText(errors.analytic)},
                      {"boosted trees", ErrorText(errors.learned)}});
  }
  output.conclusion =
      "Median / mean / 90% quantile of the relative errors in percent, "
      "ten-fold "
      "cross-validation: every tenth product is left out.";
  return output;
}

// The optimal pool of Llama-2-7B on 2 to 1,024 A100.
Output AstraMoney() {
  constexpr double kPrice = 2.0;
  constexpr double kSteps = 1000.0;
  constexpr int kMostGpus = 1024;
  const trials::Workload workload = WorkloadOf("llama-2-7b", 1024, 2048);
  trials::SearchSpaceOptions options;
  options.values = {{"dp_bucket_mb", {25}},
                    {"zero_stage", {0, 1}},
                    {"zero_bucket_mb", {24}},
                    {"overlap_zero_comm", {1}},
                    {"overlap_zero_allgather", {1}}};
  for (int gpus = 2; gpus <= kMostGpus; gpus *= 2) {
    options.gpus.push_back(gpus);
  }
  const double start = common::CpuSeconds();
  const auto space =
      trials::SearchSpace::Enumerate(workload, kMostGpus, options);
  methods::Problem problem;
  problem.space = &space;
  problem.workload = &workload;
  problem.machine = {
      {.gpus = kMostGpus, .gpus_per_node = 8, .memory_bytes = 80e9},
      options.gpus};
  const trials::Valuation price{.price_per_gpu_hour = kPrice};
  const auto planner = MakePlanner(planners::AstraMethodOptions());
  std::vector<int> fit;
  std::vector<trials::TimeAndCost> costs;
  for (const methods::Problem& part : PartsOf(problem)) {
    const int gpus = part.machine.gpus();
    for (const auto& proposal : planner->Plans(part, 0)) {
      const int candidate = std::get<int>(proposal.what);
      // Its other candidates of the same strategy have three tiers more.
      if (proposal.tier % 3 == 0 &&
          problem.machine.Uses(space[candidate], gpus)) {
        fit.push_back(candidate);
        costs.push_back(
            {proposal.value, kSteps * price.CostOf(proposal.value, gpus)});
      }
    }
  }
  const std::vector<std::size_t> pool = trials::ParetoFront(costs);
  const double cpu_s = common::CpuSeconds() - start;
  Output output{.name = "astra_money"};
  int gpus = 0;
  for (const std::size_t i : pool) {
    const trials::ParallelConfig& config = space[fit[i]];
    if (trials::GpusOf(config) == gpus) {
      continue;
    }
    gpus = trials::GpusOf(config);
    output.table.Add({{"GPUs", gpus},
                      {"strategy", ToString(config)},
                      {"s per step", Decimals(costs[i].step_time_s)},
                      {"money of 1,000 steps", Decimals(costs[i].cost, 0)}});
  }
  output.conclusion = fmt::format(
      "The fastest strategy of the optimal pool for each number of GPUs in it. "
      "Llama-2-7B, 1,024 sequences of 2,048 tokens, A100 of 80 GB with 8 per "
      "host at {:.0f} units of money per hour: {} strategies on 2 to 1,024 "
      "GPUs, of which {} pass the filters, in {:.2f} CPU seconds.",
      kPrice, space.size(), fit.size(), cpu_s);
  return output;
}

}  // namespace

std::vector<Output> AstraOutputs(const std::filesystem::path& folder) {
  return {AstraEfficiency(folder), AstraMoney()};
}

}  // namespace studies
