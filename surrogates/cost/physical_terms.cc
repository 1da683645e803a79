// The cost model with the dependence of each mechanism on every size.

#include <algorithm>

#include "surrogates/cost/term.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;

// How much longer the pipeline takes than its microbatches alone: the time to
// fill and drain it. Source: Narayanan et al. (2021), Sec. 2.2.
double PipelineStretch(const ParallelConfig& c) {
  return 1.0 +
         (c.pp - 1.0) / (static_cast<double>(c.microbatches) * c.model_chunks);
}

// A rank's part of the computation: the batch split over dp, sequences over cp,
// the layers over pp, every layer over tp.
double Computation(const ParallelConfig& c) {
  return PipelineStretch(c) / (static_cast<double>(c.dp) * c.cp * c.tp * c.pp);
}

// Ranks that hold copies of the same parameters. Where experts are spread (ep
// > 1) nearly all parameters are theirs: a rank holds 1 / ep of them.
double Copies(const ParallelConfig& c) {
  return static_cast<double>(c.dp) * c.cp / c.ep;
}

// A rank's part of the model.
double Held(const ParallelConfig& c) {
  return 1.0 / (static_cast<double>(c.tp) * c.pp * c.ep);
}

// Times that the layers of a stage are run through in a step.
double Passes(const ParallelConfig& c) {
  return c.microbatches * PipelineStretch(c);
}

bool TensorParallelCrosses(const ParallelConfig& c, const ClusterShape& shape) {
  return shape.multi_node() && c.tp > shape.gpus_per_node;
}

// Expert-parallel ranks stand a whole replica apart.
bool ExpertsCross(const ParallelConfig& c, const ClusterShape& shape) {
  return shape.multi_node() && c.ep * c.tp * c.cp * c.pp > shape.gpus_per_node;
}

// Ranks of a data-parallel group that share a host; tp is innermost, so they
// stand tp apart (and ep times as far where experts are spread).
double DataParallelPerNode(const ParallelConfig& c, const ClusterShape& shape) {
  return std::clamp(
      static_cast<double>(shape.gpus_per_node) / (c.tp * c.ep), 1.0, Copies(c));
}

void AddComputation(std::vector<CostTerm>& terms) {
  // No configuration is faster than its computation.
  terms.push_back({"compute", "s", Computation});
  terms.push_back({"recompute", "s", [](const ParallelConfig& c) {
                     return c.grad_checkpoint == trials::kRecomputeFull
                                ? Computation(c)
                                : 0.0;
                   }});
  // Launching kernels and reading weights costs the same for any microbatch.
  terms.push_back({"launch", "s", [](const ParallelConfig& c) {
                     return Passes(c) / c.pp;
                   }});
  terms.push_back({"optimizer", "s", [](const ParallelConfig& c) {
                     return Held(c) / (c.zero_stage > 0 ? Copies(c) : 1.0);
                   }});
  terms.push_back({"constant", "s", [](const ParallelConfig&) { return 1.0; }});
}

// The gradients of a rank's parameters are reduced once per step: within the
// host, then by all of its groups at once over the host's links.
void AddDataParallel(const ClusterShape& shape, std::vector<CostTerm>& terms) {
  terms.push_back({"DP volume, intra-node", "s", [=](const ParallelConfig& c) {
                     return RingVolume(DataParallelPerNode(c, shape)) * Held(c);
                   }});
  terms.push_back({"DP volume, inter-node", "s", [=](const ParallelConfig& c) {
                     const double per_node = DataParallelPerNode(c, shape);
                     return RingVolume(Copies(c) / per_node) / c.pp;
                   }});
  terms.push_back({"DP latency", "s", [](const ParallelConfig& c) {
                     return RingLatency(Copies(c));
                   }});
  // What ZeRO moves besides: updated parameters are gathered after the step
  // (and, at stage 3, before every use), gradients are reduced without hiding
  // behind the backward pass where the overlap is off.
  const auto moved = [](bool moves, const ParallelConfig& c) {
    return moves ? RingVolume(Copies(c)) * Held(c) : 0.0;
  };
  terms.push_back({"ZeRO gather", "s", [=](const ParallelConfig& c) {
                     return moved(c.zero_stage > 0 && !c.overlap_zero_allgather,
                                  c);
                   }});
  terms.push_back(
      {"ZeRO reduce, not hidden", "s", [=](const ParallelConfig& c) {
         return moved(c.zero_stage > 0 && !c.overlap_zero_comm, c);
       }});
  terms.push_back({"ZeRO-3 gather", "s", [=](const ParallelConfig& c) {
                     return moved(c.zero_stage == 3, c);
                   }});
}

