// The cost model with the dependence of each mechanism on every size.

#include <algorithm>
#include <functional>
#include <utility>

#include "surrogates/cost/term.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;
using Typical = TypicalValue::Kind;
using Read = Reading::Kind;

// The ratio of the pipeline's duration to that of its microbatches alone: the
// time to fill and drain it. Source: Narayanan et al. (2021), Sec. 2.2.
double PipelineStretch(const ParallelConfig& c) {
  return 1.0 +
         (c.pp - 1.0) / (static_cast<double>(c.microbatches) * c.model_chunks);
}

// A rank's share of the computation: the batch is split over dp, sequences over
// cp, the layers over pp, every layer over tp.
double Computation(const ParallelConfig& c) {
  return PipelineStretch(c) / (static_cast<double>(c.dp) * c.cp * c.tp * c.pp);
}

// Ranks that hold the same parameters. With expert parallelism nearly all
// parameters belong to experts: a rank holds 1 / ep of them.
double Replicas(const ParallelConfig& c) {
  return static_cast<double>(c.dp) * c.cp / c.ep;
}

// A rank's share of the model.
double ModelShare(const ParallelConfig& c) {
  return 1.0 / (static_cast<double>(c.tp) * c.pp * c.ep);
}

// Passes through the layers of a stage in a step.
double Passes(const ParallelConfig& c) {
  return c.microbatches * PipelineStretch(c);
}

bool TensorParallelCrosses(const ParallelConfig& c, const ClusterShape& shape) {
  return shape.multi_node() && c.tp > shape.gpus_per_node;
}

// Expert-parallel ranks are a whole replica apart.
bool ExpertsCross(const ParallelConfig& c, const ClusterShape& shape) {
  return shape.multi_node() && c.ep * c.tp * c.cp * c.pp > shape.gpus_per_node;
}

// Ranks of a data-parallel group that share a host: tp is innermost, so they
// are tp apart, or a whole replica where data is outermost (ep times as far
// with expert parallelism).
double DataParallelPerNode(const ParallelConfig& c, const ClusterShape& shape) {
  const int replica =
      shape.rank_order == trials::RankOrder::kDataOutermost ? c.pp : 1;
  return std::clamp(
      static_cast<double>(shape.gpus_per_node) / (c.tp * replica * c.ep), 1.0,
      Replicas(c));
}

// The groups of different parameters that share a host's link times the share
// of the model that each of them sends.
double SharePerNode(const ParallelConfig& c, const ClusterShape& shape) {
  return shape.gpus_per_node / DataParallelPerNode(c, shape) * ModelShare(c);
}

// A term that is zero unless `used`.
template <typename Used, typename Feature>
auto If(const Used& used, const Feature& feature) {
  return [=](const ParallelConfig& c) { return used(c) ? feature(c) : 0.0; };
}

bool Recomputes(const ParallelConfig& c) {
  return c.grad_checkpoint == trials::kRecomputeFull;
}

bool KeepsAttention(const ParallelConfig& c) {
  return c.grad_checkpoint == trials::kRecomputeNothing;
}

// Data of one collective over the replicas.
double ReplicaVolume(const ParallelConfig& c) {
  return RingVolume(Replicas(c)) * ModelShare(c);
}

// Data and collectives of a group of `ranks` in every layer of a stage.
double LayerVolume(const ParallelConfig& c, int ranks) {
  return RingVolume(ranks) * PipelineStretch(c) / (c.dp * c.cp * c.pp);
}
double LayerLatency(const ParallelConfig& c, int ranks) {
  return RingLatency(ranks) * Passes(c) / c.pp;
}

// Times that a rank's gradients are reduced in a step: ZeRO 2 and 3 keep only a
// shard of them, so every microbatch reduces its own.
double Reductions(const ParallelConfig& c) {
  return c.zero_stage >= 2 ? c.microbatches : 1.0;
}

