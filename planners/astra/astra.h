// ASTRA: trials in the order of Astra's cost model.
//
// Its homogeneous mode: the strategies are the candidates of the search space,
// so a trial judges a strategy as it is: of its Table 3, pipeline, tensor- and
// data-parallel size, microbatch size, layers of a virtual stage (model
// chunks), sequence parallelism, distributed optimizer (ZeRO stage),
// recomputation granularity and expert-parallel size, as far as the space has
// them. With Judge::kPlan, its strategies are plans: of its mode 2 on several
// GPU types, and with recomputation of some layers (plan_search.h). Its
// mode 3, the optimal pool, is the Pareto front of Planner::Plans on several
// numbers of GPUs.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "planners/astra/astra_model.h"
#include "planners/planner.h"

namespace planners {

// Candidates that differ only in knobs that its Table 3 lacks or fixes (bucket
// sizes and overlaps) are one strategy, whose first trial is the candidate
// nearest to that table: overlaps on, default buckets.
//
// Strategies that pass the filters of rules, of money and of memory come first,
// in the order of their estimated step time; then those that pass all but
// memory, in the order of their memory; then the others. Further candidates of
// the same strategies follow in the same order. It learns nothing from trials.
// It needs Problem::workload.
//
// On several GPU types, a candidate has equal stages, and `tflops` are those of
// the data sheets. With Judge::kPlan, the `top` plans of SearchPlans that
// trials can run (CheckPlan) come before the candidates.
//
// Source: Astra Sec. 3.2-3.5.
struct AstraMethodOptions {
  Judge judge = Judge::kNearest;
  int top = 20;           // plans
  int gpus = 0;           // of a plan; 0: all
  double tflops = 312.0;  // of the data sheet
  double intra_node_gb_per_s = 300.0;
  double inter_node_gb_per_s = 25.0;
  // Learns the efficiency from this table instead (see LearnEfficiency).
  std::string efficiencies;
  std::string efficiency_gpu;
  bool flash_attention = true;
  std::string rules;
  // Mode 3: a limit on the money of so many steps at a price of a GPU; 0: none.
  double most_money = 0.0;
  double price_per_hour = 1.0;
  double steps = 1.0;
};

[[nodiscard]] std::vector<methods::Option> OptionsOf(
    AstraMethodOptions& options);

// Its rules for so many GPUs: its rule 1 where flash attention is on, and those
// of the options. Whether a strategy matches one and is left out.
// Errors: throws InputError for rules that cannot be understood, and if the
// problem has no workload.
[[nodiscard]] std::function<bool(const trials::ParallelConfig&)> AstraRules(
    const methods::Problem& problem, const AstraMethodOptions& options,
    int gpus);

// The candidate's strategy: what its Table 3 lacks or fixes has its value
// there.
[[nodiscard]] trials::ParallelConfig AstraStrategyOf(
    trials::ParallelConfig config);

// The model with these options, for the GPUs of a host and an order of ranks.
// Errors: throws InputError for a table that cannot be read.
[[nodiscard]] AstraModel AstraModelOf(const trials::Workload& workload,
                                      int gpus_per_node,
                                      trials::RankOrder rank_order,
                                      const AstraMethodOptions& options);

// Errors: throws InputError if the problem has no workload, and as above.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(
    const AstraMethodOptions& options);

}  // namespace planners
