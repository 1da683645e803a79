// Derives a model from the few sizes that tables of measurements contain.

#ifndef TRIALS_TABLES_MODEL_SHAPE_H_
#define TRIALS_TABLES_MODEL_SHAPE_H_

#include "trials/tables/facts.h"
#include "trials/workload.h"

namespace trials {

// The properties of a family other than the sizes:
//
//   gpt    biases everywhere, LayerNorm, learned positions, tied embeddings,
//          feed-forward of 4 hidden sizes                       (Megatron, MPT)
//   llama  no biases, RMSNorm, rotary positions, gated feed-forward
//   bert   as gpt with segments and without the causal mask
//
// Required facts: family, layers, hidden_size, attention_heads, sequence_length
// and vocab_size. Optional: kv_heads, head_size, ffn_size, tied_embeddings,
// gated_ffn and dropout.
//
// If the fact `config` names a Hugging Face config.json ("llama-3-70b" in
// experiments/workloads/, or a path), the model is that one; of the facts
// above, only layers, vocab_size, tied_embeddings and dropout then change it.
[[nodiscard]] Model ModelOf(const Facts& facts);

// The model with its global batch, sequence length and precision. The batch is
// dp * micro_batch_size * microbatches if all three are known.
[[nodiscard]] Workload WorkloadOf(const Facts& facts);

}  // namespace trials

#endif  // TRIALS_TABLES_MODEL_SHAPE_H_