// Amounts that turn coefficients into physical numbers.
double One(const JobSizes& /*sizes*/) { return 1.0; }
double ModelBytes(const JobSizes& s) {
  return s.parameters * s.bytes_per_value;
}
double TwoModels(const JobSizes& s) { return 2.0 * ModelBytes(s); }
double LayerBytes(const JobSizes& s) {
  return s.tokens * s.hidden_size * s.bytes_per_value;
}
double AllReducedBytes(const JobSizes& s) {
  return 8.0 * s.layers * LayerBytes(s);
}
// Two forward and two backward; experts have as many all-to-alls.
double AllReduces(const JobSizes& s) { return 4.0 * s.layers; }
double CheckpointBytes(const JobSizes& s) { return s.layers * LayerBytes(s); }

// Sequences of activations that a stage holds at once, in units of the batch
// and per layer: 1F1B keeps min(pp, microbatches) microbatches in flight,
// interleaving slightly more.
double ActivationsInFlight(const ParallelConfig& c) {
  const double in_flight = std::min(c.pp, c.microbatches);
  const double interleaved =
      c.model_chunks > 1
          ? 1.0 + (c.pp - 1.0) / (static_cast<double>(c.pp) * c.model_chunks)
          : 1.0;
  return in_flight * interleaved /
         (static_cast<double>(c.dp) * c.cp * c.microbatches * c.pp * c.tp);
}

double SequencesAtOnce(const ParallelConfig& c) {
  return 1.0 / (static_cast<double>(c.dp) * c.cp * c.microbatches * c.tp);
}

// Activations in units of those that tensor parallelism alone splits, where a
// share of them is split by sequence parallelism only. 1 for sp = tp.
double SplitBySequence(const ParallelConfig& c, double share) {
  return 1.0 + share * (static_cast<double>(c.tp) / c.sp - 1.0);
}

// A rank's share of a state that ZeRO shards from this stage on.
double StateShard(const ParallelConfig& c, int from_stage) {
  return ModelShare(c) / (c.zero_stage >= from_stage ? Replicas(c) : 1.0);
}

CostTerm TermOf(const char* name, const char* meaning,
                std::function<double(const ParallelConfig&)> feature,
                const TypicalValue& typical, const Reading& reading = {}) {
  return {name, meaning, std::move(feature), typical, reading};
}

// The typical values rest on these sizes: F / B, the FLOP that a GPU computes
// while it sends a byte, is about 1,500 within a host and 4,000 to 10,000
// between hosts; a sequence has about 2,000 tokens, a model a width of about
// 3,000.
std::vector<CostTerm> ComputationTerms() {
  return {
      // Computation. No configuration is faster.
      TermOf("compute", "computation of the batch on one GPU", Computation,
             {Typical::kRatio, 1.0, 0.5}, {Read::kFlopRate, FlopOfStep}),
      // A second forward pass.
      TermOf("recompute", "recomputation with checkpointing",
             If(Recomputes, Computation), {Typical::kRatio, 1.0 / 3.0, 0.3}),
      // Launching kernels and reading weights costs the same for any
      // microbatch; a layer launches some 50 kernels per microbatch.
      TermOf("launch", "fixed cost of a microbatch, all layers",
             [](const ParallelConfig& c) { return Passes(c) / c.pp; },
             {Typical::kAbsolute, 0.03, 1.0}),
      // 30 bytes per parameter at 2 TB/s, against 6 FLOP per parameter and
      // token.
      TermOf("optimizer", "optimizer step, whole model on one GPU",
             [](const ParallelConfig& c) { return StateShard(c, 1); },
             {Typical::kPerStep, 1.0, 1.0}),
      TermOf("constant", "fixed cost of a step",
             [](const ParallelConfig&) { return 1.0; },
             {Typical::kAbsolute, 0.03, 1.5}),
  };
}

