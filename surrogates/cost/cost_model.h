// The analytical cost model of parallel training, as prior means.

#pragma once

#include <Eigen/Core>

#include "surrogates/cost/term.h"
#include "surrogates/parametric_mean.h"
#include "trials/search_space.h"

namespace surrogates {

// The equations of the features.
enum class CostModelForm {
  kNone,  // a positive constant: no prior knowledge
  // App. D as printed. Its sizes M_act,tp and M_act,pp do not depend on dp or
  // mb, and its memory ignores ZeRO. With ComputeTime::kOfMicrobatch its
  // computation grows with the number of microbatches at a fixed batch.
  kPrinted,
  // The printed mechanisms with their dependence on every size: a fixed batch
  // is a fixed amount of work, activations shrink with dp and mb, ZeRO shards
  // state, 1F1B keeps min(pp, mb) microbatches in flight.
  kPhysical,
  // Predictions of every candidate, see predicted_prior.h.
  kPredicted,
};

// What the means depend on besides the space and the form.
struct CostModelChoices {
  ComputeTime t_comp = ComputeTime::kOfBatch;  // of kPrinted
  // False: kPhysical without typical values. Each term is a tenth of a typical
  // step or of the capacity at its largest value, up to a factor of e^1.5, and
  // there is no shared scale.
  bool typical_values = true;
  // The sizes at which the shared scales of kPhysical with typical values
  // start, where they are known.
  JobSizes sizes = {};
};

// Throughput as the inverse of a sum of step-time terms, R = 1 / sum_j c_j
// phi_j, linear in effective coefficients.
//
// kPrinted, with x in {intra, inter} the link that a group uses and D its
// ranks:
//
//   compute    (mb + (pp - 1) / mc) / gpus                        Eq. 10
//              over mb if t_comp is the time of the batch
//   DP         2 (D - 1),  (D - 1) / D / (tp pp)   for each x,    Eqs. 11-15
//              hierarchical where dp > gpus_per_node; ZeRO-3 has
//              volume terms of its own, the printed lambda_Z
//   TP         mb 2 (tp - 1),  mb (tp - 1) / tp    for each x     Eq. 16
//   PP         2 mb (pp - 1)                                      Eqs. 17-18
//
// kPhysical, with s = 1 + (pp - 1) / (mb mc) the stretch of the pipeline:
//
//   compute    s / gpus;  the same again with gradient checkpointing
//   launch     s mb / pp
//   optimizer  1 / (tp pp), over dp with ZeRO;  constant  1
//   DP         (D - 1) / D / (tp pp) intra; inter, over the hosts of a group,
//              (D - 1) / D g / (tp pp) where g groups share a host, which
//              follows from the order of the ranks; 2 (dp - 1)
//   ZeRO       (dp - 1) / dp / (tp pp) for an all-gather that is not hidden,
//   for
//              a reduction that is not hidden, and for stage 3
//   TP         s (tp - 1) / tp / (dp pp),  s mb 2 (tp - 1) / pp   for each x
//   PP         2 mc s / dp,  2 mc s mb
//   EP         s (ep - 1) / ep / (dp pp),  s mb 2 (ep - 1) / pp   for each x
//   CP         s (cp - 1) / cp / gpus
//
// With ep or cp > 1 a parameter has dp cp / ep replicas instead of dp and a
// rank holds 1 / (tp pp ep) of the model: with expert parallelism, nearly all
// parameters belong to experts. Tokens are split over dp cp ranks. Ranks of
// sequence parallelism outside of the tensor-parallel group count as cp.
//
// The paper's 2 beta + gamma + 3 delta, kappa, lambda_Z, M_model, M_act and
// O_tp only occur in products; each product is one coefficient here, so that
// each is identifiable. Terms that vanish on the whole space are left out.
//
// Source: OPPA Eqs. 10-20; docs/decisions/0004-cost-model.md.
// Shapes: features is [N, m]. Units: step time in s.
// Note: the log centers of kPrinted are relative to a target of about 1, and
// CentersFor moves them to a problem's data; those of kPhysical are typical
// values (term.h) in units of a shared scale.
[[nodiscard]] ParametricMean ThroughputPrior(
    const trials::SearchSpace& space, const ClusterShape& shape,
    CostModelForm form, const CostModelChoices& choices = {});

// The log centers of `prior` for a target whose typical value is `typical`:
// each term's typical value is its share of that. Shapes: [m].
// Errors: throws std::invalid_argument unless typical > 0.
[[nodiscard]] Eigen::VectorXd CentersFor(const ParametricMean& prior,
                                         double typical);

// Peak memory in units of the GPU's capacity, min(sum_j m_j phi_j, clip).
//
// kPrinted:  1 / (pp tp),  1 / (gpus mb),  1                      Eq. 21
// kPhysical: 1 / (tp pp) for parameters, gradients and optimizer state, each
//            over dp from the ZeRO stage that shards it, and their sum as
//            mixed-precision Adam has them; activations
//            min(pp, mb) / (dp mb pp tp), apart with checkpointing, times
//            1 + share (tp / sp - 1) if the space sets sp; one microbatch
//            1 / (dp mb tp); 1
//
// Source: OPPA Eq. 21. Units: 1 = capacity. `clip` >= 1 is the observation of a
// configuration that ran out of memory. The physical form has typical values
// and a shared scale.
[[nodiscard]] ParametricMean MemoryPrior(const trials::SearchSpace& space,
                                         const ClusterShape& shape,
                                         CostModelForm form, double clip,
                                         const CostModelChoices& choices = {});

}  // namespace surrogates
