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

int RankOf(const HiddenStates& stage, int d, int c, int t) {
  return stage.first_rank + (d * stage.cp + c) * stage.tp + t;
}

// The load of one side of the messages: the senders or the receivers.
class Side {
 public:
  // `outer`: the other side has another GPU type.
  Side(const Cluster& cluster, bool outer)
      : cluster_(cluster),
        network_(outer ? cluster.OuterLink() : cluster.inter) {}

  [[nodiscard]] int Host(int rank) const {
    return rank / cluster_.gpus_per_node;
  }

  void Add(int rank, double share, bool leaves_host, bool leaves_switch) {
    Load& load = ranks_[rank];
    load.share += share;
    ++load.messages;
    load.leaves_host |= leaves_host;
    if (leaves_switch) {
      uplinks_[cluster_.SwitchOf(rank)] += share;
    }
    if (leaves_host) {
      hosts_[Host(rank)] += share;
    }
  }

  [[nodiscard]] double SecondsPerByte() const {
    double slowest = 0.0;
    for (const auto& [rank, load] : ranks_) {
      // A message within a host has the links between two GPUs.
      slowest = std::max(slowest, load.share / cluster_.RingBytesPerSecond(
                                                   load.leaves_host ? 1 : 2));
    }
    for (const auto& [uplink, share] : uplinks_) {
      slowest =
          std::max(slowest, share / cluster_.uplink.bandwidth_bytes_per_s);
    }
    for (const auto& [host, share] : hosts_) {
      slowest = std::max(slowest, share / (network_.bandwidth_bytes_per_s *
                                           cluster_.nics_per_node));
    }
    return slowest;
  }

  [[nodiscard]] double Latency() const {
    double longest_s = 0.0;
    for (const auto& [rank, load] : ranks_) {
      longest_s =
          std::max(longest_s, load.messages * (load.leaves_host
                                                   ? network_.latency_s
                                                   : cluster_.intra.latency_s));
    }
    return longest_s;
  }

  [[nodiscard]] double LargestShare() const {
    double largest = 0.0;
    for (const auto& [rank, load] : ranks_) {
      largest = std::max(largest, load.share);
    }
    return largest;
  }

 private:
  struct Load {
    double share = 0.0;
    int messages = 0;
    bool leaves_host = false;
  };

  const Cluster& cluster_;
  const Link& network_;
  std::map<int, Load> ranks_;
  std::map<int, double> uplinks_;
  std::map<int, double> hosts_;
};

// The messages of all ranks of two stages.
class Messages {
 public:
  Messages(const HiddenStates& from, const HiddenStates& to)
      : from_(from),
        to_(to),
        senders_(*from.cluster, from.cluster != to.cluster),
        receivers_(*to.cluster, from.cluster != to.cluster) {
    for (int d = 0; d < to.dp; ++d) {
      for (int c = 0; c < to.cp; ++c) {
        for (int t = 0; t < to.tp; ++t) {
          Fetch(d, c, t);
        }
      }
    }
  }

  [[nodiscard]] Resharding Result() const {
    return {std::max(senders_.SecondsPerByte(), receivers_.SecondsPerByte()),
            std::max(senders_.Latency(), receivers_.Latency()),
            receivers_.LargestShare()};
  }

 private:
  // All that one rank needs.
  void Fetch(int d, int c, int t) {
    const int receiver = RankOf(to_, d, c, t);
    const Interval tokens = to_.sp ? Interval{t, to_.tp} : Interval{0, 1};
    const int first = d * from_.dp / to_.dp;
    for (int s = first; s < from_.dp; ++s) {
      const double sequences = Overlap({s, from_.dp}, {d, to_.dp});
      if (sequences <= 0.0) {
        break;
      }
      if (!from_.sp) {
        const int copy = (d * to_.tp + t) % from_.tp;
        Send(RankOf(from_, s, c, copy), receiver,
             sequences / (to_.sp ? to_.tp : 1));
        continue;
      }
      for (int rank = 0; rank < from_.tp; ++rank) {
        Send(RankOf(from_, s, c, rank), receiver,
             sequences * Overlap({rank, from_.tp}, tokens));
      }
    }
  }

  void Send(int sender, int receiver, double share) {
    if (share <= 0.0) {
      return;
    }
    const Cluster& a = *from_.cluster;
    const Cluster& b = *to_.cluster;
    const bool leaves_host =
        &a != &b || senders_.Host(sender) != receivers_.Host(receiver);
    const auto leaves_switch = [&](const Cluster& cluster) {
      return cluster.gpus_per_switch > 0 &&
             (!cluster.peer_access || &a != &b ||
              cluster.SwitchOf(sender) != cluster.SwitchOf(receiver));
    };
    senders_.Add(sender, share, leaves_host, leaves_switch(a));
    receivers_.Add(receiver, share, leaves_host, leaves_switch(b));
  }

  const HiddenStates& from_;
  const HiddenStates& to_;
  Side senders_;
  Side receivers_;
};

}  // namespace

Resharding Reshard(const HiddenStates& from, const HiddenStates& to) {
  assert(from.cp == to.cp);
  return Messages(from, to).Result();
}

}  // namespace trials
