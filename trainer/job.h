// What a trial of the trainer trains, and on what.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.h"
#include "trainer/device.h"
#include "trials/model.h"
#include "trials/parallel_config.h"

namespace trainer {

// Constants of a model that its results depend on, and its cost does not.
struct ModelConstants {
  double norm_epsilon = 1e-5;    // added to the variance in norms
  double rotary_base = 10000.0;  // of the periods of rotary positions
};

// Reads layer_norm_epsilon (GPT-2), layer_norm_eps (BERT, ViT) or rms_norm_eps,
// and rope_theta, of a Hugging Face config.json. Defaults are those of the
// library, transformers, for each model_type.
//
// Errors: throws InputError that names the file and the key.
[[nodiscard]] ModelConstants ReadModelConstants(
    const std::filesystem::path& config_json);

// A fault that a rank makes at the beginning of a step, for tests: "die"
// throws, "hang" sleeps, "leave" ends without an error, "memory" allocates more
// than there is.
struct Fault {
  std::string kind;  // "": none
  int rank = 0;
  int step = 0;
};

struct Job {
  trials::Model model;
  ModelConstants constants;
  trials::ParallelConfig config;
  int batch_size = 1;       // sequences per step over all ranks
  int sequence_length = 1;  // tokens
  int steps = 10;
  std::uint64_t seed = 0;
  AdamOptions adam;
  std::int64_t memory_bytes = 0;  // of the arena of a rank; 0: what there is
  std::int64_t bucket_unit_bytes = 1 << 20;  // of the "MB" of bucket sizes
  bool timeline = false;                     // record it
  Fault fault;

  [[nodiscard]] int ranks() const {
    return config.dp * config.tp * config.pp * config.cp;
  }
  [[nodiscard]] int micro_batch_size() const {
    return batch_size / (config.dp * config.microbatches);
  }
};

// The job with the model and the sequence length of trials::Scaled. Buckets
// shrink by factor^2, as matrices do.
[[nodiscard]] Job Scale(Job job, int factor);

// Errors: throws InputError for a model that the trainer does not implement or
// a configuration that does not fit it.
void CheckJob(const Job& job);

}  // namespace trainer
