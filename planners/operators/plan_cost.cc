#include "planners/operators/plan_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/units.h"

namespace planners {
namespace {

using common::kInfinity;

// The names of the whole model: runs of enc- or dec- operators, which are one
// layer, repeated.
std::vector<int> Sequence(const std::vector<std::string>& names, int layers) {
  const auto prefix = [&](std::size_t i) -> std::string_view {
    const std::string_view name = names[i];
    const bool layer = (name.starts_with("enc-") || name.starts_with("dec-")) &&
                       name.find("final") == std::string_view::npos;
    return layer ? name.substr(0, 4) : "";
  };
  std::vector<int> sequence;
  for (std::size_t begin = 0; begin < names.size();) {
    std::size_t end = begin + 1;
    while (end < names.size() && prefix(end) == prefix(begin) &&
           !prefix(begin).empty()) {
      ++end;
    }
    for (int layer = 0; layer < (prefix(begin).empty() ? 1 : layers); ++layer) {
      for (std::size_t i = begin; i < end; ++i) {
        sequence.push_back(static_cast<int>(i));
      }
    }
    begin = end;
  }
  return sequence;
}

// What the memory of a stage consists of.
struct Activations {
  double kept_mb = 0.0;
  double peak_recomputed_mb = 0.0;  // of one layer, or what of it recomputes
};

// Adds operators in their order: which activations are kept, and which exist
// only while a layer is recomputed.
class ActivationSum {
 public:
  void Add(double mb, bool dropped, bool input_of_layer, bool shared) {
    // An input of a layer is kept as its checkpoint, but counts into the peak.
    sum_.kept_mb += dropped && !input_of_layer ? 0.0 : mb;
    if (!dropped) {
      Close();
      return;
    }
    open_mb_ += mb;
    if (input_of_layer && !shared) {
      Close();
    }
  }

  [[nodiscard]] Activations Total() {
    Close();
    return sum_;
  }

 private:
  void Close() {
    sum_.peak_recomputed_mb = std::max(sum_.peak_recomputed_mb, open_mb_);
    open_mb_ = 0.0;
  }