std::vector<CostTerm> DataParallelTerms(const ClusterShape& shape) {
  return {
      // Data parallelism. The gradients of a rank's parameters are reduced once
      // per step (Reductions): within the host, then by all of its groups at
      // once over the host's links. 4 to 8 bytes per parameter, against 6 FLOP
      // per parameter and token.
      TermOf("DP volume, intra-node",
             "all-reduce of all gradients within a host",
             [=](const ParallelConfig& c) {
               return Reductions(c) *
                      RingVolume(DataParallelPerNode(c, shape)) * ModelShare(c);
             },
             {Typical::kPerStep, 1.35, 1.2}, {Read::kBandwidth, TwoModels}),
      TermOf("DP volume, inter-node",
             "all-reduce of all gradients between hosts",
             [=](const ParallelConfig& c) {
               const double per_node = DataParallelPerNode(c, shape);
               return Reductions(c) * RingVolume(Replicas(c) / per_node) *
                      SharePerNode(c, shape);
             },
             {Typical::kPerStep, 1.65, 1.2}, {Read::kBandwidth, TwoModels}),
      TermOf("DP latency", "one message of the gradients' ring",
             [](const ParallelConfig& c) {
               return Reductions(c) * RingLatency(Replicas(c));
             },
             {Typical::kAbsolute, 1e-4, 1.5}, {Read::kLatency, One}),
      // Communication that ZeRO adds: updated parameters are all-gathered after
      // the step (at stage 3 also before every use), and without overlap the
      // reduction of gradients is not hidden behind the backward pass.
      TermOf("ZeRO gather", "all-gather of updated parameters, not hidden",
             If(
                 [](const ParallelConfig& c) {
                   return c.zero_stage > 0 && !c.overlap_zero_allgather;
                 },
                 ReplicaVolume),
             {Typical::kPerStep, 1.0, 1.2}, {Read::kBandwidth, ModelBytes}),
      TermOf("ZeRO reduce, not hidden",
             "reduction of gradients without overlap",
             If(
                 [](const ParallelConfig& c) {
                   return c.zero_stage > 0 && !c.overlap_zero_comm;
                 },
                 [](const ParallelConfig& c) {
                   return Reductions(c) * ReplicaVolume(c);
                 }),
             {Typical::kPerStep, 1.0, 1.2}, {Read::kBandwidth, ModelBytes}),
      TermOf("ZeRO-3 gather", "all-gather of parameters before each use",
             If([](const ParallelConfig& c) { return c.zero_stage == 3; },
                [](const ParallelConfig& c) {
                  return c.microbatches * ReplicaVolume(c);
                }),
             {Typical::kPerStep, 2.0, 1.2}, {Read::kBandwidth, TwoModels}),
  };
}

