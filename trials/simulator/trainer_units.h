// Memory of the parts of a model on a CPU rank of oppa-train, operator by
// operator.

#ifndef TRIALS_SIMULATOR_TRAINER_UNITS_H_
#define TRIALS_SIMULATOR_TRAINER_UNITS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/trainer_ledger.h"
#include "trials/workload.h"

namespace trials {

// Buckets hold parameters of one share: gradients of a kPartial parameter are
// also summed over tensor-parallel ranks, those of a kTied one over the first
// and the last stage, and those of a kExpert one over the ranks with it.
enum class TrainerShare { kDense, kPartial, kTied, kExpert };

struct TrainerParameter {
  TrainerShare share = TrainerShare::kDense;
  std::int64_t elements = 0;  // on one rank
};

// What a part keeps of a microbatch from forward to backward.
struct TrainerKept {
  struct Half {  // attention or feed-forward layer
    std::vector<TrainerBlock> core, norm;
  };
  TrainerBlock input;  // of a recomputed block
  TrainerBlock logits;
  std::vector<TrainerBlock> own;
  std::array<Half, 2> halves;
};

// Forward and backward of embedding, block and head enter what they allocate
// and free into a ledger. Activations between them have the tokens of the
// rank's shard.
//
// Source: docs/trainer.md, "Memory".
// Note: how many tokens an expert gets depends on the data, so it is assumed.
class TrainerUnits {
 public:
  TrainerUnits(const Workload& workload, const ParallelConfig& config,
               const Framework& framework, TrainerLedger& ledger);

  // In the order in which they are put into buckets.
  [[nodiscard]] std::vector<TrainerParameter> EmbeddingParameters() const;
  [[nodiscard]] std::vector<TrainerParameter> BlockParameters() const;
  // Also with the table that the head may share with the embedding (kTied).
  [[nodiscard]] std::vector<TrainerParameter> HeadParameters() const;
  [[nodiscard]] TrainerParameter Table() const;
  [[nodiscard]] bool tied() const;

  [[nodiscard]] TrainerBlock EmbeddingForward(TrainerKept& kept) const;
  void EmbeddingBackward(TrainerBlock dy, TrainerKept& kept) const;
  [[nodiscard]] TrainerBlock BlockForward(TrainerBlock x,
                                          TrainerKept& kept) const;
  [[nodiscard]] TrainerBlock BlockBackward(TrainerBlock dy,
                                           TrainerKept& kept) const;
  void HeadForward(TrainerBlock x, TrainerKept& kept) const;
  [[nodiscard]] TrainerBlock HeadBackward(TrainerKept& kept) const;

  // Tokens and labels of a microbatch, or patches and labels.
  [[nodiscard]] std::vector<TrainerBlock> Batch() const;
  // The hidden states of a microbatch, as stages exchange them.
  [[nodiscard]] TrainerBlock Hidden() const { return New(shard_ * hidden_); }
  // Where the loss is added up, and the angles of rotary positions.
  [[nodiscard]] std::vector<TrainerBlock> Constants() const;

  [[nodiscard]] TrainerBlock New(
      std::int64_t elements,
      TrainerRegion region = TrainerRegion::kActivations) const {
    return Bytes(elements * width_, region);
  }
  // In the precision of the optimizer.
  [[nodiscard]] TrainerBlock NewWide(
      std::int64_t elements,
      TrainerRegion region = TrainerRegion::kActivations) const {
    return Bytes(elements * 4, region);
  }
  [[nodiscard]] int width() const { return width_; }

 private:
  using Half = TrainerKept::Half;

  static constexpr TrainerRegion kCommunication = TrainerRegion::kCommunication;
  static constexpr TrainerRegion kWorkspace = TrainerRegion::kWorkspace;
  static constexpr std::int64_t kIndexBytes = 4;

  [[nodiscard]] TrainerBlock Bytes(std::int64_t bytes,
                                   TrainerRegion region) const {
    return bytes == 0 ? TrainerBlock() : TrainerBlock(ledger_, region, bytes);
  }
  [[nodiscard]] TrainerBlock Statistics() const { return NewWide(2 * shard_); }
  [[nodiscard]] TrainerBlock Gathered() const;
  [[nodiscard]] TrainerBlock Reduced(TrainerBlock all) const;
  [[nodiscard]] TrainerShare ShardShare() const;
  void AddNorm(std::vector<TrainerParameter>& parameters) const;

  [[nodiscard]] TrainerBlock HalfForward(bool attention, TrainerBlock x,
                                         Half& kept) const;
  [[nodiscard]] TrainerBlock HalfBackward(bool attention, TrainerBlock dy,
                                          Half& kept) const;
  [[nodiscard]] TrainerBlock Apply(bool attention, Half& kept) const;
  [[nodiscard]] TrainerBlock ApplyBackward(bool attention, Half& kept) const;
  [[nodiscard]] TrainerBlock AttentionForward(Half& kept) const;
  [[nodiscard]] TrainerBlock AttentionBackward(Half& kept) const;
  [[nodiscard]] TrainerBlock MlpForward(Half& kept) const;
  [[nodiscard]] TrainerBlock MlpBackward(Half& kept) const;
  [[nodiscard]] TrainerBlock ExpertsForward(Half& kept) const;
  [[nodiscard]] TrainerBlock ExpertsBackward(Half& kept) const;
  [[nodiscard]] TrainerBlock Dispatch(TrainerBlock sent) const;
  [[nodiscard]] TrainerBlock Return(TrainerBlock sorted) const;

  const Model& model_;
  const ParallelConfig& config_;
  TrainerLedger& ledger_;
  int width_;  // bytes of an element
  std::int64_t sequences_, length_, tokens_, shard_, positions_;
  std::int64_t hidden_, q_, kv_, ffn_, inputs_;
  std::int64_t labels_;       // columns of the logits on this rank
  std::int64_t logit_rows_;   // of a microbatch
  std::int64_t rows_ = 0;     // tokens at the experts of a rank
  std::int64_t busiest_ = 0;  // of these at one expert
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_TRAINER_UNITS_H_
