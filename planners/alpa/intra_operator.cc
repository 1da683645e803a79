#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/units.h"
#include "planners/alpa/alpa.h"

namespace planners {
namespace {

using common::kInfinity;

// All choices of an operator on so many GPUs.
std::vector<OperatorChoice> ChoicesOf(const OperatorModel& model, int gpus) {
  std::vector<OperatorChoice> choices;
  for (int tp = 1; tp <= gpus; tp *= 2) {
    for (int variant = 0; variant < model.table().variants(); ++variant) {
      choices.push_back(OperatorChoice::Of(tp, gpus / tp, variant));
    }
  }
  return choices;
}

// Time of an operator for one microbatch; infinite where it is not profiled.
double OperatorUs(const OperatorModel& model, int op, int micro_batch,
                  const OperatorChoice& choice, bool recompute) {
  const OperatorProfile* profile = model.Profile(op, micro_batch, choice);
  if (profile == nullptr) {
    return kInfinity;
  }
  return (recompute && model.TraitsOf(op).recomputable ? 2.0 : 1.0) *
             profile->forward_us +
         profile->backward_us;
}

// The fastest ways to begin a stage, by the choice of the last operator.
struct Beginnings {
  std::vector<double> us;                        // of each choice
  std::vector<std::vector<std::size_t>> before;  // by operator and choice
};

// Adds an operator, which follows another one in the stage.
void Append(const OperatorModel& model, int op, int micro_batch, bool recompute,
            const std::vector<OperatorChoice>& all, Beginnings& beginnings) {
  std::vector<double> next(all.size(), kInfinity);
  std::vector<std::size_t> before(all.size(), 0);
  for (std::size_t b = 0; b < all.size(); ++b) {
    const double own = OperatorUs(model, op, micro_batch, all[b], recompute);
    if (!std::isfinite(own)) {
      continue;
    }
    for (std::size_t a = 0; a < all.size(); ++a) {
      if (!std::isfinite(beginnings.us[a])) {
        continue;
      }
      const double sum = beginnings.us[a] + own +
                         model.ConversionUs(op, micro_batch, all[a], all[b]);
      if (sum < next[b]) {
        next[b] = sum;
        before[b] = a;
      }
    }
  }
  beginnings.us = std::move(next);
  beginnings.before.push_back(std::move(before));
}

}  // namespace

std::vector<OperatorChoice> IntraOperator(const OperatorModel& model, int begin,
                                          int end, int micro_batch, int gpus,
                                          bool recompute) {
  const std::vector<OperatorChoice> all = ChoicesOf(model, gpus);
  Beginnings beginnings;
  for (const OperatorChoice& choice : all) {
    beginnings.us.push_back(
        OperatorUs(model, begin, micro_batch, choice, recompute));
  }
  for (int op = begin + 1; op < end; ++op) {
    Append(model, op, micro_batch, recompute, all, beginnings);
  }
  const auto best = std::ranges::min_element(beginnings.us);
  if (!std::isfinite(*best)) {
    return {};
  }
  std::vector<OperatorChoice> choices(end - begin);
  auto at = static_cast<std::size_t>(best - beginnings.us.begin());
  for (std::size_t i = choices.size(); i > 0; --i) {
    const int op = begin + static_cast<int>(i) - 1;
    choices[i - 1] = all[at];
    choices[i - 1].recomputed = recompute && model.TraitsOf(op).recomputable;
    at = i > 1 ? beginnings.before[i - 2][at] : 0;
  }
  return choices;
}

SolvedStage SolveStage(const OperatorModel& model, StageView view, int gpus,
                       bool recompute) {
  SolvedStage stage;
  stage.choices = IntraOperator(model, view.begin, view.end, view.micro_batch,
                                gpus, recompute);
  if (!stage.choices.empty()) {
    view.choices = stage.choices;
    view.behind = 0;
    stage.ms = model.Cost(view).total_ms();
    stage.last_mb = model.MemoryMb(view);
    view.behind = 1;
    stage.more_mb = model.MemoryMb(view) - stage.last_mb;
  }
  return stage;
}

}  // namespace planners
