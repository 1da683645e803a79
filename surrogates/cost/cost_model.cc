#include "surrogates/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace surrogates {
namespace {

using trials::ParallelConfig;

// One term of a sum: its feature and what is believed of its coefficient.
struct Term {
  std::string name;
  std::string unit;
  double share;       // of a typical step, or of the capacity
  double log_stddev;  // of the belief
  std::function<double(const ParallelConfig&)> feature;
};

// Ring all-reduce over `ranks`, Eq. 11: messages in sequence, and the part of
// the data that each rank sends once.
double RingLatency(double ranks) { return 2.0 * (ranks - 1.0); }
double RingVolume(double ranks) { return (ranks - 1.0) / ranks; }

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

bool TensorParallelCrosses(const ParallelConfig& config,
                           const ClusterShape& shape) {
  return shape.multi_node() && config.tp > shape.gpus_per_node;
}

void AddComputation(const ClusterShape& shape,
                    MicrobatchSizes sizes,
                    std::vector<Term>& terms) {
  const double gpus = shape.gpus;
  const auto printed = [gpus](const ParallelConfig& c) {
    return (c.microbatches + (c.pp - 1.0) / c.model_chunks) / gpus;
  };
  if (sizes == MicrobatchSizes::kPrinted) {
    terms.push_back({"compute", "s", 0.7, 1.0, printed});
    return;
  }
  terms.push_back({"compute", "s", 0.6, 1.0, [printed](const auto& c) {
                     return printed(c) / c.microbatches;
                   }});
  terms.push_back({"compute, per microbatch", "s", 0.1, 1.5, printed});
}

void AddDataParallel(const ClusterShape& shape, std::vector<Term>& terms) {
  const auto place = [shape](const ParallelConfig& c) {
    return PlaceDataParallel(c, shape);
  };
  terms.push_back(
      {"DP latency, intra-node", "s", 0.01, 1.5, [=](const auto& c) {
         return RingLatency(place(c).intra_ranks);
       }});
  terms.push_back({"DP volume, intra-node", "s", 0.2, 1.5, [=](const auto& c) {
                     return RingVolume(place(c).intra_ranks) / (c.tp * c.pp);
                   }});
  terms.push_back(
      {"DP latency, inter-node", "s", 0.01, 1.5, [=](const auto& c) {
         return RingLatency(place(c).inter_ranks);
       }});
  terms.push_back({"DP volume, inter-node", "s", 0.2, 1.5, [=](const auto& c) {
                     const DataParallelGroup group = place(c);
                     return RingVolume(group.inter_ranks) * group.inter_part /
                            (c.tp * c.pp);
                   }});
  terms.push_back({"DP volume, ZeRO-3", "s", 0.1, 1.5, [](const auto& c) {
                     return c.zero_stage < 3 ? 0.0
                                             : RingVolume(c.dp) / (c.tp * c.pp);
                   }});
}

void AddTensorParallel(const ClusterShape& shape,
                       MicrobatchSizes sizes,
                       std::vector<Term>& terms) {
  for (const bool inter : {false, true}) {
    const std::string link = inter ? "inter-node" : "intra-node";
    const auto used = [=](const ParallelConfig& c) {
      return TensorParallelCrosses(c, shape) == inter ? 1.0 : 0.0;
    };
    terms.push_back({"TP latency, " + link, "s", 0.05, 1.5, [=](const auto& c) {
                       return used(c) * c.microbatches * RingLatency(c.tp);
                     }});
    terms.push_back({"TP volume per microbatch, " + link,
                     "s",
                     sizes == MicrobatchSizes::kPrinted ? 0.3 : 0.05,
                     1.5,
                     [=](const auto& c) {
                       return used(c) * c.microbatches * RingVolume(c.tp);
                     }});
    if (sizes == MicrobatchSizes::kPerSample) {
      terms.push_back({"TP volume, " + link, "s", 0.3, 1.5, [=](const auto& c) {
                         return used(c) * RingVolume(c.tp) / c.dp;
                       }});
    }
  }
}

void AddPipeline(const ClusterShape& shape,
                 MicrobatchSizes sizes,
                 std::vector<Term>& terms) {
  // "Approximated if N_H > 1": with several hosts some stage boundary lies
  // between two of them, and the slowest boundary sets the pace.
  const std::string link = shape.multi_node() ? "inter-node" : "intra-node";
  terms.push_back(
      {"PP transfer per microbatch, " + link,
       "s",
       0.05,
       1.5,
       [](const auto& c) { return 2.0 * c.microbatches * (c.pp - 1.0); }});
  if (sizes == MicrobatchSizes::kPerSample) {
    terms.push_back({"PP volume, " + link, "s", 0.05, 1.5, [](const auto& c) {
                       return 2.0 * (c.pp - 1.0) / c.dp;
                     }});
  }
}

double MedianOfPositive(const Eigen::VectorXd& values) {
  std::vector<double> positive;
  for (const double value : values) {
    if (value > 0.0) {
      positive.push_back(value);
    }
  }
  if (positive.empty()) {
    return 0.0;
  }
  const auto middle =
      positive.begin() + static_cast<std::ptrdiff_t>(positive.size() / 2);
  std::nth_element(positive.begin(), middle, positive.end());
  return *middle;
}

// Evaluates the terms on the space and centres each coefficient where its
// term is `share` at the median of the candidates that have it.
ParametricMean Assemble(const trials::SearchSpace& space,
                        ParametricMean::Link link,
                        const std::vector<Term>& terms) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(space.size(), static_cast<Eigen::Index>(terms.size()));
  Eigen::Index column = 0;
  for (const Term& term : terms) {
    for (int i = 0; i < space.size(); ++i) {
      mean.features(i, column) = term.feature(space[i]);
    }
    const double typical = MedianOfPositive(mean.features.col(column));
    if (typical == 0.0) {
      continue;  // absent from this space: nothing to learn
    }
    mean.coefficients.push_back({term.name,
                                 term.unit,
                                 std::log(term.share / typical),
                                 term.log_stddev});
    ++column;
  }
  mean.features.conservativeResize(Eigen::NoChange, column);
  return mean;
}

}  // namespace

