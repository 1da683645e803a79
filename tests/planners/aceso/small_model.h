// A model of few operators with round costs, for tests of plans.

#pragma once

#include <cstdint>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "planners/operators/plan_cost.h"
#include "tests/fakes/temporary_folder.h"

namespace planners {

// Layers of three operators for microbatches of these numbers of sequences on 1
// or 2 GPUs. Times and activations grow with the microbatch; two GPUs take 0.6
// of the time. The score operator keeps 40 MB of each sequence.
inline OperatorModel SmallModel(int layers, int gpus, double limit_mb,
                                int batch = 64,
                                const std::vector<int>& sizes = {1, 2, 4},
                                double gelu_mb = 10.0) {
  const fakes::TemporaryFolder folder;
  std::ofstream table(folder.path() / "table.csv");
  table << "op_name,mbs,tp,algo,forward-compute,backward-compute,input_size,"
           "output_size,weights,activations,fwd_reserved,bwd_reserved\n";
  for (const int mbs : sizes) {
    for (const int tp : {1, 2}) {
      const double us = 1000.0 * mbs * (tp == 1 ? 1.0 : 0.6);
      const auto row = [&](const char* name, double share, double kept) {
        table << fmt::format("{},{},{},0,{},{},{},{},{},{},0,0\n", name, mbs,
                             tp, us * share, 2 * us * share, mbs, mbs, 6.0 / tp,
                             kept * mbs / tp);
      };
      row("encoder-embedding", 0.2, 1);
      row("enc-1st-layernorm", 0.1, 4);
      row("enc-attention-score", 0.5, 40);
      row("enc-MLP-gelu", 0.4, gelu_mb);
      row("gpt-post-process", 0.8, 4);
    }
  }
  table.close();
  std::ofstream(folder.path() / "links.csv")
      << "p2p_inter_node,1,2\np2p_inter_node,5,5\n"
         "p2p_intra_node,1,2\np2p_intra_node,50,50\n";
  return OperatorModel(OperatorTable::Read(folder.path() / "table.csv", ""),
                       LinkTable::Read(folder.path() / "links.csv", ""),
                       {.layers = layers,
                        .batch = batch,
                        .gpus = gpus,
                        .gpus_per_node = 8,
                        .memory_limit_mb = limit_mb});
}

// A plan whose stages have these sizes for all of their operators. Each stage
// begins at `first`; the end of the last one is that of the model.
struct StageSizes {
  int first = 0;
  int tp_log2 = 0;
  int dp_log2 = 0;
};
inline OperatorPlan PlanOfStages(const OperatorModel& model, int micro_batch,
                                 const std::vector<StageSizes>& stages) {
  OperatorPlan plan;
  plan.micro_batch = micro_batch;
  plan.choices.resize(model.operators());
  for (const StageSizes& stage : stages) {
    plan.first.push_back(stage.first);
    for (auto op = static_cast<std::size_t>(stage.first);
         op < plan.choices.size(); ++op) {
      plan.choices[op] = {static_cast<std::uint8_t>(stage.tp_log2),
                          static_cast<std::uint8_t>(stage.dp_log2)};
    }
  }
  plan.first.push_back(model.operators());
  return plan;
}

}  // namespace planners
