#include "trials/simulator/collectives.h"

#include <algorithm>
#include <bit>

namespace trials {
namespace {

// Launch of a collective's kernel and the handshake of its ranks. A100, 2
// ranks, 4 MB: 61 us in vTrain's table, including 24 us for the bytes.
constexpr double kBaseLatency = 25e-6;
constexpr double kTreeEfficiency = 0.9;

// One way around the ring.
double RingLatency(const GroupLink& link) {
  return (link.size - link.hosts) * link.intra_latency_s +
         (link.hosts - 1) * link.inter_latency_s;
}

double TreeLatency(const GroupLink& link) {
  const int local = (link.size + link.hosts - 1) / link.hosts;
  const int depth = std::bit_width(static_cast<unsigned>(link.hosts - 1));
  return (local - 1) * link.intra_latency_s + depth * link.inter_latency_s;
}

double HalfRingTime(const GroupLink& link, double bytes) {
  if (link.size == 1) {
    return 0.0;
  }
  return kBaseLatency + RingLatency(link) +
         RingAllReduceBytes(link.size, bytes) / 2 / link.bandwidth_bytes_per_s;
}

}  // namespace

double RingAllReduceBytes(int ranks, double bytes) {
  return 2.0 * (ranks - 1) / ranks * bytes;
}

double AllReduceTime(const GroupLink& link, double bytes) {
  if (link.size == 1) {
    return 0.0;
  }
  const double ring_s =
      2 * RingLatency(link) +
      RingAllReduceBytes(link.size, bytes) / link.bandwidth_bytes_per_s;
  const double tree_s =
      2 * TreeLatency(link) +
      2 * bytes / (kTreeEfficiency * link.bandwidth_bytes_per_s);
  return kBaseLatency + std::min(ring_s, tree_s);
}

double ReduceScatterTime(const GroupLink& link, double bytes) {
  return HalfRingTime(link, bytes);
}

double AllGatherTime(const GroupLink& link, double bytes) {
  return HalfRingTime(link, bytes);
}

double AllToAllTime(const GroupLink& link, double bytes) {
  return HalfRingTime(link, bytes);  // the same volume and messages per rank
}

double MessageTime(const GroupLink& link, double bytes) {
  return (link.hosts > 1 ? link.inter_latency_s : link.intra_latency_s) +
         bytes / link.bandwidth_bytes_per_s;
}

}  // namespace trials
