#include "methods/planners/astra/astra.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "common/units.h"
#include "methods/fixed_order.h"
#include "methods/planners/astra/learned_efficiency.h"
#include "methods/planners/astra/plan_search.h"
#include "methods/sampling/nearest.h"
#include "trials/rules.h"

namespace methods {
namespace {

// Its rule 1 (Eqs. 13-14): flash attention has no scores to recompute.
constexpr const char* kFlashAttentionRule = "$grad_checkpoint == 2";

// Moves the further candidates of each strategy behind the first ones of all.
// The first one is the nearest to the strategy.
std::vector<int> FirstOfStrategies(const trials::SearchSpace& space,
                                   const std::vector<int>& order) {
  std::map<trials::ParallelConfig, int> nearest;
  const auto distance = [&space](int candidate) {
    return Distance(space[candidate], AstraStrategyOf(space[candidate]),
                    space.knobs());
  };
  for (const int candidate : order) {
    const auto [first, is_new] =
        nearest.emplace(AstraStrategyOf(space[candidate]), candidate);
    if (!is_new && distance(candidate) < distance(first->second)) {
      first->second = candidate;
    }
  }
  std::vector<int> firsts;
  std::vector<int> others;
  for (const int candidate : order) {
    (nearest.at(AstraStrategyOf(space[candidate])) == candidate ? firsts
                                                                : others)
        .push_back(candidate);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

// The fastest plans that trials can run.
std::vector<trials::Plan> PlansOf(const Problem& problem,
                                  const AstraMethodOptions& options) {
  std::vector<int> gpus;
  for (const GpuType& gpu_type : GpuTypesOf(problem, options)) {
    gpus.push_back(gpu_type.gpus);
  }
  std::vector<trials::Plan> plans;
  for (CostedStrategy& each :
       SearchPlans(problem, options, {.gpus = options.gpus, .top = options.top})
           .best) {
    try {
      CheckPlan(each.plan, AstraWorkload(problem), gpus);
    } catch (const trials::InvalidPlan&) {
      continue;
    }
    plans.push_back(std::move(each.plan));
  }
  return plans;
}

}  // namespace

const trials::Workload& AstraWorkload(const Problem& problem) {
  if (problem.workload == nullptr) {
    throw common::InputError(
        "astra needs the sizes of the model: add [workload] to the manifest, "
        "or to [predictions] the facts of its table");
  }
  return *problem.workload;
}

trials::ParallelConfig AstraStrategyOf(trials::ParallelConfig config) {
  const trials::ParallelConfig defaults;
  config.dp_bucket_mb = defaults.dp_bucket_mb;
  config.zero_bucket_mb = defaults.zero_bucket_mb;
  config.overlap_zero_comm = config.overlap_zero_allgather =
      config.overlap_p2p = true;
  config.custom = defaults.custom;
  return config;
}

std::vector<Option> OptionsOf(AstraMethodOptions& o) {
  return {
      JudgeOption(o.judge,
                  "What is tried: candidates of the search space, or plans "
                  "whose stages differ in layers, GPU type and recomputed "
                  "layers."),
      {"top", Integer{&o.top, 1},
       "Plans that are tried before candidates, with judge = \"plan\"."},
      {"gpus", Integer{&o.gpus, 0},
       "GPUs of a plan, of all types together; 0: all.", "Eq. 2"},
      {"tflops", Number{&o.tflops, 0.001},
       "Dense TFLOP/s of a GPU in 16 bits, of its data sheet. Of several GPU "
       "types, those of the cluster file are used instead.",
       "Eq. 25"},
      {"intra_node_gb_per_s", Number{&o.intra_node_gb_per_s, 0.001},
       "GB/s of a GPU within a host.", "Eq. 26"},
      {"inter_node_gb_per_s", Number{&o.inter_node_gb_per_s, 0.001},
       "GB/s of a GPU between hosts.", "Eq. 26"},
      {"matmul_efficiency", Number{&o.matmul_efficiency, 0.001, 1.0},
       "The share of the peak that large matrix products reach.", "Eq. 25"},
      {"efficiencies", CsvFile{&o.efficiencies},
       "Measured matrix products, from which boosted trees learn the "
       "efficiency instead.",
       "Sec. 3.5"},
      {"efficiency_gpu", Text{&o.efficiency_gpu, "a name in the file"},
       "The GPU of that file."},
      {"link_efficiency", Number{&o.link_efficiency, 0.001, 1.0},
       "The share of the bandwidth that large messages reach.", "Eq. 26"},
      {"memory_share", Number{&o.memory_share, 0.0, 1.0},
       "The share of the memory that a strategy may need.", "Eq. 20"},
      {"flash_attention", Boolean{&o.flash_attention},
       "Attention keeps no scores, and strategies that recompute them are "
       "left out.",
       "Eqs. 13-14"},
      {"rules", Text{&o.rules, "an expression as in [space] rules"},
       "Strategies for which it is true are left out.", "Eqs. 10-19"},
  };
}

std::vector<std::pair<std::string, trials::Rule>> AstraRules(
    const Problem& problem, const AstraMethodOptions& options) {
  std::vector<std::pair<std::string, trials::Rule>> rules;
  const auto add = [&](const std::string& name, const std::string& expression) {
    rules.emplace_back(name, trials::Rule::Parse(expression, "astra", "rules",
                                                 problem.space->knobs()));
  };
  if (options.flash_attention) {
    add("flash attention", kFlashAttentionRule);
  }
  if (!options.rules.empty()) {
    add("rules", options.rules);
  }
  return rules;
}

std::vector<Filter> AstraFilters(const Problem& problem,
                                 const AstraMethodOptions& options,
                                 const std::vector<double>& memory_bytes) {
  std::map<int, trials::Rule::Context> contexts;  // by number of GPUs
  for (const Problem& part : PartsOf(problem)) {
    contexts[part.gpus] =
        trials::RuleContext(AstraWorkload(problem), part.gpus);
  }
  std::vector<Filter> filters;
  for (auto& [name, rule] : AstraRules(problem, options)) {
    filters.push_back(
        {name, [&space = *problem.space, rule = rule, contexts](int candidate) {
           const auto own = contexts.find(trials::GpusOf(space[candidate]));
           return !rule.Matches(
               space[candidate],
               own == contexts.end() ? contexts.rbegin()->second : own->second);
         }});
  }
  filters.push_back(
      {"memory",
       [&memory_bytes, most = options.memory_share *
                              problem.memory_capacity_bytes](int candidate) {
         return memory_bytes[candidate] <= most;
       }});
  return filters;
}

methods::AstraModel AstraModelOf(const trials::Workload& workload,
                                 int gpus_per_node,
                                 trials::RankOrder rank_order,
                                 const AstraMethodOptions& options) {
  constexpr double kTera = 1e12;
  using common::kGiga;
  return {workload,
          {.gpus_per_node = gpus_per_node,
           .rank_order = rank_order,
           .flops_per_s = kTera * options.tflops,
           .intra_node_bytes_per_s = kGiga * options.intra_node_gb_per_s,
           .inter_node_bytes_per_s = kGiga * options.inter_node_gb_per_s,
           .link_efficiency = options.link_efficiency,
           .flash_attention = options.flash_attention},
          options.efficiencies.empty()
              ? methods::AnalyticEfficiency(options.matmul_efficiency)
              : methods::LearnEfficiency(options.efficiencies,
                                         options.efficiency_gpu)};
}

trials::Predictions EstimatesOf(const Problem& problem,
                                const AstraMethodOptions& options) {
  trials::Predictions estimates;
  if (!problem.gpu_types.empty()) {
    AstraPlanModel model(problem, options);
    for (const trials::ParallelConfig& config : problem.space->configs()) {
      const AstraPlanModel::Cost cost =
          model.CostOf(PlanOfCandidate(problem, config));
      estimates.step_time_s.push_back(cost.step_time_s);
      // Of the smallest GPUs, as if each stage were on them.
      estimates.peak_memory_bytes.push_back(cost.memory_share *
                                            problem.memory_capacity_bytes);
    }
    return estimates;
  }
  const methods::AstraModel model =
      AstraModelOf(AstraWorkload(problem), problem.gpus_per_node,
                   problem.rank_order, options);
  for (const trials::ParallelConfig& config : problem.space->configs()) {
    const methods::AstraCost cost = model.Cost(config);
    estimates.step_time_s.push_back(cost.step_time_s);
    estimates.peak_memory_bytes.push_back(cost.peak_memory_bytes);
  }
  return estimates;
}

std::unique_ptr<Method> MakeAstra(const Problem& problem,
                                  const AstraMethodOptions& options,
                                  std::uint64_t /*seed*/) {
  const trials::Predictions estimates = EstimatesOf(problem, options);
  const std::vector<double>& bytes = estimates.peak_memory_bytes;
  std::vector<int> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  // 0: passes all filters, 1: all but memory, 2: not the rules.
  std::vector<int> rank(bytes.size(), 2);
  std::vector<Filter> filters = AstraFilters(problem, options, bytes);
  const Filter memory = std::move(filters.back());
  filters.pop_back();
  for (const int candidate : ApplyFilters(order, filters).kept) {
    rank[candidate] = memory.keeps(candidate) ? 0 : 1;
  }
  const auto key = [&](int candidate) {
    const auto i = static_cast<std::size_t>(candidate);
    return std::pair(rank[i], rank[i] == 0 ? Priced(problem, candidate,
                                                    estimates.step_time_s[i])
                                           : bytes[i]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return key(a) < key(b); });
  return std::make_unique<FixedOrder>(
      problem.space->size(), FirstOfStrategies(*problem.space, order),
      options.judge == Judge::kPlan ? PlansOf(problem, options)
                                    : std::vector<trials::Plan>());
}

}  // namespace methods
