#include "planners/astra/astra.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "common/ranges.h"
#include "common/units.h"
#include "methods/sampling/nearest.h"
#include "planners/astra/learned_efficiency.h"
#include "planners/astra/plan_search.h"
#include "trials/objective.h"
#include "trials/rules.h"

namespace planners {
namespace {

// The share of the peak that large matrix products reach (Eq. 25).
constexpr double kMatmulEfficiency = 0.77;

// Its rule 1 (Eqs. 13-14): flash attention has no scores to recompute.
constexpr const char* kFlashAttentionRule = "$grad_checkpoint == 2";

// Moves the further candidates of each strategy behind the first ones of all,
// whose number it returns. The first one is the nearest to the strategy.
std::size_t FirstOfStrategies(const trials::SearchSpace& space,
                              std::vector<int>& order) {
  std::map<trials::ParallelConfig, int> nearest;
  const auto distance = [&space](int candidate) {
    return methods::Distance(space[candidate],
                             AstraStrategyOf(space[candidate]), space.knobs());
  };
  for (const int candidate : order) {
    const auto [first, is_new] =
        nearest.emplace(AstraStrategyOf(space[candidate]), candidate);
    if (!is_new && distance(candidate) < distance(first->second)) {
      first->second = candidate;
    }
  }
  const auto others =
      std::stable_partition(order.begin(), order.end(), [&](int candidate) {
        return nearest.at(AstraStrategyOf(space[candidate])) == candidate;
      });
  return static_cast<std::size_t>(others - order.begin());
}

class AstraPlanner final : public Planner {
 public:
  explicit AstraPlanner(const AstraMethodOptions& options)
      : options_(options) {}

  [[nodiscard]] std::vector<Proposal> Plans(
      const methods::Problem& part, std::uint64_t /*seed*/) const override {
    std::vector<Proposal> proposals;
    if (options_.judge == Judge::kPlan) {
      for (CostedStrategy& each :
           SearchPlans(part, options_,
                       {.gpus = options_.gpus, .top = options_.top})
               .best) {
        if (IsWithinMoney(
                options_.gpus > 0 ? options_.gpus : part.machine.gpus(),
                each.cost.step_time_s)) {
          proposals.push_back({std::move(each.plan)});
        }
      }
    }
    const trials::Predictions estimates = EstimatesOf(part, *this);
    const std::vector<double>& bytes = estimates.peak_memory_bytes;
    std::vector<int> order = common::Indices(bytes.size());
    // 0: passes all filters, 1: all but memory, 2: not the rules or the limit.
    std::vector<int> rank(bytes.size(), 2);
    const int gpus = part.machine.gpus();
    const auto is_left_out = AstraRules(part, options_, gpus);
    const double most_bytes = kMemoryShare * part.machine.memory_bytes();
    for (const int candidate : order) {
      if (!is_left_out((*part.space)[candidate]) &&
          IsWithinMoney(gpus, estimates.step_time_s[candidate])) {
        rank[candidate] = bytes[candidate] <= most_bytes ? 0 : 1;
      }
    }
    const auto key = [&](int candidate) {
      const auto i = static_cast<std::size_t>(candidate);
      return std::pair(rank[i],
                       rank[i] == 0
                           ? Weighted(part, candidate, estimates.step_time_s[i])
                           : bytes[i]);
    };
    std::ranges::stable_sort(order,
                             [&](int a, int b) { return key(a) < key(b); });
    const std::size_t strategies = FirstOfStrategies(*part.space, order);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto [tier, value] = key(order[i]);
      proposals.push_back({order[i], tier + (i < strategies ? 0 : 3), value});
    }
    return proposals;
  }

  [[nodiscard]] Estimator EstimatorOf(
      const methods::Problem& part) const override {
    if (part.machine.mixed()) {
      return [part, model = AstraPlanModel(part, options_)](
                 const trials::ParallelConfig& config) mutable -> Estimate {
        const auto cost = model.CostOf(PlanOfCandidate(part, config));
        // The memory of the smallest GPUs, as if each stage were on them.
        return {cost.step_time_s,
                cost.memory_share * part.machine.memory_bytes()};
      };
    }
    return [model = AstraModelOf(WorkloadFor("astra", part),
                                 part.machine.gpus_per_node(), part.rank_order,
                                 options_)](
               const trials::ParallelConfig& config) -> Estimate {
      const AstraCost cost = model.Cost(config);
      return {cost.step_time_s, cost.peak_memory_bytes};
    };
  }