// Every layer of a stage all-reduces its activations, for every microbatch.
void AddTensorParallel(const ClusterShape& shape,
                       std::vector<CostTerm>& terms) {
  for (const bool inter : {false, true}) {
    const std::string link = inter ? "inter-node" : "intra-node";
    const auto if_used = [=](double value, const ParallelConfig& c) {
      return TensorParallelCrosses(c, shape) == inter ? value : 0.0;
    };
    terms.push_back({"TP volume, " + link, "s", [=](const ParallelConfig& c) {
                       return if_used(RingVolume(c.tp) * PipelineStretch(c) /
                                          (c.dp * c.cp * c.pp),
                                      c);
                     }});
    terms.push_back({"TP latency, " + link, "s", [=](const ParallelConfig& c) {
                       return if_used(RingLatency(c.tp) * Passes(c) / c.pp, c);
                     }});
  }
}

// Every layer sends the tokens to their experts and back; keys and values go
// around the context-parallel ranks. Nothing without ep or cp.
void AddExpertsAndContexts(const ClusterShape& shape,
                           std::vector<CostTerm>& terms) {
  for (const bool inter : {false, true}) {
    const std::string link = inter ? "inter-node" : "intra-node";
    const auto if_used = [=](double value, const ParallelConfig& c) {
      return ExpertsCross(c, shape) == inter ? value : 0.0;
    };
    terms.push_back({"EP volume, " + link, "s", [=](const ParallelConfig& c) {
                       return if_used(RingVolume(c.ep) * PipelineStretch(c) /
                                          (c.dp * c.cp * c.pp),
                                      c);
                     }});
    terms.push_back({"EP latency, " + link, "s", [=](const ParallelConfig& c) {
                       return if_used(RingLatency(c.ep) * Passes(c) / c.pp, c);
                     }});
  }
  terms.push_back({"CP volume", "s", [](const ParallelConfig& c) {
                     return RingVolume(c.cp) * Computation(c);
                   }});
}

// Neighbouring stages pass every microbatch on; chunks multiply the transfers.
void AddPipeline(std::vector<CostTerm>& terms) {
  terms.push_back({"PP volume", "s", [](const ParallelConfig& c) {
                     return c.pp == 1 ? 0.0
                                      : 2.0 * c.model_chunks *
                                            PipelineStretch(c) / (c.dp * c.cp);
                   }});
  terms.push_back({"PP latency", "s", [](const ParallelConfig& c) {
                     return c.pp == 1 ? 0.0 : 2.0 * c.model_chunks * Passes(c);
                   }});
}

// Sequences of activations that a stage holds at once, in units of the batch,
// and per layer: 1F1B keeps min(pp, microbatches) microbatches in flight,
// interleaving some more.
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

// What a rank holds, and of that its share from the ZeRO stage that shards it.
double StateShard(const ParallelConfig& c, int from_stage) {
  return Held(c) / (c.zero_stage >= from_stage ? Copies(c) : 1.0);
}

}  // namespace

std::vector<CostTerm> PhysicalTimeTerms(const ClusterShape& shape) {
  std::vector<CostTerm> terms;
  AddComputation(terms);
  AddDataParallel(shape, terms);
  AddTensorParallel(shape, terms);
  AddExpertsAndContexts(shape, terms);
  AddPipeline(terms);
  return terms;
}

std::vector<CostTerm> PhysicalMemoryTerms(const ClusterShape& /*shape*/) {
  return {{"parameters",
           "capacity",
           [](const ParallelConfig& c) { return StateShard(c, 3); }},
          {"gradients",
           "capacity",
           [](const ParallelConfig& c) { return StateShard(c, 2); }},
          {"optimizer state",
           "capacity",
           [](const ParallelConfig& c) { return StateShard(c, 1); }},
          {"activations",
           "capacity",
           [](const ParallelConfig& c) {
             return c.grad_checkpoint == trials::kRecomputeFull
                        ? 0.0
                        : ActivationsInFlight(c);
           }},
          {"checkpoints",
           "capacity",
           [](const ParallelConfig& c) {
             return c.grad_checkpoint == trials::kRecomputeFull
                        ? ActivationsInFlight(c)
                        : 0.0;
           }},
          // Logits, and the layer that is being computed.
          {"one microbatch", "capacity", SequencesAtOnce},
          {"constant", "capacity", [](const ParallelConfig&) { return 1.0; }}};
}

}  // namespace surrogates
