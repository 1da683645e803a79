// The location of each rank, and the links between ranks when all groups of one
// kind communicate at the same time.

#pragma once

#include <span>
#include <vector>

#include "trials/cluster.h"
#include "trials/collective_rates.h"

namespace trials {

// Ranks of a (dp, pp, cp, tp) grid, tp innermost and dp outermost, as
// HybridParallelPlugin orders them by default:
//
//   rank = ((d * pp + p) * cp + c) * tp + t.
struct RankGrid {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;

  [[nodiscard]] int Rank(int d, int p, int t, int c = 0) const {
    return ((d * pp + p) * cp + c) * tp + t;
  }
  // The index of a rank among those of its stage.
  [[nodiscard]] int InStage(int d, int t, int c) const {
    return (d * cp + c) * tp + t;
  }
  [[nodiscard]] int size() const { return dp * tp * pp * cp; }
};

// The network from the perspective of a group of ranks: its share of the
// bandwidth of its slowest edge, and latencies of a step of a ring under NCCL's
// Simple protocol.
struct GroupLink {
  int size = 1;
  int hosts = 1;  // that the group spans
  double bandwidth_bytes_per_s = 0.0;
  double intra_latency_s = 0.0;
  double inter_latency_s = 0.0;
  bool nvlink = false;    // the ranks of a host are connected by NVLink
  double slowdown = 0.0;  // see OverlapSlowdown
  // Measured rates, for a group within a host (Link::rates); null: none.
  const CollectiveRates* rates = nullptr;
};

// The channels of a communicator of NCCL whose links have this bandwidth:
// 2 ceil(B / 20 GB/s), at most 24.
[[nodiscard]] double NcclChannels(double bandwidth_bytes_per_s);

// The fraction by which computation slows down while collectives run at
// bandwidth B on a GPU with S multiprocessors and memory bandwidth M,
//
//   min(1, c / S + B / M),   c = NcclChannels(B).
//
// A channel of NCCL is a thread block that occupies a multiprocessor and moves
// at most about 20 GB/s, and rings are doubled. A byte on the link costs about
// three bytes of memory traffic, and about a third of a training step is bound
// by memory. A100 with NVLink: 0.33, H100: 0.29, PCIe: 0.04 to 0.05. Measured
// on four A100, H100, MI210 and MI250 over NVLink and xGMI: 0.19 of all
// computation in the mean, at most 0.40.
//
// Source: NCCL src/graph/tuning.cc (perChMaxRingLL128Bws); Lee et al. (2025),
// arXiv 2507.03114.
[[nodiscard]] double OverlapSlowdown(const Gpu& gpu,
                                     double bandwidth_bytes_per_s);

// The groups of ZeRO's shards: the ranks `within` hold one complete copy
// together; the ranks `across` hold the same shard of different copies.
struct ShardLinks {
  GroupLink within;
  GroupLink across;
};

using Group = std::vector<int>;

// The data-parallel, tensor-parallel and stage-to-stage groups of a grid that
// communicate at the same time (all stages reduce gradients together, all
// replicas send between two stages together). The ranks of a context-parallel
// group hold the same parameters and belong to one data-parallel group.
[[nodiscard]] std::vector<Group> DpGroups(const RankGrid& grid);
[[nodiscard]] std::vector<Group> TpGroups(const RankGrid& grid);
[[nodiscard]] std::vector<Group> CpGroups(const RankGrid& grid);
// `ep` successive data-parallel ranks, or, with whole experts, `ep` successive
// ranks of a stage share the experts; the ranks that hold the same experts
// reduce their gradients.
[[nodiscard]] std::vector<Group> EpGroups(const RankGrid& grid, int ep,
                                          bool whole_experts = false);
[[nodiscard]] std::vector<Group> ExpertDpGroups(const RankGrid& grid, int ep,
                                                bool whole_experts = false);
[[nodiscard]] std::vector<Group> StagePairs(const RankGrid& grid, int from,
                                            int to);

// The hosts of ranks that are in order.
[[nodiscard]] int HostsOf(const Cluster& cluster, std::span<const int> ranks);

// Each group cut into parts of equal size: the parts, and the ranks of a group
// with the same index in their parts.
struct Parts {
  std::vector<Group> within;
  std::vector<Group> across;
};
// A part is what a group has on one host.
// Errors: throws std::invalid_argument if a group has more ranks on one host
// than on another.
[[nodiscard]] Parts CutByHost(const Cluster& cluster,
                              std::span<const Group> groups);
// A part is `size` successive ranks, which must divide a group.
[[nodiscard]] Parts CutBySize(int size, std::span<const Group> groups);

// A ring through each of the groups, in rank order. Every directed edge loads
// the resources that it crosses: the uplinks of PCIe switches (both when peer
// access is missing: the copy goes through host memory) and the NICs of hosts.
// An edge gets bandwidth / load of each (of `ring_nics` NICs where a ring
// passes more than one GPU of a host but not all), and never more than the
// GPUs' own links give (Cluster::RingBytesPerSecond); the slowest edge of all
// rings is the result, since the groups work in lockstep.
//
// Source: NCCL's rings enter and leave a host once per channel; contention by
// counting as in Aceso and Calculon. docs/simulator.md, "Network".
[[nodiscard]] GroupLink RingLink(const Cluster& cluster,
                                 std::span<const Group> groups);

// The link where every rank of a group sends to every other at once; its
// bandwidth is what one rank sends in all. Without a switch (Cluster::rings) a
// GPU has a link to each of four others, and the messages to the rest share one
// (a hybrid cube mesh).
[[nodiscard]] GroupLink AllToAllLink(const Cluster& cluster,
                                     std::span<const Group> groups);

// The link of one message from the first to the last rank of each group.
[[nodiscard]] GroupLink MessageLink(const Cluster& cluster,
                                    std::span<const Group> groups);

}  // namespace trials
