#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/statistics.h"
#include "methods/planners/astra/learned_efficiency.h"
#include "methods/planners/astra/money.h"
#include "studies/planners/planners.h"
#include "trials/data_folder.h"

namespace studies {
namespace {

using methods::MeasuredProduct;
using methods::ProductEfficiency;

constexpr std::size_t kFolds = 10;

// Relative errors, in percent.
std::vector<double> ErrorsOf(const ProductEfficiency& efficiency,
                             const std::vector<MeasuredProduct>& measured) {
  std::vector<double> errors;
  for (const MeasuredProduct& each : measured) {
    errors.push_back(
        100.0 * std::abs(efficiency(each.product) / each.efficiency - 1.0));
  }
  return errors;
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
        BestOf(train, [](const methods::MatrixProduct&) { return 1.0; });
    add(errors.constant,
        ErrorsOf([mean](const methods::MatrixProduct&) { return mean; }, test));
    const double best = BestOf(train, methods::AnalyticEfficiency(1.0));
    add(errors.analytic, ErrorsOf(methods::AnalyticEfficiency(best), test));
    add(errors.learned, ErrorsOf(methods::LearnEfficiency(train), test));
  }
  return errors;
}

}  // namespace

Output AstraEfficiency(const std::filesystem::path& folder) {
  Output output{.name = "astra_efficiency"};
  for (const char* gpu : {"A100-PCIe-80GB", "B200-SXM"}) {
    const std::vector<MeasuredProduct> measured =
        methods::ReadMeasuredProducts(folder / "simumax_operators.csv", gpu);
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

Output AstraMoney() {
  constexpr double kPrice = 2.0;
  constexpr double kSteps = 1000.0;
  methods::MoneyJob job;
  job.workload = WorkloadOf("llama-2-7b", 1024, 2048);
  job.price_per_hour = kPrice;
  job.steps = kSteps;
  job.space.values = {{"dp_bucket_mb", {25}},
                      {"zero_stage", {0, 1}},
                      {"zero_bucket_mb", {24}},
                      {"overlap_zero_comm", {1}},
                      {"overlap_zero_allgather", {1}}};
  const double start = common::CpuSeconds();
  const methods::MoneyResult result = SearchMoney(job, 1024, {});
  const double cpu_s = common::CpuSeconds() - start;
  Output output{.name = "astra_money"};
  int gpus = 0;
  for (const methods::GpuStrategy& each : result.pool) {
    if (each.gpus == gpus) {
      continue;
    }
    gpus = each.gpus;
    output.table.Add({{"GPUs", each.gpus},
                      {"strategy", ToString(each.config)},
                      {"s per step", Decimals(each.step_time_s)},
                      {"money of 1,000 steps", Decimals(each.money, 0)}});
  }
  output.conclusion = fmt::format(
      "The fastest strategy of the optimal pool for each number of GPUs in it. "
      "Llama-2-7B, 1,024 sequences of 2,048 tokens, A100 of 80 GB with 8 per "
      "host at {:.0f} units of money per hour: {} strategies on 2 to 1,024 "
      "GPUs, of which {} pass the filters, in {:.2f} CPU seconds.",
      kPrice, result.strategies, result.fit, cpu_s);
  return output;
}

}  // namespace studies
