// Where a rank is in the grid of a parallel configuration.

#pragma once

#include <vector>

#include "trials/parallel_config.h"

namespace trainer {

// Ranks count through tp first, then cp, pp and dp:
//
//   rank = ((dp_index * pp + pp_index) * cp + cp_index) * tp + tp_index.
//
// Source: the order of Colossal-AI's HybridParallelPlugin (dp outside).
struct Mesh {
  Mesh(const trials::ParallelConfig& config, int world_rank)
      : dp(config.dp),
        tp(config.tp),
        pp(config.pp),
        cp(config.cp),
        ep(config.ep),
        rank(world_rank),
        tp_index(world_rank % tp),
        cp_index(world_rank / tp % cp),
        pp_index(world_rank / (tp * cp) % pp),
        dp_index(world_rank / (tp * cp * pp)) {}

  int dp, tp, pp, cp, ep;
  int rank;
  int tp_index, cp_index, pp_index, dp_index;

  [[nodiscard]] int size() const { return dp * tp * pp * cp; }

  // The ranks hold parts of one copy of the model, and the same tokens.
  [[nodiscard]] bool SharesReplica(const Mesh& other) const {
    return dp_index == other.dp_index && cp_index == other.cp_index;
  }
  // The ranks hold copies of one part of the model.
  [[nodiscard]] bool SharesPart(const Mesh& other) const {
    return tp_index == other.tp_index && pp_index == other.pp_index;
  }
  // The ranks send activations to one another.
  [[nodiscard]] bool SharesPipeline(const Mesh& other) const {
    return SharesReplica(other) && tp_index == other.tp_index;
  }
  [[nodiscard]] bool IsEnd() const {
    return pp_index == 0 || pp_index == pp - 1;
  }

  // The ranks for which `same(other)` holds, ascending.
  template <typename Same>
  [[nodiscard]] std::vector<int> Members(Same same) const {
    std::vector<int> members;
    for (int other = 0; other < size(); ++other) {
      trials::ParallelConfig config;
      config.dp = dp;
      config.tp = tp;
      config.pp = pp;
      config.cp = cp;
      config.ep = ep;
      if (same(Mesh(config, other))) {
        members.push_back(other);
      }
    }
    return members;
  }
};

}  // namespace trainer
