#include "trials/simulator/topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace trials {
namespace {

// `count` messages between ranks of the same two hosts and switches.
struct Edge {
  int from;
  int to;
  int count = 1;
};

// Counts the traffic over every shared resource, then gives each edge its
// share.
class Traffic {
 public:
  // `nics` of each host are used.
  Traffic(const Cluster& cluster, int nics) : cluster_(cluster), nics_(nics) {
    const int switches = cluster.gpus_per_switch > 0 ? cluster.switches() : 0;
    uplink_out_.assign(switches, 0);
    uplink_in_ = uplink_out_;
    nic_out_.assign(cluster.nodes, 0);
    nic_in_ = nic_out_;
  }

  void Add(const Edge& edge) {
    if (CrossesUplink(edge)) {
      uplink_out_[cluster_.SwitchOf(edge.from)] += edge.count;
      uplink_in_[cluster_.SwitchOf(edge.to)] += edge.count;
    }
    if (CrossesHost(edge)) {
      nic_out_[Host(edge.from)] += edge.count;
      nic_in_[Host(edge.to)] += edge.count;
    }
  }

  // `own`: bandwidth of the GPUs' own links.
  [[nodiscard]] double Bandwidth(const Edge& edge, double own) const {
    double bandwidth = own;
    if (CrossesUplink(edge)) {
      const int load = std::max(uplink_out_[cluster_.SwitchOf(edge.from)],
                                uplink_in_[cluster_.SwitchOf(edge.to)]);
      bandwidth =
          std::min(bandwidth, cluster_.uplink.bandwidth_bytes_per_s / load);
    }
    if (CrossesHost(edge)) {
      const int load =
          std::max(nic_out_[Host(edge.from)], nic_in_[Host(edge.to)]);
      bandwidth = std::min(bandwidth,
                           cluster_.inter.bandwidth_bytes_per_s * nics_ / load);
    }
    return bandwidth;
  }

 private:
  [[nodiscard]] int Host(int rank) const {
    return rank / cluster_.gpus_per_node;
  }
  [[nodiscard]] bool CrossesHost(const Edge& edge) const {
    return Host(edge.from) != Host(edge.to);
  }
  [[nodiscard]] bool CrossesUplink(const Edge& edge) const {
    return cluster_.gpus_per_switch > 0 &&
           (!cluster_.peer_access ||
            cluster_.SwitchOf(edge.from) != cluster_.SwitchOf(edge.to));
  }

  const Cluster& cluster_;
  int nics_;
  std::vector<int> uplink_out_;
  std::vector<int> uplink_in_;
  std::vector<int> nic_out_;
  std::vector<int> nic_in_;
};

// The parts of a group for which place(rank) is the same. The ranks of a host
// or a switch follow one another.
template <typename Place>
std::vector<std::span<const int>> ByPlace(const Group& group,
                                          const Place& place) {
  std::vector<std::span<const int>> parts;
  for (auto at = group.begin(); at != group.end();) {
    const auto end = std::find_if(
        at, group.end(), [&](int rank) { return place(rank) != place(*at); });
    parts.emplace_back(at, end);
    at = end;
  }
  return parts;
}

std::vector<std::span<const int>> ByHost(const Cluster& cluster,
                                         const Group& group) {
  return ByPlace(group, [&](int rank) { return rank / cluster.gpus_per_node; });
}

// The bandwidth that the GPUs' own links give a group, by the largest number of
// its ranks on one host.
double OwnBytesPerSecond(const Cluster& cluster,
                         std::span<const Group> groups) {
  std::size_t local = 1;
  if (!cluster.rings.empty()) {  // else it is the same for every group
    for (const Group& group : groups) {
      for (const auto& ranks : ByHost(cluster, group)) {
        local = std::max(local, ranks.size());
      }
    }
  }
  return cluster.RingBytesPerSecond(static_cast<int>(local));
}

GroupLink Share(const Cluster& cluster, std::span<const Group> groups,
                const std::vector<Edge>& edges, int nics) {
  GroupLink link;
  link.intra_latency_s = cluster.intra.latency_s;
  link.inter_latency_s = cluster.inter.latency_s;
  link.nvlink = cluster.gpus_per_switch == 0;
  for (const Group& group : groups) {
    link.size = static_cast<int>(group.size());
    link.hosts = std::max(link.hosts, HostsOf(cluster, group));
  }
  link.bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
  if (edges.empty()) {
    return link;
  }
  const double own = OwnBytesPerSecond(cluster, groups);
  Traffic traffic(cluster, nics);
  for (const Edge& edge : edges) {
    traffic.Add(edge);
  }
  for (const Edge& edge : edges) {
    link.bandwidth_bytes_per_s =
        std::min(link.bandwidth_bytes_per_s, traffic.Bandwidth(edge, own));
  }
  link.slowdown = OverlapSlowdown(cluster.gpu, link.bandwidth_bytes_per_s);
  link.rates = cluster.intra.rates;
  return link;
}

// More than one GPU of a host, and fewer than all.
bool PassesSomeGpusOfAHost(const Cluster& cluster,
                           std::span<const Group> groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    return std::ranges::any_of(ByHost(cluster, group), [&](const auto& on) {
      const auto ranks = static_cast<int>(on.size());
      return ranks > 1 && ranks < cluster.gpus_per_node;
    });
  });
}

