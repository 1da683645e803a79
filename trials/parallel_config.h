// The parallelism configuration, which a search optimizes.

#pragma once

#include <array>
#include <compare>
#include <string>
#include <string_view>

namespace trials {

class KnobSet;
[[nodiscard]] const KnobSet& BuiltInKnobs();  // see trials/knobs.h

// The activations that a block recomputes in backward instead of keeping them
// from forward. kSelective repeats the core of attention only: scores, softmax,
// dropout, weighted sum. Source: Chen et al. (2016); Korthikanti et al. (2022),
// Sec. 5.
enum Recomputation : int {
  kRecomputeNothing = 0,
  kRecomputeFull = 1,
  kRecomputeSelective = 2,
};

// How the elementwise operators of a block run: as the framework's file says,
// one by one, or in kernels that torch.compile generates.
enum Compilation : int {
  kCompileAsUsual = 0,
  kEager = 1,
  kCompiled = 2,
};

// The order in which a framework numbers the ranks of its groups, the outermost
// group first. Tensor-parallel ranks are always neighbors.
enum class RankOrder {
  // (pipeline, data, tensor): data-parallel ranks are tp apart, and stages are
  // the first to be on different hosts. Megatron-LM, DeepSpeed, nanotron.
  kPipelineOutermost,
  // (data, pipeline, tensor): stages are tp apart, and data-parallel ranks are
  // a whole replica apart. Colossal-AI.
  kDataOutermost,
};

// One parallelism configuration (PC) of a training job.
//
// The defaults are those of the framework that the paper used (Colossal-AI). An
// inactive knob has its default value (see Canonical), so that configurations
// that behave alike are equal. Each member has a row in the table of
// trials/knobs.cc.
//
// Source: OPPA Table 1. Units end the name of each field that has one.
struct ParallelConfig {
  int dp = 1;                     // data-parallel size
  int tp = 1;                     // tensor-parallel size
  int pp = 1;                     // pipeline-parallel size (stages)
  int dp_bucket_mb = 25;          // gradient all-reduce bucket; ZeRO 0 only
  int zero_stage = 0;             // 0, 1, 2 or 3
  int zero_bucket_mb = 24;        // ZeRO communication bucket
  bool overlap_zero_comm = true;  // reduce gradients during backward
  bool overlap_zero_allgather = false;  // gather parameters during forward
  int microbatches = 1;                 // per data-parallel rank and step
  int model_chunks = 1;      // per stage; > 1 is the interleaved schedule
  bool overlap_p2p = false;  // interleaved schedule only
  int grad_checkpoint = kRecomputeNothing;  // a Recomputation
  // Sequences per microbatch; 0 means batch / (dp * microbatches).
  int micro_batch_size = 0;
  int ep = 1;  // expert-parallel size; divides dp
  int cp = 1;  // context-parallel size: ranks that share a sequence
  // Sequence-parallel size: ranks over which norms and residuals split a
  // sequence; 1 is off. Megatron's is tp (see Knob::Flag).
  int sp = 1;
  // Complete copies of what ZeRO shards, each on dp / dp_replicate successive
  // data-parallel ranks; more than 1 is hybrid sharding (HSDP).
  int dp_replicate = 1;
  // Expert tensor parallelism: the ranks that split an expert, 1 or tp. 0: as
  // the framework does (Framework::experts.whole_experts).
  int etp = 0;
  int torch_compile = kCompileAsUsual;  // a Compilation

  // Knobs without a member (see KnobSet::With), each as the difference from its
  // default, so that a default-constructed configuration is one for any set.
  static constexpr int kCustomKnobs = 8;
  std::array<int, kCustomKnobs> custom{};

  friend auto operator<=>(const ParallelConfig&,
                          const ParallelConfig&) = default;
};

// "dp=4,tp=1,pp=2,microbatches=8,...": dp, tp and pp always, the other knobs
// where they differ from their default.
[[nodiscard]] std::string ToString(const ParallelConfig& config,
                                   const KnobSet& knobs = BuiltInKnobs());

// The inverse of ToString; knobs may come in any order and be left out.
// Errors: throws std::invalid_argument naming the knob, its value and the known
// names.
[[nodiscard]] ParallelConfig ParseParallelConfig(
    std::string_view text, const KnobSet& knobs = BuiltInKnobs());

}  // namespace trials
