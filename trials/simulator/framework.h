// The constants of the training framework on which time and memory depend.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/fields.h"
#include "common/toml_table.h"
#include "trials/parallel_config.h"
#include "trials/predictions.h"
#include "trials/workload.h"

namespace trials {

// Bytes of the unit of the bucket knobs, dp_bucket_mb and zero_bucket_mb.
inline constexpr double kBucketMegabyte = 1024.0 * 1024.0;

// A constant must be greater than 0; others must be at least 0.
inline constexpr bool kAbove0 = true;

// Constants of a framework on PyTorch. Those of each framework are in
// experiments/frameworks/<name>.toml, under the names of these fields and in SI
// units; a key that a file omits has the default value. The defaults describe
// Colossal-AI's HybridParallelPlugin with Hugging Face models run eagerly,
// which is what the paper measured. docs/simulator.md gives the source of each
// number.
struct Framework {
  struct Kernels {
    OPPA_FIELD_LIST(Kernels);
    // Attention without stored scores: Hugging Face models take PyTorch's
    // scaled_dot_product_attention by default since release 4.36.
    OPPA_FIELD(bool, flash_attention, true);
    // Attention runs in cuDNN's kernels (Transformer Engine); see
    // StoresScores.
    OPPA_FIELD(bool, cudnn_attention, false);
    // Norms, rotary positions, softmax and activations are fused kernels.
    OPPA_FIELD(bool, fused_operators, false);
    // False: the gated activation is two operators and keeps silu(gate) for
    // backward too.
    OPPA_FIELD(bool, fused_gate, true);
    // Norms are fused also where other operators are not (torchtitan's
    // fused_rmsnorm).
    OPPA_FIELD(bool, fused_norm, false);
    // The loss and its gradient are computed in the half-precision logits, in
    // place (Transformer Engine's cross-entropy).
    OPPA_FIELD(bool, fused_cross_entropy, false);
    // Keys and values are copied for every query head before fused attention
    // (repeat_kv of torchtitan), and travel so between the ranks of a context.
    OPPA_FIELD(bool, repeat_kv, false);
    // With more tensor-parallel ranks than key-value heads, ranks share a head
    // (Megatron Core gathers the heads and takes its part).
    OPPA_FIELD(bool, shares_kv_heads, false);
    // The gap between two kernels on the GPU.
    OPPA_FIELD(double, launch_s, 2e-6, kAbove0);
    // Speed of matrix products in a step relative to calls alone, which the
    // GPU's file describes: layouts that need copies, products beside others.
    OPPA_FIELD(double, gemm_speed, 1.0, kAbove0);
    // Speed of fused attention relative to the kernels that the GPU's file
    // describes (FlashAttention-2); > 0.
    OPPA_FIELD(double, attention_forward_speed, 1.0, kAbove0);
    OPPA_FIELD(double, attention_backward_speed, 1.0, kAbove0);
    // Bytes moved per element of the result to merge the attention of one block
    // of a context with that of the others, forward and backward.
    OPPA_FIELD(double, merge_forward_bytes, 0.0);
    OPPA_FIELD(double, merge_backward_bytes, 0.0);
    // The fused softmax takes scores whose number of heads times sequences on a
    // rank is a multiple of this (4: Megatron-LM's fused_softmax.py); others go
    // through five operators in fp32.
    OPPA_FIELD(double, fused_softmax_multiple, 1.0, kAbove0);
    // Bytes moved per score by the fused softmax of attention without flash.
    OPPA_FIELD(double, score_forward_bytes, 4.0);
    OPPA_FIELD(double, score_backward_bytes, 6.0);
    // Bytes moved per logit by the loss: forward from the product's output, and
    // backward to the gradient that enters the product.
    OPPA_FIELD(double, loss_forward_bytes, 22.0);
    OPPA_FIELD(double, loss_backward_bytes, 34.0);
    // Bytes held: fp32 logits, shifted copy, softmax, gradient.
    OPPA_FIELD(double, loss_bytes_per_logit, 16.0);
  } kernels;

