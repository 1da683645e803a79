#include "methods/planners/aceso/aceso.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "methods/fixed_order.h"
#include "methods/planners/aceso/uniform_plan.h"
#include "surrogates/operators/plan_cost.h"

namespace methods {
namespace {

using surrogates::OperatorModel;

constexpr double kMb = 1024.0 * 1024.0;  // as in Aceso's profiles

OperatorModel ModelOf(const Problem& problem,
                      const AcesoMethodOptions& options,
                      const AcesoJob& sizes) {
  const surrogates::OperatorJob job{
      .layers = sizes.layers,
      .batch = sizes.batch,
      .gpus = problem.gpus,
      .gpus_per_node = problem.gpus_per_node,
      .memory_limit_mb =
          options.memory_share * problem.memory_capacity_bytes / kMb};
  if (options.profiles.empty() != options.links.empty()) {
    throw common::InputError(
        "profiles and links: give both files or neither of them");
  }
  if (options.profiles.empty()) {
    return {surrogates::AnalyticOperators(sizes.analytic),
            surrogates::LinkTable::Uniform(options.link_gb_per_s,
                                           options.between_hosts_gb_per_s),
            job};
  }
  return {
      surrogates::OperatorTable::Read(options.profiles, options.profiled_model),
      surrogates::LinkTable::Read(options.links, options.profiled_model),
      job};
}

// The plans of a search, the best first.
std::vector<PlanSizes> Plans(const Problem& problem,
                             const AcesoMethodOptions& options,
                             std::uint64_t seed) {
  AcesoOptions search = options.search;
  search.budget = options.budget;
  search.threads = problem.threads;
  search.seed = seed;
  const AcesoJob job = JobOf(options, problem.workload);
  const AcesoResult result =
      SearchAceso(ModelOf(problem, options, job), search);
  std::vector<PlanSizes> plans;
  for (const CostedPlan& plan :
       result.best.empty() ? result.least_memory : result.best) {
    plans.push_back(SizesOf(plan.plan, job.batch));
  }
  if (plans.empty()) {
    throw common::InputError(
        "aceso: the profiles have no plan for these GPUs; check layers, "
        "batch and the profiles");
  }
  return plans;
}

// The nearest candidate of each plan, then all by distance from the first.
std::vector<int> OrderOf(const trials::SearchSpace& space,
                         const std::vector<PlanSizes>& plans) {
  std::vector<int> all(static_cast<std::size_t>(space.size()));
  std::iota(all.begin(), all.end(), 0);
  const bool accumulates = std::any_of(all.begin(), all.end(), [&space](int i) {
    return space[i].pp == 1 && space[i].microbatches > 1;
  });
  std::vector<int> order;
  for (const PlanSizes& plan : plans) {
    order.push_back(
        *std::min_element(all.begin(), all.end(), [&](int a, int b) {
          return Distance(plan, space[a], accumulates) <
                 Distance(plan, space[b], accumulates);
        }));
  }
  std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
    return Distance(plans[0], space[a], accumulates) <
           Distance(plans[0], space[b], accumulates);
  });
  order.insert(order.end(), all.begin(), all.end());
  return order;
}

