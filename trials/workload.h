// The training job: a transformer and the settings it is trained with.

#pragma once

#include <array>
#include <string>
#include <string_view>

#include "common/toml_table.h"
#include "trials/model.h"
#include "trials/training.h"

namespace trials {

// kFp8: matrix products of linear layers in 8 bits, everything else as bf16.
enum class Precision { kFp32, kFp16, kBf16, kFp8 };
constexpr std::array<std::string_view, 4> NamesOf(Precision /*type*/) {
  return {"fp32", "fp16", "bf16", "fp8"};
}
// Errors: throws InputError for an unknown name, listing the known ones.
[[nodiscard]] Precision ParsePrecision(std::string_view name);

// A model and its training settings. Source: OPPA Table 2.
struct Workload {
  std::string name;
  Model model;
  int batch_size = 0;       // sequences per step over all ranks
  int sequence_length = 0;  // tokens
  Precision precision =
      Precision::kBf16;  // of compute; the optimizer keeps fp32 masters
  Training training = {};

  friend bool operator==(const Workload&, const Workload&) = default;
};

// What of the model and of its training was compared with no measurement, in
// words; "" if there is nothing.
[[nodiscard]] std::string NotValidated(const Workload& workload);

// Reads the [workload] table of a manifest:
//   model = "workloads/qwen2-1.5b.json"   (relative to the manifest)
//   as = "llama", parameters = "7.7b"     (see ModelOptions; optional)
//   batch_size = 64
//   sequence_length = 1024                  (images: patches + 1, the default)
//   precision = "bf16"                    (fp32, fp16, bf16, fp8)
[[nodiscard]] Workload ReadWorkload(const common::TomlTable& table);

// Reads the training of a workload whose sequence length is known. Errors: as
// ReadTraining of training.h, and for documents longer than a sequence.
void ReadTraining(const common::TomlTable& table, Workload& workload);

// A small version of a workload, for trials on CPU ranks: divides head and
// patch size, feed-forward size, vocabulary and sequence length by a factor,
// with lower bounds and multiples such that every configuration that was valid
// stays so. Layers, heads, experts and the batch keep their numbers. A factor
// of 1 or less changes nothing.
[[nodiscard]] Workload Scaled(Workload workload, int factor);

}  // namespace trials