  struct Experts {
    OPPA_FIELD_LIST(Experts);
    // With ep > 1 every expert is whole on its rank, and experts are
    // distributed over the tp * cp * dp ranks of a stage, each of which sends
    // its own tokens (Megatron-LM's expert-tensor-parallel-size 1). False: an
    // expert is split over tp ranks, and ep divides dp.
    OPPA_FIELD(bool, whole_experts, false);
    // Tokens of the busiest expert-parallel rank over the mean: the capacity
    // factor of training that GShard and Switch use. 1: forced balance.
    OPPA_FIELD(double, expert_imbalance, 1.25, kAbove0);
    // The share of all-to-alls that may overlap with the computation of another
    // microbatch (Megatron-LM's overlap-moe-expert-parallel-comm, DualPipe), at
    // most 1.
    OPPA_FIELD(double, expert_overlap, 0.0);
    // A token crosses the network once for each host with one of its experts,
    // whose GPUs pass it on (DeepEP, HybridEP). False: once for each expert.
    OPPA_FIELD(bool, token_once_per_host, false);
  } experts;

  struct Recomputation {
    OPPA_FIELD_LIST(Recomputation);
    // The parts that selective recomputation repeats (Megatron-LM's
    // recompute_modules core_attn, moe_act, layernorm and mla_up_proj): the
    // core of attention, activations of feed-forward layers, norms before
    // layers, and queries, keys and values of latent attention.
    OPPA_FIELD(bool, recompute_core, true);
    OPPA_FIELD(bool, recompute_activation, false);
    OPPA_FIELD(bool, recompute_norms, false);
    OPPA_FIELD(bool, recompute_latent, false);
    // Selective recomputation keeps the result of attention and of every second
    // linear layer, and repeats the rest of a block (torchtitan's selective
    // checkpointing by operator). False: it repeats the parts above.
    OPPA_FIELD(bool, selective_by_operator, false);
    // Full recomputation ends before the last product of a dense block, whose
    // result backward does not need (torch.utils.checkpoint with use_reentrant
    // = False).
    OPPA_FIELD(bool, recompute_stops_early, false);
  } recomputation;

  struct Gradients {
    OPPA_FIELD_LIST(Gradients);
    // Gradients are accumulated and reduced in fp32 (Megatron-LM with bf16,
    // nanotron), not in the precision of computation.
    OPPA_FIELD(bool, fp32_gradients, false);
    // With fp32_gradients: a microbatch's gradients have half precision and are
    // added to the sums after its backward (nanotron). False: matrix products
    // add to the sums directly (Megatron-LM's fused accumulation).
    OPPA_FIELD(bool, gradients_apart, false);
    // DeepSpeed's BF16_Optimizer: fp32_gradients and gradients_apart hold with
    // bf16, and neither with fp16.
    OPPA_FIELD(bool, bf16_sums, false);
    // Products that add to the sums return placeholders as gradients, in half
    // precision: one tensor for each shape of a weight, which is kept
    // (Transformer Engine's dummy_wgrad). Needs fp32_gradients.
    OPPA_FIELD(bool, placeholder_gradients, false);
    // The optimizer flattens the gradients of its shard, in half precision and
    // in fp32 (DeepSpeed's ZeRO optimizer). No block that backward has freed is
    // large enough for them, so the allocator holds them in addition until
    // memory is full.
    OPPA_FIELD(bool, flat_gradients, false);
    // Without ZeRO, gradients are reduced bucket by bucket during backward
    // (DDP; with a pipeline, tensor by tensor after backward, Colossal-AI).
    // False: all at once after the last backward.
    OPPA_FIELD(bool, reduce_in_backward, true);
    // With a pipeline, buckets are reduced while the backward pass of the last
    // microbatch runs (Megatron-LM's overlap_grad_reduce). False: afterwards.
    OPPA_FIELD(bool, reduce_in_pipeline, false);
    // ZeRO 1 reduce-scatters gradients (Megatron-LM's distributed optimizer,
    // DeepSpeed). False: all-reduces them (Colossal-AI, InternEvo, nanotron).
    OPPA_FIELD(bool, scatter_gradients, false);
    // The time of one bucket: flatten, launch, hooks.
    OPPA_FIELD(double, bucket_overhead_s, 60e-6);
    // Bytes that a GPU moves in its memory per byte of a bucket of gradients,
    // before sending it (flattening and averaging: a read and a write each) and
    // afterwards (copying it back).
    OPPA_FIELD(double, bucket_pack_bytes, 4.0);
    OPPA_FIELD(double, bucket_unpack_bytes, 2.0);
    // CPU time to move a bucket to a stream of its own and to wait for it.
    OPPA_FIELD(double, overlap_bucket_s, 40e-6);
  } gradients;