// The ranks of `count` groups, where a rank belongs to group of(d, p, c, t).
template <typename Of>
std::vector<Group> GroupRanks(const RankGrid& grid, int count, const Of& of) {
  std::vector<Group> groups(count);
  for (Group& group : groups) {
    group.reserve((grid.size() + count - 1) / count);
  }
  for (int rank = 0; rank < grid.size(); ++rank) {
    const int c = rank / grid.tp;
    const int p = c / grid.cp;
    groups[of(p / grid.pp, p % grid.pp, c % grid.cp, rank % grid.tp)].push_back(
        rank);
  }
  return groups;
}

// `cut` returns the parts of a group.
template <typename Cut>
Parts CutGroups(std::span<const Group> groups, const Cut& cut) {
  Parts parts;
  for (const Group& group : groups) {
    const std::vector<Group> within = cut(group);
    parts.within.insert(parts.within.end(), within.begin(), within.end());
    for (std::size_t i = 0; i < within.front().size(); ++i) {
      Group& across = parts.across.emplace_back();
      for (const Group& part : within) {
        across.push_back(part[i]);
      }
    }
  }
  return parts;
}

}  // namespace

double NcclChannels(double bandwidth_bytes_per_s) {
  constexpr double kChannel = 20e9;
  constexpr double kMostChannels = 24.0;
  return std::min(kMostChannels,
                  2.0 * std::ceil(bandwidth_bytes_per_s / kChannel));
}

double OverlapSlowdown(const Gpu& gpu, double bandwidth_bytes_per_s) {
  return std::min(1.0,
                  NcclChannels(bandwidth_bytes_per_s) / gpu.multiprocessors +
                      bandwidth_bytes_per_s / gpu.memory_bandwidth_bytes_per_s);
}

int HostsOf(const Cluster& cluster, std::span<const int> ranks) {
  int hosts = 0;
  int last = -1;
  for (const int rank : ranks) {
    const int host = rank / cluster.gpus_per_node;
    hosts += host != last ? 1 : 0;
    last = host;
  }
  return hosts;
}

std::vector<Group> DpGroups(const RankGrid& grid) {
  return GroupRanks(grid, grid.pp * grid.tp,
                    [&](int, int p, int, int t) { return p * grid.tp + t; });
}

std::vector<Group> CpGroups(const RankGrid& grid) {
  return GroupRanks(grid, grid.dp * grid.pp * grid.tp,
                    [&](int d, int p, int, int t) {
                      return (d * grid.pp + p) * grid.tp + t;
                    });
}

std::vector<Group> TpGroups(const RankGrid& grid) {
  return GroupRanks(grid, grid.dp * grid.pp * grid.cp,
                    [&](int d, int p, int c, int) {
                      return (d * grid.pp + p) * grid.cp + c;
                    });
}

std::vector<Group> EpGroups(const RankGrid& grid, int ep, bool whole_experts) {
  const int stage = grid.dp * grid.cp * grid.tp;
  const int per_stage = whole_experts
                            ? (stage + ep - 1) / ep
                            : (grid.dp + ep - 1) / ep * grid.cp * grid.tp;
  return GroupRanks(grid, grid.pp * per_stage, [&](int d, int p, int c, int t) {
    return whole_experts ? grid.InStage(d, t, c) / ep * grid.pp + p
                         : grid.Rank(d / ep, p, t, c);
  });
}

