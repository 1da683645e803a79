// Tiny models, configurations of the whole space, and trials of them.

#pragma once

#include <random>
#include <string>
#include <string_view>

#include "trainer/job.h"
#include "trainer/trial.h"

// Sanitizers follow one stack per thread; those of the emulation are many.
#if OPPA_SANITIZED
#define OPPA_SKIP_IF_SANITIZED() GTEST_SKIP() << "not with sanitizers"
#else
#define OPPA_SKIP_IF_SANITIZED() static_cast<void>(0)
#endif

namespace trainer::testing {

inline constexpr std::string_view kModels[] = {"gpt2",  "bert", "llama",
                                               "qwen2", "vit",  "mixtral"};

// Sizes that tp up to 8 (4 key-value heads for grouped queries) divides, except
// for the vocabulary.
inline trials::Model TinyModel(std::string_view type) {
  trials::Model m;
  m.name = m.type = std::string(type);
  m.layers = 4;
  m.attention_heads = m.kv_heads = 8;
  m.head_size = 4;
  m.hidden_size = 32;
  m.ffn_size = 48;
  m.vocab_size = 61;
  if (type == "gpt2" || type == "bert" || type == "vit") {
    m.attention_bias = m.output_bias = m.ffn_bias = m.norm_bias = true;
    m.max_positions = 24;
  } else {
    m.gated_ffn = true;
  }
  m.tied_embeddings = type != "llama" && type != "vit" && type != "mixtral";
  if (type == "bert") {
    m.token_types = 2;
    m.pooler = m.embedding_norm = true;
    m.final_norm = m.causal = false;
  } else if (type == "qwen2") {
    m.attention_bias = true;
    m.kv_heads = 4;
  } else if (type == "vit") {
    m.vocab_size = 0;
    m.patch_size = 12;
    m.classes = 10;
    m.causal = false;
    m.tied_embeddings = true;  // no vocabulary head
  } else if (type == "mixtral") {
    m.kv_heads = 4;
    m.experts = 8;
    m.experts_per_token = 2;
  }
  return m;
}

inline Job TinyJob(std::string_view type, int steps = 3) {
  Job job;
  job.model = TinyModel(type);
  job.batch_size = 16;
  job.sequence_length = 16;
  job.steps = steps;
  job.seed = 5;
  job.memory_bytes = 1 << 30;
  job.bucket_unit_bytes = 4 << 10;
  return job;
}

inline Job TinyJob(std::string_view type, std::string_view config,
                   int steps = 3) {
  Job job = TinyJob(type, steps);
  job.config = trials::ParseParallelConfig(config);
  return job;
}

inline TrialResult Train(const Job& job,
                         CpuPrecision precision = CpuPrecision::kDouble,
                         double timeout_s = 100.0) {
  CheckJob(job);
  LaunchOptions launch;
  launch.world_size = launch.local_ranks = job.ranks();
  launch.timeout_s = timeout_s;
  return RunTrial(job, *MakeCpuBackend(launch, precision), launch);
}

// A configuration of 1 to 8 ranks that is valid for the job.
inline trials::ParallelConfig DrawConfig(const Job& job,
                                         std::mt19937_64& engine) {
  const auto one_of = [&engine](std::initializer_list<int> values) {
    return values.begin()[engine() % values.size()];
  };
  while (true) {
    Job drawn = job;
    trials::ParallelConfig& c = drawn.config;
    c = {};
    c.dp = one_of({1, 2, 4, 8});
    c.tp = one_of({1, 2, 4, 8});
    c.pp = one_of({1, 2, 4});
    c.cp = one_of({1, 1, 2, 4});
    c.ep = job.model.experts > 0 ? one_of({1, 2, 4, 8}) : 1;
    c.sp = one_of({0, 1}) == 1 ? c.tp : 1;
    c.dp_bucket_mb = c.zero_bucket_mb = one_of({1, 24});
    c.zero_stage = one_of({0, 1, 2, 3});
    c.overlap_zero_comm = one_of({0, 1}) == 1;
    c.overlap_zero_allgather = one_of({0, 1}) == 1;
    c.microbatches = one_of({1, 2, 4, 8});
    c.model_chunks = c.pp > 1 ? one_of({1, 1, 2}) : 1;
    c.overlap_p2p = one_of({0, 1}) == 1;
    c.grad_checkpoint = one_of({0, 1, 2});
    if (drawn.ranks() > 8) {
      continue;
    }
    try {
      CheckJob(drawn);
      return c;
    } catch (const common::InputError&) {
      continue;
    }
  }
}

}  // namespace trainer::testing
