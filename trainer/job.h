// What a trial of the trainer trains, and on what.

#ifndef TRAINER_JOB_H_
#define TRAINER_JOB_H_

#include <cstdint>
#include <string>

#include "common/error.h"
#include "trainer/device.h"
#include "trainer/model_constants.h"
#include "trials/model.h"
#include "trials/parallel_config.h"

namespace trainer {

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

#endif  // TRAINER_JOB_H_
