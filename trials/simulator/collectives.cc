#include "trials/simulator/collectives.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace trials {
namespace {

// Launch of a collective's kernel and the handshake of its ranks. A100, 2
// ranks, 4 MB: 61 us in vTrain's table, including 24 us for the bytes.
constexpr double kBaseLatency = 25e-6;

// The latency of the network itself is what a step takes beyond 14 us, once for
// the data and, with Simple, once for the flush.
constexpr double kNetLatency = 14e-6;

// A protocol of NCCL as one algorithm uses it, relative to a ring with Simple.
struct Protocol {
  double base_s;      // in addition to kBaseLatency
  double intra;       // share of the latency of a step within a host
  double inter;       // and between hosts, beyond that of the network itself
  double bandwidth;   // share of the link's bandwidth
  double most;        // bytes per second
  bool needs_nvlink;  // LL128: 128-byte stores must arrive in order
};

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kMostLl = 39e9;
constexpr std::array kRing = {
    Protocol{-1.8e-6, 0.6 / 3.4, 2.7 / 14, 0.5, kMostLl, false},    // LL
    Protocol{5.6e-6, 1.9 / 3.4, 4.0 / 14, 0.92, kUnlimited, true},  // LL128
    Protocol{0.0, 1.0, 1.0, 1.0, kUnlimited, false},                // Simple
};
constexpr std::array kTree = {
    Protocol{-1.6e-6, 0.6 / 3.4, 5.0 / 14, 1 / 3.8, kMostLl, false},
    Protocol{5.6e-6, 1.25 / 3.4, 8.5 / 14, 7.0 / 9, kUnlimited, true},
    Protocol{0.0, 1.0, 1.0, 0.9, kUnlimited, false},
};

// The fastest protocol for a number of steps within and between hosts, and
// `bytes` over the slowest edge.
double Fastest(const std::array<Protocol, 3>& protocols, const GroupLink& link,
               double intra_steps, double inter_steps, double bytes) {
  const double net_s = std::max(0.0, link.inter_latency_s - kNetLatency) / 2;
  double best_s = kUnlimited;
  for (const Protocol& p : protocols) {
    if (p.needs_nvlink && !link.nvlink) {
      continue;
    }
    const double inter_s =
        p.inter == 1.0 ? link.inter_latency_s
                       : p.inter * (link.inter_latency_s - 2 * net_s) + net_s;
    const double bandwidth =
        std::min(p.most, p.bandwidth * link.bandwidth_bytes_per_s);
    best_s = std::min(best_s, p.base_s +
                                  intra_steps * p.intra * link.intra_latency_s +
                                  inter_steps * inter_s + bytes / bandwidth);
  }
  return kBaseLatency + best_s;
}

// Bytes that each rank of D sends in a ring all-reduce: 2 (D - 1) / D * n.
double RingAllReduceBytes(int ranks, double bytes) {
  return 2.0 * (ranks - 1) / ranks * bytes;
}

bool IsMeasured(const GroupLink& link) {
  return link.rates != nullptr && link.hosts == 1;
}

// `bytes`: of the buffer; a rank sends `sent` of them.
double MeasuredTime(const GroupLink& link, CollectiveRates::Kind kind,
                    double bytes, double sent) {
  return bytes <= 0.0
             ? 0.0
             : sent / link.rates->BytesPerSecond(kind, link.size, bytes,
                                                 link.bandwidth_bytes_per_s);
}

double HalfRingTime(const GroupLink& link, CollectiveRates::Kind kind,
                    double bytes) {
  if (link.size == 1) {
    return 0.0;
  }
  if (IsMeasured(link)) {
    return MeasuredTime(link, kind, bytes,
                        RingAllReduceBytes(link.size, bytes) / 2);
  }
  return Fastest(kRing, link, link.size - link.hosts, link.hosts - 1,
                 RingAllReduceBytes(link.size, bytes) / 2);
}

}  // namespace

double AllReduceTime(const GroupLink& link, double bytes) {
  if (link.size == 1) {
    return 0.0;
  }
  if (IsMeasured(link)) {
    return MeasuredTime(link, CollectiveRates::Kind::kAllReduce, bytes,
                        RingAllReduceBytes(link.size, bytes));
  }
  const int local = (link.size + link.hosts - 1) / link.hosts;
  const int depth = std::bit_width(static_cast<unsigned>(link.hosts - 1));
  return std::min(
      Fastest(kRing, link, 2 * (link.size - link.hosts), 2 * (link.hosts - 1),
              RingAllReduceBytes(link.size, bytes)),
      Fastest(kTree, link, 2 * (local - 1), 2 * depth, 2 * bytes));
}

double ReduceScatterTime(const GroupLink& link, double bytes) {
  return HalfRingTime(link, CollectiveRates::Kind::kReduceScatter, bytes);
}

double AllGatherTime(const GroupLink& link, double bytes) {
  return HalfRingTime(link, CollectiveRates::Kind::kAllGather, bytes);
}

double BroadcastsTime(const GroupLink& link, double bytes, double owners) {
  if (link.size == 1) {
    return 0.0;
  }
  constexpr double kChunk = 2.0 * 512 * 1024;
  const double chunk_s = std::min(bytes, kChunk) / link.bandwidth_bytes_per_s;
  const double edges = link.hosts > 1 ? link.hosts : link.size;
  const double start_s =
      Fastest(kRing, link, link.size - link.hosts, link.hosts - 1, bytes) -
      bytes / link.bandwidth_bytes_per_s;
  return owners * (start_s + (link.hosts - 1) * chunk_s +
                   (edges - 1) / edges * bytes / link.bandwidth_bytes_per_s);
}

double AllToAllTime(const GroupLink& link, double bytes) {
  // Without measured rates, as the others: the same volume and messages.
  return HalfRingTime(link, CollectiveRates::Kind::kAllToAll, bytes);
}

double MessageTime(const GroupLink& link, double bytes) {
  return (link.hosts > 1 ? link.inter_latency_s : link.intra_latency_s) +
         bytes / link.bandwidth_bytes_per_s;
}

}  // namespace trials