  struct Sharding {
    OPPA_FIELD_LIST(Sharding);
    // ZeRO 2 and 3 as PyTorch's FSDP: a unit per block, the next one gathered
    // while this one computes; buckets have no effect.
    OPPA_FIELD(bool, fsdp, false);
    // FSDP's HYBRID_SHARD: each host holds a complete copy, sharded over its
    // data-parallel ranks; gradients are scattered within the host, then
    // all-reduced among the ranks that hold the same shard. Needs fsdp.
    OPPA_FIELD(bool, shard_within_host, false);
    // With gradient accumulation, FSDP's gradients stay whole on every rank
    // until the last microbatch, which scatters their sums (no_sync, the
    // default of Accelerate and of the Trainer of Hugging Face). Otherwise the
    // gradients of every microbatch are scattered. Needs fsdp.
    OPPA_FIELD(bool, no_sync, false);
    // ZeRO 1 and 2 assign whole tensors to ranks, and every owner broadcasts
    // its tensors (InternEvo). False: every tensor is split, and all-gathered.
    OPPA_FIELD(bool, broadcast_parameters, false);
    // An overlapped all-gather of parameters has a message per tensor, and one
    // that does not overlap has buckets, which hold this many bytes of a shard
    // (Colossal-AI). False: buckets hold these bytes of parameters in both
    // cases.
    OPPA_FIELD(bool, gather_by_tensor, true);
    // ZeRO shards its states within groups of this many successive
    // data-parallel ranks, and each group holds a complete copy: parameters are
    // gathered within a group, gradients are reduced over all ranks. If it does
    // not divide the number of data-parallel ranks, their greatest common
    // divisor is taken. 0: all ranks. (InternEvo's zero1 size, Megatron-LM's
    // num_distributed_optimizer_instances, DeepSpeed's MiCS.)
    OPPA_FIELD(int, zero_group_ranks, 0);
    // Bytes of a ZeRO bucket where it is no knob of the search (DeepSpeed's
    // reduce_bucket_size, InternEvo's). 0: the configuration's zero_bucket_mb.
    OPPA_FIELD(double, zero_bucket_bytes, 0.0);
    // Bytes moved per byte of a bucket of gathered parameters: copies out of
    // the list of shards, joined, and into the parameters.
    OPPA_FIELD(double, gather_unpack_bytes, 6.0);
    // Elements of the buffer in which gradients are reduced, if the framework
    // allocates it whole (DeepSpeed's reduce_bucket_size, or the buckets of its
    // pipeline engine). 0: the knob zero_bucket_mb.
    OPPA_FIELD(double, reduce_buffer_elements, 0.0);
    // Elements of the flat tensor into which ZeRO 1 and 2 gather parameters
    // before they are copied to their places (an all-gather into a list of
    // tensors). 0: in place.
    OPPA_FIELD(double, gather_buffer_elements, 0.0);
  } sharding;

  struct Collectives {
    OPPA_FIELD_LIST(Collectives);
    // Tensor-parallel collectives are split into chunks that overlap with
    // chunks of the matrix product beside them (Megatron-LM's tp_comm_overlap,
    // async TP in torchtitan). Needs sequence parallelism.
    OPPA_FIELD(bool, tp_overlap, false);
    // Under sequence parallelism backward repeats the all-gather of the inputs
    // of linear layers (Megatron-LM). False: forward keeps the gathered inputs.
    OPPA_FIELD(bool, gather_again, true);
    // Without sequence parallelism, all-reduces in backward of the gradient of
    // the input of a gated feed-forward part. 2: gate and up are layers apart,
    // with one each. 1: they are one layer (Megatron-LM).
    OPPA_FIELD(double, gate_reductions, 1.0);
    // The blocks of a context travel while attention computes. False: every
    // round waits for its block (functional collectives in compiled code).
    OPPA_FIELD(bool, ring_overlap, true);
    // With fp8, all-gathers of activations and of parameters move 8 bits
    // (Transformer Engine's quantized inputs, fp8_param_gather; torchao).
    OPPA_FIELD(bool, fp8_gathers, false);
    // Bytes that a GPU moves in its memory per byte of a tensor-parallel
    // all-gather or reduce-scatter: DTensor cuts and joins along the sequence,
    // which is not the outermost dimension.
    OPPA_FIELD(double, collective_copy_bytes, 0.0);
    // CPU time to issue a tensor-parallel collective, and the increase for each
    // additional host of its group; where there is one, the CPU also waits for
    // the end of a collective between hosts before it issues the next one.
    OPPA_FIELD(double, message_dispatch_s, 0.0);
    OPPA_FIELD(double, message_host_s, 0.0);
    // The first of these grows by the factor max(1, network_contention *
    // sqrt(tp)) in a job on several hosts: something takes processors from the
    // ranks (jobs of Ultra-Scale in the slow state, docs/validation.md), and a
    // collective waits for the last rank.
    OPPA_FIELD(double, network_contention, 0.0);
    // The fraction of a hidden collective's time by which computation slows
    // down. 0: that of the link (OverlapSlowdown in topology.h).
    OPPA_FIELD(double, overlap_slowdown, 0.0);
  } collectives;