std::vector<Group> ExpertDpGroups(const RankGrid& grid, int ep,
                                  bool whole_experts) {
  const int per_stage = whole_experts
                            ? std::min(ep, grid.dp * grid.cp * grid.tp)
                            : std::min(ep, grid.dp) * grid.tp;
  return GroupRanks(grid, grid.pp * per_stage, [&](int d, int p, int c, int t) {
    return whole_experts ? grid.InStage(d, t, c) % ep * grid.pp + p
                         : (d % ep * grid.pp + p) * grid.tp + t;
  });
}

std::vector<Group> StagePairs(const RankGrid& grid, int from, int to) {
  std::vector<Group> groups;
  for (int d = 0; d < grid.dp; ++d) {
    for (int c = 0; c < grid.cp; ++c) {
      for (int t = 0; t < grid.tp; ++t) {
        groups.push_back({grid.Rank(d, from, t, c), grid.Rank(d, to, t, c)});
      }
    }
  }
  return groups;
}

Parts CutByHost(const Cluster& cluster, std::span<const Group> groups) {
  return CutGroups(groups, [&cluster](const Group& group) {
    std::vector<Group> parts;
    for (const auto& ranks : ByHost(cluster, group)) {
      parts.emplace_back(ranks.begin(), ranks.end());
      if (ranks.size() != parts.front().size()) {
        throw std::invalid_argument(fmt::format(
            "sharding within hosts needs as many data-parallel ranks in every "
            "host; there are {} and {}",
            parts.front().size(), ranks.size()));
      }
    }
    return parts;
  });
}

Parts CutBySize(int size, std::span<const Group> groups) {
  return CutGroups(groups, [size](const Group& group) {
    std::vector<Group> parts;
    for (auto at = group.begin(); at != group.end(); at += size) {
      parts.emplace_back(at, at + size);
    }
    return parts;
  });
}

GroupLink RingLink(const Cluster& cluster, std::span<const Group> groups) {
  std::vector<Edge> edges;
  for (const Group& group : groups) {
    for (std::size_t i = 0; group.size() > 1 && i < group.size(); ++i) {
      edges.push_back({group[i], group[(i + 1) % group.size()]});
    }
  }
  const bool few =
      cluster.ring_nics > 0 && PassesSomeGpusOfAHost(cluster, groups);
  return Share(cluster, groups, edges,
               few ? cluster.ring_nics : cluster.nics_per_node);
}

GroupLink AllToAllLink(const Cluster& cluster, std::span<const Group> groups) {
  std::vector<Edge> edges;
  for (const Group& group : groups) {
    const auto places = ByPlace(group, [&](int rank) {
      return std::pair(
          rank / cluster.gpus_per_node,
          cluster.gpus_per_switch > 0 ? cluster.SwitchOf(rank) : 0);
    });
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (std::size_t j = 0; j < places.size(); ++j) {
        const auto receivers =
            static_cast<int>(places[j].size()) - (i == j ? 1 : 0);
        if (receivers > 0) {
          edges.push_back({places[i].front(), places[j].front(),
                           static_cast<int>(places[i].size()) * receivers});
        }
      }
    }
  }
  // An edge carries 1 / (size - 1) of the bytes that its rank sends: shared
  // links limit each edge, the rank's own links all of its edges together.
  GroupLink link = Share(cluster, groups, edges, cluster.nics_per_node);
  const int others = std::max(1, link.size - 1);
  double own = OwnBytesPerSecond(cluster, groups);
  if (!cluster.rings.empty() && link.hosts == 1 && others > 1) {
    // Without a switch a GPU has a link to each of four others; the messages to
    // the rest share one (DGX-1, a hybrid cube mesh).
    constexpr int kNeighbors = 4;
    own = cluster.intra.bandwidth_bytes_per_s * others /
          std::max(1, others - kNeighbors);
  }
  link.bandwidth_bytes_per_s =
      std::min(own, link.bandwidth_bytes_per_s * others);
  return link;
}

GroupLink MessageLink(const Cluster& cluster, std::span<const Group> groups) {
  std::vector<Edge> edges;
  for (const Group& group : groups) {
    edges.push_back({group.front(), group.back()});
  }
  return Share(cluster, groups, edges, cluster.nics_per_node);
}

}  // namespace trials
