// The cost model as App. D of the paper prints it.

#include <cmath>

#include "surrogates/cost/term.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;

// The data-parallel group as Eqs. 13-15 place it: how many ranks reduce within
// a host, how many across, and the part of the data that crosses.
struct DataParallelGroup {
  double intra_ranks = 1.0;
  double inter_ranks = 1.0;
  double inter_part = 1.0;
};

DataParallelGroup PlaceDataParallel(const ParallelConfig& config,
                                    const ClusterShape& shape) {
  const double dp = config.dp;
  const double node = shape.gpus_per_node;
  if (!shape.multi_node()) {
    return {dp, 1.0, 1.0};  // flat intra-node, Eq. 15
  }
  if (config.dp > shape.gpus_per_node) {
    return {node, std::ceil(dp / node), 1.0 / node};  // hierarchical, Eq. 13
  }
  return {1.0, dp, 1.0};  // flat inter-node, Eq. 14
}

void AddDataParallel(const ClusterShape& shape, std::vector<CostTerm>& terms) {
  const auto place = [shape](const ParallelConfig& c) {
    return PlaceDataParallel(c, shape);
  };
  terms.push_back({"DP latency, intra-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     return RingLatency(place(c).intra_ranks);
                   },
                   0.05,
                   1.5});
  terms.push_back({"DP volume, intra-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     return RingVolume(place(c).intra_ranks) / (c.tp * c.pp);
                   },
                   0.3,
                   1.5});
  terms.push_back({"DP latency, inter-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     return RingLatency(place(c).inter_ranks);
                   },
                   0.05,
                   1.5});
  terms.push_back({"DP volume, inter-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     const DataParallelGroup group = place(c);
                     return RingVolume(group.inter_ranks) * group.inter_part /
                            (c.tp * c.pp);
                   },
                   0.6,
                   1.5});
  // lambda_Z of Eq. 12: what ZeRO-3 moves on top, where the group's links are.
  const auto on_top = [](double volume, const ParallelConfig& c) {
    return c.zero_stage < 3 ? 0.0 : volume / (c.tp * c.pp);
  };
  terms.push_back({"DP volume ZeRO-3, intra-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     return on_top(RingVolume(place(c).intra_ranks), c);
                   },
                   0.2,
                   1.5});
  terms.push_back({"DP volume ZeRO-3, inter-node",
                   "s",
                   [=](const ParallelConfig& c) {
                     const DataParallelGroup group = place(c);
                     return on_top(
                         RingVolume(group.inter_ranks) * group.inter_part, c);
                   },
                   0.4,
                   1.5});
}

void AddTensorParallel(const ClusterShape& shape,
                       std::vector<CostTerm>& terms) {
  for (const bool inter : {false, true}) {
    const std::string link = inter ? "inter-node" : "intra-node";
    const auto operations = [=](const ParallelConfig& c) {
      const bool crosses = shape.multi_node() && c.tp > shape.gpus_per_node;
      return crosses == inter ? c.microbatches : 0;
    };
    terms.push_back({"TP latency, " + link,
                     "s",
                     [=](const ParallelConfig& c) {
                       return operations(c) * RingLatency(c.tp);
                     },
                     0.05,
                     1.5});
    terms.push_back({"TP volume, " + link,
                     "s",
                     [=](const ParallelConfig& c) {
                       return operations(c) * RingVolume(c.tp);
                     },
                     0.3,
                     1.5});
  }
}

}  // namespace

std::vector<CostTerm> PrintedTimeTerms(const ClusterShape& shape) {
  std::vector<CostTerm> terms;
  const double gpus = shape.gpus;
  // Eq. 10
  terms.push_back({"compute",
                   "s",
                   [=](const ParallelConfig& c) {
                     return (c.microbatches + (c.pp - 1.0) / c.model_chunks) /
                            gpus;
                   },
                   1.0,
                   1.5});
  AddDataParallel(shape, terms);    // Eqs. 11-15
  AddTensorParallel(shape, terms);  // Eq. 16
  // Eqs. 17-18. "Approximated if N_H > 1": with several hosts some stage
  // boundary lies between two of them, and the slowest one sets the pace.
  terms.push_back({shape.multi_node() ? "PP transfers, inter-node"
                                      : "PP transfers, intra-node",
                   "s",
                   [](const ParallelConfig& c) {
                     return 2.0 * c.microbatches * (c.pp - 1.0);
                   },
                   0.05,
                   1.5});
  return terms;
}

std::vector<CostTerm> PrintedMemoryTerms(const ClusterShape& shape) {
  const double gpus = shape.gpus;
  return {
      {"model state",
       "capacity",
       [](const ParallelConfig& c) { return 1.0 / (c.pp * c.tp); },
       1.0,
       1.5},
      {"activations",
       "capacity",
       [=](const ParallelConfig& c) { return 1.0 / (gpus * c.microbatches); },
       3.0,
       1.5},
      {"constant",
       "capacity",
       [](const ParallelConfig&) { return 1.0; },
       0.1,
       1.0}};
}

}  // namespace surrogates
