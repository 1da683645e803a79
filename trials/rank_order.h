// The order in which a framework numbers the ranks of its groups.

#ifndef TRIALS_RANK_ORDER_H_
#define TRIALS_RANK_ORDER_H_

namespace trials {

// The order of the ranks' groups, outermost first. Tensor-parallel ranks are
// always neighbors.
enum class RankOrder {
  // (pipeline, data, tensor): data-parallel ranks are tp apart, and stages are
  // the first to be on different hosts. Megatron-LM, DeepSpeed, nanotron.
  kPipelineOutermost,
  // (data, pipeline, tensor): stages are tp apart, and data-parallel ranks are
  // a
  // whole replica apart. Colossal-AI.
  kDataOutermost,
};

}  // namespace trials

#endif  // TRIALS_RANK_ORDER_H_
