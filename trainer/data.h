// The training data: pseudo-random, a function of seed, step and sample.

#pragma once

#include <cstdint>
#include <vector>

#include "trainer/context.h"

namespace trainer {

// A Batch in host memory.
struct HostBatch {
  std::vector<std::int32_t> tokens, labels;
  std::vector<float> patches;
};

// Every configuration trains on the same samples: sample i of a step has the
// same tokens wherever it is processed.
//
// - Causal models predict the next token of skewed random tokens.
// - Others see a mask token (0) in every seventh place of a sequence and
//   predict the token that was there.
// - Images are random patches, of which the class shifts some values; see
// Batch.
class Data {
 public:
  Data(std::uint64_t seed, int batch_size, int sequence_length)
      : seed_(seed),
        batch_size_(batch_size),
        sequence_length_(sequence_length) {}

  // Labels of a step over all ranks.
  [[nodiscard]] std::int64_t Labels(const trials::Model& model, int step) const;
  // Samples first_sample ... of a step, this rank's tokens of them.
  [[nodiscard]] HostBatch Make(const Context& context, int step,
                               std::int64_t first_sample) const;

 private:
  [[nodiscard]] std::uint64_t Random(int step, std::int64_t sample,
                                     std::int64_t position) const;
  [[nodiscard]] bool Masked(int step, std::int64_t sample,
                            std::int64_t position) const;

  std::uint64_t seed_;
  int batch_size_;
  int sequence_length_;
};

[[nodiscard]] Batch Upload(const Context& context, const HostBatch& host);

}  // namespace trainer
