#include "trials/simulator/placement.h"

#include <algorithm>
#include <numeric>

namespace trials {
namespace {

// Equal blocks of `ranks` successive ranks, of which `few` are examined. Blocks
// meet the hosts in the same way after every `period` of them. A host of a ring
// has a host before it and one behind it, so two periods, and the blocks that
// fill none, carry what all blocks do.
struct Blocks {
  int count;
  int period;
  int few;
};

Blocks BlocksOf(int count, int ranks, int gpus_per_node) {
  const int period = gpus_per_node / std::gcd(ranks, gpus_per_node);
  return {count, period, std::min(count, count % period + 2 * period)};
}

// The ring of groups over the examined blocks, extended to all of them.
GroupLink ExtendedRing(const Cluster& cluster, std::span<const Group> groups,
                       const Blocks& blocks) {
  GroupLink link = RingLink(cluster, groups);
  link.size = link.size * blocks.count / blocks.few;
  if (blocks.few == blocks.count) {
    return link;
  }
  const int periods = (blocks.count - blocks.few) / blocks.period;
  for (const std::span<const int> group : groups) {
    const int hosts = HostsOf(cluster, group);
    const int before = HostsOf(
        cluster,
        group.first(group.size() * (blocks.few - blocks.period) / blocks.few));
    link.hosts = std::max(link.hosts, hosts + periods * (hosts - before));
  }
  return link;
}

// Moves groups to the first rank of a stage.
std::vector<Group> Shifted(std::vector<Group> groups, int offset) {
  for (Group& group : groups) {
    for (int& rank : group) {
      rank += offset;
    }
  }
  return groups;
}

// The links of ZeRO's shards in groups of `options.zero_group_ranks` successive
// data-parallel ranks.
ShardLinks GroupedShards(const Cluster& cluster, const RankGrid& grid,
                         int offset, const PlacementOptions& options) {
  const int replica = grid.tp * grid.pp * grid.cp;
  const int node = cluster.gpus_per_node;
  // Data-parallel ranks of a group, and groups.
  const int dp =
      std::gcd(grid.dp, std::max(1, options.zero_group_ranks / grid.cp));
  const int copies = grid.dp / dp;
  const Blocks within = BlocksOf(dp, replica, node);
  const Blocks across = BlocksOf(copies, replica * dp, node);
  RankGrid small = grid;
  small.dp = within.few * across.few;
  const Parts parts =
      CutBySize(within.few * grid.cp, Shifted(DpGroups(small), offset));
  return {ExtendedRing(cluster, parts.within, within),
          ExtendedRing(cluster, parts.across, across)};
}

// The links within the stages of a grid that begins at rank `offset`.
StageLinks LinksOf(const Cluster& cluster, const RankGrid& grid, int ep,
                   int offset, const PlacementOptions& options) {
  const int replica = grid.tp * grid.pp * grid.cp;
  const int node = cluster.gpus_per_node;
  const Blocks replicas = BlocksOf(grid.dp, replica, node);
  RankGrid small = grid;
  small.dp = replicas.few;
  StageLinks links;
  links.tp = RingLink(cluster, Shifted(TpGroups(small), offset));
  // A rank alone has no edge.
  links.cp = RingLink(cluster, grid.cp > 1 ? Shifted(CpGroups(small), offset)
                                           : std::vector<Group>{{offset}});
  const std::vector<Group> dp_groups = Shifted(DpGroups(small), offset);
  links.dp = ExtendedRing(cluster, dp_groups, replicas);
  links.shards.within = links.dp;
  if (options.shard_within_host) {
    const Parts hosts = CutByHost(cluster, dp_groups);
    links.shards = {RingLink(cluster, hosts.within),
                    ExtendedRing(cluster, hosts.across, replicas)};
  } else if (options.zero_group_ranks > 0) {
    links.shards = GroupedShards(cluster, grid, offset, options);
  }
  if (ep > 1) {
    const bool whole = options.whole_experts;
    // Data-parallel ranks of whole groups.
    const int dp = whole ? ep / std::gcd(ep, grid.tp * grid.cp) : ep;
    const Blocks blocks = BlocksOf(grid.dp / dp, replica * dp, node);
    small.dp = blocks.few * dp;
    links.ep =
        AllToAllLink(cluster, Shifted(EpGroups(small, ep, whole), offset));
    links.expert_dp = ExtendedRing(
        cluster, Shifted(ExpertDpGroups(small, ep, whole), offset), blocks);
  } else {
    links.expert_dp = links.dp;
  }
  links.first_rank = offset;
  return links;
}

// The link between a rank of `from` and one of `to` while all others send too.
GroupLink Between(const Cluster& from, int from_ranks, const Cluster& to,
                  int to_ranks, bool same_host) {
  if (same_host) {
    return {2, 1, from.RingBytesPerSecond(2), from.intra.latency_s,
            from.inter.latency_s};
  }
  const bool outer = &from != &to;
  const auto link = [outer](const Cluster& cluster) -> const Link& {
    return outer ? cluster.OuterLink() : cluster.inter;
  };
  const auto share = [&link](const Cluster& cluster, int ranks) {
    const int senders = std::min(ranks, cluster.gpus_per_node);
    return std::min(
        cluster.RingBytesPerSecond(1),
        link(cluster).bandwidth_bytes_per_s * cluster.nics_per_node / senders);
  };
  return {2, 2, std::min(share(from, from_ranks), share(to, to_ranks)),
          std::max(from.intra.latency_s, to.intra.latency_s),
          std::max(link(from).latency_s, link(to).latency_s)};
}

void AddResharding(std::span<const Cluster> gpu_types, const Plan& plan,
                   PlanLinks& links) {
  if (GridOf(plan)) {
    return;
  }
  const auto states = [&](int s) {
    const PlanStage& stage = plan.stages[s];
    return HiddenStates{&gpu_types[stage.gpu_type],
                        links.stages[s].first_rank,
                        stage.dp,
                        stage.tp,
                        plan.shared.cp,
                        SplitsTokens(plan, s)};
  };
  for (int s = 0; s < plan.shared.pp; ++s) {
    const int next = (s + 1) % plan.shared.pp;
    const bool needed = Resharded(plan, s, next);
    links.forward_resharding.push_back(needed ? Reshard(states(s), states(next))
                                              : Resharding{});
    links.backward_resharding.push_back(
        needed ? Reshard(states(next), states(s)) : Resharding{});
  }
}

PlanLinks PlaceInOrder(std::span<const Cluster> gpu_types, const Plan& plan,
                       const PlacementOptions& options) {
  const int pp = plan.shared.pp;
  std::vector<int> filled(gpu_types.size(), 0);
  PlanLinks links;
  for (int s = 0; s < pp; ++s) {
    const PlanStage& stage = plan.stages[s];
    const Cluster& cluster = gpu_types[stage.gpu_type];
    int& offset = filled[stage.gpu_type];
    // A stage that begins at the same place of a host as one before it has the
    // same links.
    int same = 0;
    while (same < s &&
           (stage != plan.stages[same] ||
            (offset - links.stages[same].first_rank) % cluster.gpus_per_node !=
                0)) {
      ++same;
    }
    if (same < s) {
      links.stages.push_back(links.stages[same]);
      links.stages.back().first_rank = offset;
    } else {
      links.stages.push_back(LinksOf(cluster,
                                     {stage.dp, stage.tp, 1, plan.shared.cp},
                                     plan.shared.ep, offset, options));
    }
    offset += StageGpus(plan, s);
  }
  const auto between = [&](int from, int to) {
    const auto gpu_type_of = [&](int s) { return plan.stages[s].gpu_type; };
    const auto host_of = [&](int s, bool last) {
      const int rank =
          links.stages[s].first_rank + (last ? StageGpus(plan, s) - 1 : 0);
      return rank / gpu_types[gpu_type_of(s)].gpus_per_node;
    };
    const bool same_host =
        gpu_type_of(from) == gpu_type_of(to) &&
        std::max(host_of(from, true), host_of(to, true)) ==
            std::min(host_of(from, false), host_of(to, false));
    return Between(gpu_types[gpu_type_of(from)], StageGpus(plan, from),
                   gpu_types[gpu_type_of(to)], StageGpus(plan, to), same_host);
  };
  for (int s = 0; s < pp; ++s) {
    links.forward.push_back(between(s, (s + 1) % pp));
    links.backward.push_back(between((s + 1) % pp, s));
  }
  AddResharding(gpu_types, plan, links);
  links.ends = between(0, pp - 1);
  return links;
}

// The plan of a grid, as far as placement depends on it.
Plan PlanOf(const StageGrid& grid) {
  Plan plan;
  plan.shared.pp = grid.pp;
  plan.shared.cp = grid.cp;
  plan.shared.ep = grid.ep;
  plan.stages.assign(grid.pp,
                     {.dp = grid.dp, .tp = grid.tp, .gpu_type = grid.gpu_type});
  return plan;
}

}  // namespace

PlacedGroups GroupsOf(const StageGrid& grid, const PlacementOptions& options) {
  // Where the pipeline is outermost, each stage is a grid of its own.
  const bool outermost = options.pipeline_outermost;
  const RankGrid ranks{grid.dp, grid.tp, outermost ? 1 : grid.pp, grid.cp};
  PlacedGroups groups;
  for (int s = 0; s < (outermost ? grid.pp : 1); ++s) {
    const auto add = [&](std::vector<Group>& to, std::vector<Group> some) {
      const auto moved = Shifted(std::move(some), s * ranks.size());
      to.insert(to.end(), moved.begin(), moved.end());
    };
    add(groups.tp, TpGroups(ranks));
    add(groups.dp, DpGroups(ranks));
    if (grid.cp > 1) {
      add(groups.cp, CpGroups(ranks));
    }
    if (grid.ep > 1) {
      add(groups.ep, EpGroups(ranks, grid.ep, options.whole_experts));
    }
  }
  for (int d = 0; d < grid.dp; ++d) {
    for (int in_replica = 0; in_replica < grid.cp * grid.tp; ++in_replica) {
      const int c = in_replica / grid.tp;
      const int t = in_replica % grid.tp;
      Group& group = groups.pp.emplace_back();
      for (int p = 0; p < grid.pp; ++p) {
        group.push_back(outermost ? p * ranks.size() + ranks.Rank(d, 0, t, c)
                                  : ranks.Rank(d, p, t, c));
      }
    }
  }
  return groups;
}

std::optional<StageGrid> GridOf(const Plan& plan) {
  const PlanStage& first = plan.stages.front();
  const bool alike = std::all_of(
      plan.stages.begin(), plan.stages.end(), [&](const PlanStage& stage) {
        return stage.dp == first.dp && stage.tp == first.tp &&
               stage.gpu_type == first.gpu_type;
      });
  if (!alike) {
    return std::nullopt;
  }
  const ParallelConfig& shared = plan.shared;
  return StageGrid{first.dp,  first.tp,  shared.pp,
                   shared.cp, shared.ep, first.gpu_type};
}

PlanLinks PlaceGrid(std::span<const Cluster> gpu_types, const StageGrid& grid,
                    const PlacementOptions& options) {
  if (options.pipeline_outermost) {
    return PlaceInOrder(gpu_types, PlanOf(grid), options);
  }
  const Cluster& cluster = gpu_types[grid.gpu_type];
  RankGrid ranks{grid.dp, grid.tp, grid.pp, grid.cp};
  PlanLinks links;
  links.stages.assign(grid.pp, LinksOf(cluster, ranks, grid.ep, 0, options));
  ranks.dp =
      BlocksOf(grid.dp, grid.tp * grid.pp * grid.cp, cluster.gpus_per_node).few;
  for (int s = 0; s < grid.pp; ++s) {
    links.stages[s].first_rank = ranks.Rank(0, s, 0);
    const int next = (s + 1) % grid.pp;
    links.forward.push_back(MessageLink(cluster, StagePairs(ranks, s, next)));
    links.backward.push_back(MessageLink(cluster, StagePairs(ranks, next, s)));
  }
  links.ends = RingLink(cluster, StagePairs(ranks, 0, grid.pp - 1));
  return links;
}

PlanLinks PlacePlan(std::span<const Cluster> gpu_types, const Plan& plan,
                    const PlacementOptions& options) {
  const std::optional<StageGrid> grid = GridOf(plan);
  return grid ? PlaceGrid(gpu_types, *grid, options)
              : PlaceInOrder(gpu_types, plan, options);
}

}  // namespace trials