std::vector<CostTerm> ModelParallelTerms(const ClusterShape& shape) {
  const auto tp_within = [=](const ParallelConfig& c) {
    return !TensorParallelCrosses(c, shape);
  };
  const auto tp_across = std::not_fn(tp_within);
  const auto ep_within = [=](const ParallelConfig& c) {
    return !ExpertsCross(c, shape);
  };
  const auto ep_across = std::not_fn(ep_within);
  const auto tp_volume = [](const ParallelConfig& c) {
    return LayerVolume(c, c.tp);
  };
  const auto tp_latency = [](const ParallelConfig& c) {
    return LayerLatency(c, c.tp);
  };
  const auto ep_volume = [](const ParallelConfig& c) {
    return LayerVolume(c, c.ep);
  };
  const auto ep_latency = [](const ParallelConfig& c) {
    return LayerLatency(c, c.ep);
  };
  const auto pipelined = [](const ParallelConfig& c) { return c.pp > 1; };
  return {
      // Tensor parallelism. Every layer of a stage all-reduces its activations
      // for every microbatch: 16 bytes per layer, token and unit of width,
      // against 72 FLOP times the width.
      TermOf("TP volume, intra-node",
             "all-reduces of activations within a host",
             If(tp_within, tp_volume), {Typical::kRatio, 0.11, 0.8},
             {Read::kBandwidth, AllReducedBytes}),
      TermOf("TP latency, intra-node",
             "one all-reduce of activations within a host",
             If(tp_within, tp_latency), {Typical::kAbsolute, 2e-3, 1.2},
             {Read::kLatency, AllReduces}),
      TermOf("TP volume, inter-node",
             "all-reduces of activations between hosts",
             If(tp_across, tp_volume), {Typical::kRatio, 0.37, 1.0},
             {Read::kBandwidth, AllReducedBytes}),
      TermOf("TP latency, inter-node",
             "one all-reduce of activations between hosts",
             If(tp_across, tp_latency), {Typical::kAbsolute, 4e-3, 1.2},
             {Read::kLatency, AllReduces}),
      // Expert parallelism. Every layer sends the tokens to their experts and
      // back: as TP, for the tokens of top-2 routing.
      TermOf("EP volume, intra-node", "tokens to their experts within a host",
             If(ep_within, ep_volume), {Typical::kRatio, 0.1, 1.2}),
      TermOf("EP latency, intra-node", "one all-to-all of tokens within a host",
             If(ep_within, ep_latency), {Typical::kAbsolute, 2e-3, 1.2},
             {Read::kLatency, AllReduces}),
      TermOf("EP volume, inter-node", "tokens to their experts between hosts",
             If(ep_across, ep_volume), {Typical::kRatio, 0.4, 1.2}),
      TermOf("EP latency, inter-node", "one all-to-all of tokens between hosts",
             If(ep_across, ep_latency), {Typical::kAbsolute, 4e-3, 1.2},
             {Read::kLatency, AllReduces}),
      // Context parallelism: keys and values circulate among the ranks, or,
      // with sequence-parallel ranks of their own, an all-to-all exchanges
      // tokens for heads.
      TermOf("CP volume", "activations between ranks that share a sequence",
             [](const ParallelConfig& c) {
               return RingVolume(c.cp) * Computation(c);
             },
             {Typical::kRatio, 0.1, 1.2}),
      // Pipeline parallelism. Neighbouring stages exchange every microbatch,
      // once per chunk: 2 bytes per token and unit of width, against 72 FLOP
      // times layers and width squared.
      TermOf("PP volume", "activations from stage to stage",
             If(pipelined,
                [](const ParallelConfig& c) {
                  return 2.0 * c.model_chunks * PipelineStretch(c) /
                         (c.dp * c.cp);
                }),
             {Typical::kRatio, 4e-3, 1.5}, {Read::kBandwidth, LayerBytes}),
      // Stages wait for each other at every transfer.
      TermOf("PP latency", "one transfer from stage to stage",
             If(pipelined,
                [](const ParallelConfig& c) {
                  return 2.0 * c.model_chunks * Passes(c);
                }),
             {Typical::kAbsolute, 5e-3, 1.7}, {Read::kLatency, One}),
  };
}

}  // namespace

double FlopOfStep(const JobSizes& sizes) {
  return 6.0 * sizes.active_parameters * sizes.tokens;
}

double StateBytes(const JobSizes& sizes) { return 16.0 * sizes.parameters; }

JobSizes SizesOf(const trials::Workload& workload, double capacity_bytes) {
  const trials::Model& model = workload.model;
  return {.capacity_bytes = capacity_bytes,
          .parameters = static_cast<double>(ParameterCount(model)),
          .active_parameters = static_cast<double>(ActiveParameterCount(model)),
          .bytes_per_value =
              workload.precision == trials::Precision::kFp32 ? 4.0 : 2.0,
          .layers = static_cast<double>(model.layers),
          .hidden_size = static_cast<double>(model.hidden_size),
          .tokens = static_cast<double>(workload.batch_size) *
                    workload.sequence_length};
}

bool SplitsWithinTp(const ParallelConfig& c, const ClusterShape& shape) {
  const double ranks = static_cast<double>(c.dp) * c.tp * c.pp * c.cp;
  return c.sp > 1 && c.tp % c.sp == 0 && ranks * c.sp != shape.Of(c).gpus;
}

ParallelConfig WithSequenceRanks(ParallelConfig c, const ClusterShape& shape) {
  if (c.sp == 1 || SplitsWithinTp(c, shape)) {
    return c;
  }
  const int sp = std::exchange(c.sp, 1);
  if (static_cast<double>(c.dp) * c.tp * c.pp * c.cp * sp == shape.Of(c).gpus) {
    c.cp *= sp;
  } else if (c.dp % sp == 0) {
    c.dp /= sp;
    c.cp *= sp;
  }
  return c;
}

