#include "planners/planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "methods/fixed_order.h"

namespace planners {
namespace {

// The proposals for all numbers of GPUs, in the order of trials.
std::vector<Planner::Proposal> AllProposals(const methods::Problem& problem,
                                            const Planner& planner,
                                            std::uint64_t seed) {
  std::vector<Planner::Proposal> all;
  for (const methods::Problem& part : methods::PartsOf(problem)) {
    for (Planner::Proposal& proposal : planner.Plans(part, seed)) {
      if (auto* sizes = std::get_if<MeanSizes>(&proposal.what)) {
        sizes->gpus = problem.machine.resizable() ? part.machine.gpus() : 0;
      }
      const int* candidate = std::get_if<int>(&proposal.what);
      if (candidate == nullptr ||
          problem.machine.Uses((*problem.space)[*candidate],
                               part.machine.gpus())) {
        all.push_back(std::move(proposal));
      }
    }
  }
  if (problem.machine.resizable()) {
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) {
      return std::pair(a.tier, a.value) < std::pair(b.tier, b.value);
    });
  }
  return all;
}

bool CanRun(const trials::Plan& plan, const methods::Problem& problem) {
  try {
    CheckPlan(plan, *problem.workload, problem.machine.GpusByType());
  } catch (const trials::InvalidPlan&) {
    return false;
  }
  return true;
}

// TryPlans, at the first suggestion.
class LazyPlans final : public methods::Method {
 public:
  LazyPlans(const methods::Problem& problem, std::unique_ptr<Planner> planner,
            std::uint64_t seed)
      : methods::Method(problem),
        problem_(problem),
        planner_(std::move(planner)),
        seed_(seed) {}

  std::optional<methods::Suggestion> Suggest() override {
    if (plans_ == nullptr) {
      plans_ = TryPlans(problem_, *planner_, seed_);
    }
    plans_->Follow(history_);
    return plans_->Suggest();
  }

 private:
  methods::Problem problem_;
  std::unique_ptr<Planner> planner_;
  std::uint64_t seed_;
  std::unique_ptr<methods::Method> plans_;
};

}  // namespace

MeanSizes SizesOf(const OperatorPlan& plan, int batch) {
  MeanSizes sizes;
  double dp_log2 = 0.0;
  double tp_log2 = 0.0;
  double recomputed = 0.0;
  for (const OperatorChoice& choice : plan.choices) {
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

double Distance(const MeanSizes& plan, const trials::ParallelConfig& config,
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

std::unique_ptr<methods::Method> TryPlans(const methods::Problem& problem,
                                          const Planner& planner,
                                          std::uint64_t seed) {
  const trials::SearchSpace& space = *problem.space;
  std::vector<int> all = common::Indices(space.size());
  const bool accumulates = std::ranges::any_of(all, [&space](int i) {
    return space[i].pp == 1 && space[i].microbatches > 1;
  });
  const auto by_distance_from = [&](const MeanSizes& sizes) {
    const auto key = [&](int i) {
      return std::pair(sizes.gpus > 0 && trials::GpusOf(space[i]) != sizes.gpus,
                       Distance(sizes, space[i], accumulates));
    };
    return [key](int a, int b) { return key(a) < key(b); };
  };
  const std::vector<Planner::Proposal> proposals =
      AllProposals(problem, planner, seed);
  if (proposals.empty()) {
    throw common::InputError(
        "the planner has no plan for these GPUs; check its options layers and "
        "batch, and its profiles");
  }
  std::vector<trials::Candidate> plans;
  std::vector<int> order;
  const MeanSizes* first = nullptr;
  for (const Planner::Proposal& proposal : proposals) {
    if (const auto* plan = std::get_if<trials::Plan>(&proposal.what)) {
      if (CanRun(*plan, problem) &&
          !common::Contains(plans, trials::Candidate(*plan))) {
        plans.emplace_back(*plan);
      }
    } else if (const auto* sizes = std::get_if<MeanSizes>(&proposal.what)) {
      first = first == nullptr ? sizes : first;
      order.push_back(*std::ranges::min_element(all, by_distance_from(*sizes)));
    } else {
      order.push_back(std::get<int>(proposal.what));
    }
  }
  if (first != nullptr) {
    std::ranges::stable_sort(all, by_distance_from(*first));
    order.insert(order.end(), all.begin(), all.end());
  }
  return std::make_unique<methods::FixedOrder>(problem, std::move(order),
                                               std::move(plans));
}

std::unique_ptr<methods::Method> TryPlansLazily(
    const methods::Problem& problem, std::unique_ptr<Planner> planner,
    std::uint64_t seed) {
  for (const methods::Problem& part : methods::PartsOf(problem)) {
    (void)planner->EstimatorOf(part);
  }
  return std::make_unique<LazyPlans>(problem, std::move(planner), seed);
}

trials::Predictions EstimatesOf(const methods::Problem& problem,
                                const Planner& planner) {
  const trials::SearchSpace& space = *problem.space;
  const std::vector<double> unknown(space.size(),
                                    std::numeric_limits<double>::quiet_NaN());
  trials::Predictions estimates{.step_time_s = unknown,
                                .peak_memory_bytes = unknown};
  for (const methods::Problem& part : methods::PartsOf(problem)) {
    const Estimator estimator = planner.EstimatorOf(part);
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const trials::ParallelConfig& config = space[static_cast<int>(i)];
      if (problem.machine.Uses(config, part.machine.gpus())) {
        const Estimate estimate = estimator(config);
        estimates.step_time_s[i] = estimate.step_time_s;
        estimates.peak_memory_bytes[i] = estimate.peak_memory_bytes;
      }
    }
  }
  return estimates;
}

const trials::Workload& WorkloadFor(std::string_view method,
                                    const methods::Problem& problem) {
  if (problem.workload == nullptr) {
    throw common::InputError(fmt::format(
        "{} needs the sizes of the model: add [workload] to the manifest, or "
        "to [predictions] the facts of its table",
        method));
  }
  RequireUniformBlocks(method, problem.workload->model);
  if (!problem.workload->training.IsUsual()) {
    throw common::InputError(
        fmt::format("{} models full training with AdamW, not {}", method,
                    ToString(problem.workload->training)));
  }
  return *problem.workload;
}

void RequireUniformBlocks(std::string_view method, const trials::Model& model) {
  if (const std::string parts = trials::NotValidated(model); !parts.empty()) {
    throw common::InputError(fmt::format(
        "{} models a job of transformer blocks of one kind, but {} has {}; "
        "choose another method or model",
        method, model.name, parts));
  }
}

methods::Option JudgeOption(Judge& judge, std::string_view meaning) {
  return {"judge",
          methods::ChoiceOf(
              judge, {{"nearest", Judge::kNearest}, {"plan", Judge::kPlan}}),
          std::string(meaning), "",
          [&judge](const methods::Problem& problem) -> std::string {
            return judge == Judge::kPlan && !problem.runs_plans
                       ? "the trials of this problem cannot run plans, only "
                         "the simulator without a landscape and tables with a "
                         "column `plan` can; use \"nearest\""
                       : "";
          }};
}

}  // namespace planners
