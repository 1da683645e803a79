#include "trials/simulator/resharding.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace trials {
namespace {

// The i-th of n equal intervals of [0, 1).
struct Interval {
  int i;
  int n;
};

// Length of the intersection.
double Overlap(const Interval& a, const Interval& b) {
  const double begin =
      std::max(static_cast<double>(a.i) / a.n, static_cast<double>(b.i) / b.n);
  const double end = std::min(static_cast<double>(a.i + 1) / a.n,
                              static_cast<double>(b.i + 1) / b.n);
  return std::max(0.0, end - begin);
}

// The load of one side of the messages: the senders or the receivers.
class Side {
 public:
  // `outer`: the other side has another GPU type.
  Side(const HiddenStates& stage, bool outer)
      : stage_(stage),
        cluster_(*stage.cluster),
        outer_(outer),
        network_(outer ? cluster_.OuterLink() : cluster_.inter) {}

  [[nodiscard]] int Rank(int d, int c, int t) const {
    return stage_.first_rank + (d * stage_.cp + c) * stage_.tp + t;
  }
  [[nodiscard]] int Host(int rank) const {
    return rank / cluster_.gpus_per_node;
  }

  // `other`: the rank at the other end of the message.
  void Add(int rank, int other, double share, bool leaves_host) {
    Load& load = ranks_[rank];
    load.share += share;
    ++load.messages;
    load.leaves_host |= leaves_host;
    if (cluster_.gpus_per_switch > 0 &&
        (!cluster_.peer_access || outer_ ||
         cluster_.SwitchOf(rank) != cluster_.SwitchOf(other))) {
      uplinks_[cluster_.SwitchOf(rank)] += share;
    }
    if (leaves_host) {
      hosts_[Host(rank)] += share;
    }
  }

  [[nodiscard]] Resharding Result() const {
    Resharding most;
    for (const auto& [rank, load] : ranks_) {
      // A message within a host has the links between two GPUs.
      const double bandwidth =
          cluster_.RingBytesPerSecond(load.leaves_host ? 1 : 2);
      const double latency_s =
          load.leaves_host ? network_.latency_s : cluster_.intra.latency_s;
      most.seconds_per_byte =
          std::max(most.seconds_per_byte, load.share / bandwidth);
      most.latency_s = std::max(most.latency_s, load.messages * latency_s);
      most.received_share = std::max(most.received_share, load.share);
    }
    for (const auto& [uplink, share] : uplinks_) {
      most.seconds_per_byte = std::max(
          most.seconds_per_byte, share / cluster_.uplink.bandwidth_bytes_per_s);
    }
    for (const auto& [host, share] : hosts_) {
      most.seconds_per_byte = std::max(
          most.seconds_per_byte,
          share / (network_.bandwidth_bytes_per_s * cluster_.nics_per_node));
    }
    return most;
  }

 private:
  struct Load {
    double share = 0.0;
    int messages = 0;
    bool leaves_host = false;
  };

  const HiddenStates& stage_;
  const Cluster& cluster_;
  bool outer_;
  const Link& network_;
  std::map<int, Load> ranks_;
  std::map<int, double> uplinks_;
  std::map<int, double> hosts_;
};

// Calls send(d, t, share) for the ranks of `from` from which rank (d, c, t) of
// `to` fetches what it needs.
template <typename Send>
void Fetch(const HiddenStates& from, const HiddenStates& to, int d, int t,
           const Send& send) {
  const Interval tokens = to.sp ? Interval{t, to.tp} : Interval{0, 1};
  for (int s = d * from.dp / to.dp; s < from.dp; ++s) {
    const double sequences = Overlap({s, from.dp}, {d, to.dp});
    if (sequences <= 0.0) {
      break;
    }
    if (!from.sp) {  // copies take turns
      send(s, (d * to.tp + t) % from.tp, sequences / tokens.n);
      continue;
    }
    for (int rank = 0; rank < from.tp; ++rank) {
      send(s, rank, sequences * Overlap({rank, from.tp}, tokens));
    }
  }
}

}  // namespace

Resharding Reshard(const HiddenStates& from, const HiddenStates& to) {
  assert(from.cp == to.cp);
  const bool outer = from.cluster != to.cluster;
  Side senders(from, outer);
  Side receivers(to, outer);
  for (int d = 0; d < to.dp; ++d) {
    for (int c = 0; c < to.cp; ++c) {
      for (int t = 0; t < to.tp; ++t) {
        const int receiver = receivers.Rank(d, c, t);
        Fetch(from, to, d, t, [&](int from_d, int from_t, double share) {
          if (share > 0.0) {
            const int sender = senders.Rank(from_d, c, from_t);
            const bool leaves_host =
                outer || senders.Host(sender) != receivers.Host(receiver);
            senders.Add(sender, receiver, share, leaves_host);
            receivers.Add(receiver, sender, share, leaves_host);
          }
        });
      }
    }
  }
  const Resharding out = senders.Result();
  const Resharding in = receivers.Result();
  return {std::max(out.seconds_per_byte, in.seconds_per_byte),
          std::max(out.latency_s, in.latency_s), in.received_share};
}

}  // namespace trials
