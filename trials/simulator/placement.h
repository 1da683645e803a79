// Where the groups of a plan stand, and what their links give.

#ifndef TRIALS_SIMULATOR_PLACEMENT_H_
#define TRIALS_SIMULATOR_PLACEMENT_H_

#include <span>
#include <vector>

#include "trials/cluster.h"
#include "trials/simulator/plan.h"
#include "trials/simulator/resharding.h"
#include "trials/simulator/topology.h"

namespace trials {

// The groups that the ranks of one stage belong to.
struct StageLinks {
  GroupLink tp;
  GroupLink dp;         // data- and context-parallel ranks: gradients
  ShardLinks shards;    // of them; one copy over all of them, if not in hosts
  GroupLink cp;         // keys and values travel around it
  GroupLink ep;         // all-to-all among the experts' ranks
  GroupLink expert_dp;  // ranks that hold the same experts
  int first_rank = 0;
};

struct PlanLinks {
  std::vector<StageLinks> stages;   // [pp]
  std::vector<GroupLink> forward;   // from stage s to s + 1, last to first [pp]
  std::vector<GroupLink> backward;  // from stage s + 1 to s [pp]
  // In place of these between stages of other sizes (Resharded) [pp], or empty
  // where all are alike.
  std::vector<Resharding> forward_resharding;
  std::vector<Resharding> backward_resharding;
  GroupLink ends;  // first and last stage: a tied embedding
};

struct PlacementOptions {
  bool pipeline_outermost = false;  // as the fields of Framework
  bool shard_within_host = false;
};

// Equal stages stand on a RankGrid, unless `pipeline_outermost`. Stages that
// differ stand one after the other, each in successive ranks of its GPU type
// (pipeline outermost, as Megatron-LM orders ranks); between two GPU types the
// slower network counts.
//
// The time does not grow with data parallelism: replicas beyond those that
// fill three hosts see the same network as the ones before them.
[[nodiscard]] PlanLinks PlacePlan(std::span<const Cluster> pools,
                                  const Plan& plan,
                                  const PlacementOptions& options = {});

}  // namespace trials

#endif  // TRIALS_SIMULATOR_PLACEMENT_H_
