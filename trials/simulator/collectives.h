// Time of collectives and messages.

#ifndef TRIALS_SIMULATOR_COLLECTIVES_H_
#define TRIALS_SIMULATOR_COLLECTIVES_H_

#include "trials/simulator/topology.h"

namespace trials {

// All-reduce of n bytes over D ranks: the faster of
//
//   ring: l_ring + 2 (D - 1) / D * n / B,
//   tree: l_tree + 2 n / (0.9 B),
//
// with the latencies of NCCL's own model, H being the hosts of the group,
//
//   l_ring = base + 2 ((D - H) l_intra + (H - 1) l_inter),
//   l_tree = base + 2 ((D / H - 1) l_intra + ceil(log2 H) l_inter).
//
// Source: Patarasuk & Yuan (2009), ring; Sanders et al. (2009) and NCCL
// src/graph/tuning.cc, double binary trees. The base and the NVLink latency
// are checked against vTrain's published NCCL table (docs/simulator.md).
// Units: bytes is the size of the whole buffer on one rank (all-gather: of
// the gathered buffer). A group of one rank takes no time.
[[nodiscard]] double AllReduceTime(const GroupLink& link, double bytes);

// Each is half of a ring all-reduce: (D - 1) / D * n / B.
[[nodiscard]] double ReduceScatterTime(const GroupLink& link, double bytes);
[[nodiscard]] double AllGatherTime(const GroupLink& link, double bytes);

// Every rank of D sends (D - 1) / D of its n bytes to the others, a message to
// each: (D - 1) / D * n / B and a latency per message.
[[nodiscard]] double AllToAllTime(const GroupLink& link, double bytes);

// One message between two ranks.
[[nodiscard]] double MessageTime(const GroupLink& link, double bytes);

// Bytes that each rank of D sends in a ring all-reduce: 2 (D - 1) / D * n.
[[nodiscard]] double RingAllReduceBytes(int ranks, double bytes);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_COLLECTIVES_H_
