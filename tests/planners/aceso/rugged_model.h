// A model whose operators have two variants and costs without a pattern, for
// tests of choices.

#pragma once

#include <cstdint>
#include <fstream>

#include <fmt/format.h>

#include "common/hash.h"
#include "planners/operators/plan_cost.h"
#include "tests/fakes/temporary_folder.h"

namespace planners {

// tp of 1, 2 and 4, in two variants; all collectives of 4 MB take 0.02 ms.
inline OperatorModel RuggedModel(std::uint64_t seed, double limit_mb) {
  const fakes::TemporaryFolder folder;
  std::ofstream table(folder.path() / "table.csv");
  table << "op_name,mbs,tp,algo,forward-compute,backward-compute,input_size,"
           "output_size,weights,activations,fwd_reserved,bwd_reserved\n";
  std::uint64_t row = 0;
  for (const int mbs : {1, 2, 4}) {
    for (const int tp : {1, 2, 4}) {
      for (const int algo : {0, 1}) {
        for (const char* name :
             {"encoder-embedding", "enc-1st-layernorm",
              "enc-attention-qkv-GEMM", "enc-attention-score",
              "enc-attention-dense-GEMM", "enc-MLP-GEMM-1", "enc-MLP-gelu",
              "enc-MLP-GEMM-2", "gpt-post-process"}) {
          const auto time_us = [&] {
            return mbs *
                   (100 +
                    common::DeriveSeed(fmt::format("{}", seed), ++row) % 900);
          };
          const auto forward_us = time_us();
          const auto backward_us = time_us();
          table << fmt::format("{},{},{},{},{},{},4,4,{},{},0,0\n", name, mbs,
                               tp, algo, forward_us, backward_us, 6.0 / tp,
                               10.0 * mbs / tp);
        }
      }
    }
  }
  table.close();
  std::ofstream links(folder.path() / "links.csv");
  links << "p2p_inter_node,1,2\np2p_inter_node,5,5\n"
           "p2p_intra_node,1,2\np2p_intra_node,50,50\n";
  for (const char* kind : {"all_gather", "all_to_all"}) {
    for (const int gpus : {2, 4}) {
      links << fmt::format("prim_rugged_{}_{}gpus,4,0.02\n", kind, gpus);
    }
  }
  links.close();
  return {OperatorTable::Read(folder.path() / "table.csv", "rugged"),
          LinkTable::Read(folder.path() / "links.csv", "rugged"),
          {.layers = 2,
           .batch = 64,
           .gpus = 8,
           .gpus_per_node = 8,
           .memory_limit_mb = limit_mb}};
}

}  // namespace planners