  struct Pipeline {
    OPPA_FIELD_LIST(Pipeline);
    // Ranks in the order (pipeline, data, tensor), as Megatron-LM, DeepSpeed
    // and nanotron have them: neighboring stages are on different hosts first.
    // False: (data, pipeline, tensor), Colossal-AI's.
    OPPA_FIELD(bool, pipeline_outermost, false);
    // The first and the last stage may hold the embedding or the head alone
    // (Megatron-LM's pipeline-model-parallel-layout, torchtitan's
    // pipeline_parallel_first_stage_less_layers).
    OPPA_FIELD(bool, ends_as_layers, false);
    // Blocks are distributed by cost, where the vocabulary head counts as a
    // number of blocks (nanotron). False: evenly.
    OPPA_FIELD(bool, balance_stages, false);
    // A stage keeps its output until the gradient arrives. False: only the node
    // of the graph (Megatron-LM's deallocate_pipeline_outputs).
    OPPA_FIELD(bool, keep_outputs, true);
    // A pipeline needs at least as many microbatches as stages minus one
    // (nanotron).
    OPPA_FIELD(bool, full_pipeline, false);
    // The gradients of weights are computed after those of inputs have been
    // sent, in the time of a bubble: the schedule ZB-H1, without interleaving
    // only.
    OPPA_FIELD(bool, zero_bubble, false);
    // A message from stage to stage costs Python and batch_isend_irecv.
    OPPA_FIELD(double, p2p_overhead_s, 0.25e-3);
  } pipeline;

  // CPU time.
  struct Dispatch {
    OPPA_FIELD_LIST(Dispatch);
    // One kernel costs this, autograd and Python included; in backward, the C++
    // autograd issues it.
    OPPA_FIELD(double, dispatch_s, 14e-6);
    OPPA_FIELD(double, dispatch_backward_s, 7e-6);
    // A block costs this in addition to its kernels: modules and hooks in
    // Python, bookkeeping of recomputation and of random states.
    OPPA_FIELD(double, block_dispatch_s, 0.0);
    OPPA_FIELD(double, block_backward_dispatch_s, 0.0);
    // Experts (with router and dispatcher) and latent attention of a block cost
    // this in each direction, in addition to their kernels.
    OPPA_FIELD(double, expert_dispatch_s, 0.0);
    OPPA_FIELD(double, latent_dispatch_s, 0.0);
    // CPU and GPU time of an action combine to (cpu^n + gpu^n)^(1/n): kernels
    // vary in length and the CPU runs ahead by only a few of them, so sometimes
    // the CPU waits and sometimes the GPU. 0: the maximum of the two.
    OPPA_FIELD(double, dispatch_norm, 0.0);
    // A step loads data and calls zero_grad and loss.item(); a microbatch
    // slices the batch and runs hooks.
    OPPA_FIELD(double, step_overhead_s, 8e-3);
    OPPA_FIELD(double, microbatch_overhead_s, 0.3e-3);
    // Time that the GPU waits at the loss of every microbatch. The CPU is then
    // not ahead, so the head's time hides no dispatch. 0: no waiting.
    OPPA_FIELD(double, loss_overhead_s, 0.0);
  } dispatch;

