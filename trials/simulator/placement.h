// The ranks of a plan's groups, and the links between them.

#pragma once

#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trials/cluster.h"
#include "trials/plan.h"
#include "trials/simulator/resharding.h"
#include "trials/simulator/topology.h"

namespace trials {

// The groups that the ranks of one stage belong to.
struct StageLinks {
  GroupLink tp;
  GroupLink dp;         // data- and context-parallel ranks: gradients
  ShardLinks shards;    // ZeRO's shards among these ranks
  GroupLink cp;         // ring of keys and values
  GroupLink ep;         // all-to-all among the experts' ranks
  GroupLink expert_dp;  // ranks that hold the same experts
  int first_rank = 0;
};

struct PlanLinks {
  std::vector<StageLinks> stages;   // [pp]
  std::vector<GroupLink> forward;   // from stage s to s + 1, last to first [pp]
  std::vector<GroupLink> backward;  // from stage s + 1 to s [pp]
  // Replace forward and backward between stages of different sizes (Resharded)
  // [pp]; empty where all stages are alike.
  std::vector<Resharding> forward_resharding;
  std::vector<Resharding> backward_resharding;
  GroupLink ends;  // first and last stage: a tied embedding
};

struct PlacementOptions {
  bool pipeline_outermost = false;  // as the fields of Framework
  bool shard_within_host = false;
  int zero_group_ranks = 0;
  bool whole_experts = false;

  friend auto operator<=>(const PlacementOptions&,
                          const PlacementOptions&) = default;
};

// The sizes and the GPU type of equal stages.
struct StageGrid {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  int gpu_type = 0;

  friend auto operator<=>(const StageGrid&, const StageGrid&) = default;
};

// The ranks of every group of a grid, by dimension; data-parallel groups
// include context-parallel ranks.
struct PlacedGroups {
  std::vector<Group> tp;
  std::vector<Group> cp;
  std::vector<Group> pp;
  std::vector<Group> dp;
  std::vector<Group> ep;  // none without expert parallelism
};
[[nodiscard]] PlacedGroups GroupsOf(const StageGrid& grid,
                                    const PlacementOptions& options);

// The grid of a plan whose stages are alike.
[[nodiscard]] std::optional<StageGrid> GridOf(const Plan& plan);

// The links of grids on one machine, which simulators of other batches or on
// other threads share. Any number of threads may use it; references stay valid.
class PlacedGrids {
 public:
  // The links of a grid, computed as place() unless they are known.
  template <typename Place>
  const PlanLinks& Of(const StageGrid& grid, const PlacementOptions& options,
                      const Place& place) {
    const auto key = std::pair(grid, options);
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = links_.find(key); found != links_.end()) {
        return found->second;
      }
    }
    PlanLinks links = place();
    const std::lock_guard lock(mutex_);
    return links_.emplace(key, std::move(links)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<StageGrid, PlacementOptions>, PlanLinks> links_;
};

// Equal stages share a RankGrid, unless `pipeline_outermost` is set. Stages
// that differ follow one another, each on consecutive ranks of its GPU type
// (pipeline outermost, as in Megatron-LM); between two GPU types the slower
// network counts (Cluster::OuterLink).
//
// The time does not grow with data parallelism: replicas beyond those that
// fill two hosts see the same network as the replicas before them.
[[nodiscard]] PlanLinks PlaceGrid(std::span<const Cluster> gpu_types,
                                  const StageGrid& grid,
                                  const PlacementOptions& options = {});
[[nodiscard]] PlanLinks PlacePlan(std::span<const Cluster> gpu_types,
                                  const Plan& plan,
                                  const PlacementOptions& options = {});

}  // namespace trials
