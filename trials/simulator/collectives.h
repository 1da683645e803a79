// Time of collectives and messages.

#pragma once

#include "trials/simulator/topology.h"

namespace trials {

// All-reduce of n bytes over D ranks on H hosts. NCCL runs the fastest of its
// algorithms and protocols,
//
//   ring: base + 2 ((D - H) a + (H - 1) b) + 2 (D - 1) / D * n / (r B),
//   tree: base + 2 ((D / H - 1) a + ceil(log2 H) b) + 2 n / (t B),
//
// with the latencies a of a step within a host and b between hosts. Simple has
// the latencies of the link and r = 1. LL sends 4 bytes of flag with 4 bytes of
// data and needs no other synchronization: about a fifth of the latencies,
// r = 1/2, at most 39 GB/s. LL128 has 8 of 128 bytes of flags and needs NVLink:
// r = 0.92.
//
// Source: Patarasuk & Yuan (2009), ring; Sanders et al. (2009), double binary
// trees; NCCL src/graph/tuning.cc (2.18 to 2.28), the ratios of latencies and
// of bandwidths. PAT and CollNet are left out: PAT needs one GPU per host,
// CollNet a switch that reduces. The base and the NVLink latency are checked
// against vTrain's published NCCL table (docs/simulator.md). Units: bytes is
// the size of the whole buffer on one rank (all-gather: of the gathered
// buffer). A group of one rank takes no time.
[[nodiscard]] double AllReduceTime(const GroupLink& link, double bytes);

// Each is half of a ring all-reduce, with the same protocols. (Across hosts
// NCCL has only rings for them where a host has several ranks of the group.)
[[nodiscard]] double ReduceScatterTime(const GroupLink& link, double bytes);
[[nodiscard]] double AllGatherTime(const GroupLink& link, double bytes);

// `owners` ranks broadcast n bytes each, one after another, around the same
// ring. A rank passes a chunk on when all of it has arrived,
//
//   owners (base + (D - H) a + (H - 1) (b + min(n, chunk) / B))
//     + (E - 1) / E * owners n / B,
//
// E being the hosts, or the ranks of one host: every edge but the one before
// the owner carries the bytes, and broadcasts of neighbors overlap.
//
// Source: NCCL src/device/broadcast.h (512 KiB per channel and chunk; two
// channels are an estimate that describes InternEvo's published step times).
[[nodiscard]] double BroadcastsTime(const GroupLink& link, double bytes,
                                    double owners);

// Every rank of D sends (D - 1) / D of its n bytes to the others, a message to
// each: (D - 1) / D * n / B and a latency per message.
[[nodiscard]] double AllToAllTime(const GroupLink& link, double bytes);

// One message between two ranks.
[[nodiscard]] double MessageTime(const GroupLink& link, double bytes);

}  // namespace trials
