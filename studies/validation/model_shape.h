// A model from the few sizes that tables of measurements give.

#ifndef STUDIES_VALIDATION_MODEL_SHAPE_H_
#define STUDIES_VALIDATION_MODEL_SHAPE_H_

#include "studies/validation/facts.h"
#include "trials/workload.h"

namespace studies {

// What a family fixes beyond the sizes:
//
//   gpt    biases everywhere, LayerNorm, learned positions, tied embeddings,
//          feed-forward of 4 hidden sizes                       (Megatron, MPT)
//   llama  no biases, RMSNorm, rotary positions, gated feed-forward
//   bert   as gpt with segments and without the causal mask
//
// Facts: family, layers, hidden_size, attention_heads and sequence_length must
// be known; kv_heads, head_size, ffn_size, vocab_size, tied_embeddings,
// gated_ffn and dropout may be.
[[nodiscard]] trials::Model ModelOf(const Facts& facts);

// The model with its global batch, sequence length and precision. The batch is
// dp * micro_batch_size * microbatches where all three are known.
[[nodiscard]] trials::Workload WorkloadOf(const Facts& facts);

}  // namespace studies

#endif  // STUDIES_VALIDATION_MODEL_SHAPE_H_
