#include "methods/planners/nnscaler/stage_table.h"

#include <cmath>
#include <cstdint>

#include "methods/planners/aceso/uniform_plan.h"
#include "methods/planners/alpa/alpa.h"

namespace methods {
namespace {

// Forward time and weights of an operator on one GPU, from the least tp that is
// profiled; NaN where none is.
struct StageWork {
  double forward_us = std::nan("");
  double weights_mb = std::nan("");
};
StageWork StageWorkOf(const OperatorModel& model, int op, int micro_batch) {
  for (int log2 = 0; (1 << log2) <= model.table().largest_tp(); ++log2) {
    const OperatorProfile* profile = model.Profile(
        op, micro_batch, {static_cast<std::uint8_t>(log2), 0, 0, 0});
    if (profile != nullptr) {
      return {profile->forward_us * (1 << log2),
              profile->weights_mb * (1 << log2)};
    }
  }
  return {};
}

}  // namespace

StageTable::StageTable(const OperatorModel& model,
                       const PlanConstraints& constraints, int micro_batch,
                       bool recompute)
    : model_(model),
      constraints_(constraints),
      micro_batch_(micro_batch),
      recompute_(recompute),
      cuts_(LayersOf(model)),
      forward_us_(1, 0.0),
      weights_mb_(1, 0.0) {
  if (cuts_.empty()) {
    cuts_.push_back(0);
  }
  cuts_.front() = 0;  // what precedes the layers is in the first stage
  cuts_.push_back(model.operators());
  for (int op = 0; op < model.operators(); ++op) {
    const StageWork work = StageWorkOf(model, op, micro_batch);
    forward_us_.push_back(forward_us_.back() + work.forward_us);
    weights_mb_.push_back(weights_mb_.back() + work.weights_mb);
  }
}

double StageTable::Sum(const std::vector<double>& sums, int begin,
                       int end) const {
  return sums[Operator(end)] - sums[Operator(begin)];
}

bool StageTable::IsBalancedStage(int begin, int end, int gpus,
                                 int all_gpus) const {
  const double share =
      Sum(forward_us_, begin, end) / gpus / (forward_us_.back() / all_gpus);
  return std::isnan(share) || IsBalanced(constraints_, share);
}

double StageTable::StatesMb(int begin, int end, int gpus) const {
  const StateCopies& copies = model_.job().copies;
  const double mb = Sum(weights_mb_, begin, end) *
                    (2.0 + copies.master + copies.optimizer) / gpus;
  return std::isnan(mb) ? 0.0 : mb;
}

const SolvedStage& StageTable::StageOf(int begin, int end, int gpus) {
  const auto [at, is_new] =
      stages_.try_emplace({begin == 0, end == layers(), end - begin, gpus});
  if (is_new) {
    const bool whole_host = gpus >= model_.job().gpus_per_node;
    at->second = SolveStage(
        model_,
        {.begin = Operator(begin),
         .end = Operator(end),
         .micro_batch = micro_batch_,
         .input_between_hosts = whole_host && begin > 0,
         .output_between_hosts = whole_host && end < layers()},
        gpus, recompute_, [this](int op, const OperatorChoice& choice) {
          return Allows(constraints_, model_, op, choice);
        });
  }
  return at->second;
}

}  // namespace methods
