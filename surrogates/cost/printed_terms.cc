// The cost model as App. D of the paper prints it.

#include <cmath>

#include "surrogates/cost/term.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;
using Read = Reading::Kind;

// The data-parallel group as Eqs. 13-15 place it: how many ranks reduce within
// a host, how many across, and the fraction of the data that crosses.
struct DataParallelGroup {
  double intra_ranks = 1.0;
  double inter_ranks = 1.0;
  double inter_fraction = 1.0;
};

DataParallelGroup PlaceDataParallel(const ParallelConfig& config,
                                    const ClusterShape& shape) {
  const double dp = config.dp;
  const double node = shape.gpus_per_node;
  if (!shape.multi_node()) {
    return {dp, 1.0, 1.0};  // flat intra-node, Eq. 15
  }
  if (config.dp > shape.gpus_per_node) {
    return {node, std::ceil(dp / node), 1.0 / node};  // hierarchical, Eq. 13
  }
  return {1.0, dp, 1.0};  // flat inter-node, Eq. 14
}

double Unscaled(const JobSizes& /*sizes*/) { return 1.0; }
double BytesOfTwoModels(const JobSizes& s) {
  return 2.0 * s.parameters * s.bytes_per_value;
}

// The prior: `share` of a typical step, or of the capacity, at the candidate
// where the term is largest.
TypicalValue Share(double share, double log_stddev = 1.5) {
  return {TypicalValue::Kind::kShare, share, log_stddev};
}

}  // namespace

std::vector<CostTerm> PrintedTimeTerms(const ClusterShape& shape,
                                       ComputeTime t_comp) {
  const auto place = [shape](const ParallelConfig& c) {
    return PlaceDataParallel(c, shape.Of(c));
  };
  const auto intra_volume = [=](const ParallelConfig& c) {
    return RingVolume(place(c).intra_ranks) / (c.tp * c.pp);
  };
  const auto inter_volume = [=](const ParallelConfig& c) {
    const DataParallelGroup group = place(c);
    return RingVolume(group.inter_ranks) * group.inter_fraction / (c.tp * c.pp);
  };
  const auto tp_operations = [=](const ParallelConfig& c, bool inter) {
    const bool crosses = shape.Of(c).multi_node() && c.tp > shape.gpus_per_node;
    return crosses == inter ? c.microbatches : 0;
  };
  const auto tp_latency = [=](bool inter) {
    return [=](const ParallelConfig& c) {
      return tp_operations(c, inter) * RingLatency(c.tp);
    };
  };
  const auto tp_volume = [=](bool inter) {
    return [=](const ParallelConfig& c) {
      return tp_operations(c, inter) * RingVolume(c.tp);
    };
  };
  // "Approximated if N_H > 1": with several hosts some stage boundary lies
  // between two of them, and the slowest one sets the pace.
  const auto transfers = [=](bool inter) {
    return [=](const ParallelConfig& c) {
      return shape.Of(c).multi_node() == inter
                 ? 2.0 * c.microbatches * (c.pp - 1.0)
                 : 0.0;
    };
  };
  return {
      // Eq. 10
      {"compute", "t_comp of Eq. 10",
       [=](const ParallelConfig& c) {
         const double gpus = shape.Of(c).gpus;
         const double microbatches =
             c.microbatches + (c.pp - 1.0) / c.model_chunks;
         return t_comp == ComputeTime::kOfBatch
                    ? microbatches / c.microbatches / gpus
                    : microbatches / gpus;
       },
       Share(1.0)},
      // Eqs. 11-15
      {"DP latency, intra-node",
       "one message of the gradients' ring within a host",
       [=](const ParallelConfig& c) {
         return RingLatency(place(c).intra_ranks);
       },
       Share(0.05),
       {Read::kLatency, Unscaled}},
      {"DP volume, intra-node",
       "all-reduce of all gradients within a host",
       intra_volume,
       Share(0.3),
       {Read::kBandwidth, BytesOfTwoModels}},
      {"DP latency, inter-node",
       "one message of the gradients' ring between hosts",
       [=](const ParallelConfig& c) {
         return RingLatency(place(c).inter_ranks);
       },
       Share(0.05),
       {Read::kLatency, Unscaled}},
      {"DP volume, inter-node",
       "all-reduce of all gradients between hosts",
       inter_volume,
       Share(0.6),
       {Read::kBandwidth, BytesOfTwoModels}},
      // lambda_Z of Eq. 12: the additional volume of ZeRO-3.
      {"DP volume ZeRO-3, intra-node",
       "additional volume of ZeRO-3: lambda_Z of Eq. 12",
       [=](const ParallelConfig& c) {
         return c.zero_stage < 3 ? 0.0 : intra_volume(c);
       },
       Share(0.2)},
      {"DP volume ZeRO-3, inter-node",
       "additional volume of ZeRO-3: lambda_Z of Eq. 12",
       [=](const ParallelConfig& c) {
         return c.zero_stage < 3 ? 0.0 : inter_volume(c);
       },
       Share(0.4)},
      // Eq. 16
      {"TP latency, intra-node", "O_tp messages of Eq. 16 within a host",
       tp_latency(false), Share(0.05)},
      {"TP volume, intra-node", "O_tp M_act,tp of Eq. 16 within a host",
       tp_volume(false), Share(0.3)},
      {"TP latency, inter-node", "O_tp messages of Eq. 16 between hosts",
       tp_latency(true), Share(0.05)},
      {"TP volume, inter-node", "O_tp M_act,tp of Eq. 16 between hosts",
       tp_volume(true), Share(0.3)},
      // Eqs. 17-18
      {"PP transfers, intra-node", "one transfer of Eq. 18", transfers(false),
       Share(0.05)},
      {"PP transfers, inter-node", "one transfer of Eq. 18", transfers(true),
       Share(0.05)},
  };
}

std::vector<CostTerm> PrintedMemoryTerms(const ClusterShape& shape) {
  return {
      {"model state",
       "m_1 of Eq. 21: model state",
       [](const ParallelConfig& c) { return 1.0 / (c.pp * c.tp); },
       Share(1.0),
       {Read::kMemory}},
      {"activations",
       "m_2 of Eq. 21: backward pass",
       [=](const ParallelConfig& c) {
         const double gpus = shape.Of(c).gpus;
         return 1.0 / (gpus * c.microbatches);
       },
       Share(3.0),
       {Read::kMemory}},
      {"constant",
       "m_3 of Eq. 21: everything else",
       [](const ParallelConfig&) { return 1.0; },
       Share(0.1, 1.0),
       {Read::kMemory}},
  };
}

}  // namespace surrogates
