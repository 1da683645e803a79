#include "methods/planners/aceso/aceso.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>

#include "surrogates/operators/plan_cost.h"

namespace methods {
namespace {

using surrogates::OperatorModel;

OperatorModel ModelOf(const Problem& problem,
                      const AcesoMethodOptions& options) {
  const surrogates::OperatorJob job{
      .layers = options.layers,
      .batch = options.batch,
      .gpus = problem.gpus,
      .gpus_per_node = problem.gpus_per_node,
      .memory_limit_mb = options.memory_share * problem.memory_capacity_bytes /
                         (1024.0 * 1024.0)};
  if (options.profiles.empty() != options.links.empty()) {
    throw common::InputError(
        "profiles and links: give both files or neither of them");
  }
  if (options.profiles.empty()) {
    return {surrogates::AnalyticOperators(options.analytic),
            surrogates::LinkTable::Uniform(options.analytic.link_gb_per_s,
                                           options.between_hosts_gb_per_s),
            job};
  }
  return {
      surrogates::OperatorTable::Read(options.profiles, options.profiled_model),
      surrogates::LinkTable::Read(options.links, options.profiled_model),
      job};
}

class Aceso final : public Method {
 public:
  Aceso(const Problem& problem,
        const AcesoMethodOptions& options,
        std::uint64_t seed)
      : Method(problem.space->size()) {
    AcesoOptions search = options.search;
    search.budget = options.budget;
    search.threads = problem.threads;
    search.seed = seed;
    const AcesoResult result = SearchAceso(ModelOf(problem, options), search);
    std::vector<PlanSizes> plans;
    for (const CostedPlan& plan :
         result.best.empty() ? result.least_memory : result.best) {
      plans.push_back(SizesOf(plan.plan, options.batch));
    }
    if (plans.empty()) {
      throw common::InputError(
          "aceso: the profiles have no plan for these GPUs; check layers, "
          "batch and the profiles");
    }
    Order(*problem.space, plans);
  }

  std::optional<Suggestion> Suggest() override {
    const auto next =
        std::find_if(order_.begin(), order_.end(), [this](int candidate) {
          return history_.tried()[static_cast<std::size_t>(candidate)] == 0;
        });
    if (next == order_.end()) {
      return std::nullopt;
    }
    Suggestion suggestion;
    suggestion.candidate = *next;
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  // The nearest candidate of each plan, then all by distance from the first.
  void Order(const trials::SearchSpace& space,
             const std::vector<PlanSizes>& plans) {
    std::vector<int> all(static_cast<std::size_t>(space.size()));
    std::iota(all.begin(), all.end(), 0);
    for (const PlanSizes& plan : plans) {
      const auto nearer = [&](int a, int b) {
        return Distance(plan, space[a]) < Distance(plan, space[b]);
      };
      order_.push_back(*std::min_element(all.begin(), all.end(), nearer));
    }
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
      return Distance(plans[0], space[a]) < Distance(plans[0], space[b]);
    });
    order_.insert(order_.end(), all.begin(), all.end());
  }

  std::vector<int> order_;
};

}  // namespace

PlanSizes SizesOf(const surrogates::OperatorPlan& plan, int batch) {
  PlanSizes sizes;
  double dp_log2 = 0.0;
  double tp_log2 = 0.0;
  double recomputed = 0.0;
  for (const surrogates::OperatorChoice& choice : plan.choices) {
    dp_log2 += choice.dp_log2;
    tp_log2 += choice.tp_log2;
    recomputed += choice.recomputed;
  }
  const auto count = static_cast<double>(plan.choices.size());
  sizes.dp = std::exp2(dp_log2 / count);
  sizes.tp = std::exp2(tp_log2 / count);
  sizes.pp = plan.stages();
  // One stage has one microbatch per step in the space: accumulation is the
  // framework's.
  sizes.microbatches = static_cast<double>(batch) / plan.micro_batch;
  sizes.recomputes = recomputed >= 0.5 * count;
  return sizes;
}

double Distance(const PlanSizes& plan, const trials::ParallelConfig& config) {
  const auto difference = [](double a, double b) {
    return std::abs(std::log2(a / b));
  };
  const bool recomputes = config.grad_checkpoint == trials::kRecomputeFull;
  return difference(plan.dp, config.dp) + difference(plan.tp, config.tp) +
         difference(plan.pp, config.pp) +
         (config.pp > 1 ? difference(plan.microbatches, config.microbatches)
                        : 0.0) +
         (plan.recomputes == recomputes ? 0.0 : 1.0);
}

std::vector<Option> OptionsOf(AcesoMethodOptions& o) {
  surrogates::AnalyticJob& gpt = o.analytic;
  return {
      {"profiles",
       Text{&o.profiles, "the path of a CSV file"},
       "Profiled operators; without them, those of a GPT of the sizes below."},
      {"links",
       Text{&o.links, "the path of a CSV file"},
       "Profiled links of the same machine."},
      {"profiled_model",
       Text{&o.profiled_model, "a name in the profiles"},
       "The model of the profiles."},
      {"layers", Integer{&o.layers, 1}, "Layers of the model."},
      {"batch", Integer{&o.batch, 1}, "Sequences per step."},
      {"hidden", Integer{&gpt.hidden, 1}, "Width of the model."},
      {"heads", Integer{&gpt.heads, 1}, "Attention heads."},
      {"sequence_length",
       Integer{&gpt.sequence_length, 1},
       "Tokens of a sequence."},
      {"vocabulary", Integer{&gpt.vocabulary, 1}, "Tokens of the vocabulary."},
      {"tflops", Number{&gpt.tflops, 1e-3}, "That matrix products reach."},
      {"memory_gb_per_s",
       Number{&gpt.memory_gb_per_s, 1e-3},
       "That other operators reach."},
      {"link_gb_per_s",
       Number{&gpt.link_gb_per_s, 1e-3},
       "Bandwidth within a host."},
      {"between_hosts_gb_per_s",
       Number{&o.between_hosts_gb_per_s, 1e-3},
       "Bandwidth between hosts."},
      {"memory_share",
       Number{&o.memory_share, 1e-3, 1.0},
       "The share of the GPU's memory that a plan may use."},
      {"budget",
       Integer{&o.budget, 1},
       "Plans to explore per number of stages."},
      {"top",
       Integer{&o.search.top, 1},
       "Plans whose nearest configurations are tried first.",
       "Sec. 5.1"},
      {"most_hops", Integer{&o.search.most_hops, 1}, "MaxHops.", "Sec. 5.1"},
  };
}

std::unique_ptr<Method> MakeAceso(const Problem& problem,
                                  const AcesoMethodOptions& options,
                                  std::uint64_t seed) {
  return std::make_unique<Aceso>(problem, options, seed);
}

}  // namespace methods