 private:
  [[nodiscard]] bool IsWithinMoney(int gpus, double step_time_s) const {
    const trials::Valuation cost{.price_per_gpu_hour = options_.price_per_hour};
    return options_.most_money == 0.0 ||
           options_.steps * cost.CostOf(step_time_s, gpus) <=
               options_.most_money;
  }

  AstraMethodOptions options_;
};

}  // namespace

trials::ParallelConfig AstraStrategyOf(trials::ParallelConfig config) {
  const trials::ParallelConfig defaults;
  config.dp_bucket_mb = defaults.dp_bucket_mb;
  config.zero_bucket_mb = defaults.zero_bucket_mb;
  config.overlap_zero_comm = config.overlap_zero_allgather =
      config.overlap_p2p = true;
  config.custom = defaults.custom;
  return config;
}

std::vector<methods::Option> OptionsOf(AstraMethodOptions& o) {
  return {
      JudgeOption(o.judge,
                  "What is tried: candidates of the search space, or plans "
                  "whose stages differ in layers, GPU type and recomputed "
                  "layers."),
      {"top", methods::Integer{&o.top, 1},
       "Plans that are tried before candidates, with judge = \"plan\"."},
      {"gpus", methods::Integer{&o.gpus, 0},
       "GPUs of a plan, of all types together; 0: all.", "Eq. 2"},
      {"tflops", methods::Number{&o.tflops, 0.001},
       "Dense TFLOP/s of a GPU in 16 bits, of its data sheet. Of several GPU "
       "types, those of the cluster file are used instead.",
       "Eq. 25"},
      {"intra_node_gb_per_s", methods::Number{&o.intra_node_gb_per_s, 0.001},
       "GB/s of a GPU within a host.", "Eq. 26"},
      {"inter_node_gb_per_s", methods::Number{&o.inter_node_gb_per_s, 0.001},
       "GB/s of a GPU between hosts.", "Eq. 26"},
      {"efficiencies", methods::CsvFile{&o.efficiencies},
       "Measured matrix products, from which boosted trees learn the "
       "efficiency instead.",
       "Sec. 3.5"},
      {"efficiency_gpu", methods::Text{&o.efficiency_gpu, "a name in the file"},
       "The GPU of that file."},
      {"flash_attention", methods::Boolean{&o.flash_attention},
       "Attention keeps no scores, and strategies that recompute them are "
       "left out.",
       "Eqs. 13-14"},
      {"rules", methods::Text{&o.rules, "an expression as in [space] rules"},
       "Strategies for which it is true are left out.", "Eqs. 10-19"},
      {"most_money", methods::Number{&o.most_money, 0.0},
       "Strategies whose `steps` cost more come last; 0: no limit.", "Eq. 33"},
      {"price_per_hour", methods::Number{&o.price_per_hour, 0.0},
       "Money for an hour of a GPU, for that limit.", "Eq. 32"},
      {"steps", methods::Number{&o.steps, 0.0}, "Steps that the limit is for.",
       "Eq. 32"},
  };
}

std::function<bool(const trials::ParallelConfig&)> AstraRules(
    const methods::Problem& problem, const AstraMethodOptions& options,
    int gpus) {
  std::vector<trials::Rule> rules;
  for (const std::string& expression :
       {std::string(options.flash_attention ? kFlashAttentionRule : ""),
        options.rules}) {
    if (!expression.empty()) {
      rules.push_back(trials::Rule::Parse(expression, "astra", "rules",
                                          problem.space->knobs()));
    }
  }
  return [rules, context = trials::RuleContext(WorkloadFor("astra", problem),
                                               gpus)](const auto& config) {
    return std::ranges::any_of(rules, [&](const trials::Rule& rule) {
      return rule.Matches(config, context);
    });
  };
}

AstraModel AstraModelOf(const trials::Workload& workload, int gpus_per_node,
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
           .flash_attention = options.flash_attention},
          options.efficiencies.empty()
              ? AnalyticEfficiency(kMatmulEfficiency)
              : LearnEfficiency(options.efficiencies, options.efficiency_gpu)};
}

std::unique_ptr<Planner> MakePlanner(const AstraMethodOptions& options) {
  return std::make_unique<AstraPlanner>(options);
}

}  // namespace planners