  struct Optimizer {
    OPPA_FIELD_LIST(Optimizer);
    // Parameters that the processors of a host update per second, for all its
    // GPUs together, where the optimizer is on the host (Offloaded).
    OPPA_FIELD(double, host_optimizer_elements_per_s, 4e9, kAbove0);
    // Kernels issued per parameter tensor in addition to the fused Adam: casts
    // and copies; ZeRO also norms, scales, packs and unpacks.
    OPPA_FIELD(double, step_kernels, 3.0);
    OPPA_FIELD(double, zero_step_kernels, 7.0);
    // Bytes moved per parameter in mixed precision: weight, moments and
    // gradient in fp32, copies of both in half precision.
    OPPA_FIELD(double, optimizer_bytes, 36.0);
    // State per parameter in mixed precision: master weight and two moments in
    // fp32. With less (masters as 16-bit remainders, half-precision moments),
    // the optimizer reads gradients as they are.
    OPPA_FIELD(double, optimizer_state_bytes, 12.0, kAbove0);
    // Parameter in the precision of computation, copies in 8 bits included. 0:
    // its element.
    OPPA_FIELD(double, parameter_bytes, 0.0);
  } optimizer;

  struct Allocator {
    OPPA_FIELD_LIST(Allocator);
    OPPA_FIELD(double, context_bytes, 0.55e9);  // CUDA context, cuBLAS, kernels
    // Buffers of one communicator. 0: of each channel of its link, receive
    // buffers, one in the ring and two in the tree, of 4 MiB, 4.7 MiB (LL128)
    // and 0.5 MiB (LL). 24 channels take 688 MiB (NVIDIA/nccl#964). Channels
    // of 0 bytes: messages do not pass through NCCL.
    OPPA_FIELD(double, nccl_group_bytes, 0.0);
    OPPA_FIELD(double, nccl_channel_bytes, 30e6);
    // Memory that libraries allocate in addition to tensors: cuBLAS workspaces.
    OPPA_FIELD(double, workspace_bytes, 0.0);
    // Buffers of tensor-parallel collectives, each a tensor of a microbatch,
    // whose memory waits for the GPU: the allocator does not reuse a block that
    // another stream has used before that stream has finished, and the CPU runs
    // ahead. Receiving from another stage stops the CPU.
    OPPA_FIELD(double, pending_messages, 0.0);          // with a pipeline
    OPPA_FIELD(double, pending_messages_unpiped, 0.0);  // without
    // Fraction that the caching allocator holds beyond allocated memory. A
    // choice: GMLake (2024) removes 15 % on average, up to 33 %. The optimum of
    // the Qwen experiment depends on it (docs/simulator.md).
    OPPA_FIELD(double, fragmentation, 0.08);
    // Fraction of the GPU's memory that can be filled: usually the allocator
    // finds no large enough block before all memory is in use.
    OPPA_FIELD(double, usable_memory, 1.0);
    // Where a rank would use more than this fraction if it could, the allocator
    // waits for the device, frees cached blocks and retries, which takes
    // allocator_retry_s in every microbatch, and allocator_remap_s for every
    // byte of a tensor-parallel collective: the driver takes its buffers back
    // and maps them again, for one rank of the group after the other.
    OPPA_FIELD(double, allocator_pressure, 1.0);
    OPPA_FIELD(double, allocator_retry_s, 0.0);
    OPPA_FIELD(double, allocator_remap_s, 0.0);
    // Standard deviation of log(peak / predicted peak): how sure it is that a
    // configuration fits (trials/predictions.h).
    OPPA_FIELD(double, memory_log_stddev, kMemoryLogStddev);
  } allocator;

  // Starting, failing and ending a trial.
  struct Launch {
    OPPA_FIELD_LIST(Launch);
    // A process starts with torchrun, imports and the initialization of CUDA;
    // those of a host start together.
    OPPA_FIELD(double, launch_process_s, 14.0);
    OPPA_FIELD(double, launch_per_local_rank_s, 0.35);
    OPPA_FIELD(double, group_init_s, 1.5);  // rendezvous and first communicator
    OPPA_FIELD(double, group_init_per_rank_s, 0.10);
    // Weights are built in fp32, sharded and cast at this rate.
    OPPA_FIELD(double, weights_bytes_per_s, 0.7e9, kAbove0);
    // The time of set-up over the sum of the terms above.
    OPPA_FIELD(double, setup_factor, 1.0);
    OPPA_FIELD(double, teardown_s, 3.0);
    // From the failure of one rank until every process is gone: the other ranks
    // hang in a collective until the launcher kills them.
    OPPA_FIELD(double, failure_s, 60.0);
  } launch;

