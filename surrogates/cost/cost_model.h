// The analytical cost model of parallel training, as prior means.

#ifndef SURROGATES_COST_COST_MODEL_H_
#define SURROGATES_COST_COST_MODEL_H_

#include "surrogates/parametric_mean.h"
#include "trials/search_space.h"

namespace surrogates {

// What the cost model knows of the machine: no speed, no size, only the shape.
struct ClusterShape {
  int gpus = 1;
  int gpus_per_node = 1;

  [[nodiscard]] bool multi_node() const { return gpus > gpus_per_node; }
};

// How the characteristic sizes t_comp, M_act,tp and M_act,pp of Eqs. 10, 16
// and 18 depend on the number of microbatches.
enum class MicrobatchSizes {
  // One learned constant each, as the equations stand. With a fixed batch it
  // makes eight microbatches cost eight times the computation of one.
  kPrinted,
  // A part proportional to the sequences in the microbatch and a constant
  // part: t_comp = a / mb + b, M_act = a / (dp mb) + b. Contains kPrinted.
  kPerSample,
};

// Throughput as the inverse of a sum of step-time terms,
//
//   T = T_comp + T_dp + T_tp + T_pp,   R = 1 / T,
//
// linear in effective coefficients. With x in {intra, inter} the kind of link
// that a group uses:
//
//   T_comp  (mb + (pp - 1) / mc) / gpus * t_comp                     Eq. 10
//   T_dp    2 (D - 1) a_x + (D - 1) / D / (tp pp) v_x,               Eqs. 11-15
//           hierarchical where dp > gpus_per_node; ZeRO-3 has a
//           second volume term, the printed fudge lambda_Z
//   T_tp    mb (2 (tp - 1) a_x + (tp - 1) / tp v_x)                  Eq. 16
//   T_pp    2 mb (pp - 1) p_x                                        Eqs. 17-18
//
// The paper's 2 beta + gamma + 3 delta, kappa, lambda_Z, M_model, M_act and
// O_tp only occur in products; each product is one coefficient here, so that
// each is identifiable. Terms that vanish on the whole space are left out.
//
// Source: OPPA Eqs. 10-20.
// Shapes: features is [N, m]. Units: step time in s.
// Note: log centres are relative to a target of about 1; CenterOn moves them
// to where a problem's data are.
[[nodiscard]] ParametricMean ThroughputPrior(const trials::SearchSpace& space,
                                             const ClusterShape& shape,
                                             MicrobatchSizes sizes);

// The log centres of `prior` for a target whose typical value is `typical`:
// each term's guess is its share of that. Shapes: [m].
// Errors: throws std::invalid_argument unless typical > 0.
[[nodiscard]] Eigen::VectorXd CentersFor(const ParametricMean& prior,
                                         double typical);

// Peak memory in units of the GPU's capacity,
//
//   M = min(m1 / (pp tp) + m2 / (gpus mb) + m3, clip).
//
// Source: OPPA Eq. 21. Units: 1 = capacity. `clip` >= 1 is where the
// observations of configurations that ran out of memory stand.
[[nodiscard]] ParametricMean MemoryPrior(const trials::SearchSpace& space,
                                         const ClusterShape& shape,
                                         double clip);

// A positive constant, [N, 1]: no prior knowledge.
[[nodiscard]] ParametricMean ConstantPrior(const trials::SearchSpace& space);

}  // namespace surrogates

#endif  // SURROGATES_COST_COST_MODEL_H_
