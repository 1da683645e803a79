// What of a model is trained, and how.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/toml_table.h"

namespace trials {

// The weights of a model by what uses them.
enum class Weights { kAttention, kFeedForward, kNorms, kEmbeddings };
constexpr std::array<std::string_view, 4> NamesOf(Weights /*type*/) {
  return {"attention", "ffn", "norms", "embeddings"};
}

// What is in the memory of the host instead of the GPU's: optimizer states and
// gradients, which processors of the host update, and parameters.
enum class Offloaded { kOptimizer, kParameters };
constexpr std::array<std::string_view, 2> NamesOf(Offloaded /*type*/) {
  return {"optimizer", "parameters"};
}

// What gets gradients: the weights, an adapter beside them, or neither.
enum class Trained { kWeights, kAdapter, kNothing };

// An optimizer (the first of kOptimizers is the usual one) by the bytes that it
// keeps of a trained parameter in addition to the fp32 master weight. Muon's
// momentum is that of matrices, which nearly all parameters are; Adafactor
// keeps a row and a column of each.
struct OptimizerKind {
  std::string_view name;
  double moment_bytes;
  // Its moments are in managed memory, which the driver moves to the host when
  // the GPU is full (bitsandbytes).
  bool paged = false;
};
// Sources: Dettmers et al. (2022), "8-bit Optimizers", with a scale per 256
// values; Shazeer & Stern (2018), Adafactor; Jordan et al. (2024), Muon.
inline constexpr std::array<OptimizerKind, 9> kOptimizers = {
    {{"adamw", 8.0},
     {"adamw-bf16", 4.0},
     {"adam-8bit", 2.0 + 8.0 / 256.0},
     {"paged-adamw", 8.0, true},
     {"paged-adam-8bit", 2.0 + 8.0 / 256.0, true},
     {"adafactor", 0.0},
     {"muon", 4.0},
     {"sgd-momentum", 4.0},
     {"sgd", 0.0}}};

// Full training with AdamW unless something is set.
//
// LoRA freezes every weight W [in, out] and adds A [in, rank] and B [rank, out]
// beside those of its targets: x W + (x A) B. QLoRA keeps frozen weights in 4
// bits and a scale per 64 of them, which are expanded before every product.
// A frozen weight has no gradient and no optimizer state, and backward omits
// its product with the input; gradients pass through it.
//
// Sources: Hu et al. (2021), LoRA; Dettmers et al. (2023), QLoRA; Rafailov et
// al. (2023), direct preference optimization.
struct Training {
  int lora_rank = 0;  // 0: no adapters
  // By Weights: the targets of LoRA, and what is frozen without it.
  std::array<bool, 4> targets = {true, true, false, false};
  std::array<bool, 4> frozen = {};
  double frozen_bits = 16.0;  // of a frozen weight in memory
  // Preference training with a frozen copy of the model, which has a forward
  // pass of its own; with LoRA, the frozen weights are that copy.
  bool reference_model = false;
  // With few bits: all that is not quantized, the hidden states between
  // products included, is fp32 (PEFT's prepare_model_for_kbit_training).
  bool upcast = false;
  double moment_bytes = 8.0;    // OptimizerKind
  bool paged = false;           // the same
  bool fp32_gradients = false;  // sums of gradients, where not anyway
  // By Offloaded. Parameters take the optimizer along.
  std::array<bool, 2> offload = {};
  int loss_chunks = 1;  // parts of the logits that exist at a time
  // Tokens of the documents that are packed into a sequence, in the mean:
  // attention does not cross their borders. 0: a sequence is one document.
  int packed_tokens = 0;

  [[nodiscard]] Trained Of(Weights weights) const;
  // Bytes of a frozen weight whose products have `element_bytes`.
  [[nodiscard]] double FrozenBytes(double element_bytes) const;
  // Bytes of what is never quantized: embeddings, norms, hidden states.
  [[nodiscard]] double RestBytes(double element_bytes) const {
    return upcast && frozen_bits < 16.0 ? 4.0 : element_bytes;
  }
  [[nodiscard]] bool Offloads(Offloaded what) const {
    return offload[static_cast<std::size_t>(what)];
  }
  // Everything is trained, by AdamW.
  [[nodiscard]] bool IsUsual() const;

  friend bool operator==(const Training&, const Training&) = default;
};

// Reads keys of a manifest's [workload] (docs/manifest_format.md): lora_rank,
// lora_targets, freeze, frozen_bits, upcast, reference_model, optimizer,
// fp32_gradients, offload, loss_chunks, packed_tokens. Keys that are left out
// keep what `training` has. Errors: throws InputError that names the key.
void ReadTraining(const common::TomlTable& table, Training& training);

// The keys and their values in TOML of "KEY=VALUE" on a command line; several
// weights are joined by +: "freeze=norms+embeddings". Errors: throws InputError
// that names --training.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> TrainingKeys(
    const std::vector<std::string>& settings);
[[nodiscard]] common::TomlTable TrainingTable(
    const std::vector<std::string>& settings);

// "LoRA of rank 16 on attention, ffn; frozen weights in 4 bits; adam-8bit"; ""
// for usual training.
[[nodiscard]] std::string ToString(const Training& training);

}  // namespace trials