// The numbers of sequences of a GPU's microbatch, ascending.
std::vector<int> MicroBatchesOf(const trials::SearchSpace& space, int batch) {
  std::set<int> sizes;
  for (const trials::ParallelConfig& config : space.configs()) {
    sizes.insert(std::max(1, batch / (config.dp * config.microbatches)));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

AcesoJob JobOf(const AcesoMethodOptions& options,
               const trials::Workload* workload) {
  const auto pick = [workload](
                        const char* key, int given, auto size_of) -> int {
    if (given > 0) {
      return given;
    }
    if (workload == nullptr) {
      throw common::InputError(fmt::format(
          "{}: give a value, or [workload] from which it is read", key));
    }
    return size_of(*workload);
  };
  using trials::Workload;
  AcesoJob job;
  job.layers = pick("layers", options.layers, [](const Workload& w) {
    return w.model.layers;
  });
  job.batch = pick(
      "batch", options.batch, [](const Workload& w) { return w.batch_size; });
  if (!options.profiles.empty()) {
    return job;
  }
  surrogates::AnalyticJob& gpt = job.analytic;
  gpt.hidden = pick("hidden", options.hidden, [](const Workload& w) {
    return w.model.hidden_size;
  });
  gpt.heads = pick("heads", options.heads, [](const Workload& w) {
    return w.model.attention_heads;
  });
  gpt.feed_forward =
      pick("feed_forward", options.feed_forward, [](const Workload& w) {
        return w.model.ffn_size * std::max(1, w.model.experts_per_token);
      });
  gpt.sequence_length =
      pick("sequence_length", options.sequence_length, [](const Workload& w) {
        return w.sequence_length;
      });
  gpt.vocabulary =
      pick("vocabulary", options.vocabulary, [](const Workload& w) {
        return std::max(w.model.vocab_size, 1);
      });
  gpt.kv_heads = workload == nullptr || options.heads > 0
                     ? gpt.heads
                     : workload->model.kv_heads;
  gpt.gated = workload != nullptr && options.feed_forward == 0 &&
              workload->model.gated_ffn;
  gpt.tflops = options.tflops;
  gpt.memory_gb_per_s = options.memory_gb_per_s;
  gpt.link_gb_per_s = options.link_gb_per_s;
  return job;
}

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
  sizes.microbatches = static_cast<double>(batch) / plan.micro_batch;
  sizes.recomputes = recomputed >= 0.5 * count;
  return sizes;
}

double Distance(const PlanSizes& plan,
                const trials::ParallelConfig& config,
                bool accumulates) {
  const auto difference = [](double a, double b) {
    return std::abs(std::log2(a / b));
  };
  const bool recomputes = config.grad_checkpoint == trials::kRecomputeFull;
  return difference(plan.dp, config.dp) + difference(plan.tp, config.tp) +
         difference(plan.pp, config.pp) +
         (config.pp > 1 || accumulates
              ? difference(plan.microbatches, config.microbatches)
              : 0.0) +
         (plan.recomputes == recomputes ? 0.0 : 1.0);
}

std::vector<Option> OptionsOf(AcesoMethodOptions& o) {
  return {
      {"profiles",
       Text{&o.profiles, "the path of a CSV file"},
       "Profiled operators; without them, those of the sizes below."},
      {"links",
       Text{&o.links, "the path of a CSV file"},
       "Profiled links of the same machine."},
      {"profiled_model",
       Text{&o.profiled_model, "a name in the profiles"},
       "The model of the profiles."},
      {"layers",
       Integer{&o.layers, 0},
       "Layers of the model; 0, also below: that of [workload]."},
      {"batch", Integer{&o.batch, 0}, "Sequences per step."},
      {"hidden", Integer{&o.hidden, 0}, "Width of the model."},
      {"heads", Integer{&o.heads, 0}, "Attention heads."},
      {"feed_forward",
       Integer{&o.feed_forward, 0},
       "Width of the feed-forward layer; a given one has two matrices."},
      {"sequence_length",
       Integer{&o.sequence_length, 0},
       "Tokens of a sequence."},
      {"vocabulary", Integer{&o.vocabulary, 0}, "Tokens of the vocabulary."},
      {"tflops", Number{&o.tflops, 1e-3}, "That matrix products reach."},
      {"memory_gb_per_s",
       Number{&o.memory_gb_per_s, 1e-3},
       "That other operators reach."},
      {"link_gb_per_s",
       Number{&o.link_gb_per_s, 1e-3},
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

trials::Predictions EstimatesOf(const Problem& problem,
                                const AcesoMethodOptions& options) {
  const trials::SearchSpace& space = *problem.space;
  AcesoJob job = JobOf(options, problem.workload);
  job.analytic.micro_batches = MicroBatchesOf(space, job.batch);
  for (const trials::ParallelConfig& config : space.configs()) {
    job.analytic.largest_tp = std::max(job.analytic.largest_tp, config.tp);
  }
  const OperatorModel model = ModelOf(problem, options, job);
  trials::Predictions estimates;
  for (const trials::ParallelConfig& config : space.configs()) {
    const auto plan = PlanOf(model, config);
    const surrogates::PlanCost cost =
        plan ? model.Cost(*plan) : surrogates::PlanCost();
    const bool known = plan && std::isfinite(cost.iteration_ms) &&
                       std::isfinite(cost.memory_mb);
    estimates.step_time_s.push_back(known ? 1e-3 * cost.iteration_ms
                                          : std::nan(""));
    estimates.peak_memory_bytes.push_back(known ? kMb * cost.memory_mb
                                                : std::nan(""));
  }
  return estimates;
}

std::unique_ptr<Method> MakeAceso(const Problem& problem,
                                  const AcesoMethodOptions& options,
                                  std::uint64_t seed) {
  return std::make_unique<FixedOrder>(
      problem.space->size(),
      OrderOf(*problem.space, Plans(problem, options, seed)));
}

}  // namespace methods