ParametricMean ThroughputPrior(const trials::SearchSpace& space,
                               const ClusterShape& shape,
                               MicrobatchSizes sizes) {
  std::vector<Term> terms;
  AddComputation(shape, sizes, terms);
  AddDataParallel(shape, terms);
  AddTensorParallel(shape, sizes, terms);
  AddPipeline(shape, sizes, terms);
  return Assemble(space, ParametricMean::Link::kInverse, terms);
}

Eigen::VectorXd CentersFor(const ParametricMean& prior, double typical) {
  if (!(typical > 0.0)) {
    throw std::invalid_argument("CentersFor: typical must be positive");
  }
  // The coefficients of an inverse mean are times, not throughputs.
  const double shift = prior.link == ParametricMean::Link::kInverse
                           ? -std::log(typical)
                           : std::log(typical);
  Eigen::VectorXd centers(prior.size());
  for (int j = 0; j < prior.size(); ++j) {
    centers[j] =
        prior.coefficients[static_cast<std::size_t>(j)].log_center + shift;
  }
  return centers;
}

ParametricMean MemoryPrior(const trials::SearchSpace& space,
                           const ClusterShape& shape,
                           double clip) {
  const double gpus = shape.gpus;
  ParametricMean mean = Assemble(
      space,
      ParametricMean::Link::kLinear,
      {{"model state",
        "capacity",
        0.3,
        1.5,
        [](const ParallelConfig& c) { return 1.0 / (c.pp * c.tp); }},
       {"activations",
        "capacity",
        0.3,
        1.5,
        [=](const ParallelConfig& c) { return 1.0 / (gpus * c.microbatches); }},
       {"constant", "capacity", 0.1, 1.0, [](const ParallelConfig&) {
          return 1.0;
        }}});
  mean.clip = clip;
  return mean;
}

ParametricMean ConstantPrior(const trials::SearchSpace& space) {
  ParametricMean mean;
  mean.link = ParametricMean::Link::kConstant;
  mean.features = Eigen::MatrixXd::Ones(space.size(), 1);
  mean.coefficients.push_back({"constant", "", 0.0, 1.0});
  return mean;
}

}  // namespace surrogates