std::vector<CostTerm> PhysicalTimeTerms(const ClusterShape& shape) {
  std::vector<CostTerm> terms = ComputationTerms();
  for (const std::vector<CostTerm>& others :
       {DataParallelTerms(shape), ModelParallelTerms(shape)}) {
    terms.insert(terms.end(), others.begin(), others.end());
  }
  return terms;
}

// 16 bytes per parameter, 34 per token, layer and unit of width.
// Source: Rajbhandari et al. (2020), Sec. 3; Korthikanti et al. (2022), Eq. 1.
// Of the 34, tensor parallelism alone leaves 10 whole: inputs and dropout masks
// of norms. A checkpoint is such an input. Source: ibid., Eqs. 2 and 4.
std::vector<CostTerm> PhysicalMemoryTerms(const ActivationKnobs& sets) {
  const auto in_flight = [=](double share) {
    return [=](const ParallelConfig& c) {
      return ActivationsInFlight(c) *
             (sets.sp ? SplitBySequence(c, share) : 1.0);
    };
  };
  std::vector<CostTerm> terms = {
      // Parameters, gradients and optimizer state as mixed-precision Adam has
      // them are the last term. The first three are what a framework keeps in
      // addition: gradients in single precision, copies.
      TermOf("parameters", "parameters beyond that",
             [](const ParallelConfig& c) { return StateShard(c, 3); },
             {Typical::kRatio, 0.02, 1.0}, {Read::kMemory}),
      TermOf("gradients", "gradients beyond that",
             [](const ParallelConfig& c) { return StateShard(c, 2); },
             {Typical::kRatio, 0.02, 1.0}, {Read::kMemory}),
      TermOf("optimizer state", "optimizer state beyond that",
             [](const ParallelConfig& c) { return StateShard(c, 1); },
             {Typical::kRatio, 0.1, 1.0}, {Read::kMemory}),
      TermOf("activations", "activations of the batch, all layers",
             If(std::not_fn(Recomputes), in_flight(10.0 / 34.0)),
             {Typical::kPerSequence, 0.22, 1.0}, {Read::kMemory}),
      // 2 bytes of the 34, and the recomputed activations.
      TermOf("checkpoints", "checkpointed activations of the batch",
             If(Recomputes, in_flight(1.0)),
             {Typical::kPerSequence, 0.014, 1.0},
             {Read::kMemory, CheckpointBytes}),
      // Logits, and the activations of the layer that is being computed.
      TermOf("one microbatch", "logits and one layer, whole batch",
             SequencesAtOnce, {Typical::kPerSequence, 0.025, 1.0},
             {Read::kMemory}),
      TermOf("constant", "fixed memory of a GPU",
             [](const ParallelConfig&) { return 1.0; },
             {Typical::kAbsolute, 0.04, 0.8}, {Read::kMemory}),
      // 2 + 2 + 12 of 16 bytes, one term: their ratio is known, and a
      // configuration that ran out of memory informs about all three at once.
      TermOf("model state", "parameters, gradients and optimizer, as sharded",
             [](const ParallelConfig& c) {
               return 2.0 / 16.0 * StateShard(c, 3) +
                      2.0 / 16.0 * StateShard(c, 2) +
                      12.0 / 16.0 * StateShard(c, 1);
             },
             {Typical::kRatio, 1.0, 0.5}, {Read::kMemory, StateBytes}),
  };
  if (sets.attention) {
    // 5 heads tokens / width bytes beside the 34 where attention is not fused:
    // 2 to 10 times as much. Nothing where it is.
    terms.insert(terms.end() - 1,
                 TermOf("attention", "scores of attention, all layers",
                        If(KeepsAttention, ActivationsInFlight),
                        {Typical::kPerSequence, 0.03, 1.5}, {Read::kMemory}));
  }
  return terms;
}

}  // namespace surrogates