  Activations sum_;
  double open_mb_ = 0.0;
};

}  // namespace

OperatorModel::OperatorModel(OperatorTable table, LinkTable links,
                             const OperatorJob& job)
    : table_(std::move(table)),
      links_(std::move(links)),
      job_(job),
      sequence_(Sequence(table_.names(), job.layers)) {
  if (job.layers > 1 && sequence_.size() == table_.names().size()) {
    throw common::InputError(
        "layers: the profiles have no operators named enc-... or dec-..., "
        "which repeat; use layers = 1");
  }
  for (const std::string& name : table_.names()) {
    traits_.push_back(planners::TraitsOf(name));
  }
}

StageCost OperatorModel::Cost(const StageView& stage) const {
  StageCost cost = WithoutCommunication(stage);
  if (std::isfinite(cost.compute_ms)) {
    cost.communicate_ms = TransferMs(stage) + ConversionMs(stage);
  }
  return cost;
}

StageCost OperatorModel::WithoutCommunication(const StageView& stage) const {
  StageCost cost;
  cost.gpus = 1 << (stage.choices[0].tp_log2 + stage.choices[0].dp_log2);
  double weights_mb = 0.0;
  double input_mb = 0.0;
  double forward_reserved_mb = 0.0;
  double backward_reserved_mb = 0.0;
  ActivationSum activations;
  for (int op = stage.begin; op < stage.end; ++op) {
    const auto at = static_cast<std::size_t>(op - stage.begin);
    const OperatorChoice& choice = stage.choices[at];
    const OperatorProfile* profile = Profile(op, stage.micro_batch, choice);
    if (profile == nullptr) {
      return {
          .compute_ms = kInfinity, .memory_mb = kInfinity, .gpus = cost.gpus};
    }
    const double compute_us = profile->forward_us + profile->backward_us;
    cost.compute_ms += compute_us;
    cost.recompute_ms += choice.recomputed != 0 ? profile->forward_us : 0.0;
    const OperatorProfile* whole =
        table_.Find(NameOf(op), stage.micro_batch, 0, choice.variant);
    cost.ideal_ms += whole == nullptr
                         ? compute_us
                         : (whole->forward_us + whole->backward_us) / cost.gpus;
    weights_mb += profile->weights_mb;
    input_mb = op == stage.begin ? profile->input_mb : input_mb;
    const bool last = op + 1 == stage.end;
    if (!last) {  // its reservation is not counted, see OperatorModel
      forward_reserved_mb =
          std::max(forward_reserved_mb, profile->forward_reserved_mb);
      backward_reserved_mb =
          std::max(backward_reserved_mb, profile->backward_reserved_mb);
    }
    const double kept = TraitsOf(op).kept;
    activations.Add(profile->activations_mb * kept,
                    !last && choice.recomputed != 0 &&
                        stage.choices[at + 1].recomputed != 0,
                    !last && TraitsOf(op + 1).begins_layer, kept != 1.0);
  }
  const Activations sum = activations.Total();
  const double per_microbatch_mb = input_mb + sum.kept_mb;
  cost.reserved_mb =
      std::max(forward_reserved_mb + backward_reserved_mb, weights_mb);
  cost.memory_mb =
      weights_mb * (2.0 + job_.copies.master + job_.copies.optimizer) +
      per_microbatch_mb * (stage.behind + 1) + sum.peak_recomputed_mb +
      cost.reserved_mb;
  cost.compute_ms *= 1e-3;
  cost.recompute_ms *= 1e-3;
  cost.ideal_ms *= 1e-3;
  return cost;
}

double OperatorModel::TransferMs(const StageView& stage) const {
  const OperatorProfile* first =
      Profile(stage.begin, stage.micro_batch, stage.choices.front());
  const OperatorProfile* last =
      Profile(stage.end - 1, stage.micro_batch, stage.choices.back());
  return 1e-3 *
         (links_.TransferUs(first->input_mb, stage.input_between_hosts) +
          links_.TransferUs(last->output_mb, stage.output_between_hosts));
}

double OperatorModel::ConversionUs(int op, int micro_batch,
                                   const OperatorChoice& a,
                                   const OperatorChoice& b) const {
  if (a.tp_log2 == b.tp_log2 && a.variant == 0 && b.variant == 0) {
    return 0.0;  // the default variants of neighbors match
  }
  const auto place = [this](int of, const OperatorChoice& choice, bool output) {
    const OperatorTraits& traits = TraitsOf(of);
    const std::size_t variant = std::min<std::size_t>(choice.variant, 1);
    return Place{output ? traits.output[variant] : traits.input[variant],
                 1 << choice.tp_log2, 1 << choice.dp_log2};
  };
  const Conversion conversion =
      Convert(place(op - 1, a, true), place(op, b, false));
  if (!conversion.needed) {
    return 0.0;
  }
  const double mb = Profile(op, micro_batch, b)->input_mb;
  return links_.CollectiveUs(conversion.forward, conversion.ranks, mb) +
         links_.CollectiveUs(conversion.backward, conversion.ranks, mb);
}

double OperatorModel::ConversionMs(const StageView& stage) const {
  double us = 0.0;
  for (int op = stage.begin + 1; op < stage.end; ++op) {
    const auto at = static_cast<std::size_t>(op - stage.begin);
    us += ConversionUs(op, stage.micro_batch, stage.choices[at - 1],
                       stage.choices[at]);
  }
  return 1e-3 * us;
}

StageView OperatorModel::ViewOf(const OperatorPlan& plan, int stage) const {
  const auto at = static_cast<std::size_t>(stage);
  StageView view;
  view.begin = plan.first[at];
  view.end = plan.first[at + 1];
  view.behind = plan.stages() - 1 - stage;
  view.micro_batch = plan.micro_batch;
  view.choices = std::span(plan.choices)
                     .subspan(static_cast<std::size_t>(view.begin),
                              static_cast<std::size_t>(view.end - view.begin));
  int gpus_before = 0;
  for (int s = 0; s < stage; ++s) {
    gpus_before += plan.GpusOf(s);
  }
  view.input_between_hosts =
      gpus_before > 0 && gpus_before % job_.gpus_per_node == 0;
  view.output_between_hosts =
      (gpus_before + plan.GpusOf(stage)) % job_.gpus_per_node == 0;
  return view;
}

PlanCost OperatorModel::Cost(const OperatorPlan& plan) const {
  PlanCost cost;
  double sum_ms = 0.0;
  for (int s = 0; s < plan.stages(); ++s) {
    cost.stages.push_back(Cost(ViewOf(plan, s)));
    sum_ms += cost.stages.back().total_ms();
    cost.memory_mb = std::max(cost.memory_mb, cost.stages.back().memory_mb);
  }
  const int microbatches = job_.batch / plan.micro_batch;
  for (const StageCost& stage : cost.stages) {
    cost.stage_iteration_ms.push_back(sum_ms +
                                      (microbatches - 1) * stage.total_ms());
    cost.iteration_ms =
        std::max(cost.iteration_ms, cost.stage_iteration_ms.back());
  }
  return cost;
}

}  // namespace planners
