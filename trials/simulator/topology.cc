#include "trials/simulator/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace trials {
namespace {

struct Edge {
  int from;
  int to;
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
      ++uplink_out_[Switch(edge.from)];
      ++uplink_in_[Switch(edge.to)];
    }
    if (CrossesHost(edge)) {
      ++nic_out_[Host(edge.from)];
      ++nic_in_[Host(edge.to)];
    }
  }

  // `own`: bandwidth of the GPUs' own links.
  [[nodiscard]] double Bandwidth(const Edge& edge, double own) const {
    double bandwidth = std::numeric_limits<double>::infinity();
    if (CrossesUplink(edge)) {
      const int load =
          std::max(uplink_out_[Switch(edge.from)], uplink_in_[Switch(edge.to)]);
      bandwidth = cluster_.uplink.bandwidth_bytes_per_s / load;
    }
    if (CrossesHost(edge)) {
      const int load =
          std::max(nic_out_[Host(edge.from)], nic_in_[Host(edge.to)]);
      bandwidth = std::min(bandwidth,
                           cluster_.inter.bandwidth_bytes_per_s * nics_ / load);
    }
    return std::min(bandwidth, own);
  }

 private:
  [[nodiscard]] std::size_t Host(int rank) const {
    return static_cast<std::size_t>(rank / cluster_.gpus_per_node);
  }
  [[nodiscard]] std::size_t Switch(int rank) const {
    return static_cast<std::size_t>(cluster_.SwitchOf(rank));
  }
  [[nodiscard]] bool CrossesHost(const Edge& edge) const {
    return Host(edge.from) != Host(edge.to);
  }
  [[nodiscard]] bool CrossesUplink(const Edge& edge) const {
    return cluster_.gpus_per_switch > 0 &&
           (!cluster_.peer_access || Switch(edge.from) != Switch(edge.to));
  }

  const Cluster& cluster_;
  int nics_;
  std::vector<int> uplink_out_;
  std::vector<int> uplink_in_;
  std::vector<int> nic_out_;
  std::vector<int> nic_in_;
};

// The ranks of a group on each of its hosts.
std::map<int, Group> ByHost(const Cluster& cluster, const Group& group) {
  std::map<int, Group> hosts;
  for (const int rank : group) {
    hosts[rank / cluster.gpus_per_node].push_back(rank);
  }
  return hosts;
}

// The bandwidth that the GPUs' own links give a group, by the largest number of
// its ranks on one host.
double OwnBytesPerSecond(const Cluster& cluster,
                         std::span<const Group> groups) {
  std::size_t local = 1;
  if (!cluster.rings.empty()) {  // else it is the same for every group
    for (const Group& group : groups) {
      for (const auto& [host, ranks] : ByHost(cluster, group)) {
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
    int hosts = 0;
    int last = -1;  // the ranks of a host follow one another
    for (const int rank : group) {
      const int host = rank / cluster.gpus_per_node;
      hosts += host != last ? 1 : 0;
      last = host;
    }
    link.size = static_cast<int>(group.size());
    link.hosts = std::max(link.hosts, hosts);
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
  return link;
}

// More than one GPU of a host, and fewer than all.
bool PassesSomeGpusOfAHost(const Cluster& cluster,
                           std::span<const Group> groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    const std::map<int, Group> hosts = ByHost(cluster, group);
    return std::any_of(hosts.begin(), hosts.end(), [&](const auto& host) {
      const auto ranks = static_cast<int>(host.second.size());
      return ranks > 1 && ranks < cluster.gpus_per_node;
    });
  });
}

// Puts each rank of a grid into the group with the index (d, p, c, t) -> int,
// in the order of the ranks.
template <typename Index>
std::vector<Group> GroupRanks(const RankGrid& grid, int groups,
                              const Index& index) {
  std::vector<Group> result(groups);
  for (int d = 0; d < grid.dp; ++d) {
    for (int p = 0; p < grid.pp; ++p) {
      for (int c = 0; c < grid.cp; ++c) {
        for (int t = 0; t < grid.tp; ++t) {
          result[index(d, p, c, t)].push_back(grid.Rank(d, p, t, c));
        }
      }
    }
  }
  return result;
}

}  // namespace

double OverlapSlowdown(const Gpu& gpu, double bandwidth_bytes_per_s) {
  constexpr double kChannel = 20e9;
  constexpr double kMostChannels = 24.0;
  const double channels = std::min(
      kMostChannels, 2.0 * std::ceil(bandwidth_bytes_per_s / kChannel));
  return std::min(1.0,
                  channels / gpu.multiprocessors +
                      bandwidth_bytes_per_s / gpu.memory_bandwidth_bytes_per_s);
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

std::vector<Group> EpGroups(const RankGrid& grid, int ep) {
  const int replica = grid.pp * grid.cp * grid.tp;
  return GroupRanks(grid, grid.dp / ep * replica,
                    [&](int d, int p, int c, int t) {
                      return d / ep * replica + grid.Rank(0, p, t, c);
                    });
}

std::vector<Group> ExpertDpGroups(const RankGrid& grid, int ep) {
  return GroupRanks(grid, ep * grid.pp * grid.tp,
                    [&](int d, int p, int, int t) {
                      return (d % ep * grid.pp + p) * grid.tp + t;
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

std::vector<Group> WithinHosts(const Cluster& cluster,
                               std::span<const Group> groups) {
  std::vector<Group> all;
  for (const Group& group : groups) {
    std::map<int, Group> hosts = ByHost(cluster, group);
    const std::size_t size = hosts.begin()->second.size();
    for (auto& [host, ranks] : hosts) {
      if (ranks.size() != size) {
        throw std::invalid_argument(fmt::format(
            "sharding within hosts needs as many data-parallel ranks in every "
            "host; there are {} and {}",
            size, ranks.size()));
      }
      all.push_back(std::move(ranks));
    }
  }
  return all;
}

std::vector<Group> AcrossHosts(const Cluster& cluster,
                               std::span<const Group> groups) {
  std::vector<Group> all;
  for (const Group& group : groups) {
    const std::vector<Group> hosts = WithinHosts(cluster, {&group, 1});
    for (std::size_t i = 0; i < hosts.front().size(); ++i) {
      Group& across = all.emplace_back();
      for (const Group& host : hosts) {
        across.push_back(host[i]);
      }
    }
  }
  return all;
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
    for (const int from : group) {
      for (const int to : group) {
        if (from != to) {
          edges.push_back({from, to});
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
