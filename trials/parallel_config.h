// The parallelism configuration: what is searched for.

#ifndef TRIALS_PARALLEL_CONFIG_H_
#define TRIALS_PARALLEL_CONFIG_H_

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trials {

// What a block recomputes in backward instead of keeping it from forward.
// kSelective repeats the core of attention only: scores, softmax, dropout,
// weighted sum. Source: Chen et al. (2016); Korthikanti et al. (2022), Sec. 5.
enum Recomputation : int {
  kRecomputeNothing = 0,
  kRecomputeFull = 1,
  kRecomputeSelective = 2,
};

// One parallelism configuration (PC) of a training job.
//
// The defaults are those of the framework that the paper used (Colossal-AI);
// a knob that has no effect in a configuration stands at its default, so that
// equal behaviour means equal objects.
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
  int ep = 1;       // expert-parallel size; divides dp
  int cp = 1;       // context-parallel size: ranks that share a sequence
  bool sp = false;  // sequence parallelism within the tensor-parallel group

  friend auto operator<=>(const ParallelConfig&,
                          const ParallelConfig&) = default;
};

// How a field is laid out on [0, 1] for a surrogate, and how it is printed.
// kSwitch is a flag with further settings: 0 off, 1 on, 2 ...
enum class FieldScale { kLog2, kLinear, kFlag, kSwitch };

// One field of ParallelConfig by name. Records, tables, rules, the command
// line and the encoding for surrogates all go through this list, so a new
// knob is one member and one row in parallel_config.cc.
struct ConfigField {
  std::string_view name;   // column name, variable name, key of --pc
  std::string_view label;  // for people: axis of a figure, row of a table
  FieldScale scale;
  int minimum;  // values outside [minimum, maximum] mean nothing
  int maximum;
  int (*get)(const ParallelConfig&);
  void (*set)(ParallelConfig&, int);
};

// All fields, in the order in which they are printed.
[[nodiscard]] std::span<const ConfigField> ConfigFields();

// The field of that name or of one of its aliases (`gradient_checkpointing`,
// `overlap_zero_communication`, `mb`, `mc`, ...); nullptr when there is none.
[[nodiscard]] const ConfigField* FindConfigField(std::string_view name);

// Sets a field, in words or from a number.
// Errors: throw std::invalid_argument naming the field, the value and the
// range. The text is a whole number; a flag or switch may also be true or
// false.
void SetField(ParallelConfig& config,
              const ConfigField& field,
              std::int64_t value);
void SetField(ParallelConfig& config,
              const ConfigField& field,
              std::string_view text);

// "unknown field 'ddp' (did you mean 'dp'?); fields: dp, tp, ..."
[[nodiscard]] std::string UnknownField(std::string_view name);

// "dp=4,tp=1,pp=2,microbatches=8,...": dp, tp and pp always, the other fields
// where they differ from their default.
[[nodiscard]] std::string ToString(const ParallelConfig& config);

// The inverse of ToString; fields may come in any order and be left out.
// Errors: throws std::invalid_argument naming the field, its value and the
// known names.
[[nodiscard]] ParallelConfig ParseParallelConfig(std::string_view text);

}  // namespace trials

#endif  // TRIALS_PARALLEL_CONFIG_H_