  // What its file says beside constants: the kind of its code, with which
  // errors of predictions vary (error_band.h), one of CodeKinds(); the release
  // and the users it describes, in words; the rule sets (docs/search_space.md)
  // with what it cannot do; and the published tables with which its predictions
  // were compared.
  std::string kind = "ordinary";
  std::string release;
  std::vector<std::string> rule_sets;
  std::vector<std::string> compared_with;

  // Bytes of one element of an accumulated gradient.
  [[nodiscard]] double GradientBytes(double element_bytes) const {
    return gradients.fp32_gradients ? 4.0 : element_bytes;
  }

  [[nodiscard]] bool HasWholeExperts(int ep) const {
    return experts.whole_experts && ep > 1;
  }

  // Ranks hold complete copies host by host (HYBRID_SHARD).
  [[nodiscard]] bool ShardsWithinHost() const {
    return sharding.fsdp && sharding.shard_within_host;
  }

  // The slowdown by collectives on a link, given that of the link.
  [[nodiscard]] double Slowdown(double of_link) const {
    return collectives.overlap_slowdown > 0.0 ? collectives.overlap_slowdown
                                              : of_link;
  }

  // Bytes of a ZeRO bucket, given the configuration's.
  [[nodiscard]] double ZeroBucketBytes(int zero_bucket_mb) const {
    return sharding.zero_bucket_bytes > 0.0 ? sharding.zero_bucket_bytes
                                            : zero_bucket_mb * kBucketMegabyte;
  }

  friend bool operator==(const Framework&, const Framework&) = default;
};

// "tuned": fused kernels and overlapped communication, by the maker of the GPU;
// "CPU-bound": a step waits for Python between kernels; "ordinary": neither.
[[nodiscard]] const std::vector<std::string>& CodeKinds();

// Calls visit(key, constant) for every constant, group by group, or
// visit(key, constant, kAbove0).
void VisitFields(common::FieldsOf<Framework> auto& of, const auto& visit) {
  const auto all = [&](auto&... groups) { (VisitFields(groups, visit), ...); };
  all(of.kernels, of.experts, of.recomputation, of.gradients, of.sharding,
      of.collectives, of.pipeline, of.dispatch, of.optimizer, of.allocator,
      of.launch);
}

// True if every step takes the same time and memory: the costs of starting,
// failing and ending a trial may differ.
[[nodiscard]] bool HasSameSteps(Framework a, const Framework& b);

// Lets attention store its scores if it is fused, and fuses it otherwise;
// returns what it is then called: "attention that stores its scores".
std::string ChangeAttention(Framework& framework);

// A file may change another one, `like = "nemo"`: what it omits is as there. A
// name with a release, "nemo@2024-03", is a file as any other.
// Errors: throws InputError with file:line:column.
[[nodiscard]] Framework ReadFramework(const std::filesystem::path& path);
// That file and those that it changes.
[[nodiscard]] std::vector<std::filesystem::path> FrameworkFiles(
    const std::filesystem::path& path);
// The other files of a framework: "nemo" and "nemo@2024-03" belong together.
[[nodiscard]] std::vector<std::string> OtherReleases(const std::string& name);
// "nemo" of "nemo@2024-03".
[[nodiscard]] std::string WithoutRelease(const std::string& name);

// Sets the constants that a table has.
// Errors: throws InputError for a value out of range and for a key that is no
// constant.
void ChangeFramework(const common::TomlTable& table, Framework& framework);

// Whether attention stores its scores. Transformer Engine does so where it has
// no fused kernel: in fp32, and on GPUs before Ampere.
// Source: get_attention_backend in its dot_product_attention/utils.py.
[[nodiscard]] bool StoresScores(const Framework& framework, Precision precision,
                                const Gpu& gpu);

// The framework as it trains this workload on such a GPU: resolves
// StoresScores, bf16_sums and Training::fp32_gradients. Idempotent.
[[nodiscard]] Framework ForWorkload(Framework framework,
                                    const Workload& workload, const Gpu& gpu);

// The framework as it trains with this configuration: resolves dp_replicate,
// etp and torch_compile.
[[nodiscard]] Framework ForConfig(Framework framework,
                                  const ParallelConfig& config);
// The configuration with the default of every knob on which that does not
// depend.
[[nodiscard]] ParallelConfig FrameworkKnobs(const ParallelConfig& config);

// The framework with that name, or the one in the file at that path.
// Errors: as ReadFramework, and for an unknown name, listing the known ones.
[[nodiscard]] Framework FindFramework(const std::string& name);

}  // namespace trials
