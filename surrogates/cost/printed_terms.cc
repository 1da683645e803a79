// The cost model as App. D of the paper prints it.

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "surrogates/cost/term.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;
using Read = Reading::Kind;

// The links of a cluster, as names of terms and their meanings say them.
struct ClusterLink {
  bool between_hosts;
  const char* name;
  const char* place;
};
constexpr ClusterLink kClusterLinks[] = {{false, "intra-node", "within a host"},
                                         {true, "inter-node", "between hosts"}};

// A ring of ranks, and the fraction of the gradients that it reduces.
struct Ring {
  double ranks = 1.0;
  double fraction = 1.0;
};

// The rings of a data-parallel group as Eqs. 13-15 place it: within a host and
// between hosts.
std::array<Ring, 2> RingsOf(const ParallelConfig& config,
                            const ClusterShape& shape) {
  const double dp = config.dp;
  const double node = shape.gpus_per_node;
  if (!shape.multi_node()) {
    return {Ring{dp}, Ring{}};  // flat intra-node, Eq. 15
  }
  if (config.dp > shape.gpus_per_node) {  // hierarchical, Eq. 13
    return {Ring{node}, Ring{std::ceil(dp / node), 1.0 / node}};
  }
  return {Ring{}, Ring{dp}};  // flat inter-node, Eq. 14
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
  std::vector<CostTerm> terms = {
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
       Share(1.0)}};
  const auto add = [&](const char* name, const ClusterLink& link,
                       std::string meaning, auto feature, double share,
                       const Reading& reading = {}) {
    terms.push_back({fmt::format("{}, {}", name, link.name), std::move(meaning),
                     feature, Share(share), reading});
  };
  const auto ring = [shape](const ParallelConfig& c, bool between_hosts) {
    return RingsOf(c, shape.Of(c))[between_hosts ? 1 : 0];
  };
  const auto volume = [ring](const ParallelConfig& c, bool between_hosts) {
    const Ring own = ring(c, between_hosts);
    return RingVolume(own.ranks) * own.fraction / (c.tp * c.pp);
  };
  // Eqs. 11-15
  for (const ClusterLink& link : kClusterLinks) {
    const bool inter = link.between_hosts;
    add("DP latency", link,
        fmt::format("one message of the gradients' ring {}", link.place),
        [=](const ParallelConfig& c) {
          return RingLatency(ring(c, inter).ranks);
        },
        0.05, {Read::kLatency, Unscaled});
    add("DP volume", link,
        fmt::format("all-reduce of all gradients {}", link.place),
        [=](const ParallelConfig& c) { return volume(c, inter); },
        inter ? 0.6 : 0.3, {Read::kBandwidth, BytesOfTwoModels});
  }
  // lambda_Z of Eq. 12: the additional volume of ZeRO-3.
  for (const ClusterLink& link : kClusterLinks) {
    const bool inter = link.between_hosts;
    add(
        "DP volume ZeRO-3", link,
        "additional volume of ZeRO-3: lambda_Z of Eq. 12",
        [=](const ParallelConfig& c) {
          return c.zero_stage < 3 ? 0.0 : volume(c, inter);
        },
        inter ? 0.4 : 0.2);
  }
  // Eq. 16
  for (const ClusterLink& link : kClusterLinks) {
    const auto operations = [=](const ParallelConfig& c) {
      const bool crosses =
          shape.Of(c).multi_node() && c.tp > shape.gpus_per_node;
      return crosses == link.between_hosts ? c.microbatches : 0;
    };
    add(
        "TP latency", link,
        fmt::format("O_tp messages of Eq. 16 {}", link.place),
        [=](const ParallelConfig& c) {
          return operations(c) * RingLatency(c.tp);
        },
        0.05);
    add(
        "TP volume", link,
        fmt::format("O_tp M_act,tp of Eq. 16 {}", link.place),
        [=](const ParallelConfig& c) {
          return operations(c) * RingVolume(c.tp);
        },
        0.3);
  }
  // Eqs. 17-18, "approximated if N_H > 1": with several hosts some stage
  // boundary lies between two of them, and the slowest one sets the pace.
  for (const ClusterLink& link : kClusterLinks) {
    add(
        "PP transfers", link, "one transfer of Eq. 18",
        [=](const ParallelConfig& c) {
          return shape.Of(c).multi_node() == link.between_hosts
                     ? 2.0 * c.microbatches * (c.pp - 1.0)
                     : 0.0;
        },
        0.05);
  }
  return terms;
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
