// The order in which a framework numbers the ranks of its groups.

#ifndef TRIALS_RANK_ORDER_H_
#define TRIALS_RANK_ORDER_H_

namespace trials {

// Tensor-parallel ranks are always neighbours.
enum class RankOrder {
  // (pipeline, data, tensor): data-parallel ranks are tp apart and stages are
  // on different hosts first. Megatron-LM, DeepSpeed, nanotron.
  kPipelineOutermost,
  // (data, pipeline, tensor): stages are tp apart and data-parallel ranks a
  // whole replica. Colossal-AI.
  kDataOutermost,
};

}  // namespace trials

#endif  // TRIALS_RANK_ORDER_H_
